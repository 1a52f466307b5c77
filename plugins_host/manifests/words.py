"""How values and types of JSON are called in sentences about a manifest."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, get_args

import msgspec

_WANTED: Final[Mapping[str, str]] = {
    "Expected `str` of length >= 1": "a text that is not empty",
    "Expected `str`": "a text",
    "Expected `bool`": "true or false",
    "Expected `array` of length >= 1": "an array that is not empty",
    "Expected `array`": "an array",
    "Expected `object`": "an object",
}


def wanted(error: str) -> str:
    """What msgspec says that it expected, in words."""
    kind = error.partition(",")[0].replace(" | null`", "`")
    return _WANTED.get(kind, error)


def kind_of(value: object) -> str:
    """What kind of JSON a value is."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case str():
            return "a text"
        case int() | float():
            return "a number"
        case list() | tuple():
            return "an array"
        case Mapping():
            return "an object"
        case _:
            return f"a Python {type(value).__name__}"


def shown(value: object) -> str:
    """The value as it was written, cut where it stops helping."""
    match value:
        case None | bool() | dict() | list() | tuple():
            try:
                text = msgspec.json.encode(value).decode()
            except (TypeError, ValueError, RecursionError):
                text = kind_of(value)
        case _:
            text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


def enum_in(annotation: Any) -> type[StrEnum] | None:
    """The enumeration somewhere inside an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return annotation
    return next(filter(None, map(enum_in, get_args(annotation))), None)
