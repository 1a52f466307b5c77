"""Documents become typed, linked components, or everything that is wrong is told."""

import functools
import inspect
import json
import os
import subprocess
import sys
import time
from itertools import pairwise
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from heddle.spec import (
    Agent,
    DataFlowEdge,
    Document,
    DocumentError,
    EndNode,
    Flow,
    LlmNode,
    OpenAiCompatibleConfig,
    PluginComponent,
    Property,
    ProvidedType,
    ServerTool,
    StartNode,
    read_document,
)
from heddle.spec.problems import MAX_PROBLEMS, SHOWN_PROBLEMS
from tests.heddle.spec.documents import (
    LLM,
    agent,
    control_edge,
    data_edge,
    flow,
    problems_of,
    read,
    ref,
    sentences_of,
    text,
)
from tests.support.measuring import unmeasured

# --- what is read -------------------------------------------------------------------


def test_a_flow_is_read_into_typed_and_linked_components() -> None:
    root = read(flow()).root
    assert isinstance(root, Flow)
    start, ask, end = root.nodes
    assert isinstance(start, StartNode)
    assert isinstance(ask, LlmNode)
    assert isinstance(end, EndNode)
    assert isinstance(ask.llm_config, OpenAiCompatibleConfig)
    assert ask.prompt_template == "Greet {{name}}"
    assert root.start_node is start
    assert root.control_flow_connections[0].from_node is start  # type: ignore[union-attr]
    assert root.data_flow_connections is not None
    edge = root.data_flow_connections[1]
    assert isinstance(edge, DataFlowEdge)
    assert (edge.source_node, edge.source_output) == (ask, "answer")
    assert edge.destination_node is end


def test_inputs_keep_their_whole_schema_and_their_default() -> None:
    inputs = [
        {"title": "a", "type": "integer", "minimum": 3, "default": 4},
        {"title": "b", "anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        {"title": "c"},
    ]
    root = read(agent(inputs=inputs, outputs=[])).root
    assert isinstance(root, Agent)
    assert root.inputs is not None
    a, b, c = root.inputs
    assert a == Property("a", inputs[0], 4)
    assert [one.has_default for one in (a, b, c)] == [True, True, False]
    assert root.outputs == ()
    assert read(agent()).root.inputs is None  # type: ignore[attr-defined]


def test_generation_parameters_without_a_name_of_their_own_are_kept() -> None:
    parameters = {"temperature": 0, "seed": 7, "stop": ["x"]}
    root = read(agent(llm_config={**LLM, "default_generation_parameters": parameters})).root
    config = root.llm_config.default_generation_parameters  # type: ignore[attr-defined]
    assert (config.temperature, config.max_tokens) == (0.0, None)
    assert config.extras == {"seed": 7, "stop": ["x"]}


def test_an_id_that_was_left_out_is_the_path() -> None:
    document = read(flow())
    root = document.root
    assert isinstance(root, Flow)
    assert root.id == "$"
    assert root.nodes[1].id == "ask"
    assert root.nodes[1].llm_config.id == "$.$referenced_components.ask.llm_config"  # type: ignore[union-attr]
    assert root.control_flow_connections[1].id == "$.control_flow_connections[1]"


def test_every_component_has_a_path_where_it_was_written() -> None:
    document = read(flow())
    root = document.root
    assert isinstance(root, Flow)
    assert document.path_of(root) == "$"
    assert document.path_of(root.start_node) == "$.$referenced_components.start"
    assert (
        document.path_of(root.control_flow_connections[0])
        == "$.control_flow_connections[0]"
    )
    components = list(document.components())
    assert len(components) == len(set(components)) == 9
    assert components[-1] is root


def test_json_and_yaml_are_the_same_document() -> None:
    written = flow()
    from_yaml = read_document(
        yaml.safe_dump(written, sort_keys=False).encode(), name="f.yaml"
    )
    assert plain(from_yaml) == plain(read(written))


def plain(document: Document) -> tuple[Any, ...]:
    paths = [(document.path_of(one), one.component_type) for one in document.components()]
    return msgspec.to_builtins(document.root), document.version, document.warnings, paths


NAMES = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=6)


@given(
    st.lists(NAMES, min_size=1, max_size=5, unique=True),
    st.dictionaries(NAMES, st.text(max_size=5) | st.integers() | st.none(), max_size=3),
    st.data(),
)
def test_random_flows_are_the_same_from_json_and_yaml(
    names: list[str], metadata: dict[str, Any], data: st.DataObject
) -> None:
    nodes = [
        {
            "component_type": "ToolNode",
            "name": name,
            "metadata": metadata,
            "tool": {"component_type": "ServerTool", "name": name, "inputs": [text(name)]},
        }
        for name in names
    ]
    pairs = data.draw(st.lists(st.tuples(*(st.sampled_from(names),) * 2), max_size=4))
    written = {
        "component_type": "Flow",
        "name": "f",
        "start_node": ref(names[0]),
        "nodes": [ref(name) for name in names],
        "control_flow_connections": [control_edge(*pair) for pair in pairs],
        "$referenced_components": dict(zip(names, nodes, strict=True)),
    }
    from_yaml = read_document(
        yaml.safe_dump(
            written, default_style='"', allow_unicode=True, sort_keys=False
        ).encode(),
        format="yaml",
    )
    assert plain(from_yaml) == plain(read(written))


# --- what is refused ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("document", "sentences"),
    [
        (
            {},
            [
                "$: 'component_type' is missing. Add 'component_type': 'Flow', or the type "
                "that "
                "this is."
            ],
        ),
        ({"component_type": 5}, ["$.component_type: a component type is text, not 5"]),
        (
            {"component_type": "flow", "name": "x"},
            ["$.component_type: 'flow' is not a component type. Did you mean 'Flow'?"],
        ),
        (
            agent(system_prompt=5, tools=7, human_in_the_loop="yes"),
            [
                "$.system_prompt: this is 5 where text belongs",
                "$.tools: this is 7 where a list belongs",
                "$.human_in_the_loop: this is 'yes' where true or false belongs",
            ],
        ),
        (
            {"component_type": "Agent", "nmae": "x"},
            [
                "$: 'name' is missing. Is 'nmae' a misspelling of it?",
                "$: 'llm_config' is missing. Add it: an LLM config.",
                "$: 'system_prompt' is missing. Add it: text.",
            ],
        ),
        (
            agent(llm_config={"name": "x", "model_id": "m"}),
            [
                "$.llm_config: this has no 'component_type'. Add it: LlmConfig, "
                "OpenAiCompatibleConfig, VllmConfig, OllamaConfig, OpenAiConfig, "
                "GeminiConfig, "
                "OciGenAiConfig or DbmsVectorChainLlmConfig."
            ],
        ),
        (
            agent(
                llm_config={"component_type": "ServerTool", "name": "t"}, tools=[LLM, "t"]
            ),
            [
                "$.llm_config: this is the ServerTool 't' where an LLM config belongs. Use "
                "LlmConfig, OpenAiCompatibleConfig, VllmConfig, OllamaConfig, "
                "OpenAiConfig, "
                "GeminiConfig, OciGenAiConfig or DbmsVectorChainLlmConfig.",
                "$.tools[0]: this is the OpenAiCompatibleConfig 'model' where a tool "
                "belongs. "
                "Use ServerTool, ClientTool, BuiltinTool, RemoteTool or MCPTool.",
                "$.tools[1]: this is 't' where a tool belongs. Write "
                '{"$component_ref":"t"} if that is the id of one, or the component itself.',
            ],
        ),
        (
            agent(
                llm_config={
                    **LLM,
                    "api_type": "chat_completion",
                    "retry_policy": {
                        "max_attempts": -1,
                        "jitter": "none",
                        "backoff_factor": 0,
                        "recoverable_statuses": {"409": [1]},
                    },
                }
            ),
            [
                "$.llm_config.retry_policy.max_attempts: this is -1 where an integer of at "
                "least "
                "0 belongs",
                "$.llm_config.retry_policy.backoff_factor: this is 0 where a number above "
                "0 "
                "belongs",
                "$.llm_config.retry_policy.jitter: this is 'none' where 'equal', 'full', "
                "'full_and_equal_for_throttle' or 'decorrelated' belongs",
                "$.llm_config.retry_policy.recoverable_statuses.409[0]: this is 1 where "
                "text "
                "belongs",
                "$.llm_config.api_type: this is 'chat_completion' where 'chat_completions' "
                "or "
                "'responses' belongs. Did you mean 'chat_completions'?",
            ],
        ),
        (
            agent(
                llm_config={
                    **LLM,
                    "default_generation_parameters": {
                        "temperature": "hot",
                        "top_p": None,
                        "max_tokens": 1.5,
                    },
                }
            ),
            [
                "$.llm_config.default_generation_parameters.max_tokens: this is 1.5 where "
                "an "
                "integer belongs",
                "$.llm_config.default_generation_parameters.temperature: this is 'hot' "
                "where a "
                "number belongs",
            ],
        ),
        (
            agent(inputs={"x": 1}),
            ["$.inputs: this is an object where a list belongs"],
        ),
        (
            agent(
                inputs=[
                    5,
                    {"type": "string"},
                    {"title": "a b"},
                    {"title": "", "type": "sting"},
                    {"title": "x", "type": ["null", "int"]},
                    {"title": "y", "properties": {"z": {"type": "list"}}},
                    {"title": "ok", "type": "string"},
                    {"title": "ok", "type": "string"},
                ]
            ),
            [
                "$.inputs[0]: an input or output is a JSON Schema, this is 5. Write an "
                "object "
                "with 'title' and 'type'.",
                "$.inputs[1]: 'title' is missing. Add a title: it is the name.",
                "$.inputs[2].title: 'a b' can't be the name of an input or output. Use "
                "text "
                "without blanks, quotes, braces, commas and periods.",
                "$.inputs[3].title: '' can't be the name of an input or output. Use text "
                "without blanks, quotes, braces, commas and periods.",
                "$.inputs[3].type: 'sting' is not a JSON type. Did you mean 'string'?",
                "$.inputs[4].type: 'int' is not a JSON type. Choose from: array, boolean, "
                "integer, null, number, object, string.",
                "$.inputs[5].properties.z.type: 'list' is not a JSON type. Choose from: "
                "array, "
                "boolean, integer, null, number, object, string.",
                "$.inputs[7]: the title 'ok' is used twice. Rename one.",
            ],
        ),
        (
            {
                "component_type": "Swarm",
                "name": "s",
                "first_agent": agent(),
                "relationships": [[agent()], 3],
                "handoff": "sometimes",
            },
            [
                "$.relationships[0]: this is a list where a list of 2 belongs",
                "$.relationships[1]: this is 3 where a list of 2 belongs",
                "$.handoff: this is 'sometimes' where true or false, 'never', 'optional' "
                "or "
                "'always' belongs",
            ],
        ),
    ],
)
def test_every_problem_is_told_with_its_path(document: Any, sentences: list[str]) -> None:
    assert sentences_of(document) == sentences


def test_schemas_stand_where_schemas_belong() -> None:
    bad = [
        {"title": "a", "items": 3, "anyOf": [{}, 4]},
        {"title": "b", "properties": {"p": 1}},
        {"title": "c", "properties": [], "oneOf": "x", "items": [{}]},
    ]
    assert sentences_of(agent(inputs=bad)) == [
        "$.inputs[0].items: 3 is not a JSON Schema. Write an object.",
        "$.inputs[0].anyOf[1]: 4 is not a JSON Schema. Write an object.",
        "$.inputs[1].properties.p: 1 is not a JSON Schema. Write an object.",
        "$.inputs[2].properties: this is an empty list where an object of schemas belongs",
        "$.inputs[2].oneOf: this is 'x' where a list of schemas belongs",
        "$.inputs[2].items: a list is not a JSON Schema. Write an object.",
    ]


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        (agent(id=None), "$.id: this is null where text belongs"),
        (agent(id=7), "$.id: this is 7 where text belongs"),
        (agent(description=["x"]), "$.description: this is a list where text belongs"),
        (agent(metadata=[]), "$.metadata: this is an empty list where an object belongs"),
        (
            agent(llm_config={**LLM, "default_generation_parameters": [1]}),
            "$.llm_config.default_generation_parameters: this is a list where an object "
            "belongs",
        ),
        (
            {
                "component_type": "DbmsVectorChainLlmConfig",
                "name": "x",
                "model_id": "",
                "provider": "p",
                "url": "u",
            },
            "$.model_id: this is '' where text that isn't empty belongs",
        ),
        (
            {**flow(), "nodes": [ref("start"), 5, 5]},
            "$.nodes[1]: this is 5 where a node belongs. Use StartNode, EndNode, LlmNode, "
            "AgentNode, ToolNode, BranchingNode, FlowNode, MapNode, ParallelMapNode, "
            "ParallelFlowNode, CatchExceptionNode, ApiNode, InputMessageNode or "
            "OutputMessageNode.",
        ),
        (
            {"component_type": "ToolNode", "name": "n", "tool": {"component_type": "Qq"}},
            "$.tool.component_type: 'Qq' is not a component type. Choose from: ",
        ),
        (
            {
                "component_type": "BranchingNode",
                "name": "n",
                "mapping": {"a b": 1, "c": "d"},
            },
            "$.mapping['a b']: this is 1 where text belongs",
        ),
    ],
)
def test_what_does_not_fit_is_told_in_plain_words(document: Any, sentence: str) -> None:
    assert sentences_of(document)[0].startswith(sentence)


def test_schemas_may_be_true_or_false() -> None:
    inputs = [{"title": "a", "items": True, "additionalProperties": False}]
    assert not problems_of(agent(inputs=inputs))


def test_a_very_long_path_is_shown_without_its_middle() -> None:
    schema: dict[str, Any] = {"type": "wrong"}
    for _ in range(50):
        schema = {"items": schema}
    [problem] = problems_of(agent(inputs=[{"title": "x", **schema}]))
    assert problem.path.startswith("$.inputs[0].items.items.")
    assert problem.path.endswith(".items.type")
    assert "…" in problem.path
    assert problem.path.count(".items") < 45


def test_keys_that_are_no_words_are_quoted_in_paths() -> None:
    bad = {"component_type": "ServerTool"}
    document = agent(**{"$referenced_components": {"it's": bad, "x" * 200: bad}})
    paths = [problem.path for problem in problems_of(document)]
    assert paths[0] == """$.$referenced_components["it's"]"""
    assert paths[1] == f"$.$referenced_components['{'x' * 79}…']"


def test_no_more_warnings_are_kept_than_anybody_reads() -> None:
    document = agent(**{f"unknown{index}": index for index in range(5000)})
    document["agentspec_version"] = "25.4.9"
    document["inputs"] = [
        {"title": f"i{index}", "type": "string", "default": 5} for index in range(300)
    ]
    assert len(read(document).warnings) == MAX_PROBLEMS


def test_a_document_read_from_deep_inside_a_program_is_refused_and_not_a_crash() -> None:
    document = agent(
        inputs=[
            {"title": "x", **functools.reduce(lambda s, _: {"items": s}, range(120), {})}
        ]
    )
    data = json.dumps(document).encode()

    def deeper(levels: int) -> Document:
        return read_document(data) if levels == 0 else deeper(levels - 1)

    depth = len(inspect.stack(0))
    for left in (60, 180):
        with pytest.raises(DocumentError, match="nested more than"):
            deeper(sys.getrecursionlimit() - depth - left)
    assert isinstance(deeper(100), Document)


def test_problems_in_one_component_do_not_hide_those_of_another() -> None:
    document = flow()
    definitions = document["$referenced_components"]
    definitions["ask"]["llm_config"] = {**LLM, "model_id": 5}
    del definitions["ask"]["prompt_template"]
    definitions["end"]["branch_name"] = None
    document["control_flow_connections"].append({"component_type": "ControlFlowEdge"})
    document["nodes"].append(ref("endd"))
    document["name"] = ""
    assert sentences_of(document) == [
        "$.$referenced_components.ask.llm_config.model_id: this is 5 where text belongs",
        "$.$referenced_components.ask: 'prompt_template' is missing. Add it: text.",
        "$.$referenced_components.end.branch_name: this is null where text belongs",
        "$.control_flow_connections[2]: 'from_node' is missing. Add it: a node.",
        "$.control_flow_connections[2]: 'to_node' is missing. Add it: a node.",
        "$.nodes[3].$component_ref: 'endd' is not defined in this document. Did you mean "
        "'end'?",
        "$.name: the flow has no name. Name it.",
    ]


def test_an_error_of_one_problem_is_one_sentence() -> None:
    with pytest.raises(DocumentError) as raised:
        read(agent(system_prompt=None), name="helper.json")
    assert str(raised.value) == (
        "helper.json $.system_prompt: this is null where text belongs"
    )
    assert raised.value.where == "helper.json $.system_prompt"
    assert raised.value.name == "helper.json"


def test_an_error_of_many_problems_shows_a_screen_of_them() -> None:
    with pytest.raises(DocumentError) as raised:
        read(agent(tools=list(range(57))), name="helper.json")
    lines = str(raised.value).splitlines()
    assert lines[0] == "helper.json has 57 problems:"
    assert lines[1].startswith("  $.tools[0]: this is 0 where a tool belongs")
    assert lines[-1] == "  and 37 more"
    assert len(lines) == SHOWN_PROBLEMS + 2
    assert len(raised.value.problems) == 57


def test_a_hopeless_document_is_given_up() -> None:
    with pytest.raises(DocumentError) as raised:
        read(agent(tools=[7] * 100_000), name="d")
    assert len(raised.value.problems) == MAX_PROBLEMS
    assert str(raised.value).startswith(f"d has {MAX_PROBLEMS} problems or more:")


def test_a_refused_document_keeps_its_warnings() -> None:
    with pytest.raises(DocumentError) as raised:
        read(agent(system_prompt=5, colour="red"))
    assert [warning.path for warning in raised.value.warnings] == ["$.colour"]


# --- what is warned about -----------------------------------------------------------


def test_unknown_fields_are_warnings_with_the_nearest_name() -> None:
    document = agent(
        sytem_prompt="x",
        colour="red",
        llm_config={**LLM, "retry_policy": {"max_attempt": 3}, "modelid": "m"},
    )
    assert sorted(str(one) for one in read(document).warnings) == [
        "$.colour: this is not a field that is known here, and is ignored",
        "$.llm_config.modelid: this is not a field that is known here, and is ignored. Did "
        "you "
        "mean 'model_id'?",
        "$.llm_config.retry_policy.max_attempt: this is not a field that is known here, "
        "and is "
        "ignored. Did you mean 'max_attempts'?",
        "$.sytem_prompt: this is not a field that is known here, and is ignored. Did you "
        "mean "
        "'system_prompt'?",
    ]


def test_a_default_of_another_type_is_a_warning() -> None:
    document = agent(inputs=[{"title": "n", "type": "integer", "default": "3"}])
    assert [str(one) for one in read(document).warnings] == [
        "$.inputs[0].default: '3' is not an integer"
    ]


def test_notes_of_the_author_are_left_alone() -> None:
    metadata = {"$component_ref": "nowhere", "x": {"component_type": "Nothing"}}
    document = read(agent(metadata=metadata))
    assert document.root.metadata == metadata
    assert document.warnings == ()


# --- versions -----------------------------------------------------------------------


def test_the_version_is_the_newest_when_none_is_declared() -> None:
    assert read(agent()).version == "26.3.1"
    assert read(agent(agentspec_version="25.4.2")).version == "25.4.2"
    assert read(agent(agentspec_version="26.3.1")).version == "26.3.1"


def test_a_newer_version_than_known_is_read_with_a_warning() -> None:
    document = read(agent(agentspec_version="27.1.0"))
    assert document.version == "27.1.0"
    assert [str(one) for one in document.warnings] == [
        "$.agentspec_version: version 27.1.0 is newer than 26.3.1, the newest known: what "
        "it "
        "added is not understood"
    ]


def test_a_version_that_was_never_published_is_a_warning() -> None:
    assert [str(one) for one in read(agent(agentspec_version="25.4.7")).warnings] == [
        "$.agentspec_version: there is no version 25.4.7 of Agent Spec. Declare one of: "
        "25.4.1, "
        "25.4.2, 26.1.0, 26.1.2, 26.2.0, 26.3.1."
    ]


@pytest.mark.parametrize(
    "version", ["1.0", "25.5.1", "v25.4.1", "25.4", 25.4, ["25.4.1"], "", 7]
)
def test_a_malformed_version_is_refused(version: Any) -> None:
    [problem] = problems_of(agent(agentspec_version=version))
    assert problem.path == "$.agentspec_version"
    assert problem.what.endswith("is not a version")


def test_a_version_before_the_first_is_refused() -> None:
    assert sentences_of(agent(agentspec_version="24.1.0")) == [
        "$.agentspec_version: version 24.1.0 is older than Agent Spec itself. Declare a "
        "version "
        "from 25.4.1 to 26.3.1."
    ]


def test_a_version_inside_a_component_is_ignored_with_a_warning() -> None:
    document = read(agent(llm_config={**LLM, "agentspec_version": "25.4.1"}))
    assert document.version == "26.3.1"
    assert [str(one) for one in document.warnings] == [
        "$.llm_config.agentspec_version: a document declares its version on its outermost "
        "object, and this one is ignored"
    ]


def test_what_is_newer_than_the_declared_version_is_refused() -> None:
    document = agent(
        agentspec_version="25.4.1",
        human_in_the_loop=False,
        toolboxes=[],
        transforms=None,
        tools=[{"component_type": "BuiltinTool", "name": "b", "tool_type": "x"}],
    )
    del document["transforms"]
    assert sentences_of(document) == [
        "$.tools[0]: BuiltinTool came with version 25.4.2, and the document declares "
        "25.4.1. "
        "Declare 'agentspec_version' '25.4.2' or newer.",
        "$.human_in_the_loop: 'human_in_the_loop' came with version 25.4.2, and the "
        "document "
        "declares 25.4.1. Declare 'agentspec_version' '25.4.2' or newer.",
    ]


def test_what_came_with_the_declared_version_may_be_used() -> None:
    document = agent(
        agentspec_version="25.4.2",
        human_in_the_loop=False,
        tools=[{"component_type": "BuiltinTool", "name": "b", "tool_type": "x"}],
    )
    assert not problems_of(document)


def test_a_newer_field_with_its_default_is_as_good_as_absent() -> None:
    tool = {"component_type": "ServerTool", "name": "t", "requires_confirmation": False}
    document = agent(agentspec_version="25.4.1", tools=[tool], human_in_the_loop=True)
    assert not problems_of(document)


# --- types of plugins ---------------------------------------------------------------


SHOUT = {
    "component_type": "Shout",
    "name": "shout",
    "volume": 11,
    "inputs": [text("words")],
    "helper": ref("tool"),
    "deep": {"list": [ref("tool")]},
    "metadata": {"x": 1},
}


def flow_with_plugin_node() -> dict[str, Any]:
    document = flow()
    document["$referenced_components"]["ask"] = SHOUT
    document["$referenced_components"]["tool"] = {
        "component_type": "ServerTool",
        "name": "echo",
    }
    return document


def test_a_component_of_a_plugin_keeps_all_its_fields() -> None:
    root = read(
        flow_with_plugin_node(), component_types={"Shout": ProvidedType("node", "shouting")}
    ).root
    assert isinstance(root, Flow)
    node = root.nodes[1]
    assert isinstance(node, PluginComponent)
    assert node.component_type == "Shout"
    assert node.inputs == (Property("words", text("words")),)
    assert node.metadata == {"x": 1}
    tool = node.fields["helper"]
    assert isinstance(tool, ServerTool)
    assert node.fields == {"volume": 11, "helper": tool, "deep": {"list": [tool]}}
    assert repr(node) == "<Shout 'shout'>"


def test_a_component_of_a_plugin_has_a_name_and_sound_inputs() -> None:
    document = flow_with_plugin_node()
    document["$referenced_components"]["ask"] = {"component_type": "Shout", "inputs": [{}]}
    assert sentences_of(
        document, component_types={"Shout": ProvidedType("node", "shouting")}
    ) == [
        "$.$referenced_components.ask.inputs[0]: 'title' is missing. Add a title: it is "
        "the "
        "name.",
        "$.$referenced_components.ask: 'name' is missing. Add it: text.",
    ]


def test_a_type_that_nobody_provides_is_refused_with_the_nearest_or_all() -> None:
    types = {"Whisper": ProvidedType("node", "whispering")}
    document = flow_with_plugin_node()
    first, second = sentences_of(
        {**document, "x": 1, "component_type": "Flou"}, component_types=types
    )
    assert first == "$.component_type: 'Flou' is not a component type. Did you mean 'Flow'?"
    assert second.startswith(
        "$.$referenced_components.ask.component_type: 'Shout' is not a component type. "
        "Choose "
        "from: Whisper, A2AAgent, "
    )


def test_all_types_are_listed_once() -> None:
    strange = [{"component_type": f"Strange{index}Tool", "name": "x"} for index in "ΑΒ"]
    first, second = sentences_of(
        agent(tools=[{**one, "component_type": "Qq"} for one in strange])
    )
    assert "Choose from:" in first
    assert first.endswith("more. Or load the plugin that provides it, with --plugin.")
    assert second == (
        "$.tools[1].component_type: 'Qq' is not a component type. Load the plugin that "
        "provides it, with --plugin."
    )


def test_what_is_inside_an_unknown_component_is_looked_at_too() -> None:
    document = flow()
    document["$referenced_components"]["ask"] = {
        "component_type": "Qq",
        "inner": {"component_type": "ServerTool"},
    }
    paths = [problem.path for problem in problems_of(document)]
    assert paths == [
        "$.$referenced_components.ask.component_type",
        "$.$referenced_components.ask.inner",
    ]


def test_a_type_that_no_document_may_name_is_refused_with_the_reason() -> None:
    document = flow_with_plugin_node()
    reason = "It is middleware: whoever runs heddle installs it, and no document names it."
    assert sentences_of(document, refused={"Shout": reason}) == [
        "$.$referenced_components.ask.component_type: 'Shout' can't be used in a document. "
        + reason
    ]


# --- flows --------------------------------------------------------------------------


def test_a_flow_without_nodes_is_refused() -> None:
    document = flow()
    document.update(nodes=[], control_flow_connections=[], data_flow_connections=[])
    assert sentences_of(document) == [
        "$.nodes: the flow has no nodes. Give it a StartNode and an EndNode at least."
    ]


def test_names_of_nodes_are_unique_and_not_empty() -> None:
    document = flow()
    document["$referenced_components"]["end"]["name"] = "ask"
    document["$referenced_components"]["start"]["name"] = ""
    assert sentences_of(document) == [
        "$.nodes[0]: the node has no name. Name it.",
        "$.nodes[2]: the name 'ask' is taken: nodes[1] has it too. Rename one of the "
        "nodes.",
    ]


def test_a_node_is_listed_once() -> None:
    document = flow()
    document["nodes"].append(ref("ask"))
    assert sentences_of(document) == [
        "$.nodes[3]: the node is listed twice: it is also at nodes[1]. Keep one."
    ]


def test_edges_join_nodes_of_the_flow() -> None:
    document = flow()
    document["nodes"].remove(ref("ask"))
    edge = "Add it to 'nodes', or let the edge join others."
    assert sentences_of(document) == [
        f"$.control_flow_connections[0].to_node: the node 'ask' is not one of the flow's "
        f"nodes. {edge}",
        f"$.control_flow_connections[1].from_node: the node 'ask' is not one of the flow's "
        f"nodes. {edge}",
        f"$.data_flow_connections[0].destination_node: the node 'ask' is not one of the "
        f"flow's nodes. {edge}",
        f"$.data_flow_connections[1].source_node: the node 'ask' is not one of the flow's "
        f"nodes. {edge}",
    ]


def branching_flow(*edges: dict[str, Any]) -> dict[str, Any]:
    document = flow()
    document["$referenced_components"]["ask"] = {
        "component_type": "BranchingNode",
        "name": "ask",
        "mapping": {"a": "left", "b": "right"},
    }
    document["data_flow_connections"] = [data_edge("start", "name", "ask", "value")]
    document["control_flow_connections"] = [control_edge("start", "ask"), *edges]
    return document


def test_which_of_two_unbranched_edges_is_taken_is_the_graphs_affair() -> None:
    document = branching_flow(
        control_edge("ask", "end", "next"), control_edge("ask", "start", "next")
    )
    assert not problems_of(document)


def test_a_branch_leads_to_one_node() -> None:
    document = branching_flow(
        control_edge("ask", "end", "left"),
        control_edge("ask", "start", "right"),
        control_edge("ask", "ask", "left"),
    )
    assert sentences_of(document) == [
        "$.control_flow_connections[3]: the branch 'left' of 'ask' leads to two nodes: "
        "control_flow_connections[1] carries it too. Keep one edge for each branch."
    ]


def test_several_unbranched_edges_are_left_to_the_graph() -> None:
    edges = [control_edge("ask", "end"), control_edge("ask", "start", "next")]
    assert not problems_of(branching_flow(*edges))


def test_flows_inside_flows_are_checked_too() -> None:
    inner = flow()
    del inner["agentspec_version"]
    inner["nodes"].remove(ref("start"))
    node = {"component_type": "FlowNode", "name": "inner", "subflow": inner}
    document = agent(tools=[])
    document = {
        "component_type": "Flow",
        "name": "outer",
        "start_node": node,
        "nodes": [node],
        "control_flow_connections": [],
    }
    paths = [problem.path for problem in problems_of(document)]
    assert "$.start_node.subflow.start_node" in paths
    assert "$.nodes[0].subflow.$referenced_components.start" in paths


# --- size and speed -----------------------------------------------------------------


def long_flow(length: int) -> dict[str, Any]:
    names = ["start", *(f"n{index}" for index in range(length - 2)), "end"]
    nodes: dict[str, Any] = {
        name: {
            "component_type": "ToolNode",
            "name": name,
            "tool": {"component_type": "ServerTool", "name": "echo", "inputs": [text("x")]},
        }
        for name in names
    }
    nodes["start"] = {"component_type": "StartNode", "name": "start"}
    nodes["end"] = {"component_type": "EndNode", "name": "end"}
    pairs = list(pairwise(names))
    return {
        "component_type": "Flow",
        "name": "long",
        "start_node": ref("start"),
        "nodes": [ref(name) for name in names],
        "control_flow_connections": [control_edge(*pair) for pair in pairs],
        "data_flow_connections": [data_edge(a, "x", b, "x") for a, b in pairs],
        "$referenced_components": nodes,
    }


def test_a_flow_of_ten_thousand_nodes_is_read_in_linear_time() -> None:
    def seconds(length: int) -> float:
        data = json.dumps(long_flow(length)).encode()
        begun = time.process_time()
        root = read_document(data).root
        spent = time.process_time() - begun
        assert isinstance(root, Flow)
        assert len(root.nodes) == length
        return spent

    small, large = min(seconds(1_000) for _ in range(3)), seconds(10_000)
    # Ten times the nodes; a quadratic reader would take a hundred times as long.
    assert large < 40 * small


def test_ten_thousand_dangling_references_take_no_time_to_guess_about() -> None:
    document = long_flow(10_000)
    document["nodes"] = [ref(name["$component_ref"] + "?") for name in document["nodes"]]
    begun = time.process_time()
    assert len(problems_of(document)) == MAX_PROBLEMS
    assert time.process_time() - begun < 20


def test_reading_json_loads_neither_yaml_nor_jsonschema_nor_trio() -> None:
    program = (
        "import sys\n"
        "from heddle.spec import read_document\n"
        f"read_document({json.dumps(flow()).encode()!r})\n"
        "print(*sorted({'yaml', 'jsonschema', 'trio', 'asyncio', 'ssl', 'json'} & "
        "set(sys.modules)))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=unmeasured(os.environ),
    )
    assert ended.stdout.strip() == ""
