"""The tree of a run: what its events make of it. No terminal and no clock in sight."""

from collections.abc import Iterable

import pytest

from heddle.cli.live.nodes import DONE_KEPT, Call, Phase
from heddle.cli.live.telling import UNICODE
from heddle.cli.live.tree import ENTRIES_KEPT, RunTree
from heddle.events import (
    ConfirmationAsked,
    ConfirmationGiven,
    ErrorInfo,
    Event,
    FlowStarted,
    MessageSaid,
    NodeCompleted,
    NodeFailed,
    NodeStarted,
    TokenDelta,
    TokensDiscarded,
    ToolCalled,
    ToolReturned,
    Warned,
)
from plugins_host import NodePath, Usage

GATE = "middleware 'Gate' of plugin 'g', toolCall.before: refuses the call: no"


def started(name: str, attempt: int = 1, path: NodePath | None = None) -> NodeStarted:
    return NodeStarted(name, "ToolNode", {}, attempt, path)


def completed(name: str, path: NodePath | None = None) -> NodeCompleted:
    return NodeCompleted(name, "ToolNode", {}, 1, node_path=path)


def failed(name: str, path: NodePath | None = None) -> NodeFailed:
    return NodeFailed(name, "ToolNode", ErrorInfo("ToolFailed", "it broke"), 1, path)


def called(node: str, number: int) -> ToolCalled:
    return ToolCalled(node, "look", {"n": number}, f"c{number}", 0.0, round=1)


def tree_of(*events: Event, each: float = 1.0) -> RunTree:
    """A tree of events that came a second apart, the first one at 1."""
    tree = RunTree("flow.json", 0.0, marks=UNICODE)
    for number, event in enumerate(events):
        tree.see(event, (number + 1) * each)
    return tree


def left(tree: RunTree) -> list[str]:
    return ["".join(text for text, _ in spans) for spans in tree.leaving]


def names(nodes: Iterable[object] | None) -> list[str]:
    return [node.label for node in nodes or ()]  # type: ignore[attr-defined]


def test_nodes_that_work_and_nodes_that_have_ended_are_under_their_flow() -> None:
    tree = tree_of(FlowStarted(), started("a"), completed("a"), started("b"))
    assert tree.begun
    assert names(tree.root.done) == ["a"]
    assert names(tree.root.running.values() if tree.root.running else ()) == ["b"]
    assert tree.root.done is not None
    assert (tree.root.done[0].phase, tree.root.done[0].took) == (Phase.DONE, 1.0)
    assert tree.running == 1


def test_nodes_of_flows_inside_are_under_the_node_that_runs_them() -> None:
    tree = tree_of(
        started("each"),
        started("ask", path=("each", 2, "ask")),
        started("deep", path=("each", 2, "ask", "deep")),
        completed("deep", path=("each", 2, "ask", "deep")),
    )
    assert tree.root.running is not None
    (each,) = tree.root.running.values()
    assert each.running is not None
    (ask,) = each.running.values()
    assert (each.label, ask.label, names(ask.done)) == ("each", "[2] ask", ["deep"])


def test_what_is_under_a_node_goes_with_it() -> None:
    tree = tree_of(started("each"), started("ask", path=("each", 0, "ask")), failed("each"))
    assert tree.running == 0
    assert tree.root.done is not None
    assert tree.root.done[0].running is None


def test_an_attempt_after_a_failure_takes_the_nodes_place_and_the_failure_stays() -> None:
    tree = tree_of(started("t"), failed("t"), started("t", attempt=2))
    assert tree.root.running is not None
    (node,) = tree.root.running.values()
    assert (node.attempt, node.phase, node.since) == (2, Phase.RUNNING, 1.0)
    assert not tree.root.done
    assert left(tree) == []
    tree.see(completed("t"), 9.0)
    assert left(tree) == ["✗ t: it broke"]
    assert tree.totals.nodes[("t",)].executions == 2


def test_a_result_in_the_place_of_a_failure_makes_the_node_done() -> None:
    tree = tree_of(started("t"), failed("t"), completed("t"))
    assert tree.root.done is not None
    assert tree.root.done[0].phase is Phase.DONE
    assert left(tree) == ["✗ t: it broke"]
    assert tree.totals.nodes[("t",)].failures == 0
    stopped = NodeFailed("s", "ToolNode", ErrorInfo("NodeStopped", ""), 1)
    tree = tree_of(started("s"), stopped, completed("s"))
    assert tree.totals.nodes[("s",)].failures == 0


def test_the_error_that_ends_the_run_is_not_left_twice() -> None:
    tree = tree_of(started("t"), failed("t"))
    tree.ended(RuntimeError(), 5.0)
    assert left(tree) == []
    assert (tree.root.phase, tree.root.took) == (Phase.FAILED, 5.0)


def test_text_is_what_the_model_writes_now() -> None:
    tree = tree_of(started("a"), TokenDelta("a", "Hel"), TokenDelta("a", "lo you"))
    node = tree.root.running[("a",)] if tree.root.running else None
    assert node is not None
    assert node.text == "Hello you"
    tree.see(TokensDiscarded("a", 4), 9)
    assert node.text == "Hello"
    tree.see(TokenDelta("a", "I say", agent="other"), 9)
    assert (node.speaker, node.text) == ("other", "I say")
    tree.see(called("a", 1), 9)
    assert node.text == ""


def test_long_text_keeps_its_end() -> None:
    tree = tree_of(started("a"), *(TokenDelta("a", f"{n} ") for n in range(9000)))
    assert tree.root.running is not None
    text = tree.root.running[("a",)].text
    assert text.endswith("8998 8999 ")
    assert len(text) == 4000


def test_a_call_is_open_until_it_returns() -> None:
    tree = tree_of(
        started("a"),
        called("a", 1),
        ConfirmationAsked("a", "look", {}, "c1"),
    )
    assert tree.root.running is not None
    node = tree.root.running[("a",)]
    (call,) = node.entries or ()
    assert isinstance(call, Call)
    assert (call.answer, call.asking, call.since) == (None, True, 2.0)
    answer = ToolReturned("a", "look", "c1", 250.0, error=ErrorInfo("E", "no"))
    tree.see(ConfirmationGiven("a", "look", True, None, "c1"), 4.0)
    tree.see(answer, 5.0)
    assert (call.answer, call.asking) == (answer, False)
    total = tree.totals.tools["look"]
    assert (total.calls, total.failures, total.seconds) == (1, 1, 0.25)


def test_a_warning_stays_with_its_node_and_leaves_with_it() -> None:
    warned = Warned(GATE, "a", policy="Gate", plugin="g", seam="toolCall.before")
    tree = tree_of(started("a"), warned, called("a", 1))
    assert tree.root.running is not None
    kinds = [type(each).__name__ for each in tree.root.running[("a",)].entries or ()]
    # A policy is asked before there is a call; a person reads of the call first.
    assert kinds == ["Call", "Note"]
    assert left(tree) == []
    tree.see(completed("a"), 9.0)
    assert left(tree) == [f"! {GATE}"]
    assert tree.totals.warnings == {("Gate", "toolCall.before"): 1}


def test_a_warning_stays_behind_its_call_when_there_is_a_next_one() -> None:
    warned = Warned(GATE, "a", policy="Gate", plugin="g", seam="toolCall.before")
    tree = tree_of(started("a"), warned, called("a", 1), called("a", 2))
    assert tree.root.running is not None
    kinds = [type(each).__name__ for each in tree.root.running[("a",)].entries or ()]
    assert kinds == ["Call", "Note", "Call"]


def test_a_warning_of_no_node_leaves_at_once_and_one_that_was_told_is_not_told_again() -> (
    None
):
    tree = RunTree("f", 0.0, marks=UNICODE, shown=["old"])
    tree.see(Warned("old"), 1.0)
    tree.see(Warned("new"), 1.0)
    assert left(tree) == ["! new"]


def test_a_message_of_the_conversation_leaves_at_once() -> None:
    assert left(tree_of(MessageSaid("ask", "agent", "Who?\nYou?"))) == [
        "  ask >> Who?\n    You?"
    ]


def test_warnings_of_nodes_that_were_stopped_leave_too() -> None:
    tree = tree_of(started("a"), Warned("careful", "a"))
    tree.ended(KeyboardInterrupt(), 4.0)
    assert left(tree) == ["! careful"]
    assert tree.totals.nodes[("a",)].stopped == 1


def test_what_grows_with_a_run_is_counted_and_only_its_end_kept() -> None:
    many = DONE_KEPT + 50
    events: list[Event] = []
    for number in range(many):
        events += started(f"n{number}"), completed(f"n{number}")
    events += [started("a"), Warned("first", "a")]
    events += [called("a", number) for number in range(many)]
    tree = tree_of(*events)
    assert tree.root.done is not None
    assert (len(tree.root.done), tree.root.gone) == (DONE_KEPT, 50)
    assert tree.root.running is not None
    node = tree.root.running[("a",)]
    assert (len(node.entries or ()), node.older) == (ENTRIES_KEPT, many - ENTRIES_KEPT)
    assert left(tree) == ["! first"]


@pytest.mark.parametrize("stray", [completed("x"), failed("x"), called("x", 1)])
def test_an_event_of_a_node_that_nobody_saw_begin_is_no_trouble(stray: Event) -> None:
    assert tree_of(stray).running == 0


def test_totals_are_of_all_attempts_and_of_all_items() -> None:
    tree = tree_of(started("each"))
    for item in range(3):
        path = ("each", item, "ask")
        end = NodeCompleted("ask", "LlmNode", {}, 1, Usage(10, 2), path, 2)
        tree.see(started("ask", path=path), 2.0)
        tree.see(end, 2.5)
    total = tree.totals.nodes[("each", "ask")]
    assert (total.executions, total.seconds, total.model_calls) == (3, 1.5, 6)
    assert tree.totals.usage == Usage(30, 6)
    assert tree.totals.model_calls == 6


def test_text_of_nodes_side_by_side_goes_to_the_one_that_writes_it() -> None:
    one, other = ("each", 0, "ask"), ("each", 1, "ask")
    tree = tree_of(
        started("ask", path=one),
        started("ask", path=other),
        *(TokenDelta("ask", text, path) for path, text in [(one, "a"), (other, "b")] * 3),
        TokenDelta("nobody", "x"),
        TokenDelta("ask", "!", one),
    )
    texts = {each.key: each.text for each in (tree.root.running or {}).values()}
    assert texts == {one: "aaa!", other: "bbb"}


def test_text_of_the_next_visit_is_not_put_behind_that_of_the_last() -> None:
    text = TokenDelta("a", "once")
    tree = tree_of(started("a"), text, completed("a"), started("a"), text)
    (node,) = (tree.root.running or {}).values()
    assert node.text == "once"
