"""A sketch as SVG, complete in itself: no script, no font, nothing that is loaded.

It brings its own background and follows the reader's preference for light or dark.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final
from xml.sax.saxutils import escape

from msgspec import Struct

from heddle.cli.drawing.boxes import Part, Row, rows
from heddle.cli.drawing.layers import Chain, Link, arrange
from heddle.cli.drawing.letters import wide
from heddle.cli.drawing.spacing import spaced
from heddle.cli.drawing.widths import cut
from heddle.cli.text.wording import line
from heddle.preview.sketch import Box, Line, Look, Sketch, Style

# What XML has no place for, beside what `line` made fit already.
NO_XML: Final = re.compile("[\ufffe\uffff]")

ROW: Final = 18.0
PAD: Final = 12.0
GAP: Final = 28.0
MARGIN: Final = 24.0
LABEL: Final = 32
SIZES: Final = {Part.NAME: 14.0, Part.KIND: 11.0, Part.NOTE: 12.0, Part.ASKED: 12.0}
LABEL_SIZE: Final = 11.5

STYLES: Final = """
.b,.p{fill:#fff}.b,.i{stroke:#c9ced8}.i,.i~g .p{fill:#f7f8fa}
text{font-family:system-ui,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;fill:#1f2430}
.name{font-weight:600}.kind,.say{fill:#5b6475}.note{fill:#3c4454}.asked{fill:#9a4b00}
.x{stroke-width:1.4}
.start,.end{fill:#e8f5ec;stroke:#3b8f5c}.choice{fill:#fff4d9;stroke:#b98211}
.model{fill:#e9effc;stroke:#4a6fc4}.flow{fill:#f1ecfa;stroke:#7a5bb5}
.step{fill:#fff;stroke:#7c8596}path{fill:none;stroke-width:1.6}
.control{stroke:#4b5466}.data{stroke:#2b8a99;stroke-dasharray:5 4}
.talk{stroke:#7a5bb5;stroke-width:2.4}
marker path{stroke:none}.m-control{fill:#4b5466}.m-data{fill:#2b8a99}.m-talk{fill:#7a5bb5}
.l-control{fill:#1f2430}.l-data{fill:#1d6d79}.l-talk{fill:#5f429b}
"""
DARK: Final = """
.b,.p{fill:#15181f}.b,.i{stroke:#3a4150}.i,.i~g .p{fill:#1b1f28}
text{fill:#e8ebf1}.kind,.say{fill:#a3acbd}.note{fill:#c6cdd9}.asked{fill:#ffb366}
.start,.end{fill:#16291e;stroke:#5cb883}.choice{fill:#2d2611;stroke:#d9a63a}
.model{fill:#182238;stroke:#7c9cf0}.flow{fill:#221b33;stroke:#a98ae0}.step{fill:#1e222b;stroke:#8d96a8}
.control{stroke:#a9b2c3}.data{stroke:#56c0d0}.talk{stroke:#a98ae0}
.m-control{fill:#a9b2c3}.m-data{fill:#56c0d0}.m-talk{fill:#a98ae0}
.l-control{fill:#e8ebf1}.l-data{fill:#7fd6e3}.l-talk{fill:#c5aef0}
"""


def svg(sketch: Sketch) -> str:
    """The whole document, with a newline at its end."""
    drawing = _Drawing(sketch)
    says = ["solid: what runs next", "dashed: values", "◆ policies that are asked"]
    if not any(each.asked for each in _all_boxes(sketch)):
        says.pop()
    if sketch.note:
        says[1] = sketch.note
    caption = " · ".join(says)
    title = cut(sketch.name, 80)
    width = (
        max(drawing.width, wide(title, 16.0, bold=True), wide(caption, LABEL_SIZE))
        + 2 * MARGIN
    )
    height = drawing.height + 2 * MARGIN + 3 * ROW
    w, h = f"{width:.0f}", f"{height:.0f}"
    left, base = (width - drawing.width) / 2, MARGIN + 1.5 * ROW
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" ',
        f'height="{h}" role="img">',
        f"<title>{_text(sketch.name)}</title>",
        f"<style>{STYLES}@media (prefers-color-scheme:dark){{{DARK}}}</style>",
        f"<defs>{''.join(map(_marker, Style))}</defs>",
        f'<rect class="b" x="0.5" y="0.5" width="{width - 1:.0f}" ',
        f'height="{height - 1:.0f}" rx="10"/>',
        _written("name", MARGIN, MARGIN + 14, 16.0, title),
        f'<g transform="translate({left:.1f} {base:.1f})">',
        *drawing.parts(),
        "</g>",
        _written("say", MARGIN, height - MARGIN + 6, LABEL_SIZE, caption),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _written(kind: str, x: float, y: float, size: float, text: str) -> str:
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" font-size="{size:g}">'
        f"{_text(text)}</text>"
    )


def _all_boxes(sketch: Sketch) -> Iterator[Box]:
    for box in sketch.boxes:
        yield box
        for inner in box.inside:
            yield from _all_boxes(inner)


def _marker(style: Style) -> str:
    return (
        f'<marker id="m-{style}" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="9" '
        'markerHeight="9" markerUnits="userSpaceOnUse" orient="auto">'
        f'<path class="m-{style}" d="M0 0.5 8 4 0 7.5z"/></marker>'
    )


def _text(text: str) -> str:
    return NO_XML.sub("?", escape(line(text)))


class _Content(Struct, frozen=True):
    """What is in a box, measured."""

    rows: list[Row]
    inside: "list[tuple[str, _Drawing]]"
    width: float
    height: float


def _content(box: Box) -> _Content:
    found = rows(box, mark="◆ ")
    inside = [(cut(each.name, 40), _Drawing(each)) for each in box.inside if each.boxes]
    width = max(
        wide(row.text, SIZES[row.part], bold=row.part is Part.NAME) for row in found
    )
    height = len(found) * ROW + 2 * PAD - 4
    for name, drawing in inside:
        width = max(width, drawing.width + 2 * PAD, wide(name, 12.0) + 2 * PAD)
        height += drawing.height + ROW + 3 * PAD
    point = 16.0 if box.look is Look.CHOICE else 0.0
    return _Content(found, inside, width + 2 * PAD + 2 * point, height)


class _Drawing:
    """One sketch: measured, arranged, drawn from (0, 0)."""

    def __init__(self, sketch: Sketch) -> None:
        self._sketch = sketch
        self._contents = [_content(each) for each in sketch.boxes]
        self._labels = [cut(each.label, LABEL) for each in sketch.lines]
        self._arranged = arrange(
            len(sketch.boxes),
            [
                Link(each.source, each.target, bool(label))
                for each, label in zip(sketch.lines, self._labels, strict=True)
            ],
        )
        self._label_of = {
            chain.label: chain.link
            for chain in self._arranged.chains
            if chain.label is not None
        }
        self._middles = spaced(self._arranged, self._width, self._gap)
        self._tops: list[float] = []
        self._heights: list[float] = []
        self._place()
        self.width = max(
            (at + self._width(point) / 2 for point, at in self._middles.items()),
            default=0.0,
        )
        self.height = self._tops[-1] + self._heights[-1] if self._tops else 0.0

    def _width(self, point: int) -> float:
        if point < self._arranged.boxes:
            return self._contents[point].width
        if point in self._label_of:
            return wide(self._labels[self._label_of[point]], LABEL_SIZE) + 12
        return 2.0

    def _gap(self, one: int, other: int) -> float:
        return GAP if max(one, other) < self._arranged.boxes else GAP / 2

    def _height(self, point: int) -> float:
        if point < self._arranged.boxes:
            return self._contents[point].height
        return ROW if point in self._label_of else 0.0

    def _place(self) -> None:
        """The top and height of each rank; the further lines lead across, the more room."""
        ranks = self._arranged.ranks
        rank_of = {point: n for n, rank in enumerate(ranks) for point in rank}
        far = [0.0] * len(ranks)
        for upper, lower, _ in self._arranged.segments():
            number = rank_of[upper]
            across = abs(self._middles[upper] - self._middles[lower])
            far[number] = max(far[number], across)
        top = 0.0
        for number, rank in enumerate(ranks):
            height = max((self._height(point) for point in rank), default=0.0)
            self._tops.append(top)
            self._heights.append(height)
            top += height + 16 + min(0.09 * far[number], 40.0)
        self._rank_of = rank_of

    # -- drawing -----------------------------------------------------------------------

    def parts(self) -> Iterator[str]:
        """The elements, lines below boxes below labels."""
        ports = self._ports()
        for chain in self._arranged.chains:
            yield self._path(chain, ports)
        for number, box in enumerate(self._sketch.boxes):
            yield from self._box(number, box)
        for point, link in self._label_of.items():
            yield self._label(point, link)

    def _box_top(self, number: int) -> float:
        rank = self._rank_of[number]
        return self._tops[rank] + (self._heights[rank] - self._contents[number].height) / 2

    def _box(self, number: int, box: Box) -> Iterator[str]:
        content = self._contents[number]
        x = self._middles[number] - content.width / 2
        y = self._box_top(number)
        w, h = content.width, content.height
        yield f"<g><title>{_text(f'{box.name} ({box.kind})')}</title>"
        if box.look is Look.CHOICE:
            middle = y + h / 2
            yield (
                f'<polygon class="x choice" points="{x:.1f},{middle:.1f} '
                f"{x + 14:.1f},{y:.1f} "
                f"{x + w - 14:.1f},{y:.1f} {x + w:.1f},{middle:.1f} "
                f'{x + w - 14:.1f},{y + h:.1f} {x + 14:.1f},{y + h:.1f}"/>'
            )
        else:
            round_ = min(h / 2, 22.0) if box.look in (Look.START, Look.END) else 6.0
            yield (
                f'<rect class="x {box.look}" x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" '
                f'height="{h:.1f}" rx="{round_:.0f}"/>'
            )
        left = x + PAD + (16.0 if box.look is Look.CHOICE else 0.0)
        base = y + PAD + 9
        for row in content.rows:
            yield _written(row.part, left, base, SIZES[row.part], row.text)
            base += ROW
        top = y + PAD + len(content.rows) * ROW
        for name, drawing in content.inside:
            height = drawing.height + ROW + 2 * PAD
            yield (
                f'<rect class="i" x="{x + PAD:.1f}" y="{top:.1f}" '
                f'width="{w - 2 * PAD:.1f}" height="{height:.1f}" rx="6"/>'
                f'<text class="say" x="{x + 1.7 * PAD:.1f}" y="{top + 16:.1f}" '
                f'font-size="12">{_text(name)}</text>'
            )
            start = x + (w - drawing.width) / 2
            yield f'<g transform="translate({start:.1f} {top + ROW + PAD:.1f})">'
            yield from drawing.parts()
            yield "</g>"
            top += height + PAD
        yield "</g>"

    def _label(self, point: int, link: int) -> str:
        x = self._middles[point]
        y = self._tops[self._rank_of[point]]
        height = self._heights[self._rank_of[point]]
        room = wide(self._labels[link], LABEL_SIZE) + 6
        style = self._line(link).style
        return (
            f'<rect class="p" x="{x - room / 2:.1f}" '
            f'y="{y + height / 2 - 8:.1f}" width="{room:.1f}" height="16" rx="4"/>'
            f'<text class="l-{style}" text-anchor="middle" x="{x:.1f}" '
            f'y="{y + height / 2 + 4:.1f}" font-size="{LABEL_SIZE}">'
            f"{_text(self._labels[link])}</text>"
        )

    def _line(self, link: int) -> Line:
        return self._sketch.lines[link]

    def _ports(self) -> dict[tuple[int, int, bool], float]:
        """Where links leave boxes (False) and reach them (True), from left to right."""
        ends: dict[tuple[int, bool], list[tuple[float, int]]] = {}
        for upper, lower, chain in self._arranged.segments():
            if upper < self._arranged.boxes:
                ends.setdefault((upper, False), []).append(
                    (self._middles[lower], chain.link)
                )
            if lower < self._arranged.boxes:
                ends.setdefault((lower, True), []).append(
                    (self._middles[upper], chain.link)
                )
        found = {}
        for (box, into), wished in ends.items():
            wished.sort()
            middle, half = self._middles[box], self._contents[box].width / 2 - 24
            step = min(22.0, 2 * half / max(len(wished) - 1, 1))
            columns = [min(max(at, middle - half), middle + half) for at, _ in wished]
            for index in range(1, len(columns)):
                columns[index] = max(columns[index], columns[index - 1] + step)
            over = max(columns[-1] - middle - half, 0.0)
            columns[-1] -= over
            for index in range(len(columns) - 2, -1, -1):
                columns[index] = min(columns[index], columns[index + 1] - step)
            for (_, link), column in zip(wished, columns, strict=True):
                found[box, link, into] = column
        return found

    def _path(self, chain: Chain, ports: dict[tuple[int, int, bool], float]) -> str:
        points: list[tuple[float, float]] = []
        first, *between, last = chain.points
        bottom = self._box_top(first) + self._contents[first].height
        x = ports[first, chain.link, False]
        points += [(x, bottom), (x, self._bottom(first))]
        for point in between:
            at = self._middles[point]
            points += [(at, self._tops[self._rank_of[point]]), (at, self._bottom(point))]
        x = ports[last, chain.link, True]
        points += [(x, self._tops[self._rank_of[last]]), (x, self._box_top(last))]
        if chain.upwards:
            points.reverse()
        style = self._line(chain.link).style
        return f'<path class="{style}" d="{_curve(points)}" marker-end="url(#m-{style})"/>'

    def _bottom(self, point: int) -> float:
        rank = self._rank_of[point]
        return self._tops[rank] + self._heights[rank]


def _curve(points: Sequence[tuple[float, float]]) -> str:
    """Straight down through ranks, bent between them."""
    (x, y), *rest = points
    said = [f"M{x:.1f} {y:.1f}"]
    for nx, ny in rest:
        if abs(ny - y) < 0.05 and abs(nx - x) < 0.05:
            continue
        if abs(nx - x) < 0.5:
            said.append(f"L{nx:.1f} {ny:.1f}")
        else:
            half = (ny - y) / 2
            said.append(
                f"C{x:.1f} {y + half:.1f} {nx:.1f} {ny - half:.1f} {nx:.1f} {ny:.1f}"
            )
        x, y = nx, ny
    return "".join(said)
