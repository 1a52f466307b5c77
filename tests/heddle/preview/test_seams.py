"""Where a flow meets seams, in which order, and what it never meets."""

from typing import Any

from heddle.engine.plan import make_plan
from heddle.engine.signatures import flows_in
from heddle.preview import seams
from heddle.preview.policies import Policy, shown, unasked
from heddle.preview.seams import MAX_PLACES, Place, in_order, places
from heddle.preview.sketch import BY_NAME, Style, sketch
from heddle.spec import read_document
from plugins_host import Half, Seam
from tests.support.flows import (
    Plain,
    agent,
    branching,
    component,
    data,
    document,
    edge,
    end,
    flow,
    inner,
    llm,
    model,
    prop,
    ref,
    server_tool,
    start,
    tool,
)

CHAIN = ["start", "x", "end"]


def met(plain: Plain) -> list[Place]:
    plan = make_plan(read_document(document(plain), name="flow.json"))
    return list(places(plan.graph, plan.graphs, lambda _: False))


def said(place: Place) -> str:
    parts = ["/".join(place.path), place.agent, place.tool or place.toolbox]
    return " ".join((*filter(None, parts), f"{place.seam}.{place.half}"))


def of(plain: Plain, node: str) -> list[str]:
    return [said(each) for each in met(plain) if each.path[0] == node]


def test_a_node_is_met_from_before_to_after() -> None:
    assert of(flow([start(), tool("x"), end()], CHAIN), "x") == [
        "x node.before",
        "x nodeError.after",
        "x node.after",
    ]


def test_rounds_of_an_agent_are_inside_its_node() -> None:
    doc = flow(
        [start(), agent("x", tools=[server_tool("a"), server_tool("b")]), end()],
        CHAIN,
        shared=[model()],
    )
    assert of(doc, "x") == [
        "x node.before",
        "x agentRound.before",
        "x modelCall.before",
        "x modelCall.after",
        "x a toolCall.before",
        "x a toolCall.after",
        "x b toolCall.before",
        "x b toolCall.after",
        "x agentRound.after",
        "x nodeError.after",
        "x node.after",
    ]


def test_an_agent_without_tools_has_no_round_after_which_anything_is_asked() -> None:
    doc = flow([start(), agent("x"), end()], CHAIN, shared=[model()])
    assert {each.seam for each in met(doc)} == {
        Seam.NODE,
        Seam.NODE_ERROR,
        Seam.AGENT_ROUND,
        Seam.MODEL_CALL,
    }
    assert (Seam.AGENT_ROUND, Half.AFTER) not in {(e.seam, e.half) for e in met(doc)}


def test_tools_of_a_toolbox_are_those_it_names_or_any() -> None:
    def box(name: str, **fields: Any) -> Plain:
        transport = component("StdioTransport", f"{name}-t", command="x")
        return component("MCPToolBox", name, client_transport=transport, **fields)

    node = agent("x")
    node["agent"]["toolboxes"] = [box("any"), box("some", tool_filter=["one"])]
    doc = flow([start(), node, end()], CHAIN, shared=[model()])
    calls = [each for each in met(doc) if each.seam is Seam.TOOL_CALL]
    assert [(each.tool, each.toolbox) for each in calls[::2]] == [
        (None, "any"),
        ("one", "some"),
    ]


def test_a_flow_inside_is_met_where_its_node_is() -> None:
    sub = inner("sub", [start(), llm("ask", "hi"), end()], ["start", "ask", "end"])
    node = component("FlowNode", "x", subflow=sub)
    found = of(flow([start(), node, end()], CHAIN, shared=[model()]), "x")
    assert found[:3] == ["x node.before", "x/start node.before", "x/start nodeError.after"]
    assert found[5:7] == ["x/ask modelCall.before", "x/ask modelCall.after"]
    assert found[-2:] == ["x nodeError.after", "x node.after"]


def test_branches_stand_in_their_order_and_before_where_they_meet() -> None:
    doc = flow(
        [
            start(),
            branching("x", {"1": "one", "2": "two"}),
            tool("second"),
            tool("first"),
            tool("join"),
            end(),
        ],
        ["start", "x"],
        [
            edge("x", "first", "one"),
            edge("x", "second", "two"),
            edge("x", "x", "default"),
            edge("first", "join"),
            edge("second", "join"),
            edge("join", "end"),
        ],
    )
    graph = make_plan(read_document(document(doc), name="f")).graph
    names = [node.name for node in in_order(graph)]
    assert names == ["start", "x", "first", "second", "join", "end"]


def test_a_long_chain_needs_no_deep_stack() -> None:
    names = [f"n{n}" for n in range(1500)]
    doc = flow([start(), *map(tool, names), end()], ["start", *names, "end"])
    assert len(met(doc)) == 3 * 1502


def test_more_places_than_anybody_reads_are_cut(monkeypatch: Any) -> None:
    assert MAX_PLACES == 100_000
    monkeypatch.setattr(seams, "MAX_PLACES", 4)
    assert len(met(flow([start(), tool("x"), end()], CHAIN))) == 4


def policy(**declared: list[str]) -> Policy:
    halves = {Seam(k): frozenset(map(Half, v)) for k, v in declared.items()}
    return Policy("P", "p", "p.json", halves, {}, {})


def vain(plain: Plain, **declared: list[str]) -> list[tuple[tuple[str, ...], bool]]:
    return [(each.halves, each.never) for each in unasked([policy(**declared)], met(plain))]


def test_a_policy_that_no_place_asks_is_told_why() -> None:
    doc = flow([start(), tool("x"), end()], CHAIN)
    (only,) = unasked([policy(toolCall=["before", "after"])], met(doc))
    assert (only.halves, only.never) == (("toolCall.before", "toolCall.after"), True)
    assert only.why == (
        "no agent of this flow has a tool; a ToolNode's call is not a model's"
    )
    assert vain(doc, node=["before"]) == []
    assert vain(doc, node=["after"], modelCall=["after"]) == [(("modelCall.after",), False)]


def test_a_round_after_which_nobody_is_asked_says_so() -> None:
    doc = flow([start(), agent("x"), end()], CHAIN, shared=[model()])
    (only,) = unasked([policy(agentRound=["before", "after"])], met(doc))
    assert only.halves == ("agentRound.after",)
    assert only.why == "it is asked after rounds that ran tools, and no agent here has any"


def test_secrets_in_settings_are_not_shown() -> None:
    schema = {
        "properties": {
            "pin": {"writeOnly": True},
            "code": {"format": "password"},
            "store": {"properties": {"word": {"writeOnly": True}}},
            "list": {"items": {"properties": {"x": {"writeOnly": True}}}},
        }
    }
    given = {
        "apiKey": "sk-1",
        "api_key": "$OPENAI_API_KEY",
        "maxTokens": 5,
        "tokenBudget": 7,
        "pin": 1234,
        "code": "c",
        "url": "https://me:pw@host/x",
        "store": {"word": "w", "password": "p", "kept": [1]},
        "list": [{"x": 1, "y": 2}],
        "sensitive_headers": {"x": "y"},
        "none": None,
    }
    assert shown(given, schema) == {
        "apiKey": "(hidden)",
        "api_key": "$OPENAI_API_KEY",
        "maxTokens": 5,
        "tokenBudget": 7,
        "pin": "(hidden)",
        "code": "(hidden)",
        "url": "https://(hidden)@host/x",
        "store": {"word": "(hidden)", "password": "(hidden)", "kept": [1]},
        "list": [{"x": "(hidden)", "y": 2}],
        "sensitive_headers": "(hidden)",
        "none": None,
    }


def test_a_sketch_has_what_a_reader_looks_for() -> None:
    sub = inner("sub", [start(), end()], ["start", "end"])
    doc = flow(
        [
            start(inputs=[prop("k")]),
            branching("x", {"1": "one"}, inputs=[prop("k")]),
            component("FlowNode", "a", subflow=ref("sub")),
            component("FlowNode", "b", subflow=ref("sub")),
            agent("c", tools=[server_tool("t")]),
            end(),
        ],
        ["start", "x"],
        [
            edge("x", "a", "one"),
            edge("x", "b", "default"),
            edge("a", "c"),
            edge("b", "c"),
            edge("c", "end"),
        ],
        data_edges=[data("start", "k", "x", "k")],
        shared=[model(), sub],
    )
    plan = make_plan(read_document(document(doc), name="f"))
    found = places(plan.graph, plan.graphs, lambda _: False)
    drawn = sketch(plan, found, [policy(node=["before", "after"], toolCall=["before"])])
    boxes = {each.name: each for each in drawn.boxes}
    assert drawn.note == ""
    assert boxes["x"].notes == ("by k",)
    assert boxes["a"].inside[0].note == BY_NAME
    assert boxes["b"].notes == ("runs 'sub', drawn above",)
    assert not boxes["b"].inside
    assert boxes["c"].notes == ("agent c-agent", "model stub", "tools t")
    assert boxes["c"].asked == ("node.before+after: P", "toolCall.before: P")
    assert [(each.label, each.style) for each in drawn.lines if each.label] == [
        ("one", Style.CONTROL),
        ("default", Style.CONTROL),
        ("k", Style.DATA),
    ]
    assert all(flows_in(node.component) is not None for node in plan.graph.nodes[2:4])
