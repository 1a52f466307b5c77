"""Boxes and lines put in ranks, top to bottom, with few crossings: a layered drawing.

    laid = arrange(3, [Link(0, 1), Link(1, 2, labelled=True), Link(2, 0)])
    laid.ranks      [[0], [1], [3], [2]]     3 is the label of the link from 1 to 2

Every link leads through one point of each rank between its ends, one of which is its label
if it has one. Links that would lead upwards are turned around here and drawn as they are.

Source:
    K. Sugiyama, S. Tagawa, M. Toda, "Methods for Visual Understanding of Hierarchical
    System Structures", IEEE Trans. SMC 11(2), 1981.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

SWEEPS: Final = 12
"""Passes down and up in which ranks are put in order; more change little."""

MAX_POINTS: Final = 20_000
"""Above this many, ranks stay in the order in which they are met."""


MAX_BENDS: Final = 100_000
"""Points of links between their ends. Of a thousand nodes in a row that each lead to the
last as well there are a million, and nobody could follow them."""


class TooManyBends(Exception):
    """There is no picture of this that anybody could read, nor in time."""


class Link(Struct, frozen=True):
    """A line to arrange; ``labelled`` ones have a point for their label."""

    source: int
    target: int
    labelled: bool = False


class Chain(Struct, frozen=True):
    """The way of one link, from its upper end to its lower one, both included.

    ``upwards`` is whether it leads from the lower end to the upper. ``label`` is its point.
    """

    link: int
    points: tuple[int, ...]
    upwards: bool
    label: int | None = None


class Arranged(Struct, frozen=True):
    """Points by rank, in order. Numbers below ``boxes`` are boxes."""

    boxes: int
    ranks: list[list[int]]
    chains: list[Chain]

    def segments(self) -> Iterator[tuple[int, int, Chain]]:
        """The parts of links between ranks: upper point, lower point, link."""
        for chain in self.chains:
            for upper, lower in zip(chain.points, chain.points[1:], strict=False):
                yield upper, lower, chain


def arrange(boxes: int, links: Sequence[Link]) -> Arranged:
    """Put boxes and links in ranks. Box 0 is where reading begins.

    Raises:
        TooManyBends: They would have over `MAX_BENDS`.
    """
    downwards = _downwards(boxes, links)
    rank = _rank(boxes, downwards)
    if sum(rank[lower] - rank[upper] - 1 for upper, lower in downwards) > MAX_BENDS:
        raise TooManyBends
    ranks: list[list[int]] = [[] for _ in range(max(rank, default=-1) + 1)]
    for box in range(boxes):
        ranks[rank[box]].append(box)
    chains = []
    count = boxes
    for number, (link, (upper, lower)) in enumerate(zip(links, downwards, strict=True)):
        points = [upper]
        for between in range(rank[upper] + 1, rank[lower]):
            ranks[between].append(count)
            points.append(count)
            count += 1
        points.append(lower)
        label = points[1] if link.labelled else None
        chains.append(Chain(number, tuple(points), upper != link.source, label))
    arranged = Arranged(boxes, ranks, chains)
    if count <= MAX_POINTS:
        _order(arranged, count)
    return arranged


def _downwards(boxes: int, links: Sequence[Link]) -> list[tuple[int, int]]:
    """The ends of each link, upper first, so that no links lead in a circle."""
    targets: list[list[int]] = [[] for _ in range(boxes)]
    for link in links:
        targets[link.source].append(link.target)
    # In the order of a walk: a link to a box that is still open closes a circle.
    state = [0] * boxes
    back: set[tuple[int, int]] = set()
    for first in range(boxes):
        if state[first]:
            continue
        state[first] = 1
        open_ = [(first, iter(targets[first]))]
        while open_:
            box, left = open_[-1]
            for target in left:
                if state[target] == 1:
                    back.add((box, target))
                elif state[target] == 0:
                    state[target] = 1
                    open_.append((target, iter(targets[target])))
                    break
            else:
                state[box] = 2
                open_.pop()
    return [
        (each.target, each.source)
        if (each.source, each.target) in back
        else (each.source, each.target)
        for each in links
    ]


def _rank(boxes: int, downwards: Sequence[tuple[int, int]]) -> list[int]:
    """How far down each box is: below all that leads to it, with a rank for labels."""
    below: list[list[int]] = [[] for _ in range(boxes)]
    above = [0] * boxes
    for upper, lower in downwards:
        below[upper].append(lower)
        above[lower] += 1
    rank = [0] * boxes
    todo = [box for box in range(boxes) if not above[box]]
    while todo:
        box = todo.pop()
        for lower in below[box]:
            # Boxes are on even ranks: labels and turns have the odd ones to themselves.
            rank[lower] = max(rank[lower], rank[box] + 2)
            above[lower] -= 1
            if not above[lower]:
                todo.append(lower)
    return rank


def _order(arranged: Arranged, count: int) -> None:
    """Put each rank in an order with few crossings; the best that was seen stays."""
    uppers: list[list[int]] = [[] for _ in range(count)]
    lowers: list[list[int]] = [[] for _ in range(count)]
    for upper, lower, _ in arranged.segments():
        lowers[upper].append(lower)
        uppers[lower].append(upper)
    ranks = arranged.ranks
    place = [0.0] * count

    def remember() -> None:
        for rank in ranks:
            for index, point in enumerate(rank):
                place[point] = index

    remember()
    best = [list(rank) for rank in ranks]
    fewest = _crossings(ranks, lowers, place)
    for sweep in range(SWEEPS):
        if not fewest:
            break
        down = sweep % 2 == 0
        near = uppers if down else lowers
        for rank in ranks if down else reversed(ranks):
            keys = {
                point: sum(place[each] for each in near[point]) / len(near[point])
                if near[point]
                else place[point]
                for point in rank
            }
            rank.sort(key=keys.__getitem__)
            for index, point in enumerate(rank):
                place[point] = index
        crossings = _crossings(ranks, lowers, place)
        if crossings < fewest:
            fewest, best = crossings, [list(rank) for rank in ranks]
    ranks[:] = best


def _crossings(
    ranks: Sequence[Sequence[int]], lowers: Sequence[Sequence[int]], place: Sequence[float]
) -> int:
    """How many pairs of segments cross, by counting inversions."""
    found = 0
    for rank in ranks:
        ends = [
            int(p) for point in rank for p in sorted(place[low] for low in lowers[point])
        ]
        if len(ends) < 2:
            continue
        # A Fenwick tree: how many ends so far are to the right of each.
        tree = [0] * (max(ends) + 2)
        for seen, end in enumerate(ends):
            before, index = 0, end + 1
            while index:
                before += tree[index]
                index &= index - 1
            found += seen - before
            index = end + 1
            while index < len(tree):
                tree[index] += 1
                index += index & -index
    return found
