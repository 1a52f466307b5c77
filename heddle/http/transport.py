"""HTTP/1.1 on trio: connections that carry one exchange after the other, and pools.

    Wire         bytes to and from the other side: a socket, or TLS over one
    Connection   a wire and a parser: a request out, status, headers and body in
    Pool         the idle connections of one way to one origin

A socket is written to first and waited for second, for most writes fit. It is read first
only while there is known to be more: behind a request, or a read that took everything,
the try would fail, and cost as much as it saves. A wire that is always ready still lets
the other tasks run.
"""

import errno
import select
import socket
import sys
from collections import deque
from typing import Any, ClassVar, Final, Protocol

import httptools
import trio

from heddle.http.bursts import SMALL, bursts_of_this_loop

# More than any provider sends; endless headers must not become memory.
MAX_HEAD: Final = 64 * 1024
# A long answer with reasoning and a document in it is some megabytes.
MAX_BODY: Final = 32 * 1024 * 1024
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


class BadHttp(Exception):
    """What arrived is not HTTP, or exceeds a limit."""


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


class Connection:
    """One connection, for one exchange at a time; the parser's callbacks are its own.

    After `begin`, `advance` reads once: until ``status`` is there with the headers, until
    ``complete`` for the body, which `take` hands out. ``size`` counts all bytes that have
    arrived for the present exchange, so that it bounds whatever the other side sends.
    """

    __slots__ = (
        "_parser",
        "_pieces",
        "_registry",
        "_surplus",
        "_unsent",
        "complete",
        "headers",
        "idle_since",
        "keep_alive",
        "size",
        "status",
        "wire",
    )

    def __init__(self, wire: Wire, registry: "set[Connection]") -> None:
        self.wire = wire
        self._registry = registry
        registry.add(self)
        self.idle_since = 0.0
        self._parser = httptools.HttpResponseParser(self)
        self._renew()

    def _renew(self) -> None:
        self._pieces: list[bytes] = []
        self._surplus = False
        self._unsent: ConnectionBroken | None = None
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.size = 0
        self.complete = False
        self.keep_alive = False

    # The parser calls these.

    def on_message_begin(self) -> None:
        """A message starts: the answer, or something nobody asked for."""
        if self.complete:
            self._surplus = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, whole."""
        # Behind the body of a chunked answer they are trailers, which nobody asked for.
        if not self.status:
            self.headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        """The head is there. That of an interim response (1xx) does not count."""
        if self._surplus:
            return
        status = self._parser.get_status_code()
        if status < 200:
            self.headers = {}
            return
        self.status = status
        self.keep_alive = self._parser.should_keep_alive()

    def on_body(self, piece: bytes) -> None:
        """A piece of the body."""
        if not self._surplus:
            self._pieces.append(piece)

    def on_message_complete(self) -> None:
        """The end of the answer, or of an interim one."""
        if self.status:
            self.complete = True

    # The client calls these.

    async def begin(self, request: bytes) -> None:
        """Send a request.

        A failure to send is not an error yet: a server that refuses a large request
        answers and closes before it has read all of it.
        """
        rest = self.begin_now(request)
        if rest:
            await self.begin_rest(rest)

    def begin_now(self, request: bytes) -> bytes:
        """Send what goes at once of a request, nearly always all of it; what is left, of
        which `begin_rest` is to be told."""
        self.wire.mark()
        try:
            sent = self.wire.send_now(request)
        except ConnectionBroken as broken:
            self._unsent = broken
            if self.wire.quiet():
                raise
            return b""
        return request[sent:]

    async def begin_rest(self, rest: bytes) -> None:
        """Send what is left of a request."""
        try:
            await self.wire.send_rest(rest)
        except ConnectionBroken as broken:
            self._unsent = broken
            if self.wire.quiet():
                raise

    async def advance(self) -> None:
        """Read once and parse what arrived.

        Raises:
            ConnectionBroken: The other side ended the connection inside the answer.
            BadHttp: It is not HTTP, or its head is too large.
        """
        try:
            data = await self.wire.receive()
        except ConnectionBroken as broken:
            raise self._unsent or broken from broken
        if not data:
            self._ended()
            return
        self.size += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as error:
            raise BadHttp("the answer changes the protocol unasked") from error
        except httptools.HttpParserError as error:
            if not self.complete:
                raise BadHttp(f"the answer is not HTTP: {error}") from error
            self._surplus = True
        if not self.status and self.size > MAX_HEAD:
            raise BadHttp(f"the headers of the answer exceed {MAX_HEAD} bytes")

    def undelivered(self, broken: ConnectionBroken) -> bool:
        """Whether the request is known to have reached nobody when it ended like this.

        Then the other side had closed its end before, and the request can be sent again
        without being served twice.
        """
        return not self.size and self.wire.undelivered(aborted=broken.aborted)

    def _ended(self) -> None:
        transfer = self.headers.get(b"transfer-encoding", b"").lower()
        delimited = b"content-length" in self.headers or b"chunked" in transfer
        if not self.status or delimited:
            raise self._unsent or ConnectionBroken("the connection was closed")
        self.complete = True

    def take(self) -> bytes:
        """What of the body arrived since the last time."""
        pieces = self._pieces
        if not pieces:
            return b""
        self._pieces = []
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    @property
    def reusable(self) -> bool:
        """Whether another exchange may follow this one."""
        return self.complete and self.keep_alive and not self._surplus

    def rest(self, now: float) -> None:
        """Forget the exchange: the connection is idle from ``now`` on."""
        self.idle_since = now
        self._renew()

    def close(self) -> None:
        """Close at once, whatever is going on."""
        self._registry.discard(self)
        self.wire.close()


class Pool:
    """Idle connections of one way to one origin: the latest is used first."""

    def __init__(self, *, most: int, patience: float) -> None:
        self._idle: deque[Connection] = deque()
        self._most = most
        self._patience = patience

    def __len__(self) -> int:
        return len(self._idle)

    def take(self, now: float) -> Connection | None:
        """A connection that still looks alive, or None."""
        self.expire(now - self._patience)
        while self._idle:
            connection = self._idle.pop()
            wire = connection.wire
            if now - connection.idle_since < wire.trusted or wire.quiet():
                return connection
            connection.close()
        return None

    def expire(self, oldest_allowed: float) -> None:
        """Close those that have been idle since before ``oldest_allowed``."""
        while self._idle and self._idle[0].idle_since < oldest_allowed:
            self._idle.popleft().close()

    def give_back(self, connection: Connection) -> None:
        """Keep ``connection`` for later when it can be used again, else close it."""
        if not connection.reusable or len(self._idle) >= self._most:
            connection.close()
            return
        connection.rest(trio.current_time())
        self._idle.append(connection)

    def retire(self) -> None:
        """Close all, and keep none from now on."""
        self._most = 0
        while self._idle:
            self._idle.pop().close()
