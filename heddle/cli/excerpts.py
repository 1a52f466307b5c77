"""The lines of a document that a problem is about, quoted with a mark below them.

  --> flow.json:12:23
12 |   "component_type": "LlmNod",
   |                     ^^^^^^^^
"""

from typing import Final

from heddle.cli.wording import line
from heddle.spec.places import Span, line_and_column

WIDTH: Final = 88
"""Characters of the document's line that are shown: it may be megabytes long."""

BEFORE: Final = 40
"""How many of them stand before the mark where the line has to be cut."""


def excerpt(name: str, text: str, span: Span) -> list[str]:
    """The lines to print below a problem."""
    number, column = line_and_column(text, span.start)
    begin = span.start - column + 1
    end = text.find("\n", begin)
    whole = text[begin : end if end >= 0 else len(text)].rstrip("\r")
    cut = column - 1 - BEFORE if len(whole) > WIDTH and column > BEFORE else 0
    before = line(whole[cut : column - 1])
    marked = line(whole[column - 1 : min(span.end - begin, cut + WIDTH)])
    after = line(
        whole[column - 1 + len(whole[column - 1 : span.end - begin]) : cut + WIDTH]
    )
    left = "…" if cut else ""
    right = "…" if cut + WIDTH < len(whole) else ""
    margin = " " * len(str(number))
    shown = f"{left}{before}{marked}{after}{right}"
    mark = " " * _width(left + before) + "^" * max(1, _width(marked))
    return [
        f"  {margin}--> {line(name)}:{number}:{column}",
        f"  {number} | {shown}",
        f"  {margin} | {mark}",
    ]


def _width(text: str) -> int:
    """Columns that a terminal needs for it."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
