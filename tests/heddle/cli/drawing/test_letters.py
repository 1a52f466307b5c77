"""Text in pictures: how wide it is, and that it stays in its box and off all others.

Measured with the letters of a font, kept in a table: no font is needed.
"""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from itertools import combinations
from typing import Final, NamedTuple
from unicodedata import category

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.cli.drawing.letters import wide
from heddle.cli.drawing.svg import svg
from heddle.preview.sketch import Box, Line, Look, Sketch, Style
from tests.support import fonts

SVG: Final = "{http://www.w3.org/2000/svg}"
MEASURED: Final = fonts.read()
# Of Noto Sans CJK and Noto Color Emoji, in ems.
IDEOGRAPH: Final = 1.0
EMOJI: Final = 1.245
WIDE: Final = "日本語の名前枝한국어漢字、。「」"
EMOJIS: Final = "🚀🙂👩🏽🎉🧵⭐⌚"
ZERO: Final = "\u200b\u200c\u200d\u2060\ufe0e\ufe0f\u0301\u0327\u20dd"
AWKWARD: Final = [
    "WWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWW",
    "@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@",
    "ШЩЖЮЫ Ѽ ЩЩЩЩЩЩЩЩЩЩЩЩЩЩЩЩЩЩЩЩЩЩЩЩЩЩЩЩЩЩЩЩЩЩ",
    "‱‱‱‱‱‱‱‱‱‱ ﬃ ﬃ ﬃ ﬗ ﬗ ﬗ",
    "日本語の名前が長い日本語の名前が長い日本語の名前が長い",
    "👩‍👩‍👧 família 👩🏽‍🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀",
    "☺️☺️☺️☺️☺️ 1️⃣2️⃣3️⃣",
    "שלום עולם سسسسسسسسسسسسسسسسسسسسسسسسسسس",
    "e\u0301" * 40,
    "Ǆ Ω Ὧ ẞ Ỡ ₧ ⋘⋘⋘⋘⋘⋘⋘⋘⋘⋘⋘⋘⋘⋘⋘⋘",
    "\u202eabc\x1b[31m\x00",
    "a\nb",
]

letters = st.sampled_from([*MEASURED["REGULAR"]])
ascii_ = st.sampled_from([chr(code) for code in range(0x20, 0x7F)])
some = st.text(ascii_ | letters | st.sampled_from(WIDE + EMOJIS + ZERO), max_size=50)
texts = some | st.text(ascii_, max_size=30) | st.sampled_from(AWKWARD)


def sketches(depth: int) -> st.SearchStrategy[Sketch]:
    inside = st.just(()) if depth == 0 else st.lists(sketches(depth - 1), max_size=2)
    box = st.builds(
        Box,
        texts,
        st.just("ParallelMapNode"),
        st.sampled_from(Look),
        st.lists(texts, max_size=2).map(tuple),
        st.lists(texts, max_size=1).map(tuple),
        inside.map(tuple),
    )

    def joined(boxes: list[Box]) -> st.SearchStrategy[Sketch]:
        number = st.integers(0, len(boxes) - 1)
        line = st.builds(Line, number, number, texts | st.just(""), st.sampled_from(Style))
        lines = st.lists(
            line.filter(lambda each: each.source != each.target),
            max_size=8,
            unique_by=lambda each: (each.source, each.target, each.style),
        )
        return st.builds(Sketch, texts, st.just(tuple(boxes)), lines.map(tuple))

    return st.lists(box, min_size=1, max_size=5).flatmap(joined)


class Place(NamedTuple):
    """A rectangle of a picture: its sides, and whose it is."""

    left: float
    top: float
    right: float
    bottom: float
    what: str
    within: "tuple[Place, ...]" = ()


def is_in(one: Place, other: Place) -> bool:
    return (
        other.left <= one.left
        and other.top <= one.top
        and one.right <= other.right
        and one.bottom <= other.bottom
    )


def is_over(one: Place, other: Place) -> bool:
    return (
        one.left < other.right
        and other.left < one.right
        and one.top < other.bottom
        and other.top < one.bottom
    )


def measured(text: str, *, bold: bool) -> float:
    """How wide it is drawn, in ems."""
    widths = MEASURED["BOLD" if bold else "REGULAR"]

    def of(number: int, character: str) -> float:
        if text[number + 1 : number + 2] == "\ufe0f" or character in EMOJIS:
            return EMOJI
        if category(character) in ("Mn", "Me", "Cf"):
            return 0.0
        return IDEOGRAPH if character in WIDE else widths.get(character, IDEOGRAPH)

    return sum(of(*each) for each in enumerate(text))


def places(root: ET.Element) -> Iterator[Place]:
    """All boxes and texts of a picture, each text with the boxes that it is in."""
    yield from _places(root, 0.0, 0.0, ())


def _places(
    element: ET.Element, x: float, y: float, within: tuple[Place, ...]
) -> Iterator[Place]:
    shift = re.fullmatch(r"translate\((\S+) (\S+)\)", element.get("transform", ""))
    if shift:
        x, y = x + float(shift[1]), y + float(shift[2])
    plate: tuple[Place, ...] = ()
    for each in element:
        kind = each.get("class", "")
        if each.tag == f"{SVG}g":
            yield from _places(each, x, y, (*within, *plate))
        elif each.tag == f"{SVG}text":
            size = float(each.attrib["font-size"])
            room = measured(each.text or "", bold=kind == "name") * size
            at = x + float(each.attrib["x"])
            at -= room / 2 if each.get("text-anchor") == "middle" else 0.0
            base = y + float(each.attrib["y"])
            top, bottom = base - 0.76 * size, base + 0.24 * size
            yield Place(at, top, at + room, bottom, "text", (*within, *plate))
        elif each.tag in (f"{SVG}rect", f"{SVG}polygon"):
            box = _box(each, x, y)
            yield box
            if "p" in kind.split() or "i" in kind.split():
                plate = (box,)  # of the next text, and of the flow behind that
            else:
                within = (*within, box)


def _box(element: ET.Element, x: float, y: float) -> Place:
    if element.tag == f"{SVG}polygon":
        pairs = [each.split(",") for each in element.attrib["points"].split()]
        xs, ys = ([float(pair[n]) for pair in pairs] for n in (0, 1))
        return Place(x + min(xs), y + min(ys), x + max(xs), y + max(ys), "box")
    left, top, width, height = (
        float(element.attrib[name]) for name in ("x", "y", "width", "height")
    )
    return Place(x + left, y + top, x + left + width, y + top + height, "box")


@given(sketches(1))
@settings(deadline=None)
def test_each_text_is_in_its_own_box_and_over_nothing_else(sketch: Sketch) -> None:
    found = list(places(ET.fromstring(svg(sketch))))
    boxes = [each for each in found if each.what == "box"]
    written = [each for each in found if each.what == "text"]
    assert len(written) >= 2 * len(sketch.boxes) + 1
    for text in written:
        assert text.within
        for box in boxes:
            if box in text.within:
                assert is_in(text, box), (text, box)
            else:
                assert not is_over(text, box), (text, box)
    for one, other in combinations(written, 2):
        assert not is_over(one, other), (one, other)


@pytest.mark.parametrize("face", MEASURED)
def test_no_letter_is_wider_than_it_is_taken_to_be(face: str) -> None:
    bold = face == "BOLD"
    taken = {each: wide(each, 1.0, bold=bold) for each in MEASURED[face]}
    assert len(taken) > 3000
    unseen = {each for each in taken if category(each) in ("Mn", "Me", "Cf")}
    wider = [e for e in taken if e not in unseen and MEASURED[face][e] > taken[e] + 1e-9]
    assert wider == []
    # Nor is it taken to be much wider, of what most names are made of.
    common = [each for each in taken if each < "\u0530" and each not in unseen]
    assert all(taken[each] - MEASURED[face][each] < 1 / 30 for each in common)


@given(texts)
def test_text_is_as_wide_as_its_letters_or_wider(text: str) -> None:
    for bold in (False, True):
        assert wide(text, 1.0, bold=bold) >= measured(text, bold=bold) - 1e-9


def test_what_has_no_width_is_given_none_and_what_nobody_knows_much() -> None:
    assert wide("\u0301\u200d\U000e0100", 10.0) == 0.0
    assert wide("漢字", 10.0) == 21.0
    assert wide("🚀☺️", 10.0) > 2 * 10 * EMOJI
    assert wide("ก", 10.0) == 12.5
    assert wide("㎯ﬃ", 10.0) >= wide("ffi", 10.0)
