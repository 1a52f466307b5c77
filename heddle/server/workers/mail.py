"""How a worker reaches another: a connection, handed over in a letter.

Each worker has a mailbox that all others can put a letter into. Who wants to talk makes a
pair of connected sockets, keeps one and posts the other. All of it is inherited from the
parent and has no name: no other program can take part, and nothing is left behind.
"""

import socket
from contextlib import suppress

import trio

_LETTER = b"."


class Mailboxes:
    """A mailbox for each row of the board."""

    def __init__(self, rows: int) -> None:
        self._pairs = [
            socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(rows)
        ]
        for pair in self._pairs:
            for end in pair:
                end.setblocking(False)

    async def connect(self, row: int) -> socket.socket:
        """A connection whose other end the worker of ``row`` will find in its mailbox."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                box = self._pairs[row][0]
                while True:
                    try:
                        socket.send_fds(box, [_LETTER], [theirs.fileno()])
                        break
                    except BlockingIOError:
                        await trio.lowlevel.wait_writable(box)
        except BaseException:
            ours.close()
            raise
        return ours

    async def receive(self, row: int) -> socket.socket:
        """The next connection in the mailbox of ``row``."""
        while True:
            await trio.lowlevel.wait_readable(self._pairs[row][1])
            with suppress(BlockingIOError):
                found = self._take(row)
                if found:
                    return found[0]

    def empty(self, row: int) -> None:
        """Nobody reads this any more: whoever waits for an answer is told by an end."""
        with suppress(BlockingIOError):
            while True:
                for each in self._take(row):
                    each.close()

    def _take(self, row: int) -> list[socket.socket]:
        _, numbers, _, _ = socket.recv_fds(self._pairs[row][1], 16, 1)
        return [socket.socket(fileno=number) for number in numbers]
