"""The model client: one a process, for any number of calls at once.

A call encodes its request, takes a connection to the endpoint's origin, and reads the
answer as it comes: whole, or as a stream whose pieces of text are handed on. It makes
one attempt. Whether there is another is decided above, where policies are asked.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Final, Protocol, Self

import trio
from msgspec import Struct

from heddle import __version__
from heddle.models import completion, responses
from heddle.models.complaints import complaint_error, provider_message, refusal, shorten
from heddle.models.connect import ConnectFailed, Connector, basic
from heddle.models.endpoint import ApiType, Endpoint, HttpEndpoint, ScriptedEndpoint
from heddle.models.errors import (
    ModelError,
    ModelProtocolError,
    ModelTimedOut,
    ModelUnreachable,
    ProviderComplaint,
    UnreadableAnswer,
)
from heddle.models.proxies import Proxies, Proxy, read_proxies
from heddle.models.scripted import play
from heddle.models.sse import SseEvent, SseParser
from heddle.models.transport import (
    MAX_BODY,
    BadHttp,
    Connection,
    ConnectionBroken,
    Pool,
    Timeouts,
)
from plugins_host.conversation import ModelRequest, ModelResponse

# An error body is read for its message; a page longer than this is not read to its end.
_MAX_ERROR_BODY: Final = 64 * 1024
# Idle connections of one origin. More are a burst that is over.
_MAX_IDLE: Final = 256
# Servers close idle connections after 5 seconds (uvicorn, Node), 60 or more (proxies).
# A connection that was closed is noticed before it is used, so this bounds only how long
# an unused one is kept open.
_IDLE_PATIENCE: Final = 30.0
# How long an answer that is whole waits for its usage, and for the end of its body.
_USAGE_PATIENCE: Final = 5.0
_END_PATIENCE: Final = 0.25
# Endpoints whose request head is kept. A server sees one for each document and key.
_MAX_ROUTES: Final = 1024
# The wait is re-armed when this much of it has passed, not at each piece: a deadline that
# moves costs as much as parsing a chunk.
_SLACK: Final = 0.5

OnText = Callable[[str], None]


class AnswerStream(Protocol):
    """A streamed answer while it arrives, in the words of one protocol."""

    done: bool

    @property
    def finished(self) -> bool:
        """Whether the answer is whole, though more may follow."""
        ...

    def feed(self, events: Iterable[SseEvent]) -> list[str]:
        """Take events in; the pieces of text in them."""
        ...

    def response(self) -> ModelResponse:
        """The whole answer, or `UnreadableAnswer`."""
        ...


class Dialect(Struct, frozen=True):
    """One protocol: how to write a request, and how to read both kinds of answer."""

    encode: Callable[[ModelRequest, bool, str], bytes]
    decode: Callable[[bytes], ModelResponse]
    stream: Callable[[], AnswerStream]


DIALECTS: Final[Mapping[ApiType, Dialect]] = {
    "chat_completions": Dialect(
        completion.encode, completion.decode, completion.CompletionStream
    ),
    "responses": Dialect(responses.encode, responses.decode, responses.ResponseStream),
}


class Route(Struct, frozen=True):
    """The way to one endpoint: the head of its requests, and its idle connections."""

    head: bytes
    pool: Pool
    proxy: Proxy | None
    label: str


class _Watch:
    """The one deadline of a call, and what is waited for."""

    __slots__ = ("_armed", "_limit", "scope", "seconds", "waiting_for")

    def __init__(self, limit: float | None) -> None:
        self.scope = trio.CancelScope()
        self.waiting_for = ""
        self.seconds = 0.0
        self._armed = 0.0
        self._limit = None if limit is None else (trio.current_time() + limit, limit)

    def arm(self, seconds: float, waiting_for: str) -> None:
        """Wait at most ``seconds`` from now."""
        self._armed = now = trio.current_time()
        deadline = now + seconds
        if self._limit is not None and self._limit[0] <= deadline:
            deadline, seconds = self._limit
            waiting_for = "the end of the call (request_timeout)"
        self.waiting_for = waiting_for
        self.seconds = seconds
        self.scope.deadline = deadline

    def rearm(self, seconds: float, waiting_for: str) -> None:
        """The same after progress, give or take `_SLACK`."""
        if waiting_for is not self.waiting_for or (
            trio.current_time() - self._armed > _SLACK
        ):
            self.arm(seconds, waiting_for)


class ModelClient:
    """Calls models. Use it as an async context manager, or `aclose` it.

    Args:
        timeouts: How long a call may wait.
        environ: Where the proxy variables are read from; the process's by default.
        max_calls: Calls that run at once; further ones wait their turn, first come first
            served. By default what the limit of open files has room for.
    """

    def __init__(
        self,
        *,
        timeouts: Timeouts | None = None,
        environ: Mapping[str, str] | None = None,
        max_calls: int | None = None,
    ) -> None:
        self.timeouts = timeouts or Timeouts()
        self._environ = os.environ if environ is None else environ
        self._proxies: Proxies | None = None
        self._connector = Connector()
        self._pools: dict[object, Pool] = {}
        self._routes: dict[HttpEndpoint, Route] = {}
        self._slots = trio.Semaphore(_room_for_calls() if max_calls is None else max_calls)
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close every connection. Calls that are still open fail."""
        self._closed = True
        for pool in self._pools.values():
            pool.retire()
        self._connector.close()
        await trio.lowlevel.checkpoint()

    async def chat(
        self,
        endpoint: Endpoint,
        request: ModelRequest,
        *,
        on_text: OnText | None = None,
    ) -> ModelResponse:
        """Ask a model once.

        Args:
            endpoint: From `endpoint_for`.
            request: What is asked; `request_defaults` has what the LLM config decides.
            on_text: With it the answer is streamed, and each piece of its text is handed
                over as it arrives. It must not block; what it raises ends the call.

        Raises:
            ModelError: There is no answer; the subclass says why.
        """
        if isinstance(endpoint, ScriptedEndpoint):
            return await play(
                endpoint.script, request, where=endpoint.label, on_text=on_text
            )
        route = self._routes.get(endpoint) or self._route(endpoint)
        dialect = DIALECTS[endpoint.api_type]
        body = dialect.encode(request, on_text is not None, endpoint.limit_name)
        message = b"%b%d\r\n\r\n%b" % (route.head, len(body), body)
        try:
            self._slots.acquire_nowait()
        except trio.WouldBlock:
            await self._slots.acquire()
        try:
            return await _Call(self, endpoint, route, message, on_text).answer(dialect)
        finally:
            self._slots.release()

    def _route(self, endpoint: HttpEndpoint) -> Route:
        """The way to ``endpoint``, found once."""
        if self._proxies is None:
            self._proxies = read_proxies(self._environ)
        proxy = self._proxies.proxy_for(endpoint.origin)
        if len(self._routes) >= _MAX_ROUTES:
            # Begin anew: rare, and cheaper than keeping them in order of use.
            for old in self._pools.values():
                old.retire()
            self._pools.clear()
            self._routes.clear()
        key = (endpoint.origin, endpoint.tls, proxy)
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = Pool(most=_MAX_IDLE, patience=_IDLE_PATIENCE)
        label = endpoint.label
        if proxy is not None:
            label = f"{label} through the proxy {proxy.origin}"
        route = Route(_request_head(endpoint, proxy), pool, proxy, label)
        self._routes[endpoint] = route
        return route

    async def connect(self, endpoint: HttpEndpoint, proxy: Proxy | None) -> Connection:
        """A new connection.

        Raises:
            ConnectFailed: There is none.
        """
        if self._closed:
            raise ConnectFailed("the client is closed")
        return await self._connector.open(endpoint, proxy)


class _Call:
    """One call, from the encoded request to the answer or the error."""

    __slots__ = (
        "_client",
        "_connection",
        "_endpoint",
        "_on_text",
        "_request",
        "_route",
        "_stream",
        "_watch",
    )

    def __init__(
        self,
        client: ModelClient,
        endpoint: HttpEndpoint,
        route: Route,
        request: bytes,
        on_text: OnText | None,
    ) -> None:
        self._client = client
        self._endpoint = endpoint
        self._route = route
        self._request = request
        self._on_text = on_text
        self._connection: Connection | None = None
        self._stream: AnswerStream | None = None
        self._watch = _Watch(endpoint.timeout)

    async def answer(self, dialect: Dialect) -> ModelResponse:
        """Make the call; every way in which it can fail becomes a `ModelError` here."""
        where = self._route.label
        strike = self._endpoint.strike
        try:
            with self._watch.scope:
                return await self._exchange(dialect)
            return self._late()
        except ConnectFailed as error:
            raise ModelUnreachable(
                strike(error.what), where=where, fix=error.fix, retryable=error.retryable
            ) from error
        except ConnectionBroken as error:
            begun = self._connection is not None and self._connection.received
            point = "in the middle of the answer" if begun else "before an answer"
            raise ModelUnreachable(
                f"{error} {point}", where=where, retryable=True
            ) from error
        except BadHttp as error:
            raise ModelProtocolError(shorten(strike(str(error))), where=where) from error
        except UnreadableAnswer as error:
            raise ModelProtocolError(
                shorten(strike(error.what)), where=where, retryable=error.retryable
            ) from error
        except ProviderComplaint as error:
            raise complaint_error(
                error.status, error.message, where=where, strike=strike
            ) from error

    def _late(self) -> ModelResponse:
        """The deadline has passed: what was whole by then counts nevertheless."""
        if self._stream is not None and self._stream.finished:
            return self._stream.response()
        if self._connection is not None and self._connection.status >= 300:
            raise self._refusal(self._connection)
        raise ModelTimedOut(
            f"timed out after {self._watch.seconds:g} s waiting for "
            f"{self._watch.waiting_for}",
            where=self._route.label,
            retryable=True,
        )

    async def _exchange(self, dialect: Dialect) -> ModelResponse:
        self._connection = connection = await self._begun()
        try:
            if not 200 <= connection.status < 300:
                raise await self._refused(connection)
            kind = connection.headers.get(b"content-type", b"").lower()
            encoding = connection.headers.get(b"content-encoding", b"identity")
            if encoding.lower() != b"identity":
                raise BadHttp(
                    f"the answer is encoded as {encoding.decode('latin-1')!r}, "
                    "which was not asked for"
                )
            if kind.startswith(b"text/event-stream"):
                response = await self._streamed(connection, dialect)
            else:
                response = dialect.decode(await self._body(connection, kind))
                if self._on_text is not None and response.content:
                    self._on_text(response.content)
        except BaseException:
            connection.close()
            raise
        self._route.pool.give_back(connection)
        return response

    async def _begun(self) -> Connection:
        """A connection on which the head of the answer has arrived.

        A kept connection may have been closed by the server at the very moment of its
        use. When nothing of the request was delivered it is sent again, on a new one.
        """
        connection = self._route.pool.take()
        if connection is not None:
            connection.mark()
            try:
                return await self._sent(connection)
            except ConnectionBroken as broken:
                if not broken.undelivered:
                    raise
        self._watch.arm(self._client.timeouts.connect, "a connection")
        self._connection = None
        connection = await self._client.connect(self._endpoint, self._route.proxy)
        return await self._sent(connection)

    async def _sent(self, connection: Connection) -> Connection:
        self._connection = connection
        self._watch.arm(self._client.timeouts.first_byte, "the first byte of the answer")
        try:
            await connection.begin(self._request)
            while not connection.status:
                await connection.advance()
        except ConnectionBroken as broken:
            broken.undelivered = connection.undelivered()
            connection.close()
            raise
        except BaseException:
            connection.close()
            raise
        return connection

    async def _refused(self, connection: Connection) -> ModelError:
        with suppress(ConnectionBroken, BadHttp):
            while not connection.complete and connection.body_size < _MAX_ERROR_BODY:
                self._watch.rearm(self._client.timeouts.silence, _NEXT)
                await connection.advance()
        return self._refusal(connection)

    def _refusal(self, connection: Connection) -> ModelError:
        return refusal(
            connection.status,
            connection.headers,
            connection.take()[:_MAX_ERROR_BODY],
            where=self._route.label,
            strike=self._endpoint.strike,
            now=time.time(),
        )

    async def _body(self, connection: Connection, kind: bytes) -> bytes:
        while not connection.complete:
            self._watch.rearm(self._client.timeouts.silence, _NEXT)
            await connection.advance()
            if connection.body_size > MAX_BODY:
                raise BadHttp(_TOO_LARGE)
        body = connection.take()
        if b"html" in kind:
            message, _ = provider_message(body, kind)
            raise UnreadableAnswer(f"the answer is {message}, not JSON")
        return body

    async def _streamed(self, connection: Connection, dialect: Dialect) -> ModelResponse:
        self._stream = stream = dialect.stream()
        parser = SseParser()
        on_text = self._on_text or _nobody
        timeouts = self._client.timeouts
        try:
            while True:
                for piece in stream.feed(parser.feed(connection.take())):
                    on_text(piece)
                if stream.done or connection.complete:
                    break
                if connection.body_size > MAX_BODY:
                    raise BadHttp(_TOO_LARGE)
                if stream.finished:
                    self._watch.rearm(min(timeouts.silence, _USAGE_PATIENCE), _USAGE)
                else:
                    self._watch.rearm(timeouts.silence, _NEXT)
                await connection.advance()
            if not stream.done:
                # The last event without its blank line, or half of one: then the missing
                # finish reason says what is wrong.
                with suppress(UnreadableAnswer):
                    for piece in stream.feed(parser.end()):
                        on_text(piece)
        except ConnectionBroken:
            if not stream.finished:
                raise
        response = stream.response()
        if not connection.complete:
            self._watch.arm(_END_PATIENCE, "the end of the answer")
            with suppress(ConnectionBroken, BadHttp):
                while not connection.complete:
                    await connection.advance()
        return response


_NEXT: Final = "the next piece of the answer"
_USAGE: Final = "the usage after the answer"
_TOO_LARGE: Final = f"the answer exceeds {MAX_BODY // 1024 // 1024} MiB"


def _nobody(piece: str) -> None:
    """Takes the text of a stream that was not asked for."""


def _request_head(endpoint: HttpEndpoint, proxy: Proxy | None) -> bytes:
    """The head of all requests to ``endpoint``, up to the value of Content-Length."""
    through = proxy is not None and endpoint.origin.scheme == "http"
    target = f"{endpoint.origin}{endpoint.target}" if through else endpoint.target
    lines = [
        f"POST {target} HTTP/1.1",
        f"Host: {endpoint.origin.authority}",
        f"User-Agent: heddle/{__version__}",
        "Accept: application/json, text/event-stream",
        "Accept-Encoding: identity",
        "Content-Type: application/json",
    ]
    if endpoint.authorization is not None:
        lines.append(f"Authorization: {endpoint.authorization}")
    if through and proxy is not None and proxy.userinfo is not None:
        lines.append(f"Proxy-Authorization: {basic(proxy)}")
    return "\r\n".join([*lines, "Content-Length: "]).encode("latin-1")


def _room_for_calls() -> int:
    """Calls at once, so that three quarters of the open files may be connections."""
    try:
        import resource
    except ImportError:  # pragma: no cover - Windows
        return 1024
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return 1_000_000
    return max(8, soft * 3 // 4)
