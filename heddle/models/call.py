"""One call to a model: from its encoded request to the answer or the error.

    take a kept connection, or a new one  ->  send  ->  read: whole, or piece by piece

Every way in which it can fail becomes a `ModelError` here, which says what to do about it.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import Final, Protocol

import trio
from msgspec import Struct

from heddle.http import (
    MAX_BODY,
    BadHttp,
    ConnectFailed,
    Connection,
    ConnectionBroken,
    Pool,
    SseParser,
)
from heddle.models.complaints import complaint_error, provider_message, refusal, shorten
from heddle.models.dialects import Dialect
from heddle.models.endpoint import HttpEndpoint
from heddle.models.errors import (
    ModelError,
    ModelProtocolError,
    ModelTimedOut,
    ModelUnreachable,
    ProviderComplaint,
    UnreadableAnswer,
)
from heddle.models.proxies import Proxy
from heddle.watch import Watch
from plugins_host import ModelResponse

# An error body is read for its message; a page longer than this is not read to its end.
_MAX_ERROR_BODY: Final = 64 * 1024
# How long an answer that is whole waits for its usage, and for the end of its body.
_USAGE_PATIENCE: Final = 5.0
_END_PATIENCE: Final = 0.25

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


class Route(Struct, frozen=True):
    """The way to one endpoint: the head of its requests, and its idle connections."""

    head: bytes
    pool: Pool
    proxy: Proxy | None
    label: str


class Client(Protocol):
    """What all calls have in common."""

    timeouts: Timeouts
    watch: Watch
    slots: trio.Semaphore

    async def connect(self, endpoint: HttpEndpoint, proxy: Proxy | None) -> Connection:
        """A new connection; raises `ConnectFailed`."""
        ...


class Call:
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
        client: Client,
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
