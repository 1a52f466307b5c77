"""What is left of a run on the terminal."""

import pytest
from rich.cells import cell_len

from heddle.cli.live.summary import MOST, summary
from heddle.cli.live.telling import UNICODE
from heddle.cli.live.totals import Totals
from heddle.cli.live.tree import RunTree
from heddle.events import (
    ErrorInfo,
    Event,
    NodeCompleted,
    NodeFailed,
    NodeStarted,
    ToolCalled,
    ToolReturned,
)
from heddle.policy_counts import PolicyCounts
from plugins_host import Half, Seam, Usage


def told(
    happened: list[tuple[float, Event]],
    *,
    error: Exception | None = None,
    policies: PolicyCounts | None = None,
    stopped: bool = False,
    width: int = 80,
) -> str:
    tree = RunTree("flow.json", 0.0, marks=UNICODE)
    for when, event in happened:
        tree.see(event, when)
    tree.ended(error, 3.0)
    tallies = (policies or PolicyCounts()).tallies
    rows = summary(tree, marks=UNICODE, policies=tallies, width=width, stopped=stopped)
    return "\n".join("".join(text for text, _ in spans).rstrip() for spans in rows)


def test_a_run_as_it_is_told() -> None:
    policies = PolicyCounts()
    for action in ("proceed", "reject", "proceed"):
        policies.answered(Seam.TOOL_CALL, Half.BEFORE, ("Gate",), action, 0.01)
    policies.failed(Seam.TOOL_CALL, Half.AFTER, "Gate")
    inside = ("each", 0, "ask")
    happened: list[tuple[float, Event]] = [
        (0.0, NodeStarted("start", "StartNode", {}, 1)),
        (0.0, NodeCompleted("start", "StartNode", {}, 1)),
        (0.0, NodeStarted("each", "MapNode", {}, 1)),
        (0.0, NodeStarted("ask", "AgentNode", {}, 1, inside)),
        (0.0, ToolCalled("ask", "look", {}, "c", 0.0, inside)),
        (0.2, ToolReturned("ask", "look", "c", 200, error=ErrorInfo("E", "no"))),
        (1.0, NodeCompleted("ask", "AgentNode", {}, 1, Usage(1204, 88), inside, 2)),
        (1.0, NodeCompleted("each", "MapNode", {}, 1)),
    ]
    assert told(happened, policies=policies) == (
        "✓ flow.json  3.0 s · 2 model calls · 1,204 tokens in · 88 out · 1 tool call\n"
        "  nodes     start  0.0 s\n"
        "            each   1.0 s\n"
        "              ask  1.0 s  2 model calls · 1,204 tokens in · 88 out · 1 tool call\n"
        "  tools     look   0.2 s  1 call · 1 failed\n"
        "  policies  Gate          toolCall.before: 2 proceed, 1 reject\n"
        "                          toolCall.after: 1 without an answer"
    )


def test_a_run_that_failed_and_one_that_was_stopped_say_so() -> None:
    begin: tuple[float, Event] = (1.0, NodeStarted("t", "ToolNode", {}, 1))
    fail: tuple[float, Event] = (
        1.5,
        NodeFailed("t", "ToolNode", ErrorInfo("E", "no"), 1),
    )
    failed = told([begin, fail], error=RuntimeError())
    assert failed == "✗ flow.json  3.0 s · failed\n  nodes  t  0.5 s  failed"
    stopped = told([begin], error=RuntimeError(), stopped=True)
    assert stopped == "⊘ flow.json  3.0 s · interrupted\n  nodes  t  2.0 s  stopped"


def test_nodes_that_were_stopped_did_not_fail() -> None:
    happened: list[tuple[float, Event]] = []
    for item in range(3):
        path = ("all", item, "t")
        happened.append((0.0, NodeStarted("t", "ToolNode", {}, 1, path)))
        what = ErrorInfo("NodeStopped", "") if item else ErrorInfo("ToolFailed", "no")
        happened.append((1.0, NodeFailed("t", "ToolNode", what, 1, path)))
    assert told(happened).splitlines()[-1].split("  ")[-1] == (
        "3 executions · 2 stopped · 1 failed"
    )


def test_only_the_longest_nodes_are_told_and_the_failed_ones() -> None:
    happened: list[tuple[float, Event]] = []
    for n in range(40):
        name = f"n{n}"
        end: Event = NodeCompleted(name, "ToolNode", {}, 1)
        if n == 1:
            end = NodeFailed(name, "ToolNode", ErrorInfo("E", "no"), 1)
        happened += [(0.0, NodeStarted(name, "ToolNode", {}, 1)), (n / 10, end)]
    lines = told(happened).splitlines()
    assert len(lines) == 1 + MOST
    assert lines[1].split() == ["nodes", "n1", "0.1", "s", "failed"]
    assert lines[2].split() == ["n26", "2.6", "s"]
    assert lines[-1].split() == ["…", "25", "more", "32", "s"]


def test_any_number_of_names_is_counted_in_bounded_room() -> None:
    totals = Totals()
    for n in range(3000):
        totals.tool_called(ToolCalled(f"n{n}", f"t{n}", {}, "c", 0.0))
    assert len(totals.nodes) == len(totals.tools) == 1001
    assert totals.tool_calls == 3000


def named(*names: str) -> list[tuple[float, Event]]:
    return [
        each
        for name in names
        for each in (
            (0.0, NodeStarted(name, "ToolNode", {}, 1)),
            (0.5, NodeCompleted(name, "ToolNode", {}, 1)),
        )
    ]


LONG = [
    "x" * 300,
    "日本語の名前が長い" * 9,
    "e\u0301" * 300,
    "👩\u200d👩\u200d👧 family",
    "ab",
    "z" + "\u0301" * 300,
]


@pytest.mark.parametrize("width", [20, 50, 80, 200])
def test_long_and_wide_names_are_cut_to_a_column(width: int) -> None:
    lines = told(named(*LONG), width=width).splitlines()[-len(LONG) :]
    assert max(map(cell_len, lines)) < width
    assert {cell_len(each) for each in lines} == {cell_len(lines[0])}
    assert all(each.endswith("  0.5 s") for each in lines)
    assert ("👩👩👧" if width == 20 else "👩👩👧 family  ") in lines[3]
    assert lines[0].count("x") == {20: 7, 50: 32}.get(width, 39)
    assert lines[5].count("\u0301") == 3


def test_on_a_narrow_terminal_sections_are_called_by_a_row_of_their_own() -> None:
    assert told(named("start", "classify"), width=20).splitlines()[1:] == [
        "  nodes",
        "    start     0.5 s",
        "    classify  0.5 s",
    ]


def test_names_are_readable_however_much_is_said_and_however_deep_they_are() -> None:
    path = tuple(f"flow-{n}" for n in range(14))
    usage = Usage(10**9, 10**9)
    happened: list[tuple[float, Event]] = [
        (0.0, NodeStarted("flow-13", "LlmNode", {}, 1, path)),
        (1.0, NodeCompleted("flow-13", "LlmNode", {}, 1, usage, path, 10**6)),
        *named("classify the message"),
    ]
    lines = told(happened, width=80).splitlines()
    assert "  classify the message  0.5 s" in lines[-1]
    assert lines[14].startswith(" " * 21 + "flow-13 ")
    assert "xx…  " in told(named("x" * 99), width=1)


def test_a_run_of_nothing_has_a_headline() -> None:
    assert told([]) == "✓ flow.json  3.0 s"
