"""Wires of a client: bytes to and from the other side, over a socket or TLS.

A socket is written to first and waited for second, for most writes fit. It is read first
only while there is known to be more: behind a request, or a read that took everything,
the try would fail, and cost as much as it saves. A wire that is always ready still lets
the other tasks run.
"""

import errno
import select
import socket
import sys
from typing import Any, ClassVar, Final, Protocol

import trio

from heddle.http.bursts import SMALL, bursts_of_this_loop

# One read. Several chunks of a stream that arrived together are parsed in one pass.
_READ: Final = 64 * 1024
# Reads in a row that found data at once, before the other tasks get a turn.
_READS_IN_A_ROW: Final = 2

# Where `struct tcp_info` of Linux holds the number of bytes that the peer acknowledged.
_TCP_INFO: Final = getattr(socket, "TCP_INFO", None) if sys.platform == "linux" else None
_BYTES_ACKED: Final = slice(120, 128)

_ENDED: Final = "the connection was closed by this side"


class ConnectionBroken(Exception):
    """The connection ended before the answer did.

    Args:
        what: Why, in words.
        aborted: The other side did not close the connection but threw it away.

    ``undelivered`` says that the other side took nothing of the request.
    """

    def __init__(self, what: str, *, aborted: bool = False) -> None:
        super().__init__(what)
        self.aborted = aborted
        self.undelivered = False


class Wire(Protocol):
    """A way for bytes."""

    trusted: ClassVar[float]
    """Seconds that it may be idle before it is looked at whether it is still open."""

    def send_now(self, data: bytes, /) -> int:
        """Send what goes at once: how many bytes; `ConnectionBroken` when the other side is
        gone."""
        ...

    async def send_rest(self, data: bytes) -> None:
        """Send all that is left; `ConnectionBroken` when the other side is gone."""
        ...

    async def receive(self) -> bytes:
        """Some bytes, none at the end; `ConnectionBroken` when it was reset."""
        ...

    def quiet(self) -> bool:
        """Whether nothing has arrived, not even the end: an idle wire as it should be."""
        ...

    def mark(self) -> None:
        """What is sent from now on is what `undelivered` asks about."""
        ...

    def undelivered(self, *, aborted: bool) -> bool:
        """Whether the other side's system is known to have taken none of it.

        Args:
            aborted: The other side threw the connection away. Then it may have taken
                what it never acknowledged.
        """
        ...

    def wake(self) -> None:
        """End the wait of the task that waits on the wire: `ConnectionBroken`."""
        ...

    def close(self) -> None:
        """Close at once. A task that waits on the wire is told."""
        ...


class SocketWire:
    """A wire on a raw non-blocking socket."""

    __slots__ = (
        "_bursts",
        "_drained",
        "_failed",
        "_left",
        "_marked",
        "_reads",
        "_sent",
        "_socket",
        "_waiting",
        "_woken",
    )

    # That it was closed so soon is unlikely, and noticed without harm: see `undelivered`.
    trusted: ClassVar[float] = 1.0

    def __init__(self, stream: trio.SocketStream) -> None:
        raw = socket.socket(fileno=stream.socket.detach())
        raw.setblocking(False)
        self._socket = raw
        self._reads = 0
        self._sent = 0
        self._marked = 0
        self._drained = False
        self._bursts = bursts_of_this_loop()
        # What waits for others to be sent, what of it did not go then, and why.
        self._waiting = self._left = b""
        self._failed: ConnectionBroken | None = None
        self._woken = False

    def send_now(self, data: bytes, /) -> int:
        self._drained = True
        if self._bursts is not None and len(data) <= SMALL:
            self._waiting = data
            self._bursts.add(self)
            return len(data)
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            raise _broken(error) from error
        self._sent += sent
        return sent

    def send_waiting(self) -> None:
        """Send what waits for others."""
        data, self._waiting = self._waiting, b""
        if not data:
            return
        sent = 0
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            pass
        except OSError as error:
            self._failed = _broken(error)
        self._sent += sent
        if sent < len(data):
            self._left = data[sent:]
            if self._bursts is not None:
                self._bursts.wake(self)

    def resume(self) -> None:
        """Wake the task that reads, if there is something left to be sent."""
        if self._left and self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)

    async def _send_left(self) -> None:
        left, self._left = self._left, b""
        if self._failed is None:
            try:
                await self.send_rest(left)
            except ConnectionBroken as broken:
                self._failed = broken
        # Who hangs up on a request may have said why.
        if self._failed is not None and self.quiet():
            raise self._failed

    async def send_rest(self, data: bytes) -> None:
        rest = memoryview(data)
        try:
            while rest:
                await trio.lowlevel.wait_writable(self._socket)
                try:
                    sent = self._socket.send(rest)
                except BlockingIOError:  # pragma: no cover - woken for nothing
                    continue
                self._sent += sent
                rest = rest[sent:]
        except OSError as error:
            raise _broken(error) from error
        except trio.ClosedResourceError as error:
            raise ConnectionBroken(_ENDED) from error

    async def receive(self) -> bytes:
        try:
            while True:
                if self._drained:
                    self._reads = 0
                    if self._socket.fileno() < 0:
                        raise ConnectionBroken(_ENDED)
                    if self._left:
                        await self._send_left()
                    try:
                        await trio.lowlevel.wait_readable(self._socket)
                    except trio.ClosedResourceError:
                        if not self._left or self._woken:
                            raise
                    if self._left:
                        continue
                elif self._reads >= _READS_IN_A_ROW:
                    self._reads = 0
                    await trio.lowlevel.checkpoint()
                try:
                    data = self._socket.recv(_READ)
                except BlockingIOError:
                    self._drained = True
                    continue
                self._reads += 1
                self._drained = len(data) < _READ
                if not data and self._failed is not None:
                    raise self._failed
                return data
        except OSError as error:
            raise self._failed or _broken(error) from error
        except trio.ClosedResourceError as error:
            raise ConnectionBroken(_ENDED) from error

    def quiet(self) -> bool:
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def mark(self) -> None:
        self._marked = self._sent
        self._woken = False

    def undelivered(self, *, aborted: bool) -> bool:
        if self._sent == self._marked:
            return True
        acknowledged = None if aborted else _acknowledged(self._socket)
        # The system counts the opening of the connection as one byte.
        return acknowledged is not None and acknowledged <= self._marked + 1

    def wake(self) -> None:
        self._woken = True
        trio.lowlevel.notify_closing(self._socket)

    def close(self) -> None:
        self._waiting = b""
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()


class TlsWire:
    """A wire through TLS."""

    __slots__ = ("_marked", "_socket", "_stream")

    trusted: ClassVar[float] = 0.0

    def __init__(
        self, stream: "trio.SSLStream[Any]", bottom: trio.socket.SocketType
    ) -> None:
        self._stream = stream
        self._socket = bottom
        self._marked: int | None = None

    def send_now(self, _: bytes, /) -> int:
        return 0

    async def send_rest(self, data: bytes) -> None:
        try:
            await self._stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise _broken(error.__cause__) from error

    async def receive(self) -> bytes:
        try:
            return bytes(await self._stream.receive_some(_READ))
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise _broken(error.__cause__) from error

    def quiet(self) -> bool:
        poll = select.poll()
        poll.register(self._socket.fileno(), select.POLLIN)
        return not poll.poll(0)

    def mark(self) -> None:
        self._marked = _acknowledged(self._socket)

    def undelivered(self, *, aborted: bool) -> bool:
        acknowledged = None if aborted else _acknowledged(self._socket)
        return acknowledged is not None and acknowledged == self._marked

    def wake(self) -> None:
        trio.lowlevel.notify_closing(self._socket.fileno())

    def close(self) -> None:
        self._socket.close()


class _HasOptions(Protocol):
    def getsockopt(self, level: int, option: int, buflen: int, /) -> bytes: ...


def _acknowledged(sock: _HasOptions) -> int | None:
    """How many bytes the other side's system has taken, where ours tells."""
    if _TCP_INFO is None:  # pragma: no cover - other systems
        return None
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, _BYTES_ACKED.stop)
    except OSError:
        return None
    count = info[_BYTES_ACKED]
    return int.from_bytes(count, sys.byteorder) if len(count) == 8 else None


def _broken(error: BaseException | None) -> ConnectionBroken:
    """Why the connection is gone, in words without numbers and addresses."""
    if not isinstance(error, OSError):
        return ConnectionBroken(str(error) if error else "the connection was closed")
    if error.errno in (errno.EPIPE, errno.ECONNRESET):
        aborted = error.errno == errno.ECONNRESET
        return ConnectionBroken("the connection was reset", aborted=aborted)
    if error.errno == errno.EBADF:
        return ConnectionBroken(_ENDED)
    return ConnectionBroken(error.strerror or str(error))
