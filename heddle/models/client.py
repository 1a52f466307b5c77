"""The model client: one a process, for any number of calls at once.

A call encodes its request, takes a connection to the endpoint's origin, and reads the
answer as it comes: whole, or as a stream whose pieces of text are handed on. It makes
one attempt. Whether there is another is decided above, where policies are asked.
"""

import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from math import inf
from types import TracebackType
from typing import Final, Protocol, Self

import msgspec
import trio
from msgspec import Struct

from heddle import __version__
from heddle.http import (
    MAX_BODY,
    BadHttp,
    ConnectFailed,
    Connection,
    ConnectionBroken,
    Pool,
    SseEvent,
    SseParser,
)
from heddle.models import completion, gemini, messages, responses
from heddle.models.complaints import complaint_error, provider_message, refusal, shorten
from heddle.models.connect import Connector, Permit
from heddle.models.endpoint import ApiType, Endpoint, HttpEndpoint, ScriptedEndpoint, basic
from heddle.models.errors import (
    ModelError,
    ModelProtocolError,
    ModelTimedOut,
    ModelUnreachable,
    ProviderComplaint,
    RequestInvalid,
    UnreadableAnswer,
)
from heddle.models.proxies import Proxies, Proxy, read_proxies
from heddle.models.scripted import play
from heddle.watch import Watch
from plugins_host import ModelRequest, ModelResponse

# An error body is read for its message; a page longer than this is not read to its end.
_MAX_ERROR_BODY: Final = 64 * 1024
# Idle connections of one origin: with a thousand runs at once, each of which asks now and
# then, fewer would be opened anew all the time. More are a burst that is over.
_MAX_IDLE: Final = 1024
# Servers close idle connections after 5 seconds (uvicorn, Node), 60 or more (proxies).
# A connection that was closed is noticed before it is used, so this bounds only how long
# an unused one is kept open.
_IDLE_PATIENCE: Final = 30.0
# How long an answer that is whole waits for its usage, and for the end of its body.
_USAGE_PATIENCE: Final = 5.0
_END_PATIENCE: Final = 0.25
# Endpoints whose request head is kept. A server sees one for each document and key.
_MAX_ROUTES: Final = 1024

OnText = Callable[[str], None]


class Timeouts(Struct, frozen=True):
    """Seconds that a call may wait.

    Args:
        connect: For a connection, with TLS and proxy.
        first_byte: From the request to the first byte of the answer. A model that is not
            streamed thinks its whole answer before it.
        silence: Between two pieces of the answer.
    """

    connect: float = 10.0
    first_byte: float = 180.0
    silence: float = 60.0


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
    """One protocol: how to write a request, and how to read both kinds of answer.

    ``target`` is where to send it, when that depends on the model and on streaming;
    ``headers`` go with each request.
    """

    encode: Callable[[ModelRequest, bool, str], bytes]
    decode: Callable[[bytes], ModelResponse]
    stream: Callable[[], AnswerStream]
    target: Callable[[str, str, bool], str] | None = None
    headers: tuple[str, ...] = ()


DIALECTS: Final[Mapping[ApiType, Dialect]] = {
    "chat_completions": Dialect(
        completion.encode, completion.decode, completion.CompletionStream
    ),
    "responses": Dialect(responses.encode, responses.decode, responses.ResponseStream),
    "messages": Dialect(
        messages.encode,
        messages.decode,
        messages.MessageStream,
        headers=("anthropic-version: 2023-06-01",),
    ),
    "gemini": Dialect(gemini.encode, gemini.decode, gemini.GeminiStream, gemini.target),
}


class Route(Struct, frozen=True):
    """The way to one endpoint: the head of its requests, and its idle connections."""

    head: bytes
    pool: Pool
    proxy: Proxy | None
    label: str


class ModelClient:
    """Calls models. Use it as an async context manager, or `aclose` it.

    Args:
        timeouts: How long a call may wait.
        environ: Where the proxy variables are read from; the process's by default.
        max_calls: Calls that run at once; further ones wait their turn, first come first
            served. By default what the limit of open files has room for.
        permit: Where it may connect to; see `Connector`.
    """

    def __init__(
        self,
        *,
        timeouts: Timeouts | None = None,
        environ: Mapping[str, str] | None = None,
        max_calls: int | None = None,
        permit: Permit | None = None,
    ) -> None:
        self.timeouts = timeouts or Timeouts()
        self._environ = os.environ if environ is None else environ
        self._proxies: Proxies | None = None
        self._connector = Connector(permit)
        self._pools: dict[object, Pool] = {}
        self._routes: dict[HttpEndpoint, Route] = {}
        self.slots = trio.Semaphore(room_for_calls() if max_calls is None else max_calls)
        self._closed = False
        self.watch = Watch()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    @property
    def open_connections(self) -> int:
        """Connections that are open now, in use or idle."""
        return len(self._connector.connections)

    async def aclose(self) -> None:
        """Close every connection. Calls that are still open fail."""
        self._closed = True
        for pool in self._pools.values():
            pool.retire()
        self._connector.close()
        self.watch.close()
        await trio.lowlevel.checkpoint()

    def chat(
        self,
        endpoint: Endpoint,
        request: ModelRequest,
        *,
        on_text: OnText | None = None,
    ) -> Awaitable[ModelResponse]:
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
            return play(endpoint.script, request, where=endpoint.label, on_text=on_text)
        dialect = DIALECTS[endpoint.api_type]
        if dialect.target is not None:
            target = dialect.target(endpoint.target, request.model, on_text is not None)
            endpoint = msgspec.structs.replace(endpoint, target=target)
        route = self._routes.get(endpoint) or self._route(endpoint)
        try:
            body = dialect.encode(request, on_text is not None, endpoint.limit_name)
        except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
            raise RequestInvalid(
                f"the request cannot be written as JSON: {error}", where=route.label
            ) from error
        message = b"%b%d\r\n\r\n%b" % (route.head, len(body), body)
        return _Call(self, endpoint, route, message, on_text).answer(dialect)

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
        route = Route(request_head(endpoint, proxy), pool, proxy, label)
        self._routes[endpoint] = route
        return route

    async def connect(self, endpoint: HttpEndpoint, proxy: Proxy | None) -> Connection:
        """A new connection.

        Raises:
            ConnectFailed: There is none.
        """
        if self._closed:
            raise ConnectFailed("the client is closed")
        # A new connection is rare, and a good moment to let go of old ones elsewhere.
        oldest_allowed = trio.current_time() - _IDLE_PATIENCE
        for pool in self._pools.values():
            pool.expire(oldest_allowed)
        return await self._connector.open(endpoint, proxy)


class _Call:
    """One call, from the encoded request to the answer or the error.

    ``deadline`` is when the present wait has become too long; see `Watch`.
    """

    __slots__ = (
        "_client",
        "_connection",
        "_endpoint",
        "_limit",
        "_on_text",
        "_overdue",
        "_request",
        "_route",
        "_seconds",
        "_waiting_for",
        "deadline",
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
        self._overdue = False
        self._limit = inf

    async def answer(self, dialect: Dialect) -> ModelResponse:
        """Make the call; every way in which it can fail becomes a `ModelError` here."""
        slots = self._client.slots
        try:
            slots.acquire_nowait()
        except trio.WouldBlock:
            await slots.acquire()
        try:
            if self._endpoint.timeout is not None:
                self._limit = trio.current_time() + self._endpoint.timeout
            connection = await self._begin()
            try:
                return await self._read(connection, dialect)
            finally:
                # Closed there, when the answer was not read to its end.
                self._route.pool.give_back(connection)
        except _FAILURES as error:
            raise self._error(error) from error
        finally:
            self._client.watch.end(self)
            slots.release()

    def _error(self, error: Exception) -> ModelError:
        where, strike = self._route.label, self._endpoint.strike
        # It becomes the cause, which is printed with the error.
        error.args = tuple(strike(str(part)) for part in error.args)
        match error:
            case ConnectFailed():
                return ModelUnreachable(
                    strike(error.what),
                    where=where,
                    fix=error.fix,
                    retryable=error.retryable,
                )
            case ConnectionBroken() if self._overdue:
                return self._timed_out()
            case ConnectionBroken():
                begun = self._connection is not None and bool(self._connection.size)
                point = "in the middle of the answer" if begun else "before an answer"
                return ModelUnreachable(f"{error} {point}", where=where, retryable=True)
            case ProviderComplaint():
                return complaint_error(
                    error.status, error.message, where=where, strike=strike
                )
            case UnreadableAnswer(retryable=retryable):
                fix = "" if retryable else NOT_A_MODEL
            case _:
                fix, retryable = "", False
        return ModelProtocolError(
            shorten(strike(str(error))),
            where=where,
            fix=fix,
            retryable=retryable,
        )

    def _timed_out(self) -> ModelTimedOut:
        return ModelTimedOut(
            f"timed out after {self._seconds:g} s waiting for {self._waiting_for}",
            where=self._route.label,
            retryable=True,
        )

    def expire(self) -> None:
        """The wait has become too long: end it, unless something has just arrived."""
        self._overdue = True
        assert self._connection is not None, "only waits on a connection are watched"
        self._connection.wire.wake()

    def _until(self, seconds: float, waiting_for: str, now: float) -> float:
        """When ``seconds`` from now are over, but not beyond the limit of the call."""
        deadline = now + seconds
        if deadline > self._limit:
            deadline, seconds = self._limit, self._endpoint.timeout or 0
            waiting_for = _END
        self._overdue = False
        self._seconds = seconds
        self._waiting_for = waiting_for
        if now > deadline:
            raise self._timed_out()
        return deadline

    def _wait(self, seconds: float, waiting_for: str, now: float | None = None) -> None:
        """Let the next wait on the connection take at most ``seconds``, from ``now``."""
        self.deadline = self._until(
            seconds, waiting_for, trio.current_time() if now is None else now
        )
        self._client.watch.begin(self)

    async def _begin(self) -> Connection:
        """A connection on which the head of the answer has arrived.

        A kept connection may have been closed by the server at the very moment of its
        use. When nothing of the request was delivered it is sent again, on a new one.
        """
        now = trio.current_time()
        connection = self._route.pool.take(now)
        if connection is not None:
            try:
                await self._send(connection, now)
                return connection
            except ConnectionBroken as broken:
                if self._overdue or not broken.undelivered:
                    raise
        connection = await self._connect()
        await self._send(connection, trio.current_time())
        return connection

    async def _connect(self) -> Connection:
        self._client.watch.end(self)
        self._connection = None
        now = trio.current_time()
        deadline = self._until(self._client.timeouts.connect, _CONNECTION, now)
        with trio.CancelScope(deadline=deadline):
            return await self._client.connect(self._endpoint, self._route.proxy)
        raise self._timed_out()

    async def _send(self, connection: Connection, now: float) -> None:
        self._connection = connection
        try:
            self._wait(self._client.timeouts.first_byte, _FIRST_BYTE, now)
            rest = connection.begin_now(self._request)
            if rest:
                await connection.begin_rest(rest)
            await connection.advance()
            while not connection.status:
                self._wait(self._client.timeouts.silence, _NEXT)
                await connection.advance()
        except ConnectionBroken as broken:
            broken.undelivered = connection.undelivered(broken)
            connection.close()
            raise
        except BaseException:
            connection.close()
            raise

    async def _read(self, connection: Connection, dialect: Dialect) -> ModelResponse:
        if not 200 <= connection.status < 300:
            raise await self._refused(connection)
        if b"content-encoding" in connection.headers:
            refuse_encoding(connection.headers[b"content-encoding"])
        if _is_stream(connection):
            return await self._streamed(connection, dialect)
        if not connection.complete:
            await self._rest(connection)
        return self._decoded(connection, dialect)

    def _decoded(self, connection: Connection, dialect: Dialect) -> ModelResponse:
        response = dialect.decode(_whole(connection))
        if self._on_text is not None and response.content:
            self._on_text(response.content)
        return response

    async def _refused(self, connection: Connection) -> ModelError:
        # Of an error that comes slowly or breaks off, what is there counts.
        with suppress(*_CUT_OFF):
            while not connection.complete and connection.size < _MAX_ERROR_BODY:
                self._wait(self._client.timeouts.silence, _NEXT)
                await connection.advance()
        return refusal(
            connection.status,
            connection.headers,
            connection.take()[:_MAX_ERROR_BODY],
            where=self._route.label,
            strike=self._endpoint.strike,
            now=time.time(),
        )

    async def _rest(self, connection: Connection) -> None:
        """Read the body to its end."""
        while not connection.complete:
            if connection.size > MAX_BODY:
                raise BadHttp(_TOO_LARGE)
            self._wait(self._client.timeouts.silence, _NEXT)
            await connection.advance()

    async def _streamed(self, connection: Connection, dialect: Dialect) -> ModelResponse:
        stream = dialect.stream()
        parser = SseParser()
        on_text = self._on_text or _nobody
        silence = self._client.timeouts.silence
        try:
            while True:
                for piece in stream.feed(parser.feed(connection.take())):
                    on_text(piece)
                if stream.done or connection.complete:
                    break
                if connection.size > MAX_BODY:
                    raise BadHttp(_TOO_LARGE)
                if stream.finished:
                    self._wait(min(silence, _USAGE_PATIENCE), _USAGE)
                else:
                    self._wait(silence, _NEXT)
                await connection.advance()
            if not stream.done:
                # The last event without its blank line, or half of one: then the missing
                # finish reason says what is wrong.
                with suppress(UnreadableAnswer):
                    for piece in stream.feed(parser.end()):
                        on_text(piece)
        except _CUT_OFF:
            if not stream.finished:
                raise
            return stream.response()
        response = stream.response()
        if not connection.complete:
            with suppress(*_CUT_OFF):
                self._wait(_END_PATIENCE, _NEXT)
                while not connection.complete and connection.size <= MAX_BODY:
                    await connection.advance()
        return response


NOT_A_MODEL: Final = "Check the url: it should lead to an endpoint like OpenAI's."
_CONNECTION: Final = "a connection"
_FIRST_BYTE: Final = "the first byte of the answer"
_NEXT: Final = "the next piece of the answer"
_USAGE: Final = "the usage after the answer"
_END: Final = "the end of the call (request_timeout)"
_TOO_LARGE: Final = f"the answer exceeds {MAX_BODY // 1024 // 1024} MiB"


# How the rest of an answer can fail to come, when enough of it is there.
_CUT_OFF: Final = (ConnectionBroken, BadHttp, ModelTimedOut)

_FAILURES: Final = (
    ConnectFailed,
    ConnectionBroken,
    BadHttp,
    UnreadableAnswer,
    ProviderComplaint,
)


def _whole(connection: Connection) -> bytes:
    """The body of an answer that is not a stream."""
    body = connection.take()
    kind = connection.headers.get(b"content-type", b"")
    if b"html" in kind:
        message, _ = provider_message(body, kind)
        raise UnreadableAnswer(f"the answer is {message}, not JSON")
    return body


def _is_stream(connection: Connection) -> bool:
    kind = connection.headers.get(b"content-type", b"")
    return kind[:17].lower() == b"text/event-stream"


def _nobody(piece: str) -> None:
    """Takes the text of a stream that was not asked for."""


def refuse_encoding(encoding: bytes) -> None:
    """None was asked for."""
    name = encoding.decode("latin-1").strip().lower()
    if name not in ("", "identity"):
        raise BadHttp(f"the answer is encoded as {name!r}, which was not asked for")


def request_head(endpoint: HttpEndpoint, proxy: Proxy | None) -> bytes:
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
    if endpoint.key_header is not None and endpoint.api_key is not None:
        lines.append(f"{endpoint.key_header}: {endpoint.api_key.reveal()}")
    lines += DIALECTS[endpoint.api_type].headers
    if through and proxy is not None and proxy.userinfo is not None:
        lines.append(f"Proxy-Authorization: {basic(proxy.userinfo)}")
    return "\r\n".join([*lines, "Content-Length: "]).encode("latin-1")


def room_for_calls() -> int:
    """Calls at once, so that three quarters of the open files may be connections."""
    try:
        import resource
    except ImportError:  # pragma: no cover - Windows
        return 1024
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return 1_000_000
    return max(8, soft * 3 // 4)
