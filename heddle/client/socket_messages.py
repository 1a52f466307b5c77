"""What a server says on its socket, decoded once: one object, or an array of several."""

from typing import Final, TypeAlias

import msgspec
from msgspec import Raw, Struct

from heddle.client.faults import ErrorBody


class Said(Struct, frozen=True, tag_field="type"):
    """Base of every message. The tag is the word on the wire."""


class Accepted(Said, frozen=True, tag="accepted"):
    """The run asked for under ``ref`` has begun."""

    ref: str
    run: str


class NotAccepted(Said, frozen=True, tag="refused"):
    """The run asked for under ``ref`` has not."""

    status: int
    error: ErrorBody
    ref: str | None = None


class Happened(Said, frozen=True, tag="event"):
    """An event of a run."""

    run: str
    seq: int
    event: Raw


class Ended(Said, frozen=True, tag="end"):
    """A run has ended."""

    run: str
    status: str
    state: Raw = Raw()
    error: ErrorBody | None = None


class Lagged(Said, frozen=True, tag="lagged"):
    """This client fell behind, and these were not sent."""

    run: str
    missed: tuple[int, int]


class Pong(Said, frozen=True, tag="pong"):
    """The answer to a ping."""

    n: int


class Draining(Said, frozen=True, tag="draining"):
    """The server stops once its runs have ended."""


class Wrong(Said, frozen=True, tag="error"):
    """Something that was asked for can't be done: which, and about which run."""

    error: ErrorBody
    about: str = ""
    run: str = ""
    status: int = 0


Message: TypeAlias = (
    Accepted | NotAccepted | Happened | Ended | Lagged | Pong | Draining | Wrong
)


class _Typed(Struct, frozen=True):
    type: str


_usual: Final = msgspec.json.Decoder(Message | list[Message]).decode
_one: Final = msgspec.json.Decoder(Message).decode
_several: Final = msgspec.json.Decoder(list[Raw]).decode
_typed: Final = msgspec.json.Decoder(_Typed).decode

TYPES: Final = frozenset(
    str(each.__struct_config__.tag)
    for each in (Accepted, NotAccepted, Happened, Ended, Lagged, Pong, Draining, Wrong)
)


def read_messages(text: str | bytes) -> list[Message]:
    """The messages in a frame; those of types that are newer than this client left out.

    Raises:
        msgspec.MsgspecError: It is no message.
    """
    try:
        found = _usual(text)
    except msgspec.ValidationError:
        data = text.encode() if isinstance(text, str) else text
        raws = _several(data) if data.lstrip()[:1] == b"[" else [Raw(data)]
        return [_one(raw) for raw in raws if _typed(raw).type in TYPES]
    return found if isinstance(found, list) else [found]
