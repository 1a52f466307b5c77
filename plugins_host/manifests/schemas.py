"""The schemas of tools in a manifest: bounded, of objects, and JSON Schema."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from plugins_host.json_schemas import schema_problem
from plugins_host.manifests.words import shown

# A tool's schema goes to a model with every request, so it is bounded.
MAX_SCHEMA_BYTES: Final = 64 * 1024
MAX_SCHEMA_DEPTH: Final = 16


def find_schema_problem(schema: dict[str, Any]) -> tuple[str, str, str] | None:
    """What stands against a tool's schema: where in it, what, and the fix."""
    size = len(msgspec.json.encode(schema))
    if size > MAX_SCHEMA_BYTES:
        what = f"the schema takes {size} bytes, and may take {MAX_SCHEMA_BYTES}"
        return "", what, "Describe less of it."
    depth = _depth(schema)
    if depth > MAX_SCHEMA_DEPTH:
        what = f"the schema is nested {depth} levels deep, and may be {MAX_SCHEMA_DEPTH}"
        return "", what, "Flatten it."
    if schema.get("type", "object") != "object":
        what = f"{shown(schema['type'])} is not the type of an object"
        return ".type", what, "Write 'object': a tool takes and gives objects."
    # Loaded only here: it takes longer than all the rest of reading a manifest.
    problem = schema_problem(schema)
    if problem is None:
        return None
    where, said = problem
    return where, f"this is no JSON Schema: {said}", "Correct it."


def tool_schema_problem(schema: dict[str, Any]) -> str:
    """What stands against the schema of a tool that a plugin found; empty for nothing."""
    found = find_schema_problem(schema)
    return "" if found is None else found[1]


def _depth(value: object) -> int:
    """How many levels of objects and arrays there are. The JSON was decoded, so it ends."""
    if isinstance(value, Mapping):
        return 1 + max(map(_depth, value.values()), default=0)
    if isinstance(value, list | tuple):
        return 1 + max(map(_depth, value), default=0)
    return 0
