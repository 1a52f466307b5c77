"""References: one definition for an id, followed from anywhere, each component once."""

from typing import Any

import pytest

from heddle.spec import (
    MAX_NESTING,
    Agent,
    Flow,
    FlowNode,
    LlmGenerationConfig,
    OpenAiCompatibleConfig,
    ServerTool,
    Supplied,
)
from tests.heddle.spec.documents import (
    LLM,
    agent,
    control_edge,
    flow,
    problems_of,
    read,
    ref,
    sentences_of,
)

TOOL = {"component_type": "ServerTool", "name": "echo"}


def test_what_is_referred_to_twice_is_one_component() -> None:
    root = read(
        agent(tools=[ref("t"), ref("t")], **{"$referenced_components": {"t": TOOL}})
    ).root
    assert isinstance(root, Agent)
    assert root.tools[0] is root.tools[1]
    assert root.tools[0].id == "t"


def test_the_outermost_component_may_be_a_reference() -> None:
    document = {
        "$component_ref": "a",
        "$referenced_components": {"a": agent()},
        "agentspec_version": "25.4.1",
    }
    read_document = read(document)
    assert isinstance(read_document.root, Agent)
    assert read_document.path_of(read_document.root) == "$.$referenced_components.a"


def test_definitions_may_stand_at_any_level_and_come_later() -> None:
    config = {**LLM, "$referenced_components": {"t": TOOL}}
    root = read(agent(tools=[ref("t")], llm_config=config)).root
    assert isinstance(root, Agent)
    assert isinstance(root.tools[0], ServerTool)
    late = agent(
        tools=[ref("t"), {**TOOL, "name": "x", "$referenced_components": {"t": TOOL}}]
    )
    root = read(late).root
    assert isinstance(root, Agent)
    assert [tool.name for tool in root.tools] == ["echo", "x"]


def test_a_reference_may_bring_the_definition_along() -> None:
    document = agent(tools=[{**ref("t"), "$referenced_components": {"t": TOOL}}])
    assert not problems_of(document)


def test_definitions_may_refer_to_each_other_in_any_order() -> None:
    document = flow()
    definitions = document["$referenced_components"]
    definitions["ask"]["llm_config"] = ref("llm")
    definitions["llm"] = ref("real")
    definitions["real"] = LLM
    root = read(document).root
    assert isinstance(root, Flow)
    assert root.nodes[1].llm_config.name == "model"  # type: ignore[union-attr]


def test_definitions_that_nobody_refers_to_are_read_all_the_same() -> None:
    inner = {**TOOL, "$referenced_components": {"deeper": {"component_type": "ServerTool"}}}
    document = agent(**{"$referenced_components": {"unused": inner}})
    assert sentences_of(document) == [
        "$.$referenced_components.unused.$referenced_components.deeper: 'name' is missing. "
        "Add "
        "it: text."
    ]


def test_a_definition_may_be_known_by_another_name_than_its_id() -> None:
    document = agent(
        tools=[ref("short")],
        **{"$referenced_components": {"short": {**TOOL, "id": "long-id"}}},
    )
    root = read(document).root
    assert isinstance(root, Agent)
    assert root.tools[0].id == "long-id"
    document["tools"] = [ref("long-id")]
    assert sentences_of(document) == [
        "$.tools[0].$component_ref: 'long-id' is not defined in this document. It is "
        "defined "
        "under another name: refer to 'short'."
    ]


def test_a_value_may_be_defined_too() -> None:
    definitions = {
        "where": "http://127.0.0.1:2/v1",
        "m": "big",
        "limits": {"max_tokens": 5, "seed": 3},
        "io": [{"title": "x", "type": "string"}],
    }
    config = {
        **LLM,
        "url": ref("where"),
        "model_id": ref("m"),
        "default_generation_parameters": ref("limits"),
    }
    document = agent(
        llm_config=config, inputs=ref("io"), **{"$referenced_components": definitions}
    )
    root = read(document).root
    assert isinstance(root, Agent)
    llm = root.llm_config
    assert isinstance(llm, OpenAiCompatibleConfig)
    assert (llm.url, llm.model_id) == ("http://127.0.0.1:2/v1", "big")
    assert llm.default_generation_parameters == LlmGenerationConfig(5, extras={"seed": 3})
    assert root.inputs is not None
    assert root.inputs[0].title == "x"


def test_references_inside_free_values_are_followed() -> None:
    tool = {
        "component_type": "RemoteTool",
        "name": "call",
        "url": "http://127.0.0.1:1",
        "http_method": "GET",
        "headers": {"x": ref("token"), "list": [ref("token")]},
        "data": {"component_type": "only data"},
    }
    document = agent(tools=[tool], **{"$referenced_components": {"token": "abc"}})
    root = read(document).root
    assert isinstance(root, Agent)
    assert root.tools[0].headers == {"x": "abc", "list": ["abc"]}  # type: ignore[union-attr]
    assert root.tools[0].data == {"component_type": "only data"}  # type: ignore[union-attr]


def test_what_is_not_defined_can_be_supplied() -> None:
    config = {**LLM, "id": "model", "api_key": ref("model.api_key")}
    document = agent(llm_config=config, tools=[ref("t")])
    there = Supplied({"model.api_key": "sk-1", "t": TOOL, "unused": 5})
    root = read(document, supplied=there).root
    assert isinstance(root, Agent)
    assert root.llm_config.api_key == "sk-1"  # type: ignore[union-attr]
    assert isinstance(root.tools[0], ServerTool)


def test_a_value_that_nobody_supplies_is_told_so() -> None:
    config = {**LLM, "id": "model", "api_key": ref("model.api_key")}
    assert sentences_of(agent(llm_config=config)) == [
        "$.llm_config.api_key.$component_ref: 'model.api_key' is to be supplied from "
        "outside, "
        "and isn't. Write the value of 'api_key' in its place, or supply it with "
        "--components."
    ]


@pytest.mark.parametrize(
    ("document", "sentences"),
    [
        (
            agent(tools=[ref("echi")], **{"$referenced_components": {"echo": TOOL}}),
            [
                "$.tools[0].$component_ref: 'echi' is not defined in this document. Did "
                "you mean "
                "'echo'?"
            ],
        ),
        (
            agent(tools=[ref("echo")]),
            [
                "$.tools[0].$component_ref: 'echo' is not defined in this document. Define "
                "it in '$referenced_components', or supply it with --components."
            ],
        ),
        (
            agent(tools=[{**TOOL, "id": "e"}, ref("e")]),
            [
                "$.tools[1].$component_ref: 'e' can't be referred to: it is written in "
                "place at "
                "$.tools[0]. Move it to '$referenced_components' and refer to it in both "
                "places."
            ],
        ),
        (
            agent(tools=[{**TOOL, "id": "e"}, {**TOOL, "id": "e"}]),
            [
                "$.tools[1]: the id 'e' is taken: it is also at $.tools[0]. Define the "
                "component "
                "once in '$referenced_components' and refer to it, or give one of the two "
                "another id."
            ],
        ),
        (
            agent(
                tools=[ref("e"), {**TOOL, "id": "e"}],
                **{"$referenced_components": {"e": {**TOOL, "name": "other"}}},
            ),
            [
                "$.tools[1]: the id 'e' is taken: it is also at "
                "$.$referenced_components.e. "
                "Define the component once in '$referenced_components' and refer to it, or "
                "give "
                "one of the two another id."
            ],
        ),
        (
            agent(
                llm_config={**LLM, "$referenced_components": {"e": TOOL}},
                **{"$referenced_components": {"e": TOOL}},
            ),
            [
                "$.llm_config.$referenced_components.e: the id 'e' is defined twice: it is "
                "also "
                "at $.$referenced_components.e. Keep one definition."
            ],
        ),
        (
            agent(
                llm_config={**LLM, "$referenced_components": {"e": 5}},
                **{"$referenced_components": {"e": 5}},
            ),
            [
                "$.llm_config.$referenced_components.e: the id 'e' is defined twice: it is "
                "also "
                "at $.$referenced_components.e. Keep one definition."
            ],
        ),
        (
            agent(tools=[ref(5)]),  # type: ignore[arg-type]
            ["$.tools[0].$component_ref: a reference is the text of an id, not 5"],
        ),
        (
            agent(**{"$referenced_components": [TOOL]}),
            [
                "$.$referenced_components: this maps ids to components, not a list. Write "
                "an "
                "object."
            ],
        ),
        (
            {"$referenced_components": {"a": agent()}},
            [
                "$: this defines components and doesn't say which of them it is. Add "
                "'$component_ref' with the id of the component to run."
            ],
        ),
        (
            {**ref("a"), "$referenced_components": {"a": {}}},
            [
                "$.$component_ref: 'a' is a plain value, and a document is a component. "
                "Refer to the component to run."
            ],
        ),
        (
            {**ref("a"), "$referenced_components": {"a": ref("b"), "b": "text"}},
            [
                "$.$component_ref: 'a' is a plain value, and a document is a component. "
                "Refer to the component to run."
            ],
        ),
        (
            {
                **ref("a"),
                "$referenced_components": {"a": ref("b"), "b": ref("c"), "c": ref("b")},
            },
            [
                "$.$referenced_components.c.$component_ref: references lead in a circle: b "
                "→ c → "
                "b. A component can't contain itself."
            ],
        ),
    ],
)
def test_references_that_lead_nowhere_are_refused(
    document: Any, sentences: list[str]
) -> None:
    assert sentences_of(document) == sentences


def test_a_reference_with_other_keys_warns_about_them() -> None:
    document = agent(
        tools=[{**ref("t"), "name": "mine"}], **{"$referenced_components": {"t": TOOL}}
    )
    assert [str(one) for one in read(document).warnings] == [
        "$.tools[0].name: this is not a field that is known here, and is ignored"
    ]


def test_a_flow_that_contains_itself_is_refused() -> None:
    node = {"component_type": "FlowNode", "name": "again", "subflow": ref("f")}
    document = {
        **ref("f"),
        "$referenced_components": {
            "f": {
                "component_type": "Flow",
                "name": "f",
                "start_node": ref("s"),
                "nodes": [ref("s"), node],
                "control_flow_connections": [],
            },
            "s": {"component_type": "StartNode", "name": "s"},
        },
    }
    assert sentences_of(document) == [
        "$.$referenced_components.f.nodes[1].subflow.$component_ref: references lead in a "
        "circle: f → f. A component can't contain itself."
    ]


def test_a_circle_of_many_is_told_in_short() -> None:
    definitions = {f"d{index}": ref(f"d{(index + 1) % 30}") for index in range(30)}
    [problem] = problems_of({**ref("d0"), "$referenced_components": definitions})
    assert problem.what == (
        "references lead in a circle: d0 → d1 → d2 → d3 → … → d27 → d28 → d29 → d0"
    )


def chain(length: int) -> dict[str, Any]:
    """Flows of one node each, every one with the next one in it, all by reference."""
    definitions: dict[str, Any] = {"s": {"component_type": "StartNode", "name": "s"}}
    for index in range(length):
        node = {"component_type": "FlowNode", "name": "n", "subflow": ref(f"f{index + 1}")}
        definitions[f"f{index}"] = {
            "component_type": "Flow",
            "name": "f",
            "start_node": ref("s"),
            "nodes": [ref("s"), node],
            "control_flow_connections": [],
        }
    definitions[f"f{length}"] = {**definitions["f0"], "nodes": [ref("s")]}
    return {**ref("f0"), "$referenced_components": definitions}


def test_flows_may_contain_each_other_to_some_depth() -> None:
    root = read(chain(20)).root
    for _ in range(20):
        assert isinstance(root, Flow)
        node = root.nodes[1]
        assert isinstance(node, FlowNode)
        root = node.subflow  # type: ignore[assignment]
    assert isinstance(root, Flow)


@pytest.mark.parametrize("length", [100, 10_000])
def test_a_long_chain_of_references_is_refused_and_harms_nothing(length: int) -> None:
    first = sentences_of(chain(length))[0]
    assert first.endswith(
        f"components are nested more than {MAX_NESTING} levels deep. Let fewer flows "
        f"contain "
        "one another."
    )


def test_a_long_chain_of_bare_references_is_refused_too() -> None:
    definitions: dict[str, Any] = {f"d{i}": [ref(f"d{i + 1}")] for i in range(10_000)}
    definitions["d10000"] = TOOL
    problems = problems_of(
        agent(tools=ref("d0"), **{"$referenced_components": definitions})
    )
    assert "levels deep" in problems[0].what


def test_many_paths_to_one_component_cost_no_more_than_one() -> None:
    # Each level refers to the next twice: 2**60 ways lead to the last.
    definitions: dict[str, Any] = {
        f"a{level}": {
            "component_type": "ManagerWorkers",
            "name": "m",
            "group_manager": ref(f"a{level + 1}"),
            "workers": [ref(f"a{level + 1}")],
        }
        for level in range(60)
    }
    definitions["a60"] = agent()
    document = read({**ref("a0"), "$referenced_components": definitions})
    assert len(list(document.components())) == 62


def test_edges_see_the_same_nodes_as_the_list() -> None:
    document = flow()
    inline = {"component_type": "EndNode", "name": "other"}
    document["nodes"].append(inline)
    document["control_flow_connections"].append(
        {**control_edge("ask", "x"), "to_node": inline}
    )
    assert sentences_of(document) == [
        "$.control_flow_connections[2].to_node: the node 'other' is not one of the flow's "
        "nodes. Add it to 'nodes', or let the edge join others."
    ]
