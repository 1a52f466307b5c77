"""A picture at the bottom of a terminal, redrawn in place. What is over scrolls away above.

    ! flow.json $.nodes[1]: …          above: written once, the terminal's from then on
    ⠹ count  3.1 s                     rows: drawn again with every call
      count_words  0.4 s
    █                                  the cursor rests on the line below

Rows in, bytes out; who writes them is another matter. The cursor is never hidden and no
mode of the terminal is changed, so that whatever ends the process leaves it usable. Rows
are cut to what fits, measured in cells; nobody else may write to the terminal meanwhile.
"""

import re
from collections.abc import Sequence
from typing import Final, TypeAlias

from rich.cells import cell_len, set_cell_size
from rich.color import ColorSystem
from rich.segment import Segment

Row: TypeAlias = Sequence[Segment]

# Characters about whose width terminals disagree, as they melt the ones around them into
# one picture: joiners, variation selectors, tones of skin.
MELTING: Final = dict.fromkeys(
    (*range(0x200B, 0x200E), 0x2060, *range(0xFE00, 0xFE10), *range(0x1F3FB, 0x1F400))
)
# Marks over and under one letter, behind the third: more grow into the rows around it.
MARKS: Final = (
    "\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
)
PILED: Final = re.compile(f"([{MARKS}]{{3}})[{MARKS}]+")
MORE: Final = "…"

ERASE_LINE_REST: Final = "\x1b[K"
ERASE_BELOW: Final = "\x1b[J"


class Region:
    """What is drawn at the moment, and how to get from it to the next picture.

    Args:
        colours: Whether styles may colour; bold and dim stay (no-color.org).
    """

    def __init__(self, *, colours: bool = True) -> None:
        self._colours = colours
        self._drawn: list[tuple[str, int]] = []
        self._size = (0, 0)

    def draw(
        self, rows: Sequence[Row], *, above: Sequence[Row] = (), width: int, height: int
    ) -> bytes:
        """Put these rows where the last ones are.

        Args:
            rows: The picture; rows that there is no room for are left out at its end.
            above: Lines to leave above it for good, as long as they like.
            width: Columns of the terminal now.
            height: Its lines now.
        """
        # A row that ends in the last column would leave the cursor between two lines.
        room = max(width - 1, 0)
        fitting = [self._painted(cut(row, room)) for row in rows[: max(height - 1, 0)]]
        if above or (width, height) != self._size:
            written = [self._painted(row)[0] + "\r\n" for row in above]
            written += [text + "\r\n" for text, _ in fitting]
            drawn = self._erased(width, height) + "".join(written)
        else:
            drawn = self._changed(fitting)
        self._drawn, self._size = fitting, (width, height)
        return drawn.encode(errors="backslashreplace")

    def clear(self, *, width: int, height: int) -> bytes:
        """Take the picture away."""
        erased = self._erased(width, height)
        self.forget()
        return erased.encode()

    def forget(self) -> None:
        """Leave the picture where it is; the next one is drawn below the cursor."""
        self._drawn = []

    def _erased(self, width: int, height: int) -> str:
        """To the first row of the picture, and everything from there on erased.

        A terminal that was made narrower has wrapped what it shows.
        """
        lines = sum(max(1, -(-cells // max(width, 1))) for _, cells in self._drawn)
        return _up(min(lines, max(height - 1, 0))) + "\r" + ERASE_BELOW if lines else ""

    def _changed(self, rows: list[tuple[str, int]]) -> str:
        """The rows that are not there yet, from a cursor below the old ones to the same."""
        old = self._drawn
        same = 0
        while same < min(len(old), len(rows)) and old[same] == rows[same]:
            same += 1
        if same == len(old) == len(rows):
            return ""
        parts = [_up(len(old) - same), "\r"]
        passed = 0
        for number in range(same, len(rows)):
            if number < len(old) and old[number] == rows[number]:
                passed += 1
                continue
            if passed:
                parts.append(f"\x1b[{passed}B")
                passed = 0
            parts += rows[number][0], ERASE_LINE_REST, "\r\n"
        if passed:
            parts.append(f"\x1b[{passed}B")
        if len(rows) < len(old):
            parts.append(ERASE_BELOW)
        return "".join(parts)

    def _painted(self, row: Row) -> tuple[str, int]:
        return painted(row, colours=self._colours)


def painted(row: Row, *, colours: bool = True) -> tuple[str, int]:
    """A row as the terminal takes it, and its cells."""
    parts, cells = [], 0
    for text, style, _ in row:
        cells += cell_len(text)
        if style:
            shown = style if colours else style.without_color
            text = shown.render(text, color_system=ColorSystem.STANDARD)
        parts.append(text)
    return "".join(parts), cells


def cut(row: Row, width: int) -> Row:
    """A row of at most so many cells, with a mark where it was longer."""
    if all(segment.text.isascii() for segment in row):
        if sum(len(segment.text) for segment in row) <= width:
            return row
    else:
        row = [Segment(flat(each.text), each.style) for each in row]
    kept: list[Segment] = []
    left = width
    for number, segment in enumerate(row):
        cells = cell_len(segment.text)
        if cells <= left and (cells < left or not any(s.text for s in row[number + 1 :])):
            kept.append(segment)
            left -= cells
            continue
        if left > 0:
            shorter = set_cell_size(segment.text, left - 1).rstrip(" ")
            kept.append(Segment(shorter + MORE, segment.style))
        break
    return kept


def flat(text: str) -> str:
    """Text that stays in its row, in as many cells as any terminal gives it."""
    return PILED.sub(r"\1", text.translate(MELTING))


def _up(lines: int) -> str:
    return f"\x1b[{lines}A" if lines else ""
