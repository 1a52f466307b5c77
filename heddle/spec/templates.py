"""Placeholders in texts: ``{{ name }}``, found and filled in one pass.

A name is letters, digits and underscores; blanks around it don't count. There are no
expressions, and braces inside a value that was filled in are left alone.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

PLACEHOLDER: Final = re.compile(r"\{\{\s*(\w+)\s*\}\}")


def placeholders(text: str) -> tuple[str, ...]:
    """The distinct names in ``text``, in the order of their first appearance."""
    if "{{" not in text:
        return ()
    return tuple(dict.fromkeys(PLACEHOLDER.findall(text)))


def render(text: str, values: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """Fill in what ``values`` has; a string as it is, anything else as compact JSON.

    Returns:
        The text, and the names that ``values`` doesn't have: they stay as they are
        written, each listed once.
    """
    if "{{" not in text:
        return text, ()
    unknown: dict[str, None] = {}

    def fill(match: re.Match[str]) -> str:
        name = match[1]
        if name not in values:
            unknown[name] = None
            return match[0]
        value = values[name]
        return value if isinstance(value, str) else as_text(value)

    return PLACEHOLDER.sub(fill, text), tuple(unknown)


def as_text(value: Any) -> str:
    """A value as a text shows it: strings as they are, anything else as compact JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
