"""HTTP requests of documents: one attempt each, over connections that are kept.

A redirect is never followed, for where it leads was held against nothing; it is an error
that says where. An answer is read whole, up to `MAX_ANSWER`.
"""

import time
from base64 import b64decode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, cast
from urllib.parse import quote

import msgspec
import trio
from msgspec import Struct

from heddle import __version__
from heddle.engine.requests.request import HttpAnswer, HttpRequest
from heddle.http import BadHttp, ConnectFailed, Connection, ConnectionBroken, Pool, ask
from heddle.models.complaints import (
    answered,
    error_codes,
    provider_message,
    redirected,
    retry_after_ms,
    shorten,
)
from heddle.models.connect import Advice, Connector, Permit
from heddle.models.endpoint import Origin, Scheme, TlsFiles, basic
from heddle.models.errors import EndpointInvalid
from heddle.models.proxies import Proxies, Proxy, read_proxies
from heddle.remote.errors import (
    RemoteError,
    RemoteProtocolError,
    RemoteRefused,
    RemoteTimedOut,
    RemoteUnreachable,
)
from plugins_host.processes.guard import Guard

MAX_ANSWER: Final = 16 * 1024 * 1024
"""Bytes of an answer. It becomes part of a run's state, which is one JSON object."""

MAX_SAID: Final = 300
"""Characters of an error answer that are shown."""

_MAX_ERROR: Final = 64 * 1024
_MAX_IDLE: Final = 64
_IDLE_PATIENCE: Final = 30.0
# Origins whose idle connections are kept. Placeholders in a host can name any number.
_MAX_POOLS: Final = 256
# To read the rest of an error answer; what is there by then is shown.
_ERROR_PATIENCE: Final = 5.0

ADVICE: Final = Advice(
    unreachable="Check the url, and that the service runs.",
    trust="Its certificate has to be signed by an authority that this machine trusts.",
)


class Destination(Struct, frozen=True, cache_hash=True):
    """Where connections go: an origin, with the system's own certificates."""

    origin: Origin
    tls: TlsFiles = TlsFiles()


class RemoteClient:
    """Sends requests.

    Args:
        environ: Where the proxy variables are read from.
        permit: Where it may connect to; see `Connector`.
    """

    def __init__(self, *, environ: Mapping[str, str], permit: Permit | None = None) -> None:
        self._environ = environ
        self._proxies: Proxies | None = None
        self._connector = Connector(permit, ADVICE)
        self._pools: dict[tuple[Destination, Proxy | None], Pool] = {}
        self._closed = False
        self.guard = Guard()

    @property
    def open_connections(self) -> int:
        """Connections that are open now, in use or idle."""
        return len(self._connector.connections)

    async def aclose(self) -> None:
        """Close every connection. Requests that are still open fail."""
        self._closed = True
        for pool in self._pools.values():
            pool.retire()
        self._connector.close()
        self.guard.close()
        await trio.lowlevel.checkpoint()

    async def send(self, request: HttpRequest, *, where: str, seconds: float) -> HttpAnswer:
        """Send it once.

        Args:
            request: What is sent.
            where: How errors name who asks.
            seconds: How long it may take, from connecting to the end of the answer.

        Raises:
            RemoteError: There is no answer, or one that is not a success.
        """
        origin = Origin(cast("Scheme", request.scheme), request.host, request.port)
        where = f"{where} ({request.method} {origin})"
        strike = Strike(request.secrets)
        proxy = self._proxy(origin, where)
        with trio.move_on_after(seconds):
            try:
                return await self._exchange(request, origin, proxy, where, strike)
            except (ConnectFailed, ConnectionBroken, BadHttp) as error:
                raise _told(error, where, strike) from error
        raise RemoteTimedOut(
            f"timed out after {seconds:g} s",
            where=where,
            fix="Raise 'request_timeout' of its 'retry_policy', or --tool-timeout where it "
            "has none.",
            retryable=True,
        )

    async def begin(
        self,
        method: str,
        origin: Origin,
        target: str,
        headers: Sequence[tuple[str, str]],
        body: bytes,
        tls: TlsFiles,
    ) -> tuple[Connection, Pool]:
        """A connection on which the head of the answer has arrived, and where it goes when
        the rest was read.

        Raises:
            ConnectFailed: There is no connection.
            ConnectionBroken: It ended before the head.
            BadHttp: What arrived is no HTTP.
        """
        to = Destination(origin, tls)
        proxy = self._proxy(origin, str(origin))
        pool = self._pool(to, proxy)
        message = _message(method, origin, target, headers, body, proxy)
        return await self._begun(message, to, proxy, pool), pool

    def _proxy(self, origin: Origin, where: str) -> Proxy | None:
        if self._proxies is None:
            try:
                self._proxies = read_proxies(self._environ)
            except EndpointInvalid as error:
                raise RemoteError(
                    f"the proxy cannot be used: {error.what}", where=where, fix=error.fix
                ) from error
        return self._proxies.proxy_for(origin)

    def _pool(self, to: Destination, proxy: Proxy | None) -> Pool:
        key = (to, proxy)
        pool = self._pools.get(key)
        if pool is None:
            if len(self._pools) >= _MAX_POOLS:
                for old in self._pools.values():
                    old.retire()
                self._pools.clear()
            pool = self._pools[key] = Pool(most=_MAX_IDLE, patience=_IDLE_PATIENCE)
        return pool

    async def _exchange(
        self,
        request: HttpRequest,
        origin: Origin,
        proxy: Proxy | None,
        where: str,
        strike: "Strike",
    ) -> HttpAnswer:
        to = Destination(origin)
        pool = self._pool(to, proxy)
        message = _message(
            request.method, origin, request.target, request.headers, request.body, proxy
        )
        connection = await self._begun(message, to, proxy, pool)
        try:
            if not 200 <= connection.status < 300:
                raise await _refused(connection, request, where=where, strike=strike)
            if request.method == "HEAD":
                # Its headers speak of a body that never comes.
                connection.close()
                return HttpAnswer(connection.status, b"")
            encoding = connection.headers.get(b"content-encoding", b"identity").lower()
            if encoding.strip() not in (b"", b"identity"):
                name = encoding.decode("latin-1")
                raise BadHttp(f"the answer is encoded as {name!r}, which is not read")
            pieces: list[bytes] = []
            while True:
                pieces.append(connection.take())
                if connection.size > MAX_ANSWER:
                    raise BadHttp(f"the answer exceeds {MAX_ANSWER // 2**20} MiB")
                if connection.complete:
                    break
                await connection.advance()
            return HttpAnswer(connection.status, b"".join(pieces))
        finally:
            # Closed there, when the answer was not read to its end.
            pool.give_back(connection)

    async def _begun(
        self, message: bytes, to: Destination, proxy: Proxy | None, pool: Pool
    ) -> Connection:
        """A connection on which the head of the answer has arrived.

        A kept one may have been closed at the very moment of its use. When nothing of
        the request was delivered it is sent again, on a new one.
        """
        kept = pool.take(trio.current_time())
        if kept is not None:
            try:
                await ask(kept, message)
                return kept
            except ConnectionBroken as broken:
                if not broken.undelivered:
                    raise
        if self._closed:
            raise ConnectFailed("heddle is shutting down")
        for other in self._pools.values():
            other.expire(trio.current_time() - _IDLE_PATIENCE)
        connection = await self._connector.open(to, proxy)
        await ask(connection, message)
        return connection


def _message(
    method: str,
    origin: Origin,
    target: str,
    headers: Sequence[tuple[str, str]],
    body: bytes | None,
    proxy: Proxy | None,
) -> bytes:
    through = proxy is not None and origin.scheme == "http"
    shown = f"{origin}{target}" if through else target
    given = {name.lower() for name, _ in headers}
    lines = [f"{method} {shown} HTTP/1.1", f"Host: {origin.authority}"]
    lines += [f"{name}: {value}" for name, value in _DEFAULTS if name.lower() not in given]
    lines += [f"{name}: {value}" for name, value in headers]
    if through and proxy is not None and proxy.userinfo is not None:
        lines.append(f"Proxy-Authorization: {basic(proxy.userinfo)}")
    body = body or b""
    if body or method in ("POST", "PUT", "PATCH"):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


_DEFAULTS: Final = (
    ("User-Agent", f"heddle/{__version__}"),
    ("Accept", "*/*"),
    ("Accept-Encoding", "identity"),
)


class Strike:
    """Takes secrets out of texts, in every form in which they are likely to come back."""

    def __init__(self, secrets: tuple[str, ...]) -> None:
        forms: set[str] = set()
        for secret in secrets:
            text = secret.strip()
            scheme, _, token = text.partition(" ")
            forms |= {text, token.strip()}
            if scheme.lower() == "basic":
                with suppress(ValueError):
                    known = b64decode(token, validate=True).decode("utf-8", "replace")
                    forms |= {known, known.partition(":")[2]}
        forms |= {quote(form, safe="") for form in forms}
        forms |= {msgspec.json.encode(form).decode()[1:-1] for form in forms}
        self._forms = sorted(filter(None, forms), key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for form in self._forms:
            text = text.replace(form, "***")
        return text


def _told(error: Exception, where: str, strike: Strike) -> RemoteError:
    error.args = tuple(strike(str(part)) for part in error.args)
    if isinstance(error, ConnectFailed):
        return RemoteUnreachable(
            strike(error.what), where=where, fix=error.fix, retryable=error.retryable
        )
    if isinstance(error, ConnectionBroken):
        return RemoteUnreachable(
            f"{error} before the answer was whole", where=where, retryable=True
        )
    return RemoteProtocolError(shorten(strike(str(error))), where=where)


async def _refused(
    connection: Connection, request: HttpRequest, *, where: str, strike: Strike
) -> RemoteRefused:
    status, headers = connection.status, connection.headers
    if 300 <= status < 400:
        return RemoteRefused(
            redirected(status, headers, lambda text: shorten(strike(text), MAX_SAID)),
            where=where,
            fix="Redirects are not followed: set url to where the service is.",
            status=status,
        )
    body = b""
    if request.method != "HEAD":
        # Of an error that comes slowly or breaks off, what is there counts.
        with suppress(ConnectionBroken, BadHttp), trio.move_on_after(_ERROR_PATIENCE):
            while not connection.complete and connection.size < _MAX_ERROR:
                await connection.advance()
        body = connection.take()[:_MAX_ERROR]
    message, _ = provider_message(body, headers.get(b"content-type", b""))
    said = shorten(strike(message), MAX_SAID)
    what = answered(status)
    return RemoteRefused(
        f"{what}: {said}" if said else what,
        where=where,
        status=status,
        retry_after_ms=retry_after_ms(headers, now=time.time()),
        codes=error_codes(body),
    )
