"""The lines of a document that a problem is about, quoted with a mark below them.

  --> flow.json:12:23
12 |   "component_type": "LlmNod",
   |                     ^^^^^^^^
"""

from typing import Final

from heddle.cli.text.wording import line
from heddle.cli.text.wrapping import NARROWEST, columns
from heddle.spec.places import Span, line_and_column

WIDTH: Final = 88
"""Characters of the document's line that are shown: it may be megabytes long."""

BEFORE: Final = 40
"""How many of them stand before the mark where the line has to be cut."""


def excerpt(name: str, text: str, span: Span, *, width: int | None = None) -> list[str]:
    """The lines to print below a problem, for a terminal of ``width`` columns."""
    number, column = line_and_column(text, span.start)
    shown_most, before_most = _bounds(width, len(str(number)))
    begin = span.start - column + 1
    end = text.find("\n", begin)
    whole = text[begin : end if end >= 0 else len(text)].rstrip("\r")
    long = len(whole) > shown_most
    cut = max(0, column - 1 - before_most) if long else 0
    before = line(whole[cut : column - 1])
    marked = line(whole[column - 1 : min(span.end - begin, cut + shown_most)])
    after = line(
        whole[column - 1 + len(whole[column - 1 : span.end - begin]) : cut + shown_most]
    )
    left = "…" if cut else ""
    right = "…" if cut + shown_most < len(whole) else ""
    margin = " " * len(str(number))
    shown = f"{left}{before}{marked}{after}{right}"
    mark = " " * columns(left + before) + "^" * max(1, columns(marked))
    return [
        f"  {margin}--> {line(name)}:{number}:{column}",
        f"  {number} | {shown}",
        f"  {margin} | {mark}",
    ]


def _bounds(width: int | None, digits: int) -> tuple[int, int]:
    """Characters of the line that are shown, and how many of them before the mark."""
    if width is None:
        return WIDTH, BEFORE
    # The number of the line, what is around it, and a sign where it is cut at each end.
    shown = max(NARROWEST, min(WIDTH, width - digits - len("   | ") - 2))
    return shown, min(BEFORE, shown // 2)
