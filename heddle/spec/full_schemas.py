"""JSON Schemas of every kind, checked by ``jsonschema`` within an effort.

Each keyword that is looked at costs steps, and what takes longer than in proportion (the
same items compared with one another, patterns that backtrack) is done in another way here.
A schema refers to nothing outside of itself: nothing is fetched.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any, Final

import msgspec
from jsonschema.exceptions import ValidationError
from jsonschema.validators import Draft202012Validator, extend, validator_for
from referencing.jsonschema import EMPTY_REGISTRY

from heddle.spec.effort import effort, schema_places, spend_on_checking
from heddle.spec.patterns import searcher

KEPT: Final = 1024
"""Validators that are kept: as many declared types as a busy server has in use."""

MAX_KEPT_SCHEMA: Final = 64 * 1024
"""Bytes of a schema above which its validator is made anew each time."""

KEYWORD: Final = 8
"""Steps that a keyword costs: ``jsonschema`` is that much slower than a step is long."""

READ_IN_A_STEP: Final = 512
"""Bytes of a schema that are read in the time of a step."""

UNEVALUATED: Final = frozenset(("unevaluatedItems", "unevaluatedProperties"))

REFERENCES: Final = frozenset(("$ref", "$dynamicRef", "$recursiveRef"))

ROOM: Final = 64
"""Calls that following a reference may nest: it takes some twenty, whatever is checked."""

Keyword = Callable[[Any, Any, Any, Any], Iterator[ValidationError] | None]


def validator(schema: bytes) -> Any:
    """A validator of this schema.

    Raises:
        SchemaError: It is none.
        EffortExceeded: It is too large.
    """
    effort().spend(len(schema) // READ_IN_A_STEP)
    return _kept(schema) if len(schema) <= MAX_KEPT_SCHEMA else _made(schema)


def _made(schema: bytes) -> Any:
    read = msgspec.json.decode(schema)
    kind = validator_for(read, default=Draft202012Validator)
    # A part that names a dialect would be checked by another class than this one.
    _forget_dialects(read)
    spend_on_checking(read)
    kind.check_schema(read)
    return _bounded(kind)(read, registry=EMPTY_REGISTRY)


_kept: Final = lru_cache(maxsize=KEPT)(_made)


def _forget_dialects(schema: Any) -> None:
    """Take each ``$schema`` out."""
    for each in schema_places(schema):
        if isinstance(each, dict) and isinstance(each.get("$schema"), str):
            del each["$schema"]


@cache
def _bounded(kind: Any) -> Any:
    """A class of validators of a dialect, which spend as they go."""
    own = {name: OWN.get(name, word) for name, word in kind.VALIDATORS.items()}
    for name in UNEVALUATED.intersection(own):
        own[name] = _unevaluated(own[name])
    for name in (REFERENCES | UNEVALUATED).intersection(own):
        own[name] = _with_room(own[name])
    words = {name: _spending(word) for name, word in own.items()}
    return extend(kind, words)  # type: ignore[no-untyped-call]


def _spending(keyword: Keyword) -> Keyword:
    def spend_and_check(
        validator: Any, wanted: Any, instance: Any, schema: Any
    ) -> Iterator[ValidationError]:
        spent = effort()
        # A list of words or names is gone through, mostly in C.
        many = len(wanted) if isinstance(wanted, (list, dict)) else 0
        spent.spend(KEYWORD + many // 8)
        for error in keyword(validator, wanted, instance, schema) or ():
            if not isinstance(error.validator, str):
                # It was made here, and not in a part of the value that it comes from: its
                # message quotes the whole of it.
                spent.spend(_weight(instance, spent.left))
            yield error

    return spend_and_check


def _with_room(keyword: Keyword) -> Keyword:
    """The keyword, begun only where the stack has room for all that it calls.

    What looks references up is written in Rust, and a comparison that fails there for want
    of room is a panic and no error.
    """

    def check(
        validator: Any, wanted: Any, instance: Any, schema: Any
    ) -> Iterator[ValidationError]:
        _nest(ROOM)
        yield from keyword(validator, wanted, instance, schema) or ()

    return check


def _nest(calls: int) -> None:
    """Raises `RecursionError` where so many more calls do not fit."""
    if calls:
        _nest(calls - 1)


def _weight(value: Any, most: int) -> int:
    """How long it takes to write a value out, in steps."""
    found = 0
    waiting = [value]
    while waiting and found <= most:
        each = waiting.pop()
        found += 1
        if isinstance(each, dict):
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
        elif isinstance(each, str):
            found += len(each) // READ_IN_A_STEP
    return found


# --- keywords in a way of our own ---------------------------------------------------


def _unique_items(
    validator: Any, wanted: Any, instance: Any, _schema: Any
) -> Iterator[ValidationError]:
    if not wanted or not validator.is_type(instance, "array"):
        return
    effort().spend(_weight(instance, effort().left))
    seen = set()
    for item in instance:
        key = _identity(item)
        if key in seen:
            yield ValidationError(f"{instance!r} has non-unique elements")
            return
        seen.add(key)


def _identity(value: Any) -> Any:
    """The same for equal JSON values alone: 1 is 1.0, and no boolean is a number."""
    if isinstance(value, bool):
        return ("boolean", value)
    if isinstance(value, (list, tuple)):
        return ("array", *map(_identity, value))
    if isinstance(value, Mapping):
        return frozenset((key, _identity(inner)) for key, inner in value.items())
    return value


def _matches(patterns: Mapping[str, Any] | list[str], name: str) -> bool:
    effort().spend(len(patterns))
    return any(searcher(pattern).search(name) for pattern in patterns)


def _pattern(
    validator: Any, wanted: Any, instance: Any, _schema: Any
) -> Iterator[ValidationError]:
    if not validator.is_type(instance, "string"):
        return
    effort().spend(len(instance) // READ_IN_A_STEP)
    if not searcher(wanted).search(instance):
        yield ValidationError(f"{instance!r} does not match {wanted!r}")


def _pattern_properties(
    validator: Any, wanted: Any, instance: Any, _schema: Any
) -> Iterator[ValidationError]:
    if not validator.is_type(instance, "object"):
        return
    for pattern, inner in wanted.items():
        search = searcher(pattern).search
        effort().spend(len(instance))
        for name, value in instance.items():
            if search(name):
                yield from validator.descend(value, inner, path=name, schema_path=pattern)


def _additional_properties(
    validator: Any, wanted: Any, instance: Any, schema: Any
) -> Iterator[ValidationError]:
    if not validator.is_type(instance, "object"):
        return
    known = schema.get("properties", {})
    patterns = schema.get("patternProperties", {})
    extras = [
        name
        for name in instance
        if name not in known and not (patterns and _matches(patterns, name))
    ]
    if validator.is_type(wanted, "object"):
        for name in extras:
            yield from validator.descend(instance[name], wanted, path=name)
    elif not wanted and extras:
        listed = ", ".join(repr(name) for name in sorted(extras))
        yield ValidationError(f"Additional properties are not allowed ({listed})")


def _any_of(
    validator: Any, wanted: Any, instance: Any, _schema: Any
) -> Iterator[ValidationError]:
    # The library keeps what is wrong under each alternative, which is nobody's to read.
    if not any(_holds(validator, instance, inner) for inner in wanted):
        yield ValidationError(f"{instance!r} is not valid under any of the given schemas")


def _one_of(
    validator: Any, wanted: Any, instance: Any, _schema: Any
) -> Iterator[ValidationError]:
    holding = [inner for inner in wanted if _holds(validator, instance, inner)]
    if not holding:
        yield ValidationError(f"{instance!r} is not valid under any of the given schemas")
    elif len(holding) > 1:
        yield ValidationError(f"{instance!r} is valid under {len(holding)} of the schemas")


def _holds(validator: Any, instance: Any, schema: Any) -> bool:
    return next(validator.descend(instance, schema), None) is None


def _unevaluated(keyword: Keyword) -> Keyword:
    def check(
        validator: Any, wanted: Any, instance: Any, schema: Any
    ) -> Iterator[ValidationError]:
        if isinstance(instance, (dict, list)):
            # Each is looked for in a list of those that were seen.
            effort().spend(len(instance) ** 2 // 64)
        yield from keyword(validator, wanted, instance, schema) or ()

    return check


OWN: Final[Mapping[str, Keyword]] = {
    "anyOf": _any_of,
    "oneOf": _one_of,
    "uniqueItems": _unique_items,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
}
"""Keywords that the library checks in a time, or keeps errors of in a memory, that grows
faster than what is checked."""
