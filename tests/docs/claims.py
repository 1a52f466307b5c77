"""What a page claims point by point, and the tests that hold it."""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parents[1]


@cache
def _suite() -> str:
    return "\n".join(each.read_text(encoding="utf-8") for each in TESTS.rglob("test_*.py"))


def missing(names: Iterable[str]) -> list[str]:
    """Those of these tests that are nowhere in the suite."""
    return [name for name in sorted(names) if f"def {name}(" not in _suite()]


def points(page: str, *heads: str) -> list[str]:
    """The points of a page's lists and the rows of its tables, each on one line.

    Args:
        page: Its text.
        heads: How the heads of its tables begin, which claim nothing.
    """
    point = rf"^(?:- .*(?:\n  .*)*|\| (?!{'|'.join((*heads, '--'))}).*)"
    return [" ".join(each.split()) for each in re.findall(point, page, re.MULTILINE)]


def check(claims: list[str], held: Mapping[str, str]) -> None:
    """Every claim has a test that holds it, and every test holds one.

    Args:
        claims: From `points`.
        held: Words of a claim, and the name of its test.
    """
    assert missing(held.values()) == []
    keys = {claim: [key for key in held if key in claim] for claim in claims}
    assert [claim for claim, found in keys.items() if not found] == []
    assert set(held) == {key for found in keys.values() for key in found}
