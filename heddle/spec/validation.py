"""Whether a value is what a JSON Schema declares, and what is not if it isn't.

    check({"n": "six"}, {"properties": {"n": {"type": "integer"}}})
        -> [("$.n", "'six' is not an integer")]

Schemas of plain types are nearly all there are, and are looked at here. What says more is
left to ``jsonschema``, which takes longer to load than such a value to check.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias

import msgspec

from heddle.spec.problems import shown

Schema: TypeAlias = Mapping[str, Any] | bool
Mistakes: TypeAlias = list[tuple[str, str]]


def check(value: Any, schema: Schema) -> Mistakes:
    """What in a value is not as a JSON Schema says: pairs of a path and a sentence.

    A value of the right shape gives an empty list. Schemas of plain types are checked
    here; anything that says more is left to ``jsonschema``, loaded when first needed.
    """
    found: Mistakes = []
    if is_plain(schema):
        _check_plain(value, schema, "$", found)
    else:
        found.extend(_check_fully(value, schema))
    return found


# What a schema can ask beyond what `_check_plain` looks at. Any other word is a note.
_BEYOND_PLAIN: Final = frozenset(
    (
        "$anchor",
        "$dynamicRef",
        "$recursiveRef",
        "$ref",
        "additionalItems",
        "allOf",
        "const",
        "contains",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "else",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "if",
        "maxContains",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minContains",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
        "not",
        "oneOf",
        "pattern",
        "patternProperties",
        "prefixItems",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
        "uniqueItems",
    )
)


def is_plain(schema: Any) -> bool:
    """Whether `check` answers by itself, without loading ``jsonschema``."""
    if isinstance(schema, bool):
        return True
    if not isinstance(schema, Mapping):
        return False
    if not _BEYOND_PLAIN.isdisjoint(schema):
        return False
    return all(
        _is_plain_keyword(schema[keyword], keyword)
        for keyword in _PLAIN
        if keyword in schema
    )


_PLAIN: Final = (
    "type",
    "items",
    "properties",
    "required",
    "additionalProperties",
    "anyOf",
    "enum",
)


def _is_plain_keyword(value: Any, keyword: str) -> bool:
    match keyword:
        case "type":
            names = value if isinstance(value, list) else [value]
            return all(isinstance(name, str) and name in _IS for name in names)
        case "items" | "additionalProperties":
            return is_plain(value)
        case "properties":
            return isinstance(value, Mapping) and all(map(is_plain, value.values()))
        case "anyOf":
            return isinstance(value, list) and bool(value) and all(map(is_plain, value))
        case _:
            return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _is_integer(value: Any) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool)) or (
        isinstance(value, float) and value.is_integer()
    )


_IS: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "string": ("text", lambda value: isinstance(value, str)),
    "integer": ("an integer", _is_integer),
    "number": (
        "a number",
        lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    ),
    "boolean": ("true or false", lambda value: isinstance(value, bool)),
    "null": ("null", lambda value: value is None),
    "array": ("a list", lambda value: isinstance(value, list | tuple)),
    "object": ("an object", lambda value: isinstance(value, Mapping)),
}


def _check_plain(value: Any, schema: Any, path: str, found: Mistakes) -> None:
    if schema is True:
        return
    if schema is False:
        found.append((path, f"{shown(value)} is not allowed here"))
        return
    kind = schema.get("type")
    if kind is not None:
        names = kind if isinstance(kind, list) else [kind]
        if not any(_IS[name][1](value) for name in names):
            wanted = " or ".join(_IS[name][0] for name in names)
            found.append((path, f"{shown(value)} is not {wanted}"))
            return
    if "enum" in schema and value not in schema["enum"]:
        found.append((path, f"{shown(value)} is not one of {', '.join(schema['enum'])}"))
    if "anyOf" in schema:
        _check_choices(value, schema["anyOf"], path, found)
    if isinstance(value, Mapping):
        _check_members(value, schema, path, found)
    elif isinstance(value, list | tuple) and "items" in schema:
        for index, item in enumerate(value):
            _check_plain(item, schema["items"], f"{path}[{index}]", found)


def _check_members(value: Any, schema: Any, path: str, found: Mistakes) -> None:
    known = schema.get("properties", {})
    rest = schema.get("additionalProperties", True)
    for name in schema.get("required", ()):
        if name not in value:
            found.append((path, f"{shown(name)} is missing"))
    if not known and rest is True:
        return
    for name, inner in value.items():
        if name in known:
            _check_plain(inner, known[name], f"{path}.{name}", found)
        elif rest is False:
            found.append((path, f"{shown(name)} is not allowed here"))
        else:
            _check_plain(inner, rest, f"{path}.{name}", found)


def _check_choices(value: Any, choices: list[Any], path: str, found: Mistakes) -> None:
    closest: Mistakes | None = None
    for schema in choices:
        mistakes: Mistakes = []
        _check_plain(value, schema, path, mistakes)
        if not mistakes:
            return
        # The alternative that goes wrong deepest is the one that was meant.
        if closest is None or len(mistakes[0][0]) > len(closest[0][0]):
            closest = mistakes
    assert closest is not None
    if closest[0][0] == path:
        found.append((path, f"{shown(value)} is none of what is allowed here"))
    else:
        found.extend(closest)


# As many declared types as a busy server has in use; each is a few kilobytes.
@lru_cache(maxsize=1024)
def _validator(schema: bytes) -> Any:
    from jsonschema.validators import Draft202012Validator, validator_for
    from referencing.jsonschema import EMPTY_REGISTRY

    read = msgspec.json.decode(schema)
    kind = validator_for(read, default=Draft202012Validator)
    kind.check_schema(read)
    # The default registry would fetch what a reference names from the network.
    return kind(read, registry=EMPTY_REGISTRY)


def _short(text: str) -> str:
    # A message quotes the value, which may be a book.
    return text if len(text) <= _MESSAGE_SHOWN else text[: _MESSAGE_SHOWN - 1] + "…"


_MESSAGE_SHOWN: Final = 300


def _check_fully(value: Any, schema: Any) -> Iterator[tuple[str, str]]:
    from jsonschema.exceptions import SchemaError
    from referencing.exceptions import Unresolvable

    try:
        for error in _validator(msgspec.json.encode(schema)).iter_errors(value):
            path = "$" + "".join(
                f"[{step}]" if isinstance(step, int) else f".{step}"
                for step in error.absolute_path
            )
            yield path, _short(error.message)
    except SchemaError as error:
        yield "$", f"the schema itself is not valid: {_short(error.message)}"
    except Unresolvable as error:
        yield "$", f"the schema refers to {shown(error.ref)}, which is not in it"
    except RecursionError:
        yield "$", "the value is nested too deeply to be checked"
