"""Inputs and outputs as documents declare them: JSON Schemas with a title.

    {"title": "city", "type": "string", "description": "…", "default": "Zürich"}

The title is the name that placeholders and edges use, so it can't hold blanks, quotes,
braces, commas or periods. The schema itself is looked at as far as its shape goes: types by
their names, sub-schemas where a schema belongs, and what other keywords may hold.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from msgspec import UNSET

from heddle.spec.component import Property
from heddle.spec.keywords import KEYWORDS, wanted
from heddle.spec.problems import Path, Problem, Problems, TooManyProblems, shown
from heddle.spec.validation import check, is_plain
from plugins_host import one_of

_TITLE: Final = re.compile(r"[^\s\"'{},.]+")

JSON_TYPES: Final = frozenset(
    ("string", "integer", "number", "boolean", "null", "array", "object")
)
_SCHEMAS: Final = frozenset(
    (
        *("items", "additionalProperties", "not", "contains", "if", "then", "else"),
        *("propertyNames", "unevaluatedItems", "unevaluatedProperties"),
    )
)
_SCHEMA_LISTS: Final = frozenset(("anyOf", "oneOf", "allOf", "prefixItems"))
_SCHEMA_MAPS: Final = frozenset(
    ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
)
_WITH_SCHEMAS: Final = _SCHEMAS | _SCHEMA_LISTS | _SCHEMA_MAPS
_LOOKED_AT: Final = _WITH_SCHEMAS | KEYWORDS.keys()


def read_properties(raw: Sequence[Any]) -> tuple[tuple[Property, ...], list[Problem]]:
    """Inputs or outputs that are no document's, and what is wrong with them.

    The paths of the problems begin in the list.
    """
    problems = Problems()
    found: dict[str, Property] = {}
    for _, one in _titled(raw, None, problems):
        found.setdefault(one.title, one)
    return tuple(found.values()), problems.found


def declared_properties(
    raw: list[Any], path: Path, problems: Problems
) -> list[Property] | None:
    """The inputs or outputs of a component; None when their problems were added."""
    before = len(problems)
    read: list[Property] = []
    for place, one in _titled(raw, path, problems):
        read.append(one)
        if one.has_default and is_plain(one.schema):
            for _, mistake in check(one.default, one.schema):
                problems.warn((place, "default"), mistake)
    return read if len(problems) == before else None


def _titled(
    raw: Sequence[Any], path: Path, problems: Problems
) -> Iterator[tuple[Path, Property]]:
    """Each property that can be read, and where it is; a title is used once."""
    titles: set[str] = set()
    for index, each in enumerate(raw):
        place = (path, index)
        one = read_property(each, place, problems)
        if one is None:
            continue
        if one.title in titles:
            problems.add(
                place, f"the title {shown(one.title)} is used twice", "Rename one."
            )
        titles.add(one.title)
        yield place, one


def read_property(raw: Any, path: Path, problems: Problems) -> Property | None:
    """One input or output; None when its problems were added."""
    before = len(problems)
    if type(raw) is not dict:
        problems.add(
            path,
            f"an input or output is a JSON Schema, this is {shown(raw)}",
            "Write an object with 'title' and 'type'.",
        )
        return None
    title: Any = raw.get("title")
    if type(title) is not str or not _TITLE.fullmatch(title):
        _refuse_title(raw, path, problems)
    check_schema(raw, path, problems, keywords=True)
    if len(problems) != before:
        return None
    return Property(title, raw, raw.get("default", UNSET))


def _refuse_title(raw: dict[str, Any], path: Path, problems: Problems) -> None:
    if "title" not in raw:
        named = "Rename 'name' to 'title'." if "name" in raw else ""
        problems.add(path, "'title' is missing", named or "Add a title: it is the name.")
    else:
        problems.add(
            (path, "title"),
            f"{shown(raw['title'])} can't be the name of an input or output",
            "Use text without blanks, quotes, braces, commas and periods.",
        )


def schema_flaw(schema: Any) -> Problem | None:
    """The first thing that is wrong with the shape of a JSON Schema that no document has.

    One without a flaw can be used by `check` and `convert`.
    """
    problems = Problems()
    with suppress(TooManyProblems):
        check_schema(schema, None, problems)
    return problems.found[0] if problems.found else None


def check_schema(
    schema: Any, path: Path, problems: Problems, *, keywords: bool = False
) -> None:
    """Add what is wrong with the shape of a JSON Schema.

    With ``keywords`` also what is wrong under those that hold no schemas: of one that
    somebody else's program gives, the shape is all that is relied on.
    """
    if type(schema) is not dict:
        if type(schema) is not bool:
            problems.add(path, f"{shown(schema)} is not a JSON Schema", "Write an object.")
        return
    kind = schema.get("type")
    if (type(kind) is not str or kind not in JSON_TYPES) and "type" in schema:
        _check_types(kind, (path, "type"), problems)
    looked_at = _LOOKED_AT if keywords else _WITH_SCHEMAS
    if looked_at.isdisjoint(schema):
        return
    for key, value in schema.items():
        if key in looked_at:
            _check_keyword(key, value, (path, key), problems, keywords=keywords)


def _check_keyword(
    key: str, value: Any, path: Path, problems: Problems, *, keywords: bool
) -> None:
    """Look at sub-schemas, and at what is to be a number, a text or the like."""
    if key in KEYWORDS:
        if belongs := wanted(key, value):
            problems.add(path, f"this is {shown(value)} where {belongs} belongs")
    elif key in _SCHEMAS:
        check_schema(value, path, problems, keywords=keywords)
    elif key in _SCHEMA_LISTS and type(value) is list and (value or not keywords):
        for index, schema in enumerate(value):
            check_schema(schema, (path, index), problems, keywords=keywords)
    elif key in _SCHEMA_MAPS and type(value) is dict:
        for name, schema in value.items():
            check_schema(schema, (path, name), problems, keywords=keywords)
    else:
        belongs = "a list of schemas" if key in _SCHEMA_LISTS else "an object of schemas"
        problems.add(path, f"this is {shown(value)} where {belongs} belongs")


def _check_types(kind: Any, path: Path, problems: Problems) -> None:
    names = kind if type(kind) is list and kind else [kind]
    for name in names:
        if type(name) is not str or name not in JSON_TYPES:
            problems.add(
                path,
                f"{shown(name)} is not a JSON type",
                one_of(str(name)[:20], sorted(JSON_TYPES)),
            )
