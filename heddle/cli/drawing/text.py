"""A sketch drawn with the characters of a terminal: boxes, and lines down from them.

        ┌───────────────┐
        │ route         │
        │ BranchingNode │
        └┬─────────────┬┘
         │ bug         │ question
         ▼             ▼

Where that is wider than there is room, the same is told as a list (`outline`).
"""

from contextlib import suppress
from typing import Final, TypeAlias

import msgspec

from heddle.cli.drawing.boxes import WIDEST, rows
from heddle.cli.drawing.layers import Arranged, Chain, Link, TooManyBends, arrange
from heddle.cli.drawing.outline import outline
from heddle.cli.drawing.signs import ASCII, Signs
from heddle.cli.drawing.spacing import spaced
from heddle.cli.drawing.tracks import rows as tracks
from heddle.cli.drawing.widths import cells, cut
from heddle.preview.sketch import Box, Line, Sketch, Style

WIDTHS: Final = (WIDEST, 24, 17)
"""Cells of a line in a box, tried one after the other."""
GAP: Final = 3
"""Cells between two boxes."""
LABEL: Final = 24
"""Cells of a line's label."""
LARGEST: Final = 5_000
"""Cells of a row. What is wider is a list, however much room there is for it: between two
ranks that wide there may be as many rows."""


_Columns: TypeAlias = dict[int, dict[int, int]]
"""A point → a link there → its column."""


class _TooWide(Exception):
    """A picture is wider than there is room."""


def text(sketch: Sketch, signs: Signs, width: int) -> list[str]:
    """The lines of a picture that is at most ``width`` cells wide."""
    if signs is ASCII:
        sketch = _in_ascii(sketch)
    drawn = _drawn(sketch, signs, width) or outline(sketch, signs, width)
    if sketch.note:
        drawn += ["", cut(sketch.note, width)]
    drawn = [each.rstrip() for each in drawn]
    return [each.replace("…", "~") for each in drawn] if signs is ASCII else drawn


def _drawn(sketch: Sketch, signs: Signs, width: int) -> list[str] | None:
    """A picture, if there is one that is not too wide."""
    room = min(width, LARGEST)
    for most in WIDTHS:
        with suppress(_TooWide, TooManyBends):
            drawn = _Drawing(sketch, signs, most, room).lines()
            if max(map(cells, drawn), default=0) <= room:
                return drawn
    return None


def _in_ascii(sketch: Sketch) -> Sketch:
    """The same with all other characters escaped, so that they are as wide as they come."""

    def plain(text: str) -> str:
        return text.replace("→", "->").encode("ascii", "backslashreplace").decode()

    def box(each: Box) -> Box:
        return msgspec.structs.replace(
            each,
            name=plain(each.name),
            kind=plain(each.kind),
            notes=tuple(map(plain, each.notes)),
            asked=tuple(map(plain, each.asked)),
            inside=tuple(map(_in_ascii, each.inside)),
        )

    return msgspec.structs.replace(
        sketch,
        name=plain(sketch.name),
        boxes=tuple(map(box, sketch.boxes)),
        lines=tuple(
            msgspec.structs.replace(each, label=plain(each.label)) for each in sketch.lines
        ),
    )


class _Canvas:
    """Cells by row and column. A text is in its first, and the others of it are empty."""

    def __init__(self) -> None:
        self._rows: list[dict[int, str]] = []

    def put(self, row: int, column: int, signs: str) -> None:
        """Characters of one cell each."""
        while len(self._rows) <= row:
            self._rows.append({})
        cell = self._rows[row]
        for number, sign in enumerate(signs, column):
            cell[number] = sign

    def write(self, row: int, column: int, text: str) -> None:
        """Text of any characters, measured as a whole: emoji are made of several."""
        width = cells(text)
        self.put(row, column, " " * width)
        for number in range(column, column + width):
            self._rows[row][number] = ""
        if width:
            self._rows[row][column] = text

    def down(self, row: int, column: int, sign: str) -> None:
        """A part of a line down, which leads over whatever lies across."""
        self.put(row, column, sign)

    def across(self, row: int, column: int, sign: str) -> None:
        """A part of a line across, which leads under lines down."""
        if row >= len(self._rows) or column not in self._rows[row]:
            self.put(row, column, sign)

    def lines(self) -> list[str]:
        return [
            "".join(row.get(column, " ") for column in range(max(row, default=-1) + 1))
            for row in self._rows
        ]


class _Drawing:
    """One sketch: measured, arranged, drawn, unless it is wider than ``room``.

    Raises:
        TooManyBends: Nobody could read it.
        _TooWide: It is. To draw it first would cost time and memory without bounds.
    """

    def __init__(self, sketch: Sketch, signs: Signs, most: int, room: int) -> None:
        self._sketch = sketch
        self._most = most
        self._room = room
        self._signs = signs
        self._labels = [cut(each.label, LABEL) for each in sketch.lines]
        links = [
            Link(each.source, each.target, bool(label))
            for each, label in zip(sketch.lines, self._labels, strict=True)
        ]
        self._arranged: Arranged = arrange(len(sketch.boxes), links)
        self._label_of: dict[int, str] = {
            chain.label: self._labels[chain.link]
            for chain in self._arranged.chains
            if chain.label is not None
        }
        ports = [[0, 0] for _ in sketch.boxes]
        for chain in self._arranged.chains:
            ports[chain.points[0]][0] += 1
            ports[chain.points[-1]][1] += 1
        self._contents = [self._content(each) for each in sketch.boxes]
        self._widths = [
            _odd(max(max(map(cells, content)), 2 * max(number) - 1) + 4)
            for content, number in zip(self._contents, ports, strict=True)
        ]
        self._see_that_ranks_fit()
        self._middles = {
            point: round(at)
            for point, at in spaced(self._arranged, self._width, self._gap).items()
        }
        self._see_that_it_fits()
        rank_of = {
            point: number
            for number, rank in enumerate(self._arranged.ranks)
            for point in rank
        }
        # The parts of links below each rank.
        self._segments: list[list[tuple[int, int, Chain]]] = [
            [] for _ in self._arranged.ranks
        ]
        for segment in self._arranged.segments():
            self._segments[rank_of[segment[0]]].append(segment)

    def _see_that_ranks_fit(self) -> None:
        """What stands side by side may need more than there is room, wherever it stands."""
        for rank in self._arranged.ranks:
            boxes = [self._widths[each] for each in rank if each < self._arranged.boxes]
            if sum(boxes) + 2 * len(rank) - len(boxes) - 1 > self._room:
                raise _TooWide

    def _see_that_it_fits(self) -> None:
        """Boxes of different ranks may stand too far from each other."""
        boxes = range(self._arranged.boxes)
        left = min((self._middles[n] - self._widths[n] // 2 for n in boxes), default=0)
        right = max((self._middles[n] + self._widths[n] // 2 for n in boxes), default=-1)
        if right - left + 1 > self._room:
            raise _TooWide

    def _content(self, box: Box) -> list[str]:
        lines = [
            row.text for row in rows(box, most=self._most, mark=f"{self._signs.asked} ")
        ]
        for inner in box.inside:
            named = f"{self._signs.more} {cut(inner.name, LABEL)}"
            lines += ["", named, *self._inside(inner)]
        return lines

    def _inside(self, inner: Sketch) -> list[str]:
        return _Drawing(inner, self._signs, self._most, self._room - 4).lines()

    def _width(self, point: int) -> float:
        if point < self._arranged.boxes:
            return self._widths[point]
        # The label is beside its line, to the right.
        return (
            1.0 + 2 * (cells(self._label_of[point]) + 1) if point in self._label_of else 1.0
        )

    def _gap(self, one: int, other: int) -> float:
        boxes = (one < self._arranged.boxes) + (other < self._arranged.boxes)
        return float(GAP if boxes == 2 else 1)

    def lines(self) -> list[str]:
        canvas = _Canvas()
        out, into = self._ports()
        row = 0
        ranks = self._arranged.ranks
        for number, rank in enumerate(ranks):
            height = max((self._height(point) for point in rank), default=0)
            for point in rank:
                self._point(canvas, point, row, height, out.get(point, {}))
            row += height
            if number < len(ranks) - 1:
                row = self._channel(canvas, number, row, out, into)
        return _dedented(canvas.lines())

    def _height(self, point: int) -> int:
        if point < self._arranged.boxes:
            return len(self._contents[point]) + 2
        return 1 if point in self._label_of else 0

    # -- where lines leave and arrive --------------------------------------------------

    def _ports(self) -> tuple[_Columns, _Columns]:
        """The columns at which links leave points below, and reach them above."""
        out: dict[int, list[tuple[int, int]]] = {}
        into: dict[int, list[tuple[int, int]]] = {}
        for upper, lower, chain in self._arranged.segments():
            out.setdefault(upper, []).append((self._middles[lower], chain.link))
            into.setdefault(lower, []).append((self._middles[upper], chain.link))
        return self._columns(out), self._columns(into)

    def _columns(self, ends: dict[int, list[tuple[int, int]]]) -> _Columns:
        """A column for each link on one side of each point, near where it leads."""
        found: _Columns = {}
        for point, wished in ends.items():
            wished.sort()
            middle = self._middles[point]
            half = self._widths[point] // 2 - 1 if point < self._arranged.boxes else 0
            columns = [min(max(at, middle - half), middle + half) for at, _ in wished]
            for index in range(1, len(columns)):
                columns[index] = max(columns[index], columns[index - 1] + 2)
            columns[-1] = min(columns[-1], middle + half)
            for index in range(len(columns) - 2, -1, -1):
                columns[index] = min(columns[index], columns[index + 1] - 2)
            found[point] = {
                link: column for (_, link), column in zip(wished, columns, strict=True)
            }
        return found

    # -- drawing -----------------------------------------------------------------------

    def _point(
        self,
        canvas: _Canvas,
        point: int,
        row: int,
        height: int,
        out: dict[int, int],
    ) -> None:
        if point < self._arranged.boxes:
            self._box(canvas, point, row, height, out)
            return
        (link,) = out
        column = self._middles[point]
        for each in range(row, row + height):
            canvas.down(each, column, self._down(link))
        if point in self._label_of:
            canvas.write(row, column + 2, self._label_of[point])

    def _box(
        self,
        canvas: _Canvas,
        point: int,
        row: int,
        height: int,
        out: dict[int, int],
    ) -> None:
        signs, content, width = self._signs, self._contents[point], self._widths[point]
        left = self._middles[point] - width // 2
        one, two, three, four = signs.box
        canvas.put(row, left, one + signs.across * (width - 2) + two)
        for number, line in enumerate(content, row + 1):
            canvas.put(number, left, signs.down)
            canvas.write(number, left + 2, line)
            canvas.put(number, left + width - 1, signs.down)
        bottom = row + len(content) + 1
        canvas.put(bottom, left, three + signs.across * (width - 2) + four)
        for link, column in out.items():
            canvas.put(bottom, column, signs.out)
            for each in range(bottom + 1, row + height):
                canvas.down(each, column, self._down(link))

    def _channel(
        self,
        canvas: _Canvas,
        number: int,
        row: int,
        out: _Columns,
        into: _Columns,
    ) -> int:
        """The lines between a rank and the next; the row where that begins."""
        boxes = self._arranged.boxes
        parts = self._segments[number]
        ways = {
            index: (out[above][chain.link], into[below][chain.link])
            for index, (above, below, chain) in enumerate(parts)
        }
        lanes = tracks(ways)
        count = max((each.row + 1 for lane in lanes.values() for each in lane), default=0)
        up = any(chain.upwards and above < boxes for above, _, chain in parts)
        arrows = any(below < boxes and not chain.upwards for _, below, chain in parts)
        first = row + up
        last = first + count
        for index, (above, below, chain) in enumerate(parts):
            source, target = ways[index]
            down = self._down(chain.link)
            column, top = source, row
            for across in lanes.get(index, ()):
                turn = first + across.row
                for each in range(top, turn):
                    canvas.down(each, column, down)
                self._turn(canvas, turn, column, across.to, chain.link)
                column, top = across.to, turn + 1
            for each in range(top, last + arrows):
                canvas.down(each, column, down)
            if chain.upwards and above < boxes:
                canvas.put(row, source, self._signs.above)
            if not chain.upwards and below < boxes:
                canvas.put(last, target, self._signs.below)
        return last + arrows

    def _turn(self, canvas: _Canvas, row: int, source: int, target: int, link: int) -> None:
        right_down, left_down, up_right, up_left = self._signs.corners
        step = 1 if target > source else -1
        for column in range(source + step, target, step):
            canvas.across(row, column, self._across(link))
        canvas.put(row, source, up_right if step > 0 else up_left)
        canvas.put(row, target, left_down if step > 0 else right_down)

    def _line(self, link: int) -> Line:
        return self._sketch.lines[link]

    def _down(self, link: int) -> str:
        style, signs = self._line(link).style, self._signs
        return {
            Style.CONTROL: signs.down,
            Style.DATA: signs.dashed_down,
            Style.TALK: signs.thick_down,
        }[style]

    def _across(self, link: int) -> str:
        style, signs = self._line(link).style, self._signs
        return {
            Style.CONTROL: signs.across,
            Style.DATA: signs.dashed_across,
            Style.TALK: signs.thick_across,
        }[style]


def _dedented(lines: list[str]) -> list[str]:
    """Without the columns at the left in which nothing is but half of a label's room."""
    spare = min((len(each) - len(each.lstrip(" ")) for each in lines if each), default=0)
    return [each[spare:] for each in lines]


def _odd(number: int) -> int:
    return number | 1
