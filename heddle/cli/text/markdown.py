"""Markdown as rows for a terminal, and how many of them no further line can change.

    ## Steps              Steps                     (bold)
    1. Read `a.py`        1. Read a.py
    - [it](http://x)      • it (http://x)

What is written in one block after the other can be shown for good while the text still
comes: a line changes only the block that is open at the end. References, which would act
on text far above, and HTML are left as they are written. Pure; imports rich.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode
from rich.segment import Segment
from rich.style import Style

from heddle.cli.text.markdown_lines import Span, cells, wrapped
from heddle.cli.text.wording import fit

Row: TypeAlias = list[Segment]

PROSE: Final = 100
"""Cells of a row of text at most: longer ones are hard to read."""
TAB: Final = 4

PLAIN: Final = Style()
DIM: Final = Style(dim=True)
CODE: Final = Style(color="cyan")
HEADING: Final = Style(bold=True)
TITLE: Final = Style(bold=True, underline=True)
INLINE: Final = {
    "strong": Style(bold=True),
    "em": Style(italic=True),
    "s": Style(strike=True),
    "link": Style(underline=True),
    "image": Style(underline=True),
}
"""Node of the syntax tree → what it adds to the style of the text in it."""

_PARSER: Final = (
    MarkdownIt("commonmark", {"html": False})
    .enable(["table", "strikethrough"])
    .disable(["reference", "html_block", "html_inline"])
)
_BLANK: Final = re.compile(r"[\s>]*")


class Block(NamedTuple):
    """What a block looks like. ``settled`` of its rows stay whatever line comes next."""

    rows: list[Row]
    settled: int


class TopBlock(NamedTuple):
    """A block of the document.

    ``line`` is where it begins, counted from 0; ``apart`` whether a blank line is above;
    ``fence`` what its code is fenced with, "" where it is no code.
    """

    block: Block
    line: int
    apart: bool
    fence: str = ""


def top_blocks(text: str, width: int) -> list[TopBlock]:
    """The blocks of a text, each as rows of ``width`` cells.

    Lines of code are as long as they are. The text is to be `prepared`.
    """
    page = _Page(text)
    tree = SyntaxTreeNode(_PARSER.parse(text))
    return [
        TopBlock(
            page.block(node, width),
            node.map[0],
            page.is_apart(node),
            node.markup if node.type == "fence" else "",
        )
        for node in tree.children
        if node.map is not None
    ]


def prepared(text: str) -> str:
    """Text of a model, with nothing in it that acts on a terminal."""
    return fit(text.replace("\r\n", "\n"))


class _Page:
    """One text that is turned into rows."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        # Of lines that have ended. An empty one closes what is open.
        self._closed = _BLANK.fullmatch(self._lines[-2]) if self._lines[1:] else None

    def is_apart(self, node: SyntaxTreeNode) -> bool:
        """Whether a blank line is above it."""
        assert node.map is not None
        above = node.map[0] - 1
        return above >= 0 and _BLANK.fullmatch(self._lines[above]) is not None

    def block(self, node: SyntaxTreeNode, width: int) -> Block:
        """Any block."""
        width = max(width, 1)
        match node.type:
            case "paragraph":
                return self._leaf(wrapped(list(inline(node)), min(width, PROSE)))
            case "heading":
                style = TITLE if node.tag == "h1" else HEADING
                rows = wrapped(list(inline(node, style)), min(width, PROSE))
                return Block(rows, len(rows))
            case "fence" | "code_block":
                rows = code_rows(node.content)
                return Block(rows, len(rows))
            case "hr":
                return Block([[Segment("─" * min(width, 40), DIM)]], 1)
            case "blockquote":
                bar: Row = [Segment("│ ", DIM)]
                return _led(self._several(node.children, width - 2), bar, bar)
            case "bullet_list":
                return self._several(node.children, width, bullet="•")
            case "ordered_list":
                first = int(node.attrs.get("start", 1))
                return self._several(node.children, width, first=first)
            case "table":
                return self._leaf(table_rows(node, width))
            case _:  # pragma: no cover  the parser knows no other
                return self._several(node.children, width)

    def _leaf(self, rows: list[Row]) -> Block:
        """A block that the next line may still change, unless a blank one has come."""
        return Block(rows, len(rows) if self._closed else 0)

    def _several(
        self,
        nodes: Sequence[SyntaxTreeNode],
        width: int,
        *,
        bullet: str = "",
        first: int = 0,
    ) -> Block:
        """Blocks below each other; all but the last are settled."""
        rows: list[Row] = []
        settled = 0
        for number, node in enumerate(nodes):
            if number and self.is_apart(node):
                rows.append([])
            if node.type == "list_item":
                mark = f"{bullet or f'{first + number}.'} "
                inner = self._several(node.children, width - len(mark))
                lead = [Segment(mark, DIM)]
                block = _led(inner, lead, [Segment(" " * len(mark))])
            else:
                block = self.block(node, width)
            settled = len(rows) + block.settled
            rows += block.rows
        return Block(rows, settled)


def _led(block: Block, first: Row, others: Row) -> Block:
    """The rows with a margin. A mark with nothing after it has a row of its own."""
    rows = block.rows or [[]]
    led = [[*(others if number else first), *row] for number, row in enumerate(rows)]
    led = [row if cells(row[1:]) or "│" in row[0].text else row[:1] for row in led]
    return Block([_stripped(row) for row in led], block.settled)


def _stripped(row: Row) -> Row:
    if len(row) == 1:
        text = row[0].text.rstrip()
        return [Segment(text, row[0].style)] if text else []
    return row


def code_rows(code: str) -> list[Row]:
    """Lines of code, none of them wrapped: so they can be copied."""
    lines = code.removesuffix("\n").expandtabs(TAB).split("\n") if code else []
    return [[Segment(f"    {fit(line)}", CODE)] if line else [] for line in lines]


def inline(node: SyntaxTreeNode, style: Style = PLAIN) -> Iterator[Span]:
    """The text of a block, with its styles."""
    for child in node.children:
        match child.type:
            case "text":
                yield Span(one_line(child.content), style)
            case "code_inline":
                yield Span(one_line(child.content), style + CODE)
            # Whoever wrote an end of a line meant it, in a chat.
            case "softbreak" | "hardbreak":
                yield Span("\n", style)
            case "link" | "image":
                yield from _linked(child, style + INLINE[child.type])
            case kind:
                yield from inline(child, style + INLINE.get(kind, PLAIN))


def _linked(node: SyntaxTreeNode, style: Style) -> Iterator[Span]:
    said = list(inline(node, style))
    yield from said
    to = one_line(str(node.attrs.get("href") or node.attrs.get("src") or ""))
    if to and to not in ("".join(each.text for each in said), ""):
        yield Span(f" ({to})", DIM)


def one_line(text: str) -> str:
    """Text that was written with references to characters (``&#27;``) as well."""
    return fit(text).replace("\n", " ").replace("\t", " ")


def table_rows(node: SyntaxTreeNode, width: int) -> list[Row]:
    """A table; what does not fit its column is wrapped inside it."""
    lines = [
        [
            list(inline(cell, HEADING if cell.type == "th" else PLAIN))
            for cell in row.children
        ]
        for part in node.children
        for row in part.children
    ]
    columns = max(len(line) for line in lines)
    natural = [
        max(
            max(map(cells, wrapped(line[at], PROSE * 10)))
            for line in lines
            if at < len(line)
        )
        for at in range(columns)
    ]
    widths = shares(natural, width - 3 * (columns - 1))
    rows: list[Row] = []
    for number, line in enumerate(lines):
        parts = [wrapped(each, room) for each, room in zip(line, widths, strict=False)]
        for at in range(max(map(len, parts))):
            row: Row = []
            for part, room in zip(parts, widths, strict=False):
                piece = part[at] if at < len(part) else []
                row += [*piece, Segment(" " * (room - cells(piece))), Segment(" │ ", DIM)]
            rows.append(_unpadded(row[:-1]))
        if number == 0:
            rows.append([Segment("─┼─".join("─" * each for each in widths), DIM)])
    return rows


def _unpadded(row: Row) -> Row:
    return row[:-1] if row and not row[-1].text.strip() else row


def shares(wanted: Sequence[int], room: int) -> list[int]:
    """How wide each column is: what it wants, or less of those that want most."""
    given = [max(each, 1) for each in wanted]
    while sum(given) > room and max(given) > 1:
        most = max(given)
        second = max((each for each in given if each < most), default=1)
        widest = [at for at, each in enumerate(given) if each == most]
        over = sum(given) - room
        cut = min(most - second or most, -(-over // len(widest)), most - 1)
        for at in widest:
            given[at] -= min(cut, max(over, 0))
            over -= cut
    return given
