"""Schemas that the suites about types share, and any schemas and values."""

from typing import Any

from hypothesis import strategies as st

STRING, INTEGER, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
BOOLEAN, NULL, ANY = {"type": "boolean"}, {"type": "null"}, {"title": "any"}
LIST, OBJECT = {"type": "array"}, {"type": "object"}


def list_of(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def object_of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def any_of(*schemas: Any) -> dict[str, Any]:
    return {"anyOf": list(schemas)}


TREE: dict[str, Any] = {
    "$ref": "#/$defs/tree",
    "$defs": {"tree": object_of(value=INTEGER, children=list_of({"$ref": "#/$defs/tree"}))},
}

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-99, 99)
    | st.floats(-9, 9)
    | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner)
    ),
    max_leaves=6,
)
SCHEMAS = st.recursive(
    st.sampled_from([STRING, INTEGER, NUMBER, BOOLEAN, NULL, LIST, OBJECT, ANY]),
    lambda inner: st.one_of(
        inner.map(list_of),
        st.dictionaries(st.sampled_from("abc"), inner, max_size=3).map(
            lambda properties: object_of(**properties)
        ),
        st.lists(inner, min_size=1, max_size=3).map(lambda schemas: any_of(*schemas)),
        st.dictionaries(st.sampled_from("abc"), inner, max_size=2).map(
            lambda properties: {**object_of(**properties), "required": list(properties)}
        ),
        inner.map(lambda schema: {"type": "object", "additionalProperties": schema}),
        st.lists(st.sampled_from(["string", "null", "integer"]), min_size=1).map(
            lambda names: {"type": names}
        ),
        st.just({"enum": ["a", "b"]}),
    ),
    max_leaves=6,
)
