"""Bytes to stdout or stderr, whose reader may be slow, stalled or gone.

A run never waits for its readers: `Outlet.put` returns at once. Where the descriptor has
room the bytes are written on the spot, otherwise they wait, and a thread writes all that
waits in one go. A terminal that was paused or a pipe that nobody drains therefore holds
up neither the run nor Ctrl-C.
"""

import os
import select
from collections.abc import Callable

import trio

# POSIX: a pipe that is ready takes this much without blocking.
SURE: int = select.PIPE_BUF


class Outlet:
    """One descriptor.

    Args:
        descriptor: Where to write.
        most: Bytes that may wait; what comes on top is refused.
        broken: Called once when it cannot be written, in trio's thread.
    """

    def __init__(
        self, descriptor: int, *, most: int, broken: Callable[[], None] = lambda: None
    ) -> None:
        self._descriptor = descriptor
        self._most = most
        self._broken = broken
        self._waiting = bytearray()
        self._something = trio.Event()
        self._nothing = trio.Event()
        self._nothing.set()
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)
        # What a terminal has room for is not known: it is asked, by a way of our own to it,
        # as whoever else has ours would not expect to be refused. Without one, the thread
        # writes everything.
        self._direct = not os.isatty(descriptor)
        self._asked = None if self._direct else _opened(descriptor)
        self.error: OSError | None = None

    @property
    def idle(self) -> bool:
        """Whether nothing waits to be written."""
        return self._nothing.is_set()

    @property
    def waiting(self) -> int:
        """Bytes that wait to be written."""
        return len(self._waiting)

    def put(self, data: bytes) -> bool:
        """Take bytes to be written in order; False when too many wait already."""
        if self.error is not None or not data:
            return True  # `broken` was told; nobody is there to be told again
        if self.idle and (self._direct or self._asked is not None):
            data = self._write_what_fits(data)
            if not data:
                return True
        if len(self._waiting) + len(data) > self._most:
            return False
        self._waiting += data
        self._nothing = trio.Event() if self._nothing.is_set() else self._nothing
        self._something.set()
        return True

    def _write_what_fits(self, data: bytes) -> bytes:
        """Write as long as that cannot block; what is left."""
        while data and (self._asked is not None or self._poll.poll(0)):
            try:
                if self._asked is not None:
                    data = data[os.write(self._asked, data) :]
                else:
                    data = data[os.write(self._descriptor, data[:SURE]) :]
            except BlockingIOError:
                return data
            except OSError as error:
                self._fail(error)
                return b""
        return data

    def _fail(self, error: OSError) -> None:
        self.error = error
        self._waiting.clear()
        self._nothing.set()
        self._broken()

    async def run(self) -> None:
        """Write what waits, until cancelled. One task runs it."""
        try:
            await self._run()
        finally:
            if self._asked is not None:
                os.close(self._asked)
                self._asked = None

    async def _run(self) -> None:
        while True:
            await self._something.wait()
            self._something = trio.Event()
            data, self._waiting = self._waiting, bytearray()
            try:
                # A thread that is stuck in a write is left to itself and ends with
                # the process.
                await trio.to_thread.run_sync(
                    write_all, self._descriptor, data, abandon_on_cancel=True
                )
            except OSError as error:
                self._fail(error)
                return
            if not self._waiting:
                self._nothing.set()

    async def drained(self) -> None:
        """Wait until all is written, or cannot be."""
        await self._nothing.wait()


def _opened(terminal: int) -> int | None:
    """The terminal, opened anew, so that it refuses what it has no room for; None if the
    system refuses, as it may where another user opened it."""
    try:
        return os.open(os.ttyname(terminal), os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return None


def write_all(descriptor: int, data: bytes | bytearray) -> None:
    """Write to the end, however long that takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
