"""What one worker has of all connections, and that it leaves some to the others.

All workers accept from the same sockets. The one that is awake takes what comes, and of a
burst that is nearly all: 31 of 32. So a worker that has more than its share waits a moment
before it takes another, in which its siblings wake up. Where none of them takes anything,
they are busy, and it takes on what is there, more of it each time before it waits again.

The system could deal connections out itself (SO_REUSEPORT). It deals them by their hash to
a queue for each worker: who is dealt to a worker that is busy waits for it while others are
idle, and who waits in the queue of one that ends is turned away.
"""

from typing import Final

import trio

from heddle.server.workers.board import CONNECTIONS, SERVING, STATE, Board

SLACK: Final = 2
"""Connections beyond the share that are nobody's concern: two clients make no crowd."""

_PAUSE: Final = 0.001
_PAUSES: Final = 8
_MOST_IN_A_ROW: Final = 1024


class Share:
    """The connections of the worker of ``row``."""

    def __init__(self, board: Board, row: int) -> None:
        self._board = board
        self._row = row
        self._count = 0
        # How many may be taken without waiting, and how many there will be the next time
        # that nobody else takes any.
        self._free = 0
        self._in_a_row = 1

    def hold(self, count: int) -> None:
        """This worker has so many."""
        if count > self._count and self._free:
            self._free -= 1
        self._count = count
        self._board.set(self._row, CONNECTIONS, count)

    def ahead(self) -> bool:
        """Whether somebody else should take the next one."""
        if self._free or self._count <= SLACK:
            return False
        siblings = self._siblings()
        total = self._count + self._theirs(siblings)
        return (self._count - SLACK) * (len(siblings) + 1) > total

    async def give_way(self) -> None:
        """Wait until another has taken something, but not for long."""
        before = self._theirs(self._siblings())
        for _ in range(_PAUSES):
            await trio.sleep(_PAUSE)
            if self._theirs(self._siblings()) != before:
                self._in_a_row = 1
                return
        self._free = self._in_a_row
        self._in_a_row = min(_MOST_IN_A_ROW, self._in_a_row * 2)

    def _siblings(self) -> list[int]:
        board = self._board
        return [
            row
            for row in range(board.rows)
            if row != self._row and board.get(row, STATE) == SERVING
        ]

    def _theirs(self, siblings: list[int]) -> int:
        return sum(self._board.get(row, CONNECTIONS) for row in siblings)
