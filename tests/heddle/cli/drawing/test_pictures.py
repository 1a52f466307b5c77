"""Sketches as pictures: nothing lost, nothing beside its place, no name that is markup."""

import re
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.cli.drawing.mermaid import mermaid
from heddle.cli.drawing.signs import ASCII, UNICODE, signs_for
from heddle.cli.drawing.svg import svg
from heddle.cli.drawing.text import text
from heddle.cli.drawing.widths import cells, cut, wrapped
from heddle.preview.sketch import Box, Line, Look, Sketch, Style

SVG = "{http://www.w3.org/2000/svg}"
ELEMENTS = {"svg", "title", "style", "defs", "marker", "path", "rect", "g", "text"}
ELEMENTS.add("polygon")
MARKUP = [
    '"><script>alert(1)</script>',
    "]",
    '"] --> evil["x',
    "end",
    "a\nb",
    "`#quot;` %% &amp; {{}} -->|x|",
    "\x1b[31mred\x00\u202e\ud800\ufffe",
    "__proto__ <b>&</b>",
]

names = st.text(max_size=30) | st.sampled_from(MARKUP)
sketches = st.integers(1, 8).flatmap(
    lambda count: st.builds(
        Sketch,
        names,
        st.lists(
            st.builds(Box, names, st.just("Node"), st.sampled_from(Look)),
            min_size=count,
            max_size=count,
        ).map(tuple),
        st.lists(
            st.builds(
                Line,
                st.integers(0, count - 1),
                st.integers(0, count - 1),
                names | st.just(""),
                st.sampled_from(Style),
            ).filter(lambda line: line.source != line.target),
            max_size=10,
            unique_by=lambda line: (line.source, line.target, line.style),
        ).map(tuple),
    )
)


def test_nothing_is_drawn_that_is_too_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two thousand branches it would be a picture of gigabytes."""
    boxes = tuple(Box(f"b{n}", "Node", Look.STEP) for n in range(2000))
    lines = tuple(Line(0, n, f"to {n}", Style.CONTROL) for n in range(1, 2000))
    inside = Box("inside", "FlowNode", Look.FLOW, inside=(Sketch("wide", boxes, lines),))
    monkeypatch.setattr("heddle.cli.drawing.text._Canvas", None)
    for sketch in (Sketch("wide", boxes, lines), Sketch("one", (inside,), ())):
        for width in (80, 1_000_000):
            assert "b1999" in "\n".join(text(sketch, UNICODE, width))


def test_a_long_chain_is_drawn_in_time() -> None:
    boxes = tuple(Box(f"b{n}", "Node", Look.STEP) for n in range(2500))
    lines = tuple(Line(n, n + 1, "", Style.CONTROL) for n in range(2499))
    began = time.process_time()
    assert len(text(Sketch("long", boxes, lines), UNICODE, 80)) > 10_000
    # It took 6 s when each rank was looked for among all lines, and takes 0.2 s.
    assert time.process_time() - began < 3


@given(sketches, st.integers(30, 120))
@settings(max_examples=60, deadline=None)
def test_text_stays_within_its_width(sketch: Sketch, width: int) -> None:
    for signs in (UNICODE, ASCII):
        drawn = text(sketch, signs, width)
        assert max(map(cells, drawn)) <= width
        whole = "\n".join(drawn)
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e\ud800-\udfff]", whole)
        assert signs is UNICODE or whole.isascii()


@given(sketches)
@settings(max_examples=60, deadline=None)
def test_every_line_leaves_a_box_and_reaches_one(sketch: Sketch) -> None:
    bare = Sketch(
        "x",
        tuple(Box(f"n{n}", "Node") for n in range(len(sketch.boxes))),
        tuple(Line(each.source, each.target) for each in sketch.lines),
    )
    whole = "\n".join(text(bare, UNICODE, 10_000))
    assert whole.count("▼") + whole.count("▲") == len(sketch.lines)
    assert whole.count("┬") == len(sketch.lines)
    assert whole.count("┌") == len(sketch.boxes)
    assert whole.count("╭") + whole.count("╮") == whole.count("╰") + whole.count("╯")


def test_a_box_is_drawn_as_documented() -> None:
    route = Box("route", "BranchingNode", Look.CHOICE)
    ends = (Box("a", "EndNode"), Box("b", "EndNode"))
    lines = (Line(0, 1, "bug"), Line(0, 2, "question"))
    assert text(Sketch("f", (route, *ends), lines), UNICODE, 80) == [
        "    ┌───────────────┐",
        "    │ route         │",
        "    │ BranchingNode │",
        "    └┬─────────────┬┘",
        "     │ bug         │ question",
        "     ▼             ▼",
        "┌─────────┐   ┌─────────┐",
        "│ a       │   │ b       │",
        "│ EndNode │   │ EndNode │",
        "└─────────┘   └─────────┘",
    ]


def test_wide_characters_move_no_border() -> None:
    boxes = (Box("日本語の名前", "ToolNode"), Box("👩‍👩‍👧 família é", "EndNode"))
    drawn = text(Sketch("f", boxes, (Line(0, 1, "枝"),)), UNICODE, 80)
    borders = [each for each in drawn if each.strip().startswith(("┌", "│ ", "└"))]
    ends = {cells(each) for each in borders if each.strip().endswith(("┐", "│", "┘"))}
    assert len(ends) <= 2
    assert "日本語の名前" in "\n".join(drawn)
    assert "👩‍👩‍👧 família é" in "\n".join(drawn)


def test_what_is_too_wide_is_a_list() -> None:
    boxes = [Box("start", "StartNode"), *(Box(f"n{n}", "ToolNode") for n in range(9))]
    inside = Sketch("deep", (Box("in", "StartNode"),), ())
    boxes[1] = Box("n0", "FlowNode", Look.FLOW, ("by x",), ("node.before: A",), (inside,))
    lines = [Line(0, n, f"b{n}") for n in range(1, 10)]
    lines += [Line(2, 0), Line(1, 2, "x → y", Style.DATA)]
    drawn = text(Sketch("f", tuple(boxes), tuple(lines)), UNICODE, 40)
    assert drawn[:3] == ["● start  StartNode", "├─ b1 ─▶ n0", "├─ b2 ─▶ n1"]
    assert "├──▶ start  (↑ above)" in drawn
    at = drawn.index("● n0  FlowNode")
    assert drawn[at : at + 6] == [
        "● n0  FlowNode",
        "│   by x",
        "│   ◆ node.before: A",
        "│ ▾ deep",
        "│ ● in  StartNode",
        "┊┈ x → y ┈▶ n1",
    ]


@given(sketches)
@settings(max_examples=60, deadline=None)
def test_any_names_make_well_formed_svg_with_nothing_that_acts(sketch: Sketch) -> None:
    root = ET.fromstring(svg(sketch))
    assert {each.tag.removeprefix(SVG) for each in root.iter()} <= ELEMENTS
    for each in root.iter():
        assert not any(name.startswith("on") or "href" in name for name in each.attrib)
    assert len(list(root.iter(f"{SVG}path"))) == len(sketch.lines) + len(Style)


@given(sketches)
@settings(max_examples=40, deadline=None)
def test_boxes_of_an_svg_are_apart(sketch: Sketch) -> None:
    boxes = list(_boxes(ET.fromstring(svg(sketch))))
    assert len(boxes) == len(sketch.boxes)
    for (a, b, c, d), (e, f, g, h) in combinations(boxes, 2):
        assert a + c < e or e + g < a or b + d < f or f + h < b


def _boxes(root: ET.Element) -> Iterator[tuple[float, float, float, float]]:
    for group in root.iter(f"{SVG}g"):
        if group.find(f"{SVG}title") is None:
            continue
        polygon, rect = group.find(f"{SVG}polygon"), group.find(f"{SVG}rect")
        if polygon is not None:
            pairs = [each.split(",") for each in polygon.attrib["points"].split()]
            xs, ys = ([float(pair[n]) for pair in pairs] for n in (0, 1))
            yield min(xs), min(ys), max(xs) - min(xs), max(ys) - min(ys)
        elif rect is not None:
            x, y, width, height = (
                float(rect.attrib[n]) for n in ("x", "y", "width", "height")
            )
            yield x, y, width, height


@given(sketches)
@settings(max_examples=60, deadline=None)
def test_names_in_mermaid_are_text_and_nothing_else(sketch: Sketch) -> None:
    said = mermaid(sketch)
    first, *lines = said.rstrip("\n").split("\n")
    assert first == "flowchart TB"
    assert len(lines) == len(sketch.boxes) + len(sketch.lines)
    plain = r'"[^"<>\[\](){}|`]*(<br/>[^"<>\[\](){}|`]*)*"'
    shapes = [rf"\(\[{plain}\]\)", rf"{{{{{plain}}}}}", rf"\({plain}\)"]
    shapes += [rf"\[\[{plain}\]\]", rf"\[{plain}\]"]
    node = re.compile(rf" +n\d+({'|'.join(shapes)})")
    link = re.compile(r' +n\d+ (-->|-\.->|==>)(\|"[^"<>|`]*"\|)? n\d+')
    for line in lines:
        assert node.fullmatch(line) or link.fullmatch(line), line


def test_a_flow_inside_is_a_subgraph() -> None:
    inside = Sketch("deep", (Box("in", "StartNode"), Box("out", "EndNode")), (Line(0, 1),))
    two = (inside, Sketch("other", (Box("o", "StartNode"),), ()))
    boxes = (Box("one", "FlowNode", inside=(inside,)), Box("all", "Many", inside=two))
    assert mermaid(Sketch("f", boxes, (Line(0, 1),))).splitlines() == [
        "flowchart TB",
        '  subgraph n0["one<br/>FlowNode"]',
        "    direction TB",
        '    n1["in<br/>StartNode"]',
        '    n2["out<br/>EndNode"]',
        "    n1 --> n2",
        "  end",
        '  subgraph n3["all<br/>Many"]',
        "    direction TB",
        '    subgraph n3_0["deep"]',
        '      n4["in<br/>StartNode"]',
        '      n5["out<br/>EndNode"]',
        "      n4 --> n5",
        "    end",
        '    subgraph n3_1["other"]',
        '      n6["o<br/>StartNode"]',
        "    end",
        "  end",
        "  n0 --> n3",
    ]


@pytest.mark.parametrize(
    ("encoding", "environment", "signs"),
    [
        ("utf-8", {}, UNICODE),
        ("utf-8", {"LANG": "de_DE.UTF-8"}, UNICODE),
        ("utf-8", {"LC_ALL": "C", "LANG": "de_DE.UTF-8"}, ASCII),
        ("utf-8", {"LC_CTYPE": "C.UTF-8", "LANG": "C"}, ASCII),
        ("utf-8", {"LC_CTYPE": "C.UTF-8"}, UNICODE),
        ("utf-8", {"LANG": "de_DE.ISO-8859-1"}, ASCII),
        ("latin-1", {}, ASCII),
        ("no-such", {}, ASCII),
        (None, {}, ASCII),
    ],
)
def test_a_locale_without_utf8_is_given_plain_characters(
    encoding: str | None, environment: dict[str, str], signs: object
) -> None:
    assert signs_for(encoding, environment) is signs


@given(st.text(max_size=60), st.integers(6, 20))
def test_cut_and_wrapped_text_fits(said: str, most: int) -> None:
    assert cells(cut(said, most)) <= most
    lines = wrapped(said, most, lines=3)
    assert len(lines) <= 3
    assert max(map(cells, lines)) <= most


def test_text_is_wrapped_between_words() -> None:
    assert wrapped("tools one, two, three, four", 12, lines=3) == [
        "tools one,",
        "  two,",
        "  three, …",
    ]
