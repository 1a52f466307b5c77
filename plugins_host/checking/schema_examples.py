"""A value for a JSON Schema, where an example has to bring one."""

from collections.abc import Mapping
from typing import Any, Final

_BY_TYPE: Final[Mapping[object, Any]] = {
    "string": "example",
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "array": [],
    "object": {},
    "null": None,
}


def example_of(schema: object) -> Any:
    """A value that a JSON Schema of a property probably takes."""
    if not isinstance(schema, Mapping):
        return "example"
    for key in ("default", "const"):
        if key in schema:
            return schema[key]
    for key in ("enum", "examples"):
        if isinstance(schema.get(key), list) and schema[key]:
            return schema[key][0]
    for key in ("anyOf", "oneOf"):
        if isinstance(schema.get(key), list) and schema[key]:
            return example_of(schema[key][0])
    kind = schema.get("type")
    first = kind[0] if isinstance(kind, list) and kind else kind
    if first == "object":
        return _example_object(schema)
    if first == "array" and schema.get("minItems"):
        return [example_of(schema.get("items"))]
    return _BY_TYPE.get(first, "example")


def _example_object(schema: Mapping[str, Any]) -> dict[str, Any]:
    known, needed = schema.get("properties"), schema.get("required")
    if not isinstance(known, Mapping) or not isinstance(needed, list):
        return {}
    return {name: example_of(known.get(name, {})) for name in needed}
