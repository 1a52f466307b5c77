"""The two ends of a plugin's pipes: tried first, waited for second.

A read or a write that succeeds at once costs one system call and no turn of the loop;
only one that would block is waited for. Who uses an end keeps the loop fair by waiting
now and then even if it need not.
"""

import fcntl
import os
import sys
import termios
from contextlib import suppress
from typing import Final, Protocol

import trio

# What a pipe holds by default: one read empties it.
CHUNK: Final = 64 * 1024

# A pipe that holds more saves turns of the loop for large states: 500 KB go through in a
# third less time than with the default. Larger ones were slower again, as they outgrow the
# caches, and a user may have 64 MiB of pipes in all before the kernel becomes stingy.
ROOM: Final = 256 * 1024


class Inlet(Protocol):
    """Where bytes come from."""

    def read_nowait(self) -> bytes | None:
        """What has arrived; empty at the end of the stream, None when nothing has."""
        ...

    async def wait_readable(self) -> None:
        """Wait until a read would give something. A schedule point, always."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


class Outlet(Protocol):
    """Where bytes go."""

    def write_nowait(self, data: bytes | memoryview) -> int:
        """Write as much as there is room for; how many bytes that was.

        Raises:
            OSError: Nobody will read it.
        """
        ...

    async def wait_writable(self) -> None:
        """Wait until a write would find room. A schedule point, always."""
        ...

    def taken(self) -> int:
        """How many bytes of all that was written the other side has read.

        All of them where the system does not tell; after `close`, as it was then.
        """
        ...

    def close(self) -> None:
        """Tell the other side that this is all. May be called twice."""
        ...


class _End:
    """One end of a pipe, not blocking."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd

    def close(self) -> None:
        """Close the descriptor, waking whoever waits for it. May be called twice."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with suppress(RuntimeError):  # outside of trio nobody waits
                trio.lowlevel.notify_closing(fd)
            os.close(fd)


class PipeInlet(_End):
    """The reading end of a pipe."""

    def __init__(self, fd: int) -> None:
        super().__init__(fd)
        self._size = CHUNK

    def read_nowait(self) -> bytes | None:
        """What has arrived; empty at the end of the stream, None when nothing has."""
        try:
            data = os.read(self._fd, self._size)
        except BlockingIOError:
            return None
        # A read that was filled has more behind it; a buffer larger than a usual read
        # costs the allocator more than it saves.
        self._size = ROOM if len(data) == self._size else CHUNK
        return data

    async def wait_readable(self) -> None:
        """Wait until a read would give something."""
        await trio.lowlevel.wait_readable(self._fd)


class PipeOutlet(_End):
    """The writing end of a pipe."""

    def __init__(self, fd: int) -> None:
        super().__init__(fd)
        self._written = 0
        self._taken = 0

    def write_nowait(self, data: bytes | memoryview) -> int:
        """Write as much as there is room for; how many bytes that was."""
        try:
            written = os.write(self._fd, data)
        except BlockingIOError:
            return 0
        self._written += written
        return written

    def taken(self) -> int:
        """How many bytes of all that was written the other side has read."""
        if self._fd < 0:
            return self._taken
        return self._written - _unread(self._fd)

    def close(self) -> None:
        """Close it; what is still unread will never be read."""
        self._taken = self.taken()
        super().close()

    async def wait_writable(self) -> None:
        """Wait until a write would find room."""
        await trio.lowlevel.wait_writable(self._fd)


def _unread(fd: int) -> int:
    """How many bytes are in a pipe, asked at either end; none where nobody can tell."""
    if sys.platform != "linux":  # pragma: no cover  elsewhere the writing end says nothing
        return 0
    count = bytearray(4)
    fcntl.ioctl(fd, termios.FIONREAD, count)
    return int.from_bytes(count, sys.byteorder)


def open_pipe(*, room: int = ROOM) -> tuple[int, int]:
    """A pipe with room for so many bytes: reading and writing descriptor, not inherited."""
    reading, writing = os.pipe()
    if room > CHUNK:
        # Only Linux can, and only within limits; the default will do.
        with suppress(AttributeError, OSError):
            fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, room)
    return reading, writing
