"""Whether a value is what a JSON Schema declares, and what is not if it isn't.

    check({"n": "six"}, {"properties": {"n": {"type": "integer"}}})
        -> [("$.n", "'six' is not an integer")]

Schemas of plain types are nearly all there are, and are looked at here. What says more is
left to ``jsonschema``, which takes longer to load than such a value to check.
"""

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Final, TypeAlias

import msgspec

from heddle.spec.effort import Effort, effort, spending
from heddle.spec.patterns import PatternInvalid
from heddle.spec.problems import shown

Schema: TypeAlias = Mapping[str, Any] | bool
Mistakes: TypeAlias = list[tuple[str, str]]


def check(value: Any, schema: Schema) -> Mistakes:
    """What in a value is not as a JSON Schema says: pairs of a path and a sentence.

    A value of the right shape gives an empty list. Schemas of plain types are checked
    here; anything that says more is left to ``jsonschema``, loaded when first needed.

    Raises:
        EffortExceeded: It takes too long.
    """
    if type(schema) is dict and schema.keys() <= _NOTES:
        # One type and nothing else, as nearly all values of a flow are declared.
        kind = schema.get("type")
        if type(kind) is str and type(value) is _EXACTLY.get(kind):
            return []
    found: Mistakes = []
    spent = effort()
    if is_plain(schema):
        _check_plain(value, schema, "$", found, spent)
    else:
        found.extend(_check_fully(value, schema, spent))
    return found


# Words of a schema of one type that ask nothing of a value beyond it.
_NOTES: Final = frozenset(("type", "title", "description", "default"))
# What values of a type nearly always are; all others take the long way.
_EXACTLY: Final[Mapping[str, type]] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list,
    "object": dict,
}

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
            if not isinstance(value, Mapping):
                return False
            effort().spend(len(value))
            return all(map(is_plain, value.values()))
        case "anyOf":
            if not isinstance(value, list) or not value:
                return False
            effort().spend(len(value))
            return all(map(is_plain, value))
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


def _check_plain(
    value: Any, schema: Any, path: str, found: Mistakes, spent: Effort
) -> None:
    spent.spend()
    if schema is True:
        return
    if schema is False:
        _note(found, path, f"{shown(value)} is not allowed here")
        return
    kind = schema.get("type")
    if kind is not None:
        names = kind if isinstance(kind, list) else [kind]
        if not any(_IS[name][1](value) for name in names):
            wanted = " or ".join(_IS[name][0] for name in names)
            _note(found, path, f"{shown(value)} is not {wanted}")
            return
    if "enum" in schema:
        _check_enum(value, schema["enum"], path, found, spent)
    if "anyOf" in schema:
        _check_choices(value, schema["anyOf"], path, found, spent)
    if isinstance(value, Mapping):
        _check_members(value, schema, path, found, spent)
    elif isinstance(value, list | tuple) and "items" in schema:
        for index, item in enumerate(value):
            _check_plain(item, schema["items"], f"{path}[{index}]", found, spent)


MOST_NOTED: Final = 100
"""Mistakes that are told of one value. A long list of wrong things is wrong in one way."""


def _note(found: Mistakes, path: str, text: str) -> None:
    if len(found) < MOST_NOTED:
        found.append((path, text))


def _check_enum(
    value: Any, words: list[Any], path: str, found: Mistakes, spent: Effort
) -> None:
    spent.spend(len(words) // _COMPARED)
    if value not in words:
        listed = _short(", ".join(words[:MOST_NOTED]))
        _note(found, path, f"{shown(value)} is not one of {listed}")


_COMPARED: Final = 32
"""Words of a list that are compared in the time of one step."""


def _check_members(
    value: Any, schema: Any, path: str, found: Mistakes, spent: Effort
) -> None:
    known = schema.get("properties", {})
    rest = schema.get("additionalProperties", True)
    required = schema.get("required", ())
    spent.spend(len(required) // _COMPARED)
    for name in required:
        if name not in value:
            spent.spend()
            _note(found, path, f"{shown(name)} is missing")
    if not known and rest is True:
        return
    for name, inner in value.items():
        if name in known:
            _check_plain(inner, known[name], f"{path}.{name}", found, spent)
        elif rest is False:
            spent.spend()
            _note(found, path, f"{shown(name)} is not allowed here")
        else:
            _check_plain(inner, rest, f"{path}.{name}", found, spent)


def _check_choices(
    value: Any, choices: list[Any], path: str, found: Mistakes, spent: Effort
) -> None:
    closest: Mistakes | None = None
    for schema in choices:
        mistakes: Mistakes = []
        _check_plain(value, schema, path, mistakes, spent)
        if not mistakes:
            return
        # The alternative that goes wrong deepest is the one that was meant.
        if closest is None or len(mistakes[0][0]) > len(closest[0][0]):
            closest = mistakes
    assert closest is not None
    if closest[0][0] == path:
        _note(found, path, f"{shown(value)} is none of what is allowed here")
    else:
        found.extend(closest)


def _short(text: str) -> str:
    # A message quotes the value, which may be a book.
    return text if len(text) <= _MESSAGE_SHOWN else text[: _MESSAGE_SHOWN - 1] + "…"


_MESSAGE_SHOWN: Final = 300


def _check_fully(value: Any, schema: Any, spent: Effort) -> Mistakes:
    from jsonschema.exceptions import SchemaError
    from referencing.exceptions import Unresolvable

    from heddle.spec.full_schemas import validator

    spent.spend(SETTING_OUT)
    try:
        with spending(spent):
            errors = validator(msgspec.json.encode(schema)).iter_errors(value)
            return [_told(error) for error in islice(errors, MOST_NOTED)]
    except SchemaError as error:
        return [("$", f"the schema itself is not valid: {_short(error.message)}")]
    except Unresolvable as error:
        return [("$", f"the schema refers to {shown(error.ref)}, which is not in it")]
    except PatternInvalid as error:
        return [("$", f"the schema itself is not valid: {_short(error.what)}")]
    except RecursionError:
        return [("$", "the value is nested too deeply to be checked")]


def _told(error: Any) -> tuple[str, str]:
    path = "$" + "".join(
        f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.absolute_path
    )
    return path, _short(error.message)


SETTING_OUT: Final = 100
"""Steps that it costs to begin, however little there is to check."""
