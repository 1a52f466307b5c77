"""Regular expressions of documents: matched in a time that the text's length bounds.

A backtracking matcher can be kept busy for years by a pattern of ten characters. RE2 can't,
and does without what needs backtracking: looking around and referring back. A pattern that
has such things is matched as Python does; who may not write one is told by `problem_with`.
"""

import re
from functools import lru_cache
from typing import Any, Final

from plugins_host import Fault

KEPT: Final = 1024
LONGEST_SHOWN: Final = 60
_UNICODE: Final = re.compile(r"\\u([0-9A-Fa-f]{4})")


class PatternInvalid(Fault):
    """A pattern is none."""


def searcher(pattern: str) -> Any:
    """Something with a ``search`` of texts.

    Raises:
        PatternInvalid: It is no pattern.
    """
    return _compiled(pattern)[0]


def problem_with(pattern: str) -> str | None:
    """Why the time that this pattern takes is not bounded; None when it is."""
    try:
        return _compiled(pattern)[1]
    except PatternInvalid as error:
        return error.what


@lru_cache(maxsize=KEPT)
def _compiled(pattern: str) -> tuple[Any, str | None]:
    import re2  # type: ignore[import-untyped]

    options = re2.Options()
    options.log_errors = False
    shown = pattern if len(pattern) <= LONGEST_SHOWN else pattern[:LONGEST_SHOWN] + "…"
    try:
        # JSON Schema's patterns are those of ECMA-262, which writes characters like this.
        return re2.compile(_UNICODE.sub(r"\\x{\1}", pattern), options), None
    except (re2.error, UnicodeError) as error:
        why = f"the pattern {shown!r} cannot be matched in bounded time: {_words(error)}"
    try:
        return re.compile(pattern), why
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternInvalid(f"{shown!r} is no regular expression: {error}") from error


def _words(error: Exception) -> str:
    [*_, reason] = error.args or ("",)
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
