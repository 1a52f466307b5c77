"""The status of a server on one socket: due once a second, made when it can be written.

A client that reads slowly is told less often, and never holds more than one message.
"""

from collections.abc import Callable

import trio

from heddle.server.status.board import EVERY, Board, Watcher


class StatusWatch:
    """What one socket watches.

    Args:
        board: Makes the rows.
        wake: Called when a message is due.

    Attributes:
        due: Whether one is.
    """

    def __init__(self, board: Board, wake: Callable[[], None]) -> None:
        self.due = False
        self._board = board
        self._watcher = Watcher(board)
        self._wake = wake
        self._scope = trio.CancelScope()

    async def run(self) -> None:
        """Go on until `end`."""
        with self._scope:
            while True:
                await self._board.refresh()
                self.due = True
                self._wake()
                await trio.sleep(EVERY)

    def end(self) -> None:
        """Watch no more."""
        self.due = False
        self._scope.cancel()

    def message(self) -> bytes:
        """The message that is due."""
        self.due = False
        return self._watcher.message()
