"""Requests to one server: connections that are kept, answers whole or as they come."""

import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import trio
from msgspec import Struct

from heddle import __version__
from heddle.client.address import Address
from heddle.client.faults import ProtocolBroken, Unreachable, refusal
from heddle.http import (
    MAX_BODY,
    BadHttp,
    ConnectFailed,
    Connection,
    ConnectionBroken,
    Pool,
    SocketWire,
    TlsWire,
    ask,
    reason_of,
    secure,
)

if TYPE_CHECKING:
    import ssl

CONNECT: Final = 10.0
"""Seconds until there is a connection. What follows waits as long as its caller does."""

KEPT: Final = 256
KEPT_SECONDS: Final = 30.0
MAX_ERROR: Final = 64 * 1024

IS_IT_THERE: Final = "Check that heddle-server runs, and that this is its address."
TRUST: Final = "Pass ca_file=…, the authority that signed it."


class Answer(Struct, frozen=True):
    """A whole answer; names of headers in lower case."""

    status: int
    headers: Mapping[bytes, bytes]
    body: bytes


class Exchange:
    """The way to one server. Closing it ends whatever is going on over it.

    Args:
        address: Where it is.
        token: Shown with every request; never in an error.
        ca_file: Whom to trust beside the system's authorities.
    """

    def __init__(self, address: Address, *, token: str | None, ca_file: str | None) -> None:
        self.address = address
        self._ca_file = ca_file
        self._context: ssl.SSLContext | None = None
        self._pool = Pool(most=KEPT, patience=KEPT_SECONDS)
        self._connections: set[Connection] = set()
        self._closed = False
        self.authorization = None if token is None else f"Bearer {token}"
        lines = [
            f"Host: {address.authority}",
            f"User-Agent: heddle-client/{__version__}",
            "Accept: application/json, text/event-stream",
        ]
        if self.authorization is not None:
            lines.append(f"Authorization: {self.authorization}")
        self._head = "".join(f"{line}\r\n" for line in lines).encode("latin-1")

    @property
    def open_connections(self) -> int:
        """Connections that are open now, in use or kept."""
        return len(self._connections)

    def close(self) -> None:
        """Close every connection. Who waits on one is told."""
        self._closed = True
        self._pool.retire()
        for connection in tuple(self._connections):
            connection.close()

    async def ask(
        self, method: str, path: str, body: bytes | None = None, *, runs: bool = False
    ) -> Answer:
        """Ask, and read the whole answer.

        Args:
            method: Of the request.
            path: Of the request, with its query.
            body: JSON, or nothing.
            runs: Whether the answer waits for a run, whose failure it may tell.

        Raises:
            Refused: The status is 400 or above; a redirect counts as one.
            Unreachable: There is no connection, or it broke.
            ProtocolBroken: What came is no HTTP, or too much.
        """
        connection = await self.open(method, path, body)
        where = f"{method} {self.address.shown}{path}"
        answer = await self.whole(connection, where)
        if not 200 <= answer.status < 300:
            raise refusal(
                answer.status, answer.headers, answer.body, where=where, runs=runs
            )
        return answer

    async def whole(
        self, connection: Connection, where: str, most: int = MAX_BODY
    ) -> Answer:
        """Read the rest of an answer; the connection is given back or closed."""
        try:
            while not connection.complete:
                if connection.size > most:
                    raise ProtocolBroken(
                        f"the answer is larger than {most // 1024} KiB", where=where
                    )
                await connection.advance()
            answer = Answer(connection.status, connection.headers, connection.take())
        except (ConnectionBroken, BadHttp) as error:
            raise self.fault(error, where) from error
        finally:
            self.give_back(connection)
        return answer

    async def open(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Connection:
        """Ask, and wait for the head of the answer, of whatever status.

        Raises:
            Unreachable: There is no connection, or it broke before an answer.
            ProtocolBroken: What came is no HTTP.
        """
        target = self.address.prefix + path
        more = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        if body is not None:
            more += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        request = b"%b %b HTTP/1.1\r\n%b%b\r\n%b" % (
            method.encode("ascii"),
            target.encode("ascii"),
            self._head,
            more.encode("latin-1"),
            body or b"",
        )
        where = f"{method} {self.address.shown}{path}"
        kept = self._kept()
        try:
            if kept is not None:
                try:
                    await ask(kept, request)
                    return kept
                except ConnectionBroken as broken:
                    # Closed by the server at the very moment of its use. What may have
                    # been delivered and changes something is not asked twice.
                    if not broken.undelivered and method != "GET":
                        raise
            connection = await self._connect(where)
            await ask(connection, request)
        except (ConnectionBroken, BadHttp) as error:
            raise self.fault(error, where) from error
        return connection

    def give_back(self, connection: Connection) -> None:
        """Keep the connection if it can be used again, else close it."""
        self._pool.give_back(connection)

    def _kept(self) -> Connection | None:
        """A connection that the server has not closed."""
        while (kept := self._pool.take(trio.current_time())) is not None:
            if kept.wire.quiet():
                return kept
            kept.close()
        return None

    def fault(self, error: Exception, where: str) -> Unreachable | ProtocolBroken:
        """What broke, for the reader."""
        if isinstance(error, ConnectionBroken):
            what = "the client is closed" if self._closed else str(error)
            return Unreachable(what, where=where, fix="See the server's log.")
        return ProtocolBroken(str(error), where=where, fix=IS_IT_THERE)

    async def _connect(self, where: str) -> Connection:
        stream = await self.dial(where)
        bottom = stream.transport_stream if isinstance(stream, trio.SSLStream) else stream
        if self._closed:
            await trio.aclose_forcefully(stream)
            raise Unreachable("the client is closed", where=where)
        if stream is bottom:
            return Connection(SocketWire(bottom), self._connections)
        return Connection(TlsWire(stream, bottom.socket), self._connections)

    async def dial(self, where: str) -> Any:
        """A connection, with TLS where the address says so.

        Raises:
            Unreachable: There is none.
        """
        address = self.address
        try:
            with trio.fail_after(CONNECT):
                if address.socket is not None:
                    bottom = await trio.open_unix_socket(address.socket)
                else:
                    bottom = await trio.open_tcp_stream(address.host, address.port)
                    # A peer that is gone without a word ends a wait some time.
                    bottom.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                if not address.secure:
                    return bottom
                try:
                    return await secure(
                        bottom,
                        address.host,
                        address.authority,
                        self._tls(),
                        trust=TRUST,
                    )
                except BaseException:
                    bottom.socket.close()
                    raise
        except ConnectFailed as error:
            raise Unreachable(error.what, where=where, fix=error.fix) from error
        except trio.TooSlowError:
            raise Unreachable(
                f"no connection within {CONNECT:g} s", where=where, fix=IS_IT_THERE
            ) from None
        except OSError as error:
            raise Unreachable(
                f"no connection: {reason_of(error)}", where=where, fix=IS_IT_THERE
            ) from error

    def _tls(self) -> "ssl.SSLContext":
        import ssl

        if self._context is None:
            try:
                context = ssl.create_default_context(cafile=self._ca_file)
            except (OSError, ssl.SSLError) as error:
                raise ConnectFailed(
                    f"{self._ca_file} can't be used: {error}", fix="Check ca_file."
                ) from error
            context.set_alpn_protocols(["http/1.1"])
            self._context = context
        return self._context
