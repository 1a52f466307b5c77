"""A tree of many events at once: the same as of one by one, however they are cut."""

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from heddle.cli.live.nodes import DONE_KEPT, TreeNode
from heddle.cli.live.rows import rows
from heddle.cli.live.summary import summary
from heddle.cli.live.telling import UNICODE, Spans
from heddle.cli.live.tree import RunTree
from heddle.events import (
    ConfirmationAsked,
    ErrorInfo,
    Event,
    FlowStarted,
    NodeCompleted,
    NodeFailed,
    NodeStarted,
    PluginEmitted,
    TokenDelta,
    TokensDiscarded,
    ToolCalled,
    ToolReturned,
    Warned,
)
from plugins_host import NodePath, Usage

# A map with two items, a flow in one of them, a node next to it, and one whose flow nobody
# hears of.
PATHS: list[NodePath] = [
    ("each",),
    ("each", 0, "ask"),
    ("each", 1, "ask"),
    ("each", 1, "ask", "deep"),
    ("each", 1, "ask", 2, 3, "deep"),
    ("other",),
    ("unheard", "x"),
]


def of_node(path: NodePath, number: int) -> list[Event]:
    """All that can happen to a node."""
    name = str(path[-1])
    usage = Usage(number, 1) if number % 2 else None
    there = None if len(path) == 1 else path
    return [
        NodeStarted(name, "AgentNode", {}, 1, there),
        NodeStarted(name, "AgentNode", {}, 2, there),
        NodeCompleted(name, "AgentNode", {}, 1, usage, there, number),
        NodeFailed(name, "AgentNode", ErrorInfo("E", f"no {number}"), 1, there),
        TokenDelta(name, f"text {number} ", there),
        TokenDelta(name, "Me too. ", there, agent="helper"),
        TokensDiscarded(name, 3, there),
        ToolCalled(name, "look", {"n": number}, "c", 0.0, there, round=number),
        ToolReturned(name, "look", "c", 1.0, node_path=there),
        ConfirmationAsked(name, "look", {}, "c", there),
        Warned(f"careful {number}", name, there),
        PluginEmitted("plugin:Gate:said", name, "AgentNode"),
    ]


happened = st.lists(
    st.builds(
        lambda path, number, which: of_node(path, number)[which],
        st.sampled_from(PATHS),
        st.integers(0, 3),
        # Mostly beginnings and ends.
        st.sampled_from([*range(12), *[0] * 12, *[2] * 8]),
    ),
    min_size=20,
    max_size=80,
)
EACH, ASK = (of_node(path, 1) for path in PATHS[:2])


def tree_of(events: Sequence[Event], cuts: Sequence[int]) -> RunTree:
    """A tree of events that came a second apart, taken in so many at a time."""
    tree = RunTree("flow.json", 0.0, marks=UNICODE)
    for start, end in pairwise([0, *sorted(cuts), len(events)]):
        some = events[start:end]
        tree.see_all(
            some,
            [
                float(start + number)
                for number, event in enumerate(some)
                if type(event) is not TokenDelta
            ],
        )
    return tree


def seen(tree: RunTree, now: float) -> list[list[Spans]]:
    """All that a person gets to see of it, its end last."""
    shown = rows(tree, now=now, width=80, height=200, marks=UNICODE, turn=0)
    small = rows(tree, now=now, width=40, height=6, marks=UNICODE, turn=0)
    left = list(tree.leaving)
    tree.ended(None, now)
    return [
        shown,
        small,
        left,
        tree.leaving,
        summary(tree, marks=UNICODE, policies={}, width=80),
    ]


@given(happened, st.lists(st.integers(0, 20), max_size=4))
@example([EACH[0], EACH[4], ASK[0], EACH[2]], [2])  # one ends over what has just begun
@example([EACH[0], ASK[0], ASK[4], ASK[2], ASK[0], ASK[4]], [1])  # twice the same
@example([EACH[0], ASK[0], ASK[3], ASK[1], ASK[2], EACH[2]], [])  # at the second attempt
@example([EACH[0], ASK[0], ASK[3], ASK[2], EACH[2]], [])  # a result after a failure
def test_events_at_once_make_the_tree_that_they_make_one_by_one(
    events: list[Event], cuts: list[int]
) -> None:
    one_by_one = tree_of(events, range(len(events)))
    at_once = tree_of(events, [each for each in cuts if each < len(events)])
    now = float(len(events))
    assert at_once.running == one_by_one.running
    assert seen(at_once, now) == seen(one_by_one, now)


def test_of_nodes_that_come_and_go_only_the_last_are_kept_and_all_are_counted() -> None:
    events: list[Event] = [FlowStarted(), NodeStarted("each", "MapNode", {}, 1)]
    for item in range(1000):
        path = ("each", item, "ask")
        events.append(NodeStarted("ask", "LlmNode", {}, 1, path))
        events += [TokenDelta("ask", "x", path)] * 8
        events.append(NodeCompleted("ask", "LlmNode", {}, 1, Usage(2, 1), path, 1))
    tree = tree_of(events, [])
    (each,) = (tree.root.running or {}).values()
    assert (each.ended, len(each.done or ())) == (1000, DONE_KEPT)
    assert not any(isinstance(node, TreeNode) for node in each.done or ())
    assert [node.label for node in each.last(2)] == ["[998] ask", "[999] ask"]
    total = tree.totals.nodes[("each", "ask")]
    assert (total.executions, total.model_calls, total.usage) == (
        1000,
        1000,
        Usage(2000, 1000),
    )
    assert total.seconds == 9 * 1000
