"""Patterns in the types of strangers: few, short, and matched in bounded time."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from heddle.server.failures import SubmissionRefused
from heddle.spec import problem_with, schema_places

MAX_PATTERNS: Final = 256
MAX_PATTERN: Final = 1024
"""Reading a pattern takes up to a millisecond, and one of them is one long step."""


def refuse_patterns(schema: Any, seen: set[str], *, where: str) -> None:
    """See that every pattern in a JSON Schema is one that anybody may bring.

    Args:
        schema: Or anything that has some in it.
        seen: The patterns of the same request before it; these are added.
        where: For the error.

    Raises:
        SubmissionRefused: One is not.
    """
    for pattern in patterns_in(schema):
        if pattern in seen:
            continue
        seen.add(pattern)
        if len(seen) > MAX_PATTERNS or len(pattern) > MAX_PATTERN:
            raise SubmissionRefused(
                f"a submitted flow has at most {MAX_PATTERNS} patterns of at most "
                f"{MAX_PATTERN} characters",
                where=where,
                fix="Use fewer and shorter ones.",
            )
        problem = problem_with(pattern)
        if problem is not None:
            raise SubmissionRefused(
                problem,
                where=where,
                fix="Write it without looking ahead, looking behind and referring back.",
            )


def patterns_in(schema: Any) -> Iterator[str]:
    """The regular expressions in a JSON Schema."""
    for each in schema_places(schema):
        if isinstance(each, Mapping):
            if isinstance(each.get("pattern"), str):
                yield each["pattern"]
            if isinstance(each.get("patternProperties"), Mapping):
                yield from each["patternProperties"]
