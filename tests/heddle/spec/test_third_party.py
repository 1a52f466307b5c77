"""Documents that others wrote are read, or refused for a reason that stands here.

They come from the specification's own documentation and tests, and from those of another
runtime. Nothing of them is kept in this repository.
"""

import functools
import json
import os
import re
from pathlib import Path
from typing import Final

import pytest

from heddle.spec import (
    COMPONENTS,
    Document,
    DocumentError,
    ProvidedType,
    Supplied,
    read_document,
)

CASES = Path(os.environ.get("HEDDLE_CASES", Path(__file__).parents[4] / "shared" / "cases"))
DOCUMENTS = CASES / "agentspec"

pytestmark = pytest.mark.skipif(
    not DOCUMENTS.is_dir(), reason="the documents are not here: set HEDDLE_CASES"
)

COUNT: Final = 209
READ: Final = 127

JSON5 = "malformed JSON: expecting property name"
FRAGMENT = "this defines components and doesn't say which of them it is"
PLUGIN = "is not a component type"

# Document to the words that refuse it. Those that need a plugin are named by pattern.
REFUSED: Final[dict[str, str]] = {
    # Comments and bare keys: JSON5, which is neither JSON nor YAML.
    "agent-spec/docs_examples/agent_calling_flow.json5": JSON5,
    "agent-spec/docs_examples/example_plugin_component.json5": JSON5,
    "agent-spec/docs_examples/flow_calling_agent.json5": JSON5,
    "agent-spec/docs_examples/standalone_agent.json5": JSON5,
    "agent-spec/docs_examples/standalone_flow.json5": JSON5,
    # Definitions only, to be supplied to another document.
    "agent-spec/docs_examples/agent_calling_flow.yaml": FRAGMENT,
    "agent-spec/docs_examples/flow_calling_agent.yaml": FRAGMENT,
    "agent-spec/docs_examples/howto_disaggregated_component_config.json": FRAGMENT,
    "agent-spec/docs_examples/howto_disaggregated_component_config.yaml": FRAGMENT,
    "agent-spec/docs_examples/pyagentspec_example_config.yaml": FRAGMENT,
    "agent-spec/docs_examples/standalone_agent.yaml": FRAGMENT,
    "agent-spec/docs_examples/standalone_flow.yaml": FRAGMENT,
    # The other half: what it refers to is in the document of definitions.
    "agent-spec/docs_examples/howto_disaggregated_main_config.json": "is not defined",
    "agent-spec/docs_examples/howto_disaggregated_main_config.yaml": "is not defined",
    # Secrets that are to be supplied when the document is loaded.
    "agent-spec/docs_examples/howto_oracle_datastore.json": "is to be supplied",
    "wayflow/tests_configs/agent_with_sensitive_fields.json": "is to be supplied",
    # Older versions declared than that of what is used.
    "agent-spec/docs_examples/howto_catchexception.json": "came with version 26.1.2",
    "agent-spec/docs_examples/howto_catchexception.yaml": "came with version 26.1.2",
    "agent-spec/docs_examples/howto_structured_generation3.json": "came with version 25",
    "agent-spec/docs_examples/howto_structured_generation3.yaml": "came with version 25",
    # A component without its type.
    "agent-spec/docs_examples/howto_a2aagent.json": "this has no 'component_type'",
    "agent-spec/docs_examples/howto_a2aagent.yaml": "this has no 'component_type'",
    # Two nodes of a flow of one name, by which nobody could tell them apart in a run.
    "agent-spec/docs_examples/howto_parallelflownode.json": "is taken: nodes[0] has it too",
    "agent-spec/docs_examples/howto_parallelflownode.yaml": "is taken: nodes[0] has it too",
    "wayflow/tests_configs/flow_3.yaml": "is taken: nodes[1] has it too",
    # One node listed twice.
    "agent-spec/tests_configs/example_serialized_flow.yaml": "the node is listed twice",
    # Made to be refused.
    "agent-spec/tests_configs/invalid/example_serialized_llm_node_as_nested_reference_with_"
    "incorrect_version.yaml": "'20.99.99' is not a version",
    "agent-spec/tests_configs/invalid/flow_with_multiple_levels_of_references_with_repeated_"
    "key.yaml": "the id 'promptnode2' is defined twice",
    "agent-spec/tests_configs/invalid/self_referencing_flow.yaml": "lead in a circle",
}

NEED_A_PLUGIN: Final = re.compile(
    r"agent-spec/docs_examples/plugin_assistant\.(json|yaml)"
    r"|wayflow/docs_config_examples/(howto_(agents_in_flows|branching|catchingexceptions"
    r"|connect_to_oracle_database|datastores|event_system|flowbuilder|io_descriptors"
    r"|managerworkers2|mapstep|mcp_agent|parallelflowexecution|plugins|prompttemplate|rag"
    r"|remote_tool_expired_token|swarm2|tooluse|tracing|userinputinflows|variable)"
    r"|tutorial_flow|usecase_prbot)\.(json|yaml)"
    r"|wayflow/tests_configs/(flow_7|flow_8|mcp_agent|legacy/input_output_message_flow"
    r"|legacy/mcp_agent)\.yaml"
)
NEEDING_A_PLUGIN: Final = 53


@functools.cache
def documents() -> dict[str, bytes]:
    """Name to bytes, with the tokens replaced that the authors' tests replace."""
    return {
        str(path.relative_to(DOCUMENTS)): re.sub(
            rb"\[\[\w+\]\]", b"http://127.0.0.1:1/v1", path.read_bytes()
        )
        for folder in ("agent-spec", "wayflow")
        for path in sorted((DOCUMENTS / folder).rglob("*"))
        if path.suffix in {".json", ".json5", ".yaml"}
    }


def reason_against(name: str) -> str | None:
    return PLUGIN if NEED_A_PLUGIN.fullmatch(name) else REFUSED.get(name)


def test_each_document_is_read_or_refused_for_its_reason() -> None:
    read: list[str] = []
    for name, data in documents().items():
        reason = reason_against(name)
        if reason is None:
            assert isinstance(read_document(data, name=name), Document)
            read.append(name)
            continue
        with pytest.raises(DocumentError) as raised:
            read_document(data, name=name)
        assert reason in str(raised.value), name
    assert len(documents()) == COUNT
    assert len(read) == READ
    assert len(documents()) - len(read) == len(REFUSED) + NEEDING_A_PLUGIN


def test_documents_that_need_a_plugin_are_read_once_it_provides_their_types() -> None:
    read = 0
    for name, data in documents().items():
        if reason_against(name) != PLUGIN:
            continue
        named = {one.decode() for one in re.findall(rb'component_type"?: "?(\w+)', data)}
        supplied = {
            one.decode(): "value"
            for one in re.findall(rb'component_ref"?: "?([\w-]+\.\w+)', data)
        }
        read_document(
            data,
            name=name,
            component_types=dict.fromkeys(named - set(COMPONENTS), ProvidedType()),
            supplied=Supplied(supplied),
        )
        read += 1
    assert read == NEEDING_A_PLUGIN


def test_both_halves_of_a_document_make_one() -> None:
    halves = documents()
    prefix = "agent-spec/docs_examples/howto_disaggregated_"
    definitions = json.loads(halves[f"{prefix}component_config.json"])
    document = read_document(
        halves[f"{prefix}main_config.json"],
        supplied=Supplied(definitions["$referenced_components"]),
    )
    assert {one.component_type for one in document.components()} == {
        "Agent",
        "ClientTool",
        "OpenAiCompatibleConfig",
    }


def test_json_and_yaml_of_one_document_have_the_same_components() -> None:
    compared = 0
    for name, data in documents().items():
        other = name.removesuffix(".json") + ".yaml"
        if not name.endswith(".json") or other not in documents():
            continue
        if reason_against(name) is not None or reason_against(other) is not None:
            continue
        pair = [read_document(one) for one in (data, documents()[other])]
        kinds = [sorted(one.component_type for one in each.components()) for each in pair]
        assert kinds[0] == kinds[1], name
        compared += 1
    assert compared > 30
