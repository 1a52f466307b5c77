"""Where things stand from left to right: ranks in order, links as straight as may be.

A rank is put as near to where its neighbours want it as its widths allow, which is a least
squares fit under an order; ranks are gone through down and up until they settle.

Source:
    M. Ayer et al., "An Empirical Distribution Function for Sampling with Incomplete
    Information", Ann. Math. Stat. 26(4), 1955 (pool adjacent violators).
"""

from collections.abc import Callable, Sequence
from typing import Final

from heddle.cli.drawing.layers import Arranged

PASSES: Final = 10

BEND, MIXED, BOX = 8.0, 2.0, 1.0
"""How much a segment wants to be straight: between two bends, a bend and a box, boxes."""


def spaced(
    arranged: Arranged, width: Callable[[int], float], gap: Callable[[int, int], float]
) -> dict[int, float]:
    """The middle of each point, from left to right, the leftmost edge at 0.

    Args:
        arranged: What is where in which rank.
        width: How wide a point is.
        gap: The least room between two neighbours of a rank.
    """
    middle = {
        point: at
        for rank in arranged.ranks
        for point, at in zip(rank, _packed(rank, width, gap), strict=True)
    }
    near: tuple[dict[int, list[tuple[int, float]]], ...] = ({}, {})
    for upper, lower, _ in arranged.segments():
        bends = (upper >= arranged.boxes) + (lower >= arranged.boxes)
        weight = (BOX, MIXED, BEND)[bends]
        near[0].setdefault(lower, []).append((upper, weight))
        near[1].setdefault(upper, []).append((lower, weight))
    for number in range(PASSES):
        down = number % 2 == 0
        # At last both sides count, so that neither end of a branch hangs over.
        sides = near if number >= PASSES - 2 else (near[0 if down else 1],)
        for rank in arranged.ranks if down else reversed(arranged.ranks):
            _settle(rank, sides, middle, width, gap)
    left = min((at - width(point) / 2 for point, at in middle.items()), default=0.0)
    return {point: at - left for point, at in middle.items()}


def _packed(
    rank: Sequence[int], width: Callable[[int], float], gap: Callable[[int, int], float]
) -> list[float]:
    """The middles of a rank set side by side, around 0."""
    ats: list[float] = []
    for index, point in enumerate(rank):
        ats.append(
            0.0 if not index else ats[-1] + _apart(rank[index - 1], point, width, gap)
        )
    shift = ats[-1] / 2 if ats else 0.0
    return [at - shift for at in ats]


def _apart(
    one: int, other: int, width: Callable[[int], float], gap: Callable[[int, int], float]
) -> float:
    return (width(one) + width(other)) / 2 + gap(one, other)


def _settle(
    rank: Sequence[int],
    sides: Sequence[dict[int, list[tuple[int, float]]]],
    middle: dict[int, float],
    width: Callable[[int], float],
    gap: Callable[[int, int], float],
) -> None:
    """Put one rank as near as may be to where its neighbours want it."""
    offset = 0.0
    # (sum of weight x wish, sum of weight, points), each a group that moves as one.
    groups: list[tuple[float, float, int]] = []
    offsets: list[float] = []
    for index, point in enumerate(rank):
        if index:
            offset += _apart(rank[index - 1], point, width, gap)
        offsets.append(offset)
        wishes = [pair for side in sides for pair in side.get(point, ())]
        weight = sum(each for _, each in wishes) or 0.01
        wish = sum(middle[near] * each for near, each in wishes) / weight
        wanted = (wish if wishes else middle[point]) - offset
        group = (wanted * weight, weight, 1)
        while groups and groups[-1][0] / groups[-1][1] > group[0] / group[1]:
            last = groups.pop()
            group = (last[0] + group[0], last[1] + group[1], last[2] + group[2])
        groups.append(group)
    index = 0
    for total, weight, size in groups:
        for _ in range(size):
            middle[rank[index]] = total / weight + offsets[index]
            index += 1
