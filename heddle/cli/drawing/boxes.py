"""What is written in a box: name, type, notes, who is asked; cut and wrapped."""

from enum import StrEnum
from typing import Final

from msgspec import Struct

from heddle.cli.drawing.widths import cut, wrapped
from heddle.preview.sketch import Box

WIDEST: Final = 36
"""Cells of a line in a box; long enough for most names, short enough for 80 columns."""
LINES: Final = 4
"""Lines of one note."""


class Part(StrEnum):
    """What a line in a box is."""

    NAME = "name"
    KIND = "kind"
    NOTE = "note"
    ASKED = "asked"


class Row(Struct, frozen=True):
    """A line in a box."""

    part: Part
    text: str


def rows(box: Box, *, most: int = WIDEST, mark: str = "") -> list[Row]:
    """The lines of a box; ``mark`` is put before who is asked."""
    found = [Row(Part.NAME, cut(box.name, most)), Row(Part.KIND, cut(box.kind, most))]
    for part, texts, before in ((Part.NOTE, box.notes, ""), (Part.ASKED, box.asked, mark)):
        for text in texts:
            lines = wrapped(before + text, most, lines=LINES)
            found += (Row(part, each) for each in lines)
    return found
