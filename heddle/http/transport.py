"""HTTP/1.1 on trio: connections that carry one exchange after the other, and pools.

Connection   a wire and a parser: a request out, status, headers and body in
Pool         the idle connections of one way to one origin
"""

from collections import deque
from typing import Final

import httptools
import trio

from heddle.http.wires import ConnectionBroken, Wire

# More than any provider sends; endless headers must not become memory.
MAX_HEAD: Final = 64 * 1024
# A long answer with reasoning and a document in it is some megabytes.
MAX_BODY: Final = 32 * 1024 * 1024


class BadHttp(Exception):
    """What arrived is not HTTP, or exceeds a limit."""


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
