"""A screen as an SVG that needs nothing else: no font to fetch, no script, no link.

Each run of cells that look alike is a text of its own, held to its columns with
``textLength``, so that lines meet whatever monospaced font the reader has.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape, unescape
from itertools import groupby
from typing import Any, Final, NamedTuple

from docs.screenshots.scenes import settled
from tests.support.screen import Screen

CELL: Final = 8.4
"""Width of a cell at 14 px, in most monospaced fonts."""
LINE: Final = 18
EDGE: Final = 16
BAR: Final = 30
FONT: Final = "ui-monospace, 'DejaVu Sans Mono', 'Liberation Mono', Menlo, monospace"

COLOURS: Final[Mapping[str, str]] = {
    "default": "#d6dae2",
    "black": "#7d8695",
    "red": "#f07178",
    "green": "#8fcf7a",
    "brown": "#f2c66d",
    "blue": "#7fb4ff",
    "magenta": "#d3a4f9",
    "cyan": "#74d0d8",
    "white": "#ffffff",
}
"""pyte's words for the colours of a terminal's palette; brown is yellow."""
GROUND: Final = "#1d2129"
FRAME: Final = "#2a303b"


class Look(NamedTuple):
    """How text looks."""

    colour: str
    bold: bool


class Piece(NamedTuple):
    """Text of one look, at a column, over so many cells."""

    column: int
    cells: int
    text: str
    look: Look


PROMPT: Final = Look(COLOURS["white"], bold=True)


def picture(screen: Screen, command: str, title: str) -> str:
    """The screen with the command above it, as the text of a file."""
    broken = _broken(f"$ {command}", screen.columns)
    prompt = [
        [Piece(4 * (number > 0), len(text), text, PROMPT)]
        for number, text in enumerate(broken)
    ]
    rows = [*prompt, [], *_rows(screen)]
    width = round(2 * EDGE + CELL * screen.columns)
    height = BAR + 2 * EDGE + LINE * len(rows)
    drawn = [
        _text(piece, BAR + EDGE + LINE * number)
        for number, row in enumerate(rows)
        for piece in row
    ]
    dots = "".join(
        f'<circle cx="{EDGE + 6 + 18 * n}" cy="{BAR // 2}" r="5" fill="#4a5261"/>'
        for n in range(3)
    )
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    bar = f"M0 {BAR}V8a8 8 0 0 1 8-8H{width - 8}a8 8 0 0 1 8 8V{BAR}z"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" rx="8" fill="{GROUND}"/>',
        f'<path d="{bar}" fill="{FRAME}"/>',
        dots,
        f'<g font-family="{FONT}" font-size="14">',
    )
    return "\n".join((*head, *drawn, "</g>", "</svg>", ""))


def words(svg: str) -> str:
    """The text of a picture, a line a row."""
    rows: dict[str, list[tuple[float, str]]] = {}
    found = re.findall(r'<text x="([\d.]+)" y="(\d+)"[^>]*>(.*?)</text>', svg)
    for x, y, text in found:
        rows.setdefault(y, []).append((float(x), unescape(text).replace("\u00a0", " ")))
    lines = []
    for row in rows.values():
        line = ""
        for x, text in sorted(row):
            line = line.ljust(round((x - EDGE) / CELL)) + text
        lines.append(line)
    return "\n".join(lines)


def _broken(text: str, columns: int) -> list[str]:
    """A command over several lines, as a shell takes it: each option with its value."""
    first, *options = text.split(" --")
    lines = [first]
    for option in options:
        if len(lines[-1]) + len(option) + 8 < columns:
            lines[-1] += f" --{option}"
        else:
            lines[-1] += " \\"
            lines.append(f"--{option}")
    return lines


def _rows(screen: Screen) -> list[list[Piece]]:
    """What is on the screen, without the empty rows below."""
    rows = [list(_pieces(row)) for row in screen.cells]
    while rows and not rows[-1]:
        rows.pop()
    return rows


def _pieces(row: Sequence[Any]) -> Iterator[Piece]:
    for look, group in groupby(enumerate(row), lambda each: _look(each[1])):
        cells = list(group)
        text = "".join(cell.data for _, cell in cells)
        left = len(text) - len(text.lstrip(" "))
        if text.strip(" "):
            column = cells[left][0]
            kept = settled(text.strip(" "))
            end = max(number for number, cell in cells if cell.data.strip(" "))
            wide = end + 1 - column + (end + 1 < len(row) and row[end + 1].data == "")
            yield Piece(column, wide, kept, look)


def _look(cell: Any) -> Look:
    return Look(COLOURS.get(cell.fg, COLOURS["default"]), bool(cell.bold))


def _text(piece: Piece, top: int) -> str:
    weight = ' font-weight="bold"' if piece.look.bold else ""
    # Cells of a run of spaces would melt into one: they hold their places.
    text = escape(piece.text, quote=False).replace(" ", "\u00a0")
    return (
        f'<text x="{EDGE + CELL * piece.column:.1f}" y="{top + LINE - 5}" '
        f'textLength="{CELL * piece.cells:.1f}" lengthAdjust="spacingAndGlyphs" '
        f'fill="{piece.look.colour}"{weight}>{text}</text>'
    )
