"""Text of a model that is too long to be read as Markdown: rows of it as it was written.

    | 1 | one | *first* |      the 3,000th row of a table, whose columns nobody measures
    | 2 | two |                any more

Reading Markdown takes some milliseconds for a screen of it, seconds for ten thousand rows
of a table. This takes a hundredth of that. Pure; imports rich.
"""

import re
from typing import Final

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from rich.style import Style

from heddle.cli.text.markdown import CODE, PLAIN, TAB, Row, prepared
from heddle.cli.text.markdown_lines import Span, wrapped

# Characters of a line that is broken between words; a longer one is broken where a row
# ends, which takes a tenth of the time.
WORDS: Final = 400

_BLANK_LINE: Final = re.compile(r"^[ \t>]*\n", re.MULTILINE)


class AsWritten:
    """A block whose beginning was read, and the rest of which is not.

    Args:
        fence: What its code is fenced with; "" for a block of something else.
    """

    def __init__(self, fence: str = "") -> None:
        self._style = CODE if fence else PLAIN
        self._margin = "    " if fence else ""
        mark = re.escape(fence[:1])
        closing = rf"^ {{0,3}}{mark}{{{len(fence)},}}[ \t]*\n"
        self._end = re.compile(closing, re.MULTILINE) if fence else _BLANK_LINE

    def end(self, text: str) -> tuple[int, int] | None:
        """Where it ends in a text that begins in the middle of it, at the beginning of a
        line, and where the next block begins; None when it goes on to the end."""
        found = self._end.search(text)
        return None if found is None else found.span()

    def rows(self, text: str, width: int) -> list[Row]:
        """Lines of it. Code is not wrapped."""
        return rows_of(text, width, self._style, self._margin)

    def full_rows(self, line: str, width: int) -> tuple[list[Row], str]:
        """Of a line that goes on the rows that nothing will change, and what is left."""
        if self._margin or len(line) < WORDS:
            return [], line
        *full, rest = chop_cells(prepared(line), width)
        return [[Segment(each)] for each in full], rest


def rows_of(text: str, width: int, style: Style = PLAIN, margin: str = "") -> list[Row]:
    """The lines of a text as rows of ``width`` cells; those with a margin are as long as
    they are."""
    rows: list[Row] = []
    look = style or None
    for line in prepared(text).removesuffix("\n").expandtabs(TAB).split("\n"):
        if not line:
            rows.append([])
        elif margin or cell_len(line) <= width:
            rows.append([Segment(margin + line, look)])
        elif len(line) <= WORDS:
            rows += wrapped([Span(line, style)], width)
        else:
            rows += [[Segment(each, look)] for each in chop_cells(line, width)]
    return rows
