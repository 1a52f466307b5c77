"""heddle and pyagentspec, the specification's own package, understand documents alike.

Documents of both go through both: what is read is compared component by component, and
what is refused has to be refused by both. Where they differ by intent, `official.differing`
says why.
"""

import copy
import functools
import json
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from pyagentspec import Component as TheirComponent
from pyagentspec._component_registry import BUILTIN_CLASS_MAP
from pyagentspec.flows.flow import Flow as TheirFlow
from pyagentspec.flows.nodes import LlmNode
from pyagentspec.property import json_schema_is_castable_to
from pyagentspec.serialization import AgentSpecDeserializer, AgentSpecSerializer

from heddle.engine.testing import FakePerson, run_document
from heddle.preparing import prepare
from heddle.spec import (
    COMPONENTS,
    Component,
    DocumentError,
    Supplied,
    is_subtype,
    read_document,
    read_supplied,
)
from tests.conformance.official.agents import COUNT_WORDS, MODEL, TEXT
from tests.conformance.official.comparing import differences
from tests.conformance.official.differing import (
    MORE_FLOWS,
    OF_OTHERS,
    ONLY_OURS_READS,
    ONLY_OURS_REFUSES,
    READ,
    START_INPUTS,
    TEAM_INPUTS,
)
from tests.conformance.official.flows import BUILT, chain, end, start
from tests.conformance.official.refusing import documents
from tests.heddle.spec import test_third_party as others
from tests.heddle.spec.documents import flow
from tests.support.cases import CASES, MISSING

ROOT: Final = Path(__file__).parents[2]
WRITE: Final = AgentSpecSerializer()

pytestmark = pytest.mark.filterwarnings("ignore")


def theirs(text: str, *, known: Any = None) -> Any:
    """What pyagentspec makes of a document.

    Raises:
        Exception: Of any kind: it refuses the document.
    """
    # JSON is YAML, too. Its own reader is the same one, and slow.
    raw = yaml.load(text, yaml.CSafeLoader)
    return AgentSpecDeserializer().from_dict(raw, components_registry=known)


def refuses(data: bytes) -> bool:
    """Whether pyagentspec refuses a document."""
    try:
        theirs(data.decode())
    except Exception:
        return True
    return False


def unlike(ours: Component, other: TheirComponent) -> list[str]:
    """What the two understood differently, but for what differs by intent."""
    return [each for each in differences(ours, other) if not each.endswith(TEAM_INPUTS)]


# --- documents of ours, read by both ------------------------------------------------


@functools.cache
def our_documents() -> Mapping[str, bytes]:
    """Every flow of the examples, and what `heddle demo` begins with."""
    paths = [*ROOT.glob("examples/**/*.json"), *ROOT.glob("heddle/**/*.json")]
    found = {str(path.relative_to(ROOT)): path.read_bytes() for path in sorted(paths)}
    plugins = (b'"ScriptedProvider"', b'"Scripted')
    return {
        name: data
        for name, data in found.items()
        if b'"component_type": "Flow"' in data and not any(one in data for one in plugins)
    }


def test_what_we_write_they_read_alike() -> None:
    for name, data in our_documents().items():
        assert unlike(read_document(data).root, theirs(data.decode())) == [], name
    assert len(our_documents()) >= 8


# --- documents of theirs, read by both ----------------------------------------------


@pytest.mark.parametrize("name", BUILT)
@pytest.mark.parametrize("written", ["json", "yaml"])
def test_what_they_write_we_read_alike(name: str, written: str) -> None:
    built = BUILT[name]
    write = WRITE.to_json if written == "json" else WRITE.to_yaml
    text = write(built, include_sensitive_fields=True)
    document = read_document(text.encode())
    assert document.warnings == ()
    assert unlike(document.root, built) == []


def test_every_type_of_component_is_in_what_they_write() -> None:
    concrete = {name for name, kind in BUILTIN_CLASS_MAP.items() if not kind._is_abstract}
    written = {
        one.component_type
        for built in BUILT.values()
        for one in read_document(
            WRITE.to_json(built, include_sensitive_fields=True).encode()
        ).components()
    }
    assert written == concrete == set(COMPONENTS)


@pytest.mark.parametrize("name", BUILT)
def test_secrets_kept_apart_are_put_back_alike(name: str) -> None:
    text = WRITE.to_json(BUILT[name])
    wanted = dict.fromkeys(apart(json.loads(text)), "secret")
    # What is a map of headers, and not text.
    wanted |= {one: {"A": "1"} for one in wanted if one.endswith(".sensitive_headers")}
    document = read_document(text.encode(), supplied=Supplied(wanted))
    assert unlike(document.root, theirs(text, known=wanted)) == []


def apart(value: Any) -> Iterator[str]:
    """The references to values that the document leaves to whoever loads it."""
    if isinstance(value, dict):
        reference = value.get("$component_ref")
        if isinstance(reference, str) and "." in reference:
            yield reference
        for inner in value.values():
            yield from apart(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from apart(inner)


@pytest.mark.parametrize("written", ["json", "yaml"])
def test_components_kept_apart_are_put_back_alike(written: str) -> None:
    built = BUILT["flow_at_once"]
    write = WRITE.to_json if written == "json" else WRITE.to_yaml
    kept = [(COUNT_WORDS, "the_tool")]
    main, definitions = write(
        built, disaggregated_components=kept, export_disaggregated_components=True
    )
    assert COUNT_WORDS.description in definitions
    assert COUNT_WORDS.description not in main
    read = AgentSpecDeserializer()
    load = read.from_json if written == "json" else read.from_yaml
    known = load(definitions, import_only_referenced_components=True)
    supplied = read_supplied([(f"kept.{written}", definitions.encode())])
    document = read_document(main.encode(), supplied=supplied)
    assert document.warnings == ()
    assert unlike(document.root, load(main, components_registry=known)) == []


# What is put in, and what comes out: of the flows that need no model.
RUNS: Final[Mapping[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "flow_of_a_tool": ({"text": "a b c"}, {"count": 3}),
    "map": ({"texts": ["a b", "c"]}, {"collected_count": [2, 1]}),
    "map_and_add": ({"texts": ["a b", "c"]}, {"collected_count": 3}),
    "map_at_once": ({"texts": ["a b", "c d e f"]}, {"collected_count": 3}),
    "flow_at_once": ({"text": "a b"}, {"count": 2, "loud": "!"}),
    "flow_that_catches": ({"text": "a b"}, {"count": 2, "caught_exception_info": None}),
    "flow_in_flow": ({"text": "ja"}, {"text": "ja"}),
    "flow_of_people": ({"text": "Who"}, {"user_input": "Ann", "more": "yes"}),
}


@pytest.mark.parametrize("name", RUNS)
async def test_what_they_write_runs(name: str) -> None:
    inputs, wanted = RUNS[name]
    data = WRITE.to_json(BUILT[name], include_sensitive_fields=True).encode()
    tools = {"count_words": lambda text: {"count": len(text.split())}}
    result, _ = await run_document(
        data, inputs, tools=tools, person=FakePerson("Ann", "yes")
    )
    assert {key: result[key] for key in wanted} == wanted


# --- documents of others ------------------------------------------------------------


@pytest.mark.skipif(not CASES.is_dir(), reason=MISSING)
def test_what_others_write_both_read_alike_or_refuse() -> None:
    alone: set[str] = set()
    same = 0
    for name, data in others.documents().items():
        if name.removesuffix(".yaml") + ".json" in others.documents():
            # Both forms of one document are held against each other elsewhere.
            continue
        try:
            document = read_document(data, name=name)
        except DocumentError:
            document = None
        refused = refuses(data)
        if (document is None) != refused:
            alone.add(Path(name).stem)
        elif document is not None:
            assert unlike(document.root, theirs(data.decode())) == [], name
            same += 1
    assert alone == set(OF_OTHERS)
    assert same >= 70


@pytest.mark.skipif(not CASES.is_dir(), reason=MISSING)
def test_the_probes_are_read_alike() -> None:
    probes = json.loads((CASES / "agentspec" / "probes.json").read_bytes())
    for probe in probes:
        text = json.dumps(probe["spec"])
        assert unlike(read_document(text.encode()).root, theirs(text)) == [], probe["name"]
    assert len(probes) == 50


def test_one_list_of_a_start_and_of_an_end_is_both_but_for_a_reason() -> None:
    document = flow()
    parts = document["$referenced_components"]
    for name, part in parts.items():
        # What has no id is given one, by each of the two another.
        part["id"] = name
    parts["end"]["inputs"] = parts["end"].pop("outputs")
    text = json.dumps(document)
    assert unlike(read_document(text.encode()).root, theirs(text)) == []
    parts["start"]["outputs"] = parts["start"].pop("inputs")
    text = json.dumps(document)
    [found] = unlike(read_document(text.encode()).root, theirs(text))
    assert found.endswith(START_INPUTS)


# --- what is refused ----------------------------------------------------------------


@pytest.mark.parametrize("name", documents())
def test_what_one_refuses_the_other_does_but_for_a_reason(name: str) -> None:
    data = json.dumps(documents()[name]).encode()
    try:
        prepare(data, name="document.json")
    except DocumentError:
        we = True
    else:
        we = False
    they = refuses(data)
    if name in ONLY_OURS_READS:
        assert (we, they) == (False, True)
    elif name in ONLY_OURS_REFUSES:
        assert (we, they) == (True, False)
    else:
        assert we == they == (name not in READ)


def test_every_reason_is_about_a_document() -> None:
    tables = (READ, ONLY_OURS_READS, ONLY_OURS_REFUSES)
    named = [name for table in tables for name in table]
    assert len(named) == len(set(named))
    assert set(named) <= set(documents())
    assert len(documents()) > 100


def test_the_page_about_flows_has_every_difference() -> None:
    page = (ROOT / "docs" / "flows.md").read_text(encoding="utf-8")
    _, reads, refuses_ = page.partition("## Beside pyagentspec")[2].split("| because |")
    for table, told in ((reads, ONLY_OURS_READS), (refuses_, ONLY_OURS_REFUSES)):
        rows = (line.split(" | ") for line in table.splitlines() if line.startswith("| "))
        cells = ([cell.strip("| ") for cell in row] for row in rows)
        found = {row[0]: row[1] for row in cells if row[0] != "only heddle refuses"}
        assert found == dict(told)


# --- types --------------------------------------------------------------------------

STRING: Final = {"type": "string"}
TYPES: Final[Mapping[str, dict[str, Any]]] = {
    "any": {},
    **{name: {"type": name} for name in ("string", "integer", "number", "boolean", "null")},
    "list": {"type": "array"},
    "texts": {"type": "array", "items": STRING},
    "integers": {"type": "array", "items": {"type": "integer"}},
    "numbers": {"type": "array", "items": {"type": "number"}},
    "lists": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
    "object": {"type": "object"},
    "a": {"type": "object", "properties": {"a": STRING}},
    "a and b": {"type": "object", "properties": {"a": {"type": "integer"}, "b": STRING}},
    "closed": {
        "type": "object",
        "properties": {"a": STRING},
        "additionalProperties": False,
    },
    "to numbers": {"type": "object", "additionalProperties": {"type": "number"}},
    "to texts": {"type": "object", "additionalProperties": STRING},
    "text or null": {"anyOf": [STRING, {"type": "null"}]},
    "integer or null": {"type": ["integer", "null"]},
    "number or texts": {"anyOf": [{"type": "number"}, {"type": "array", "items": STRING}]},
}


def test_the_same_types_may_be_joined_but_for_a_reason() -> None:
    joined_by_us = set()
    for source, target in product(TYPES, TYPES):
        ours = is_subtype(TYPES[source], TYPES[target])
        # It writes into what it compares.
        pair = copy.deepcopy((TYPES[source], TYPES[target]))
        if ours != json_schema_is_castable_to(*pair):
            assert ours
            joined_by_us.add((source, target))
    assert joined_by_us == set().union(*MORE_FLOWS.values())


# --- the comparison itself ----------------------------------------------------------


def changed(flow: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The flow with one thing about it changed, and where."""
    ways: dict[str, Any] = {
        "name": "other",
        "description": "other",
        "metadata": {"of": "others"},
        "outputs": [{"title": "other", "type": "integer", "default": 1}],
        "control_flow_connections": flow["control_flow_connections"][::-1],
        "data_flow_connections": flow["data_flow_connections"][:1],
        "nodes": flow["nodes"][::-1],
    }
    for field, value in ways.items():
        yield field, {**copy.deepcopy(flow), field: copy.deepcopy(value)}


def test_a_difference_is_seen() -> None:
    built = BUILT["flow_of_a_tool"]
    assert isinstance(built, TheirFlow)
    seen = 0
    for field, other in changed(json.loads(WRITE.to_json(built))):
        found = unlike(read_document(json.dumps(other).encode()).root, built)
        assert found, field
        assert all(each.startswith(f"$.{field}") for each in found), found
        seen += 1
    assert seen == 7


def test_what_is_shared_by_one_of_two_only_is_seen() -> None:
    asking = [
        LlmNode(name=name, llm_config=MODEL, prompt_template="{{ text }}")
        for name in ("once", "twice")
    ]
    built = chain("sharing", start(TEXT), *asking, end())
    plain = json.loads(WRITE.to_json(built))
    definitions = plain["$referenced_components"]
    definitions["twin"] = {**definitions[MODEL.id], "id": "twin"}
    definitions[asking[1].id]["llm_config"]["$component_ref"] = "twin"
    [seen] = unlike(read_document(json.dumps(plain).encode()).root, built)
    assert seen.startswith("$.nodes[2].llm_config: ")
    assert seen.endswith("is shared by one of the two only")
