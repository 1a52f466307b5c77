"""The structs say what Agent Spec's own schemas say, for every version of them."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from heddle.spec import COMPONENTS, NEWEST_VERSION, VERSIONS, Component, LlmNode
from heddle.spec.catalogue import COMMON_KEYS, Content, parse_version, plan_of
from tests.heddle.spec.documents import agent, problems_of, read, sentences_of

CASES = Path(os.environ.get("HEDDLE_CASES", Path(__file__).parents[4] / "shared" / "cases"))
SCHEMAS = CASES / "agentspec" / "schema"

# Fields that we don't ask for where the schema does: an edge's name says nothing.
LENIENT = {("ControlFlowEdge", "name"), ("DataFlowEdge", "name")}

needs_schemas = pytest.mark.skipif(
    not SCHEMAS.is_dir(), reason="the schemas are not here: set HEDDLE_CASES"
)


def schemas() -> dict[str, dict[str, Any]]:
    """Version to the definitions of its schema, oldest first."""
    found = {}
    for path in SCHEMAS.glob("agentspec_json_spec_*.json"):
        match = re.match(r"agentspec_json_spec_(\d+)_(\d+)_(\d+)", path.name)
        assert match is not None
        found[".".join(match.groups())] = json.loads(path.read_text())["$defs"]
    return dict(sorted(found.items()))


def concrete(definitions: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The component types that a document may name, with the schema of each."""
    for name, schema in definitions.items():
        if not name.startswith("Base"):
            continue
        for one in (schema, *schema.get("anyOf", ())):
            if "properties" in one:
                yield name.removeprefix("Base"), one


@needs_schemas
def test_every_version_of_the_schemas_is_known() -> None:
    assert tuple(schemas()) == VERSIONS
    assert VERSIONS[-1] == NEWEST_VERSION


@needs_schemas
def test_there_is_a_struct_for_every_type_and_no_other() -> None:
    named = {name for name, _ in concrete(schemas()[NEWEST_VERSION])}
    assert set(COMPONENTS) == named
    assert len(COMPONENTS) > 50


@needs_schemas
def test_structs_have_the_fields_of_the_schemas() -> None:
    compared = 0
    for name, schema in concrete(schemas()[NEWEST_VERSION]):
        fields = plan_of(COMPONENTS[name]).fields
        assert set(fields) == set(schema["properties"]) - COMMON_KEYS, name
        for field in fields.values():
            asked = field.name in schema.get("required", ())
            if (name, field.name) not in LENIENT:
                assert field.required == asked, (name, field.name)
                compared += 1
    assert compared > 400


@needs_schemas
def test_defaults_are_those_of_the_schemas() -> None:
    compared = 0
    for name, schema in concrete(schemas()[NEWEST_VERSION]):
        for field in plan_of(COMPONENTS[name]).fields.values():
            declared = schema["properties"][field.name]
            if "default" in declared and not field.required:
                assert msgspec.to_builtins(field.default) == declared["default"], (
                    name,
                    field.name,
                )
                compared += 1
    assert compared > 200


@needs_schemas
def test_types_and_fields_are_as_old_as_the_schemas_say() -> None:
    first_types: dict[str, str] = {}
    first_fields: dict[tuple[str, str], str] = {}
    for version, definitions in schemas().items():
        for name, schema in concrete(definitions):
            first_types.setdefault(name, version)
            for field in schema["properties"]:
                first_fields.setdefault((name, field), version)
    for name, struct in COMPONENTS.items():
        plan = plan_of(struct)
        assert plan.since == (first_types[name], parse_version(first_types[name])), name
        for field in plan.fields.values():
            since = field.newer[0] if field in plan.newer and field.newer else plan.since[0]
            assert since == first_fields[name, field.name], (name, field.name)


def test_a_component_can_be_made_of_any_type() -> None:
    for name, struct in COMPONENTS.items():
        assert issubclass(struct, Component)
        assert struct.__struct_config__.tag == name


def test_components_are_equal_only_to_themselves() -> None:
    one, other = (read(agent()).root for _ in range(2))
    assert one == one
    assert one != other
    assert len({one, other}) == 2


def test_a_component_is_shown_by_type_and_name_and_never_by_its_secrets() -> None:
    llm = {
        "component_type": "OpenAiConfig",
        "name": "m",
        "model_id": "x",
        "api_key": "sk-secret",
    }
    root = read(agent(llm_config=llm)).root
    assert repr(root) == "<Agent 'helper'>"
    assert "sk-secret" not in repr(read(agent(llm_config=llm)))


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        ("OpenAiConfig", "api_key"),
        ("OciClientConfigWithApiKey", "auth_file_location"),
        ("TlsOracleDatabaseConnectionConfig", "password"),
        ("MTlsOracleDatabaseConnectionConfig", "wallet_password"),
        ("GeminiVertexAIAuthConfig", "credentials"),
        ("OAuthClientConfig", "client_secret"),
        ("RemoteTool", "sensitive_headers"),
        ("ApiNode", "sensitive_headers"),
    ],
)
def test_an_error_in_a_secret_field_does_not_show_the_value(kind: str, field: str) -> None:
    document = {"component_type": kind, "name": "x", field: 90210}
    told = [sentence for sentence in sentences_of(document) if f".{field}" in sentence]
    assert told
    assert "no secret that can be used" in told[0]
    assert "90210" not in told[0]


def test_every_kind_of_content_is_some_fields() -> None:
    met = {
        field.content
        for struct in COMPONENTS.values()
        for field in plan_of(struct).fields.values()
    }
    assert met == set(Content)


def test_frozen_means_frozen() -> None:
    root = read(agent()).root
    with pytest.raises(AttributeError):
        root.name = "other"  # type: ignore[misc]
    assert not problems_of(agent())
    assert issubclass(LlmNode, Component)
