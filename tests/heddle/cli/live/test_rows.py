"""The tree of a run on a screen: what is shown when, and that it always fits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from heddle.cli.live.rows import rows, wrapped
from heddle.cli.live.telling import ASCII, UNICODE, Marks
from heddle.cli.live.tree import RunTree
from heddle.cli.text.wording import UNFIT
from heddle.events import (
    ErrorInfo,
    Event,
    NodeCompleted,
    NodeFailed,
    NodeStarted,
    TokenDelta,
    ToolCalled,
    ToolReturned,
    Warned,
)
from plugins_host import Usage

GATE = "middleware 'Gate' of plugin 'g', toolCall.before: refuses it in node 'ask': no"
RUN: list[tuple[float, Event]] = [
    (0.0, NodeStarted("start", "StartNode", {}, 1)),
    (0.1, NodeCompleted("start", "StartNode", {}, 1)),
    (0.1, NodeStarted("fetch", "ToolNode", {}, 1)),
    (0.4, NodeFailed("fetch", "ToolNode", ErrorInfo("E", "timed\nout"), 1)),
    (0.4, NodeStarted("ask", "AgentNode", {}, 1)),
    (0.4, ToolCalled("ask", "look", {"at": "it"}, "c1", 0.0, round=1)),
    (0.4, ToolCalled("ask", "hear", {}, "c2", 0.0, round=1)),
    (0.6, ToolReturned("ask", "look", "c1", 200.0, {})),
    (0.7, Warned(GATE, "ask", policy="Gate", plugin="g", seam="toolCall.before")),
    (0.8, ToolCalled("ask", "shell", {"cmd": "rm -r x"}, "c3", 0.0, round=2)),
    (0.8, ToolReturned("ask", "shell", "c3", 0.0, error=ErrorInfo("E", "no"))),
    (0.9, TokenDelta("ask", "One two\nthree 你好")),
]


def seen(tree: RunTree, width: int = 60, height: int = 23, marks: Marks = UNICODE) -> str:
    shown = rows(tree, now=2.0, width=width, height=height, marks=marks, turn=0)
    return "\n".join("".join(text for text, _ in spans) for spans in shown)


def tree_of(happened: list[tuple[float, Event]], marks: Marks = UNICODE) -> RunTree:
    tree = RunTree("flow.json", 0.0, marks=marks)
    for when, event in happened:
        tree.see(event, when)
    return tree


def test_a_run_as_it_is_seen() -> None:
    assert seen(tree_of(RUN)) == (
        "⠋ flow.json  2.0 s · 2 nodes done\n"
        "  ✓ start  0.1 s\n"
        "  ✗ fetch  0.3 s  timed\\nout\n"
        "  ⠋ ask  1.6 s\n"
        "    round 1  ✓ look at=it  0.2 s\n"
        "             ⠋ hear  1.6 s\n"
        '    round 2  ✗ shell cmd="rm -r x"  0.0 s  no\n'
        "             ! Gate · toolCall.before  refuses it: no\n"
        "    One two\n"
        "    three 你好"
    )


def test_a_terminal_of_ascii_gets_ascii() -> None:
    assert seen(tree_of(RUN[:-1], ASCII), marks=ASCII).isascii()


def test_a_node_that_has_ended_says_what_it_took() -> None:
    happened = [
        *RUN,
        (1.0, NodeCompleted("ask", "AgentNode", {}, 1, Usage(1204, 88), None, 4)),
    ]
    told = "✓ ask  0.6 s · 4 model calls · 1,204 tokens in · 88 out · 3 tool calls"
    assert told in seen(tree_of(happened))


@pytest.mark.parametrize("height", range(8))
def test_less_is_shown_where_there_is_less_room(height: int) -> None:
    shown = seen(tree_of(RUN), height=height).splitlines()
    assert len(shown) <= height
    if height >= 2:
        assert shown[0].startswith("⠋ flow.json")
        assert any("ask" in each for each in shown)


def test_nodes_that_there_are_no_rows_for_are_counted() -> None:
    happened = [(0.0, NodeStarted(f"n{n}", "ToolNode", {}, 1)) for n in range(1000)]
    shown = seen(tree_of(list(happened)), height=10).splitlines()
    assert len(shown) == 10
    assert shown[1] == "  ⠋ n0  2.0 s"
    assert shown[-1] == "  … 992 more nodes at work"


def test_what_has_ended_inside_is_counted_where_it_does_not_fit() -> None:
    happened: list[tuple[float, Event]] = [(0.0, NodeStarted("each", "MapNode", {}, 1))]
    for n in range(30):
        path = ("each", n, "ask")
        happened += [
            (0.0, NodeStarted("ask", "LlmNode", {}, 1, path)),
            (0.0, NodeCompleted("ask", "LlmNode", {}, 1, node_path=path)),
        ]
    shown = seen(tree_of(happened), height=8).splitlines()
    assert shown[1] == "  ⠋ each  2.0 s · 30 nodes done"
    assert shown[2] == "    ✓ 26 done before"
    assert shown[-1] == "    ✓ [29] ask  0.0 s"


events = st.lists(
    st.one_of(
        st.builds(
            NodeStarted,
            st.sampled_from("abc"),
            st.just("T"),
            st.just({}),
            st.integers(1, 3),
            st.sampled_from([None, ("a", 1, "b"), ("a", "c"), ("a", 1, "b", 0, 2, "c")]),
        ),
        st.builds(
            NodeCompleted, st.sampled_from("abc"), st.just("T"), st.just({}), st.just(1)
        ),
        st.builds(
            NodeFailed,
            st.sampled_from("abc"),
            st.just("T"),
            st.builds(ErrorInfo, st.text(), st.text()),
            st.just(1),
        ),
        st.builds(TokenDelta, st.sampled_from("abc"), st.text()),
        st.builds(Warned, st.text(), st.sampled_from([None, "a", "b"])),
        st.builds(
            ToolCalled,
            st.sampled_from("abc"),
            st.text(),
            st.text(),
            st.text(),
            st.just(0.0),
        ),
    ),
    max_size=30,
)


@given(events, st.integers(0, 12), st.integers(1, 40))
def test_any_run_fits_any_screen_and_acts_on_none(
    happened: list[Event], height: int, width: int
) -> None:
    tree = tree_of([(0.0, each) for each in happened])
    shown = rows(tree, now=1.0, width=width, height=height, marks=UNICODE, turn=3)
    assert len(shown) <= height
    for text in ("".join(text for text, _ in spans) for spans in shown):
        assert not UNFIT.search(text)
        assert "\n" not in text


@given(st.text("ab 你\n", max_size=60), st.integers(2, 12))
def test_wrapped_text_fits_and_loses_no_word(text: str, width: int) -> None:
    lines = wrapped(text, width)
    assert all(cell_len(each) <= width for each in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())
