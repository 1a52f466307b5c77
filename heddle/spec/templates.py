"""Placeholders in texts: ``{{ name }}``, found and filled in one pass.

A name is letters, digits and underscores; blanks around it don't count. There are no
expressions, and braces inside a value that was filled in are left alone.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, Final, TypeAlias

import msgspec

from heddle.spec.effort import effort
from plugins_host import Fault

PLACEHOLDER: Final = re.compile(r"\{\{\s*(\w+)\s*\}\}")


MAX_TEXT: Final = 16 * 1024 * 1024
"""Characters of a text that is filled in: no model reads as many, and a document in which
one long value is named a thousand times is no reason to run out of memory."""


class TextTooLong(Fault):
    """A text with its placeholders filled in is beyond `MAX_TEXT`."""

    def __init__(self) -> None:
        super().__init__(
            f"with its placeholders filled in, a text has more than {MAX_TEXT // 2**20} "
            "million characters",
            fix="Name long values fewer times.",
        )


FILLED: Final = 2
"""Placeholders that are filled in in the time of a step."""


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

    Raises:
        TextTooLong: It would be longer than `MAX_TEXT`.
        EffortExceeded: It has very many placeholders.
    """
    if "{{" not in text:
        return text, ()
    effort().spend(text.count("{{") // FILLED)
    unknown: dict[str, None] = {}
    written: dict[str, str] = {}
    left = MAX_TEXT - len(text)

    def fill(match: re.Match[str]) -> str:
        nonlocal left
        name = match[1]
        if name not in values:
            unknown[name] = None
            return match[0]
        filled = written.get(name)
        if filled is None:
            filled = written[name] = as_text(values[name])
        left -= len(filled)
        if left < 0:
            raise TextTooLong
        return filled

    return PLACEHOLDER.sub(fill, text), tuple(unknown)


# Prompts come again with every run of their flow. Those of ordinary length and with few
# placeholders are taken apart once.
_LONGEST_KNOWN: Final = 16 * 1024
_FEW: Final = 64

_Template: TypeAlias = tuple[str, tuple[tuple[str, str, str], ...]]
"""What comes first, then for each placeholder its name, how it is written, and what
follows it."""


@lru_cache(maxsize=256)
def _template(text: str) -> _Template | None:
    """A text taken apart; None when it has too many placeholders."""
    found = list(islice(PLACEHOLDER.finditer(text), _FEW + 1))
    if len(found) > _FEW or text.count("{{") > _FEW:
        return None
    ends = [*(each.start() for each in found[1:]), len(text)]
    first = text[: found[0].start()] if found else text
    return first, tuple(
        (each[1], each[0], text[each.end() : end])
        for each, end in zip(found, ends, strict=False)
    )


def render_briefly(
    text: str, values: Mapping[str, Any]
) -> tuple[str, tuple[str, ...]] | None:
    """The same of a text that takes no time to speak of; None when it may take some.

    Raises:
        TextTooLong: As `render`.
    """
    template = _template(text) if len(text) <= _LONGEST_KNOWN else None
    if template is None:
        return None
    first, rest = template
    parts = [first]
    unknown: list[str] = []
    known: dict[str, str] = {}
    left = MAX_TEXT - len(text)
    for name, written, after in rest:
        if name not in values:
            if name not in unknown:
                unknown.append(name)
            parts += (written, after)
            continue
        filled = known.get(name)
        if filled is None:
            filled = known[name] = as_text(values[name])
        left -= len(filled)
        if left < 0:
            raise TextTooLong
        parts += (filled, after)
    return "".join(parts), tuple(unknown)


def as_text(value: Any) -> str:
    """A value as a text shows it: strings as they are, anything else as compact JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
