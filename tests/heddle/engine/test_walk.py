"""The walk's decisions over small graphs: no loop, no clock."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.engine.compiling.flows import compile_graphs
from heddle.engine.faults import LimitReached, NoWayOn
from heddle.engine.graph import Graph, GraphNode
from heddle.engine.walk import (
    Finish,
    Limits,
    RetryRefused,
    Visit,
    next_step,
    retry,
    spend_execution,
)
from heddle.spec import read_document
from tests.support.flows import branching, document, edge, end, flow, start, tool


def graph_of(plain: dict[str, Any]) -> Graph:
    read = read_document(document(plain))
    return compile_graphs(read)[read.root]


def node_of(graph: Graph, name: str) -> GraphNode:
    return next(node for node in graph.nodes if node.name == name)


LABELLED = flow(
    [start(), branching("pick", {"1": "one"}), end("a"), end("b")],
    ["start", "pick"],
    [edge("pick", "a", "one"), edge("pick", "b", "default")],
)
WITH_WAY_OUT = flow(
    [start(), branching("pick", {"1": "one"}), end("a"), end("b"), end("c")],
    ["start", "pick"],
    [edge("pick", "a", "one"), edge("pick", "b", "default"), edge("pick", "c")],
)


def test_a_node_without_edges_finishes_the_run() -> None:
    graph = graph_of(flow([start(), end()], ["start", "end"]))
    assert next_step(node_of(graph, "end"), None, None) == Finish(1)


def test_an_unbranched_node_leads_on() -> None:
    graph = graph_of(flow([start(), end()], ["start", "end"]))
    assert next_step(node_of(graph, "start"), None, None) == Visit(1)


@pytest.mark.parametrize(("branch", "target"), [("one", "a"), ("default", "b")])
def test_a_branch_leads_where_its_edge_does(branch: str, target: str) -> None:
    graph = graph_of(LABELLED)
    assert next_step(node_of(graph, "pick"), branch, None) == Visit(
        node_of(graph, target).index
    )


def test_a_branch_without_an_edge_is_no_way_on() -> None:
    graph = graph_of(LABELLED)
    with pytest.raises(NoWayOn, match="branch 'two', which no edge carries"):
        next_step(node_of(graph, "pick"), "two", None)


def test_no_branch_where_every_edge_is_labelled_is_no_way_on() -> None:
    graph = graph_of(LABELLED)
    with pytest.raises(NoWayOn, match="chose no branch"):
        next_step(node_of(graph, "pick"), None, None)


def test_a_replaced_node_takes_the_unbranched_edge_whatever_it_chose() -> None:
    graph = graph_of(WITH_WAY_OUT)
    step = next_step(node_of(graph, "pick"), "one", "middleware 'Cache'")
    assert step == Visit(node_of(graph, "c").index)


def test_a_replaced_node_with_labelled_edges_alone_names_the_policy() -> None:
    graph = graph_of(LABELLED)
    with pytest.raises(NoWayOn) as caught:
        next_step(node_of(graph, "pick"), "one", "middleware 'Cache'")
    assert str(caught.value) == (
        "node 'pick' (BranchingNode): middleware 'Cache' supplied this node's result, and "
        "a replacement is a result and never a route: every edge that leaves the node is "
        "labelled (default, one). Let the policy pass here, or give the node an unbranched "
        "edge."
    )


def test_the_last_allowed_execution_is_counted_and_the_next_is_refused() -> None:
    graph = graph_of(flow([start(), end()], ["start", "end"]))
    limits = Limits(max_iterations=2)
    assert spend_execution(1, node_of(graph, "end"), limits) == 2
    with pytest.raises(LimitReached, match="executed 2 nodes") as caught:
        spend_execution(2, node_of(graph, "end"), limits)
    assert caught.value.flag == "--max-iterations"


@given(attempt=st.integers(1, 5), spent=st.integers(0, 60))
def test_a_retry_is_granted_within_both_ceilings_and_only_there(
    attempt: int, spent: int
) -> None:
    limits = Limits(max_iterations=50, max_node_attempts=3)
    answer = retry(Visit(4, attempt), spent, limits)
    if attempt < 3 and spent < 50:
        assert answer == Visit(4, attempt + 1)
    else:
        assert isinstance(answer, RetryRefused)


def test_the_first_of_several_unbranched_edges_is_taken_with_a_warning() -> None:
    graph = graph_of(
        flow(
            [start(), tool("a"), tool("b"), end()],
            ["start", "a", "b", "end"],
            [edge("start", "b")],
        )
    )
    assert node_of(graph, "start").onward == node_of(graph, "a").index
    assert "the first, to 'a'" in str(graph.warnings[0])
