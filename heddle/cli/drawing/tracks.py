"""The lines across between two ranks: which of them share a row, so that none run together.

    rows({0: (2, 9), 1: (12, 4)})     from column 2 down to column 9, from 12 down to 4

Each way leads down from its upper column to its row, along it, and down to its lower one.
Two ways may cross; they share no part of a row or of a column. Where ways trade places,
each would have to run above the other: one of them goes across twice, by a column of its
own.

Source:
    A. Hashimoto, J. Stevens, "Wire Routing by Optimizing Channel Assignment within Large
    Apertures", Design Automation Workshop, 1971 (the left-edge algorithm); D. Deutsch, "A
    'Dogleg' Channel Router", Design Automation Conference, 1976 (ways that turn twice).
"""

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Final, NamedTuple, TypeAlias


class Across(NamedTuple):
    """A part of a way: along a row, 0 at the top, from where it comes to a column."""

    row: int
    to: int


_Part: TypeAlias = tuple[int, int]
"""A way, and which time it goes across, from 0."""

# Between a spare column and others, where there is room for it.
_APART: Final = 1


def rows(ways: Mapping[int, tuple[int, int]]) -> dict[int, tuple[Across, ...]]:
    """Where each way goes across that does not lead straight down, from the top.

    Args:
        ways: Upper and lower column, by whatever number.
    """
    across = {way: ends for way, ends in ways.items() if ends[0] != ends[1]}
    starts = {upper: way for way, (upper, _) in across.items()}
    parts: dict[_Part, tuple[int, int]] = {(way, 0): ends for way, ends in across.items()}
    # A way that ends in the column where another begins has to run below it.
    above: dict[_Part, list[_Part]] = {
        (way, 0): [(starts[lower], 0)] if lower in starts else []
        for way, (_, lower) in across.items()
    }
    used = {column for ends in ways.values() for column in ends}
    for way in list(_in_circles(across, starts)):
        upper, lower = across[way]
        spare = _spare((upper + lower) // 2, used)
        used.add(spare)
        parts[way, 0], parts[way, 1] = (upper, spare), (spare, lower)
        above[way, 1] = [*above[way, 0], (way, 0)]
        above[way, 0] = []
    # Ways to the right from the right, those to the left from the left: fewer crossings.
    to_right = sorted(
        (p for p, e in parts.items() if e[0] < e[1]), key=lambda p: -parts[p][0]
    )
    to_left = sorted(
        (p for p, e in parts.items() if e[0] > e[1]), key=lambda p: parts[p][0]
    )
    found = _placed([*to_right, *to_left], parts, above)
    return {
        way: tuple(
            Across(found[part], parts[part][1])
            for part in ((way, 0), (way, 1))
            if part in found
        )
        for way in across
    }


def _in_circles(
    across: Mapping[int, tuple[int, int]], starts: Mapping[int, int]
) -> Iterator[int]:
    """One way of each circle of ways that end where the next one begins."""
    seen: dict[int, int] = {}
    for walk, first in enumerate(across):
        way: int | None = first
        while way is not None and way not in seen:
            seen[way] = walk
            way = starts.get(across[way][1])
        if way is not None and seen[way] == walk:
            yield way


def _spare(near: int, used: set[int]) -> int:
    """A column that nothing leads through, with some room beside it."""
    right = max(used) + 1 + _APART
    for away in count():
        for column in (near + away, near - away):
            if column >= right:
                return right
            beside = range(column - _APART, column + _APART + 1)
            if column >= min(used) and used.isdisjoint(beside):
                return column
    raise AssertionError("there always is one to the right")  # pragma: no cover


def _placed(
    order: list[_Part],
    parts: Mapping[_Part, tuple[int, int]],
    above: Mapping[_Part, list[_Part]],
) -> dict[_Part, int]:
    """The row of each part, below all that have to be above it."""
    taken: list[list[tuple[int, int]]] = []
    found: dict[_Part, int] = {}
    for part in order:
        waiting = [part]
        while waiting:
            each = waiting[-1]
            if each in found:
                waiting.pop()
                continue
            first = [other for other in above[each] if other not in found]
            if first:
                waiting += first
                continue
            waiting.pop()
            left, right = sorted(parts[each])
            row = max((found[other] + 1 for other in above[each]), default=0)
            while row < len(taken) and any(
                left <= end + 1 and begin - 1 <= right for begin, end in taken[row]
            ):
                row += 1
            while len(taken) <= row:
                taken.append([])
            taken[row].append((left, right))
            found[each] = row
    return found
