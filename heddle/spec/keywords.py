"""What the keywords of a JSON Schema may hold, as far as it is no schema itself.

    {"minLength": 3}        a whole number
    {"pattern": "^[a-z]+"}  a regular expression

A schema with another value there holds no value against anything, and would be found out
when the first one comes.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final


def _is_text(value: Any) -> bool:
    return type(value) is str


def _is_number(value: Any) -> bool:
    return type(value) is int or type(value) is float


def _is_count(value: Any) -> bool:
    whole = type(value) is int or (type(value) is float and value.is_integer())
    return whole and value >= 0


def _is_positive(value: Any) -> bool:
    return _is_number(value) and value > 0


def _is_flag(value: Any) -> bool:
    return type(value) is bool


def _is_list(value: Any) -> bool:
    return type(value) is list


def _are_texts(value: Any) -> bool:
    return type(value) is list and all(type(each) is str for each in value)


def _is_bound(value: Any) -> bool:
    # True says of the older dialects that the bound beside it is none of the values.
    return _is_number(value) or type(value) is bool


def _is_pattern(value: Any) -> bool:
    if type(value) is not str:
        return False
    from heddle.spec.patterns import PatternInvalid, searcher

    try:
        searcher(value)
    except PatternInvalid:
        return False
    return True


_COUNT: Final = (_is_count, "a whole number from 0")
_NUMBER: Final = (_is_number, "a number")
_BOUND: Final = (_is_bound, "a number")
_TEXT: Final = (_is_text, "text")

KEYWORDS: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _COUNT),
    **dict.fromkeys(("minProperties", "maxProperties", "minContains"), _COUNT),
    "maxContains": _COUNT,
    "minimum": _NUMBER,
    "maximum": _NUMBER,
    "exclusiveMinimum": _BOUND,
    "exclusiveMaximum": _BOUND,
    "multipleOf": (_is_positive, "a number above 0"),
    "pattern": (_is_pattern, "a regular expression"),
    "required": (_are_texts, "a list of names"),
    "enum": (_is_list, "a list of values"),
    "uniqueItems": (_is_flag, "true or false"),
    "$ref": _TEXT,
}
"""Each keyword, what tells whether a value may stand there, and what does in words."""


def wanted(key: str, value: Any) -> str | None:
    """What belongs under this keyword instead of ``value``; None where that may stand."""
    fits, words = KEYWORDS[key]
    return None if fits(value) else words
