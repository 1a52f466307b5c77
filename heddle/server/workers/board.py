"""Numbers that all processes of a server see: a row a worker, in shared memory.

    row   state  runs  connections
    0     2      17    40
    1     3      1     1              an older worker, on its way out

Every cell has one writer: ``STATE`` is the parent's, the others are their worker's. When a
worker is gone, however it went, the parent clears its row.
"""

import mmap
from typing import Final

ABSENT: Final = 0
SERVING: Final = 1
LEAVING: Final = 2

STATE: Final = 0
RUNS: Final = 1
CONNECTIONS: Final = 2
_COLUMNS: Final = 8  # 64 bytes: no two workers write to one line of the processor's cache


class Board:
    """The rows, and how often a worker had to be replaced."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        memory = mmap.mmap(-1, (rows + 1) * _COLUMNS * 8)
        self._cells = memoryview(memory).cast("q")

    def get(self, row: int, column: int) -> int:
        """What a cell says."""
        return self._cells[row * _COLUMNS + column]

    def set(self, row: int, column: int, value: int) -> None:
        """Write into a cell."""
        self._cells[row * _COLUMNS + column] = value

    def total(self, column: int) -> int:
        """The sum of a column."""
        end = self.rows * _COLUMNS
        return sum(self._cells[column:end:_COLUMNS])

    def clear(self, row: int) -> None:
        """Nobody is there any more."""
        for column in range(_COLUMNS):
            self.set(row, column, 0)

    def present(self) -> list[int]:
        """The rows of workers that have begun to serve and are not gone."""
        return [row for row in range(self.rows) if self.get(row, STATE) != ABSENT]

    @property
    def restarts(self) -> int:
        """How many workers ended on their own and were replaced."""
        return self._cells[self.rows * _COLUMNS]

    def count_restart(self) -> None:
        """One more."""
        self._cells[self.rows * _COLUMNS] += 1


class Room:
    """The room for runs that all workers share.

    Who wants to begin a run writes it down first and counts then: of two who do so at once
    both may be refused, and never are both let in where there is room for one.
    """

    def __init__(self, board: Board, row: int, most: int) -> None:
        self._board = board
        self._row = row
        self._most = most

    def take(self, active: int) -> bool:
        """Whether there is room for one more than the ``active`` runs of this worker."""
        self._board.set(self._row, RUNS, active + 1)
        if self._board.total(RUNS) <= self._most:
            return True
        self.hold(active)
        return False

    def hold(self, active: int) -> None:
        """This worker has so many runs."""
        self._board.set(self._row, RUNS, active)

    def taken(self) -> int:
        """How many runs are going on in all workers."""
        return self._board.total(RUNS)
