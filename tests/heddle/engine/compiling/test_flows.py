"""What the graph check refuses, each with the sentence a person reads, and all at once."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from heddle.engine.compiling.flows import compile_graphs
from heddle.engine.graph import Graph
from heddle.engine.plan import make_plan
from heddle.spec import DocumentError, read_document
from tests.support.flows import (
    agent,
    branching,
    data,
    document,
    edge,
    end,
    flow,
    llm,
    model,
    prop,
    ref,
    server_tool,
    start,
    tool,
)

Plain = dict[str, Any]


def graph_of(plain: Plain) -> Graph:
    read = read_document(document(plain))
    return compile_graphs(read)[read.root]


def problems_of(plain: Plain) -> list[str]:
    with pytest.raises(DocumentError) as caught:
        make_plan(read_document(document(plain)))
    return [str(problem) for problem in caught.value.problems]


def chain(*nodes: Plain, **fields: Any) -> Plain:
    return flow(nodes, [node["id"] for node in nodes], **fields)


def two_starts() -> Plain:
    return flow([start(), start("begin"), end()], ["start", "end"], [edge("begin", "end")])


def wrong_start() -> Plain:
    plain = chain(start(), tool("work"), end())
    plain["start_node"] = ref("work")
    return plain


CASES: dict[str, tuple[Callable[[], Plain], str]] = {
    "no start": (
        lambda: flow([tool("work"), end()], ["work", "end"]),
        "the flow has no StartNode",
    ),
    "two starts": (two_starts, "the flow has 2 StartNodes: 'start', 'begin'"),
    "another start": (
        wrong_start,
        "start_node is 'work', which is not the flow's StartNode",
    ),
    "no end": (
        lambda: flow([start(), tool("work")], ["start", "work", "work"]),
        "no EndNode can be reached from the start",
    ),
    "unreachable": (
        lambda: flow(
            [start(), end(), tool("lost")], ["start", "end"], [edge("lost", "end")]
        ),
        "no path leads from the start to 'lost'",
    ),
    "dead end": (
        lambda: flow(
            [start(), branching("pick", {"1": "one"}), tool("stuck"), end()],
            ["start", "pick"],
            [edge("pick", "stuck", "one"), edge("pick", "end", "default")],
        ),
        "the flow cannot go on after 'stuck': no edge leaves it",
    ),
    "a branch without an edge": (
        lambda: flow(
            [start(), branching("pick", {"1": "one"}), end()],
            ["start", "pick"],
            [edge("pick", "end", "default")],
        ),
        "no edge leaves 'pick' by its branch 'one'",
    ),
    "a branch never taken": (
        lambda: flow(
            [start(), branching("pick", {"1": "one"}), end()],
            ["start", "pick"],
            [
                edge("pick", "end", "one"),
                edge("pick", "end", "default"),
                edge("pick", "end", "on"),
            ],
        ),
        "leaves 'pick' by branch 'on', which it never takes. Did you mean 'one'?",
    ),
    "an edge out of an end": (
        lambda: flow([start(), end(), tool("after")], ["start", "end", "after", "end"]),
        "an edge leaves 'end', which is an EndNode",
    ),
    "an edge into the start": (
        lambda: flow(
            [start(), tool("work"), end()],
            ["start", "work", "end"],
            [edge("work", "start")],
        ),
        "an edge leads to 'start', the StartNode",
    ),
    "a data edge from nothing": (
        lambda: chain(
            start(inputs=[prop("topic")]),
            end(outputs=[prop("topic")]),
            data_edges=[data("start", "topik", "end", "topic")],
        ),
        "'start' has no output 'topik'. Did you mean 'topic'?",
    ),
    "a data edge into nothing": (
        lambda: chain(
            start(inputs=[prop("topic")]),
            end(outputs=[prop("topic")]),
            data_edges=[data("start", "topic", "end", "subject")],
        ),
        "'end' has no input 'subject'. Choose from: topic.",
    ),
    "types that can't meet": (
        lambda: chain(
            start(inputs=[prop("n", "string")]),
            end(outputs=[prop("n", "integer")]),
            data_edges=[data("start", "n", "end", "n")],
        ),
        "'start' gives 'n' as string, which cannot become the integer that input 'n' of "
        "'end' declares",
    ),
    "an end of another type than the flow": (
        lambda: chain(
            start(),
            end(outputs=[prop("n", "string")]),
            outputs=[prop("n", "integer")],
        ),
        "the flow declares output 'n' as integer, and EndNode 'end' returns it as string. "
        "Declare the same type in both places.",
    ),
    "a reserved name": (
        lambda: chain(start(), end(outputs=[prop("_secret")])),
        "node 'end' declares '_secret', and names that begin with '_' are reserved",
    ),
    "an output that nothing returns": (
        lambda: chain(start(), end(outputs=[prop("a")]), outputs=[prop("b")]),
        "the flow declares output 'b', and EndNode 'end' does not return it",
    ),
    "one output of two types": (
        lambda: flow(
            [
                start(),
                branching("pick", {"1": "one"}),
                end(outputs=[prop("x", "string")]),
                end("other", outputs=[prop("x", "integer")]),
            ],
            ["start", "pick"],
            [edge("pick", "end", "one"), edge("pick", "other", "default")],
        ),
        "EndNode 'other' returns 'x' as integer, and 'end' returns it as string",
    ),
    "two tools of one name": (
        lambda: chain(
            start(),
            agent("a", tools=[server_tool("t"), {**server_tool("t"), "id": "other"}]),
            end(),
            shared=[model()],
        ),
        "agent 'a-agent' has 2 tools named 't'",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_graph_is_refused_for(name: str) -> None:
    build, sentence = CASES[name]
    found = problems_of(build())
    assert any(sentence in problem for problem in found), found


def test_every_problem_is_told_at_once_and_says_where() -> None:
    plain = flow(
        [start(), branching("pick", {"1": "one"}), end(outputs=[prop("_x")]), tool("lost")],
        ["start", "pick"],
        [edge("pick", "end", "default")],
    )
    found = problems_of(plain)
    assert len(found) == 3
    assert all(problem.startswith("$") for problem in found)


def picking(*edges: Plain, mapping: Mapping[str, str] | None = None) -> Plain:
    nodes = [
        start(),
        branching("pick", mapping or {"1": "one", "2": "two"}),
        tool("first"),
        tool("second"),
        end(),
    ]
    onwards = [edge("first", "second"), edge("second", "end")]
    return flow(nodes, ["start", "pick"], [*edges, *onwards])


MISTAKES: dict[str, tuple[Plain, str]] = {
    "a branch that is misspelt": (
        picking(
            edge("pick", "first", "onee"),
            edge("pick", "end", "two"),
            edge("pick", "end", "default"),
        ),
        "by branch 'onee', which it never takes. Did you mean 'one'?",
    ),
    "a branch of another name": (
        picking(
            edge("pick", "end", "one"),
            edge("pick", "first", "approve"),
            edge("pick", "end", "default"),
        ),
        "by branch 'approve', which it never takes. Choose from: default, one, two.",
    ),
    "a misspelt name in the mapping": (
        picking(
            edge("pick", "end", "one"),
            edge("pick", "first", "two"),
            edge("pick", "end", "default"),
            mapping={"1": "one", "2": "twoo"},
        ),
        "by branch 'two', which it never takes. Did you mean 'twoo'?",
    ),
    "a branch of a node that has none": (
        flow(
            [start(), tool("first"), tool("second"), end()],
            ["start", "first"],
            [edge("first", "second", "no"), edge("second", "end")],
        ),
        "'first' by branch 'no', which it never takes. Choose from: next.",
    ),
    "an edge that leaves an end": (
        flow([start(), end(), tool("after"), end("bye")], ["start", "end", "after", "bye"]),
        "an edge leaves 'end', which is an EndNode. A flow ends there: remove the edge.",
    ),
    "a chain that nothing leads to": (
        flow(
            [start(), tool("first"), tool("second"), end("bye"), end()],
            ["start", "end"],
            [edge("first", "second"), edge("second", "bye")],
        ),
        "no path leads from the start to 'first'. Connect it, or remove it.",
    ),
    "a circle that nothing leads to": (
        flow(
            [start(), tool("first"), tool("second"), end()],
            ["start", "end"],
            [edge("first", "second"), edge("second", "first")],
        ),
        "no path leads from the start to 'first'. Connect it, or remove it.",
    ),
    "an edge that was forgotten": (
        flow(
            [start(), tool("first"), tool("second"), end()],
            ["start", "first"],
            [edge("second", "end")],
        ),
        "components.first: the flow cannot go on after 'first', and nothing leads to "
        "'second'. Add a ControlFlowEdge from 'first' to 'second'.",
    ),
    "the edge from the start, forgotten": (
        flow([start(), tool("first"), end()], ["first", "end"]),
        "components.start: the flow cannot go on after 'start', and nothing leads to "
        "'first'. Add a ControlFlowEdge from 'start' to 'first'.",
    ),
    "the edge to the end, forgotten": (
        flow([start(), tool("first"), end()], ["start", "first"]),
        "components.first: the flow cannot go on after 'first', and nothing leads to "
        "'end'. Add a ControlFlowEdge from 'first' to 'end'.",
    ),
    "a circle that nothing leads out of": (
        flow(
            [start(), tool("first"), tool("second"), end()],
            ["start", "first", "second"],
            [edge("second", "first")],
        ),
        "no path leads from the start to 'end'. Connect it, or remove it.",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_one_mistake_is_told_once_and_not_what_follows_from_it(name: str) -> None:
    plain, says = MISTAKES[name]
    (told,) = problems_of(plain)
    assert told.endswith(says)


def test_each_of_several_mistakes_is_told() -> None:
    plain = picking(edge("pick", "first", "onee"), edge("pick", "second", "thre"))
    told = problems_of(plain)
    assert [each.partition("by branch ")[2][:6] for each in told] == ["'onee'", "'thre'"]
    missing = problems_of(picking(edge("pick", "first", "onee")))
    assert [("onee" in each, "'two'" in each) for each in missing] == [
        (True, False),
        (False, True),
    ]


def test_a_chain_compiles_without_a_problem_or_a_warning() -> None:
    graph = graph_of(chain(start(), tool("work"), end()))
    assert [node.name for node in graph.nodes] == ["start", "work", "end"]
    assert graph.warnings == ()


def test_inputs_that_are_written_twice_and_differ_are_a_warning() -> None:
    plain = chain(
        start(inputs=[prop("a", "integer")], outputs=[prop("b")]),
        end(),
        inputs=[prop("a", "integer", description="A number")],
    )
    (warning,) = graph_of(plain).warnings
    assert str(warning) == (
        "$.$referenced_components.start: the flow's inputs and the outputs of 'start' are "
        "not the same, and the flow's inputs count. List the same names and types."
    )


def test_an_unmapped_values_branch_may_be_left_out_with_a_warning() -> None:
    plain = flow(
        [start(), branching("pick", {"1": "one"}), end()],
        ["start", "pick"],
        [edge("pick", "end", "one")],
    )
    (warning,) = graph_of(plain).warnings
    assert str(warning) == (
        "$.$referenced_components.pick: no edge leaves 'pick' by its branch 'default', so "
        "a value that is not mapped ends the run with an error. Add a ControlFlowEdge with "
        '"from_branch": "default".'
    )


def test_an_unbranched_edge_out_of_a_branching_node_is_kept_for_replacements() -> None:
    graph = graph_of(
        flow(
            [start(), branching("pick", {"1": "one"}), end()],
            ["start", "pick", "end"],
            [edge("pick", "end", "one"), edge("pick", "end", "default")],
        )
    )
    assert graph.nodes[1].onward == 2


def test_names_flow_without_data_edges_and_llm_inputs_follow_the_placeholders() -> None:
    plain = chain(
        start(inputs=[prop("x")]),
        llm("ask", "{{x}}"),
        end(),
        data_edges=[data("start", "x", "ask", "x")],
        shared=[model()],
    )
    assert graph_of(plain).nodes[1].feeds[0].required


def test_a_flow_of_ten_thousand_nodes_compiles() -> None:
    names = [f"n{number}" for number in range(10_000)]
    plain = chain(
        start(),
        *(tool(name, uses=ref("tool-t")) for name in names),
        end(),
        shared=[server_tool("t")],
    )
    assert len(graph_of(plain).nodes) == 10_002


def test_thousands_of_wrong_edges_are_told_in_a_few_sentences_and_in_no_time() -> None:
    many = [prop(f"x{n}") for n in range(3000)]
    plain = chain(
        start(inputs=many, outputs=many),
        tool("t", inputs=many),
        end(),
        data_edges=[data("start", f"y{n}", "t", f"x{n}") for n in range(3000)],
    )
    begun = time.monotonic()
    with pytest.raises(DocumentError) as caught:
        graph_of(plain)
    assert time.monotonic() - begun < 10
    assert len(caught.value.problems) == 200
    assert "x0, x1, " in caught.value.problems[0].fix
    assert caught.value.problems[0].fix.endswith(" and 2960 more.")


def test_thousands_of_edges_and_tools_are_checked_in_no_time() -> None:
    many = [prop(f"x{n}") for n in range(8000)]
    plain = chain(
        start(inputs=many, outputs=many),
        tool("t", inputs=many),
        agent("a", tools=[server_tool(f"t{n}") for n in range(8000)]),
        end(),
        data_edges=[data("start", f"x{n}", "t", f"x{n}") for n in range(8000)],
        shared=[model()],
    )
    begun = time.monotonic()
    plan = make_plan(read_document(document(plain)))
    assert time.monotonic() - begun < 10
    assert len(plan.graph.nodes[1].feeds) == len(plan.tools["a"]) == 8000
