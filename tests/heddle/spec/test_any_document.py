"""Whatever a document says, it is read or refused, and every problem has a place in it."""

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from heddle.spec import (
    COMPONENTS,
    Document,
    DocumentError,
    PluginComponent,
    ProvidedType,
    read_document,
)
from heddle.spec.catalogue import plan_of
from tests.heddle.spec.documents import FLOW, LLM, ref, text

KEYS = st.sampled_from(
    [
        *("component_type", "id", "name", "$component_ref", "$referenced_components"),
        *("agentspec_version", "inputs", "outputs", "nodes", "start_node", "metadata"),
        *(
            "llm_config",
            "tools",
            "from_node",
            "to_node",
            "title",
            "type",
            "items",
            "default",
        ),
        *("default_generation_parameters", "retry_policy", "headers", "data", "fields"),
        *("anyOf", "properties", "mapping", "branches", "subflow", "tool", "type_name"),
    ]
)
JUNK = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        st.sampled_from(
            ["", "start", "ask", "end", "x.y", "26.1.2", "$component_ref", "string"]
        ),
        st.sampled_from([*COMPONENTS, "Shout", "Guard", "Nothing"]),
        st.builds(ref, st.sampled_from(["start", "ask", "end", "v", "nowhere", "start.x"])),
        st.just(LLM),
        st.just(text("name")),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=10,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of everything in a value."""
    found = [path]
    if isinstance(value, dict):
        for key, inner in value.items():
            found += places(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            found += places(inner, (*path, index))
    return found


FLOW_PLACES = [path for path in places(FLOW) if path]


def changed(document: Any, path: tuple[Any, ...], junk: Any) -> Any:
    step, *rest = path
    inner = changed(document[step], tuple(rest), junk) if rest else junk
    if isinstance(document, dict):
        return {**document, step: inner}
    return [*document[:step], inner, *document[step + 1 :]]


def read_or_refuse(document: Any) -> None:
    data = json.dumps(document).encode()
    try:
        read = read_document(
            data,
            component_types={"Shout": ProvidedType("node", "shouting")},
            refused={"Guard": "It guards."},
        )
    except DocumentError as error:
        refusal = error
    else:
        assert isinstance(read, Document)
        assert read.root in read.components()
        assert all(read.path_of(one).startswith("$") for one in read.components())
        return
    assert refusal.problems
    assert all(problem.what for problem in refusal.problems)
    assert str(refusal).startswith("document")


@given(JUNK)
def test_any_data_is_read_or_refused(document: Any) -> None:
    read_or_refuse(document)


@settings(max_examples=300)
@given(st.lists(st.tuples(st.sampled_from(FLOW_PLACES), JUNK), min_size=1, max_size=3))
def test_any_change_to_a_flow_is_read_or_refused(
    changes: list[tuple[tuple[Any, ...], Any]],
) -> None:
    document: Any = FLOW
    for path, junk in changes:
        if path in places(document):
            document = changed(document, path, junk)
    read_or_refuse(document)


@pytest.mark.parametrize("name", COMPONENTS)
@given(data=st.data())
@settings(max_examples=15)
def test_any_fields_of_any_component_are_read_or_refused(
    name: str, data: st.DataObject
) -> None:
    fields = plan_of(COMPONENTS[name]).fields
    given_fields = data.draw(
        st.dictionaries(st.sampled_from(sorted(fields)), JUNK, max_size=6)
    )
    read_or_refuse({"name": "x", **given_fields, "component_type": name})


@example({"branches": 1})
@given(st.dictionaries(KEYS, JUNK))
def test_any_fields_of_a_plugins_component_are_read_or_refused(
    fields: dict[str, Any],
) -> None:
    read_or_refuse({"name": "x", **fields, "component_type": "Shout"})
    assert issubclass(PluginComponent, object)
