"""The chain, compiled: who is asked at each half, and how each question to them begins.

    Place       one half that somebody declared: what it shows, and its stretches
    Stretch     links next to each other that one asker answers for
    Question    what is the same each time: the verb, the names, the head of the text

A stretch of several is asked in one frame (`consult`) where its asker's runtime can do it,
else one by one; the texts of both are made here, once.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

import msgspec
from msgspec import Raw, Struct

from plugins_host.consulting.links import Asker, Link
from plugins_host.seams import SEAMS, Half, Seam, Shown
from plugins_host.verdicts import CONSENTS

CONSULT: Final = "consult"

CONSENT: Final[Mapping[Half, str]] = {Half.BEFORE: "proceed", Half.AFTER: "pass"}
"""The word with which a half lets things be."""

CHECKED: Final = frozenset({(Seam.TOOL_CALL, Half.BEFORE)})
"""Where heddle checks what a policy made of the input before the next one sees it.

A frame for several says so, and its runtime stops behind a modify: heddle asks the rest in
another frame. What is checked against is heddle's to know: the inputs that a tool declares.
"""

_ENCODE: Final = msgspec.json.Encoder().encode


class Question(Struct, frozen=True):
    """What is the same each time that somebody is asked.

    Attributes:
        verb: How.
        components: Whom.
        head: How the text begins.
        consent: The word with which its half lets everything be.
        consents: Texts of answers that say so, which need not be read. A tuple, for to be
            held against two texts takes a tenth of what it takes to hash one.
    """

    verb: str
    components: tuple[str, ...]
    head: bytes
    consent: str
    consents: tuple[Raw, ...]


class Stretch(Struct, frozen=True):
    """Links next to each other that one asker answers for, at one half.

    By index of the link to begin with: the question to it ``alone``, and to it and all
    that follow ``together``.
    """

    asker: Asker
    links: tuple[Link, ...]
    alone: tuple[Question, ...]
    together: tuple[Question, ...]


class Place(Struct, frozen=True):
    """One half that somebody declared: what it shows, and who is asked."""

    shows: tuple[Shown, ...]
    stretches: tuple[Stretch, ...]
    sole: bool


NOWHERE: Final = Place((), (), True)


def places(links: Sequence[Link], half: Half) -> Iterator[tuple[Seam, Place]]:
    """The halves of this side that somebody declared."""
    for seam, row in SEAMS.items():
        asked = [link for link in links if half in link.seams.get(seam, ())]
        if asked:
            groups = groupby(asked, key=lambda link: id(link.asker))
            stretches = tuple(_stretch(tuple(group), seam, half) for _, group in groups)
            yield seam, Place(row.halves[half].shows, stretches, len(asked) == 1)


def _stretch(links: tuple[Link, ...], seam: Seam, half: Half) -> Stretch:
    ask = b'{"componentType":%b,"component":%b}'
    asks = [ask % (_ENCODE(link.component_type), link.settings) for link in links]
    names = tuple(link.component_type for link in links)
    place = seam.encode(), half.encode()
    alone = tuple(
        Question(
            half.value,
            (name,),
            b'{"seam":"%b",%b' % (place[0], each[1:-1]),
            CONSENT[half],
            tuple(map(Raw, CONSENTS[half])),
        )
        for name, each in zip(names, asks, strict=True)
    )
    head = b'{"seam":"%b","half":"%b",' % place
    if (seam, half) in CHECKED:
        head += b'"checked":true,'
    together = tuple(
        Question(
            CONSULT,
            names[index:],
            b'%b"ask":[%b]' % (head, b",".join(asks[index:])),
            CONSENT[half],
            tuple(Raw(_consented(names[index:], text)) for text in CONSENTS[half]),
        )
        for index in range(len(links) - 1)
    )
    return Stretch(links[0].asker, links, alone, (*together, alone[-1]))


def _consented(names: Sequence[str], text: bytes) -> bytes:
    """The answer to a `consult` in which all say ``text``, as our runtimes write it."""
    said = b'{"componentType":%b,"verdict":%b}'
    return b'{"verdicts":[%b]}' % b",".join(said % (_ENCODE(name), text) for name in names)
