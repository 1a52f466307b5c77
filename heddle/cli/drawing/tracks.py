"""The lines across between two ranks: which of them share a row, so that none run together.

    rows({0: (2, 9), 1: (12, 4)})     from column 2 down to column 9, from 12 down to 4

Each way leads down from its upper column to its row, along it, and down to its lower one.
Two ways may cross; they share no part of a row and, where that can be had, of a column.

Source:
    A. Hashimoto, J. Stevens, "Wire Routing by Optimizing Channel Assignment within Large
    Apertures", Design Automation Workshop, 1971 (the left-edge algorithm).
"""

from collections.abc import Mapping


def rows(ways: Mapping[int, tuple[int, int]]) -> dict[int, int]:
    """The row of each way that does not lead straight down, from 0 at the top.

    Args:
        ways: Upper and lower column, by whatever number.
    """
    across = {way: ends for way, ends in ways.items() if ends[0] != ends[1]}
    starts = {upper: way for way, (upper, _) in across.items()}
    # A way that ends in the column where another begins has to run below it.
    above = {way: starts.get(lower) for way, (_, lower) in across.items()}
    taken: list[list[tuple[int, int]]] = []
    found: dict[int, int] = {}

    def place(way: int) -> int:
        lane: list[int] = []
        current: int | None = way
        while current is not None and current not in found and current not in lane:
            lane.append(current)
            current = above[current]
        # In a circle somebody has to share a column; it is the last one.
        least = found[current] + 1 if current is not None and current in found else 0
        for each in reversed(lane):
            left, right = sorted(across[each])
            row = least
            while row < len(taken) and any(
                left <= end + 1 and begin - 1 <= right for begin, end in taken[row]
            ):
                row += 1
            while len(taken) <= row:
                taken.append([])
            taken[row].append((left, right))
            found[each] = row
            least = row + 1
        return found[way]

    # Ways to the right from the right, those to the left from the left: fewer crossings.
    to_right = sorted(
        (w for w, e in across.items() if e[0] < e[1]), key=lambda w: -across[w][0]
    )
    to_left = sorted(
        (w for w, e in across.items() if e[0] > e[1]), key=lambda w: across[w][0]
    )
    for way in (*to_right, *to_left):
        place(way)
    return found
