"""One client's connection: requests in, answers out, one after the other.

    IDLE -> HEAD -> HANDLING -> ANSWERING -> IDLE …     -> LINGERING -> closed
                            \\-> UPGRADED

Everything happens in one task and one cancel scope, entered once. A client that goes away
while its handler works cancels the scope: for a handler a lost client is a cancellation
and nothing else, in whatever nursery it happens to be. Inside it is the scope that handlers
may cancel themselves (`Request.scope`), entered anew only when one has.
"""

from enum import Enum, auto
from math import inf
from typing import Final, Protocol, TypeAlias, assert_never

import trio

from heddle.server.http.answers import (
    CLOSE,
    CONTINUE,
    KEEP_ALIVE,
    Encoder,
    HandlerMisuse,
    crash_response,
    refusal_response,
)
from heddle.server.http.body import body_of
from heddle.server.http.chunks import too_long
from heddle.server.http.hangups import Hangups
from heddle.server.http.head import Head, check_partial, read_head
from heddle.server.http.limits import Limits
from heddle.server.http.messages import (
    Answer,
    Handler,
    Request,
    Response,
    StreamedResponse,
    Upgrade,
)
from heddle.server.http.refusals import Refusal
from heddle.server.http.response_writer import ResponseWriter
from heddle.server.http.upgraded import UpgradedStream
from heddle.server.http.wire import Gone, Wire
from heddle.server.own_scope import OwnScope

_NOTHING: Final = b""

_ON_ITS_WAY: Final = 0.5
"""Seconds that a server that stops waits for the first request of a new connection."""

_Exchange: TypeAlias = tuple[Request, Answer, bytes]
"""A request, what is answered, and the head as it arrived."""

# Bytes of a head that is kept for the next request, which is mostly the same. Ten thousand
# idle connections keep theirs.
_SHORT_HEAD: Final = 2048


class Report(Protocol):
    """What the front tells whoever keeps the log. Called in passing: must not wait."""

    def refused(self, refusal: Refusal, client: str) -> None:
        """A request was refused before or while a handler read it."""
        ...

    def crashed(self, request: Request | None, error: Exception) -> None:
        """A handler raised what is no `Refusal`; the client gets a 500 or is cut off."""
        ...

    def accept_failed(self, error: OSError) -> None:
        """No further connection can be accepted for now."""
        ...


class Phase(Enum):
    """What a connection is busy with."""

    IDLE = auto()
    HEAD = auto()
    HANDLING = auto()
    ANSWERING = auto()
    LINGERING = auto()
    UPGRADED = auto()


class Shared(Protocol):
    """What all connections of a server have in common.

    While not ``keeps_alive``, a connection ends with the exchange it is at.
    """

    handler: Handler
    limits: Limits
    hangups: Hangups
    encoder: Encoder
    report: Report
    keeps_alive: bool


class Connection:
    """A connection and the exchange that is going on."""

    __slots__ = (
        "_at",
        "_begun",
        "_broken",
        "_buffer",
        "_head",
        "_hung_up",
        "_late",
        "_raw",
        "_scope",
        "_shared",
        "_watched",
        "client",
        "phase",
        "since",
        "wire",
    )

    def __init__(self, wire: Wire, shared: Shared, client: str, since: float) -> None:
        self.wire = wire
        self.client = client
        self.phase = Phase.IDLE
        self.since = since
        self._shared = shared
        self._scope = trio.CancelScope()
        self._buffer = _NOTHING
        self._at = 0
        # Whether a part of an answer is out, and the rest of it is not.
        self._begun = False
        # Whether the connection must end so that the client can't take it for a good end.
        self._broken = False
        self._hung_up = False
        # The head that was read last. A client that asks again and again sends the same
        # one again and again, and it says the same.
        self._raw = _NOTHING
        self._head: Head | None = None
        self._watched = -1
        self._late: Refusal | None = None

    # Called from other tasks.

    def hung_up(self) -> None:
        """The client has closed or reset its side."""
        self._hung_up = True
        if self.phase is Phase.HANDLING:
            self._scope.cancel()

    def earliest(self) -> float:
        """When one of its waits has lasted too long."""
        return min(self.wire.read_until, self.wire.write_until)

    def expire(self, now: float) -> None:
        """One has."""
        if self.wire.write_until <= now:
            self._broken = True
        elif self.phase is Phase.HEAD:
            self._late = Refusal(408, "the head of the request took too long to arrive")
        elif self.phase is Phase.HANDLING:
            self._late = Refusal(408, "the body of the request took too long to arrive")
        self.wire.read_until = self.wire.write_until = inf
        self._scope.cancel()

    def make_way(self) -> bool:
        """Close, unless a request has arrived that nobody has read; whether it will."""
        if self.phase is Phase.IDLE and not self.wire.quiet():
            return False
        self._scope.cancel()
        return True

    def leave(self) -> None:
        """Make way, unless it is new: what a client connected for is on its way to us, and
        is given a moment to arrive."""
        if self._head is not None:
            self.make_way()
        elif self.phase is Phase.IDLE:
            until = trio.current_time() + _ON_ITS_WAY
            self.wire.wait_to_read(min(self.wire.read_until, until))

    # Where a body comes from.

    def take(self, most: int) -> bytes:
        """Up to ``most`` bytes that have arrived."""
        data = self._buffer[self._at : self._at + most]
        self._at += len(data)
        if self._at == len(self._buffer):
            # A handler may take long, and need not hold what it has read twice.
            self._buffer, self._at = _NOTHING, 0
        return data

    def give_back(self, rest: bytes) -> None:
        """Return the end of what was taken last."""
        if rest:
            self._buffer, self._at = rest + self._buffer[self._at :], 0

    async def wait(self, until: float) -> None:
        """Wait for more of a body, of which nothing is left in the buffer."""
        try:
            data = await self.wire.receive(until)
        except Gone:
            data = b""
        if not data:
            await self._give_up()
        self._buffer, self._at = data, 0

    async def go_on(self) -> None:
        """Tell the client that its body is wanted, unless it is being answered."""
        if self.phase is Phase.HANDLING and not self._begun:
            await self.send(CONTINUE)

    async def send(self, data: bytes) -> None:
        """Send, on behalf of a handler; a client that is gone cancels it."""
        try:
            await self.wire.send(data)
        except Gone:
            await self._give_up()

    async def send_part(self, data: bytes, *, ends_by_closing: bool) -> None:
        """Send a part of an answer, of which more is to come."""
        try:
            await self.send(data)
        except BaseException:
            if self.wire.torn:
                self._begun, self._broken = True, self._broken or ends_by_closing
            raise
        self._begun, self._broken = True, ends_by_closing

    def answered(self) -> None:
        """The answer that was sent in parts is complete."""
        self._begun = self._broken = False

    async def _give_up(self) -> None:
        """End the task as a cancelled one, or by `Gone` where that does not reach."""
        self._broken = True
        self._scope.cancel()
        await trio.lowlevel.checkpoint()
        raise Gone

    # The task of the connection.

    async def run(self) -> None:
        """Serve until either side has had enough. Raises nothing that is an Exception."""
        limits = self._shared.limits
        try:
            with self._scope:
                await self.wire.prepare(trio.current_time() + limits.header_timeout)
                if self.wire.sock is not None:
                    self._watched = self.wire.sock.fileno()
                    self._shared.hangups.watch(self._watched, self)
                await self._serve()
            if self._late is not None and not self._begun:
                with trio.move_on_after(limits.linger_timeout):
                    await self._refuse(self._late)
        except Gone:
            self._broken = True
        except Exception as error:  # noqa: BLE001  one connection's bug is not the server's
            self._broken = True
            if not _is_only(error, (Gone,)):
                self._shared.report.crashed(None, error)
        finally:
            self._shared.hangups.forget(self._watched)
            if self._broken:
                await self.wire.abort()
            else:
                await self.wire.close()

    async def _serve(self) -> None:
        while True:
            left: _Exchange | None = None
            with OwnScope() as scope:
                left = await self._serve_within(scope)
            self._broken = self._broken or scope.cancelled_caught
            if left is None or not (await self._answer(*left) and self._goes_on()):
                return

    async def _serve_within(self, scope: OwnScope) -> "_Exchange | None":
        """Serve as long as no handler has its scope cancelled; the answer to be sent
        outside of it when one has, and None when all is served."""
        shared = self._shared
        while True:
            end = self._buffer.find(b"\r\n\r\n", self._at)
            if end < 0:
                end = await self._receive_head()
                if end < 0:
                    return None
            raw = self._buffer[self._at : end + 4]
            self._at = end + 4
            head = self._head
            if head is None or raw != self._raw:
                try:
                    head = read_head(raw, shared.limits)
                    if head.content_length and head.content_length > shared.limits.body:
                        raise too_long(shared.limits.body)
                except Refusal as refusal:
                    await self._refuse(refusal)
                    return None
                if len(raw) <= _SHORT_HEAD:
                    self._head, self._raw = head, raw
            exchange = await self._handle(head, raw, scope)
            if scope.cancel_called:
                return exchange
            if not (await self._answer(*exchange) and self._goes_on()):
                return None

    def _goes_on(self) -> bool:
        """Whether another request is waited for on a connection that may carry one."""
        self.phase = Phase.IDLE
        read_over = self._at == len(self._buffer)
        # It was to be kept when its answer began.
        return self._shared.keeps_alive or not (read_over and self.wire.quiet())

    async def _receive_head(self) -> int:
        """Where the next head ends in the buffer; -1 if there is none."""
        limits = self._shared.limits
        began = trio.current_time()
        self.since = began
        self._buffer = self._buffer[self._at :]
        self._at = 0
        # Who is to be let go soon is not waited for; a moment is for what is on its way.
        patient = self._shared.keeps_alive
        until = began + (limits.idle_timeout if patient else limits.linger_timeout)
        seen = 0
        while True:
            if self._buffer:
                if self.phase is Phase.IDLE:
                    self.phase = Phase.HEAD
                    self.since = trio.current_time()
                    until = self.since + limits.header_timeout
                try:
                    check_partial(self._buffer, seen, limits)
                except Refusal as refusal:
                    await self._refuse(refusal)
                    return -1
                seen = len(self._buffer)
            data = await self.wire.receive(until)
            if not data:
                self._broken = bool(self._buffer)
                return -1
            self._buffer = self._buffer + data if seen else data
            end = self._buffer.find(b"\r\n\r\n", max(0, seen - 3))
            if end >= 0:
                return end

    async def _handle(self, head: Head, raw: bytes, scope: OwnScope) -> "_Exchange":
        """One request and what is to be answered."""
        shared = self._shared
        body = body_of(head, self, shared.limits)
        request = Request(head, body, self.client, "", scope)
        self.phase = Phase.HANDLING
        if self._hung_up:
            # It may have said all it had to say before it did, so what needs no waiting
            # is still answered.
            self._scope.cancel()
        try:
            answer = await shared.handler(request)
        except Exception as error:
            if _is_only(error, (Gone,)):
                raise
            answer = self._failure(request, error)
        return request, answer, raw

    async def _answer(self, request: Request, answer: Answer, raw: bytes) -> bool:
        """Send an answer; whether the connection may carry another."""
        match answer:
            case Response():
                self.phase = Phase.ANSWERING
                keep, data = self._encode(request, answer)
                if keep and request.body.finished:
                    # Unless another request is here already, to read is what comes next.
                    last = self._at == len(self._buffer)
                    send = self.wire.send_soon if last else self.wire.send_at_once
                    if not send(data):
                        await self.wire.finish_sending()
                    self._late = None
                    return True
                if not self.wire.send_at_once(data):
                    await self.wire.finish_sending()
                return await self._after(request, keep=keep)
            case StreamedResponse():
                return await self._stream(request, answer)
            case Upgrade():
                if request.head.upgrade is None:
                    misuse = HandlerMisuse(
                        "a handler upgrades a request that asks for none"
                    )
                    return await self._respond(request, self._failure(request, misuse))
                await self._upgrade(request, answer, raw)
                return False
            case _:
                assert_never(answer)

    def _failure(self, request: Request, error: Exception) -> Response:
        """The answer to a request whose handler raised."""
        refusal = _refusal_in(error)
        if refusal is not None:
            self._shared.report.refused(refusal, self.client)
            return refusal_response(refusal, close=False)
        self._shared.report.crashed(request, error)
        return crash_response(request.id)

    def _encode(self, request: Request, answer: Response) -> tuple[bool, bytes]:
        """Whether the connection is kept after an answer, and its bytes."""
        head = request.head
        keep = (
            head.keep_alive
            and self._shared.keeps_alive
            and not answer.close
            and request.body.skippable
        )
        connection = CLOSE if not keep else _NOTHING if head.http_1_1 else KEEP_ALIVE
        head_only = head.method == "HEAD"
        encoder = self._shared.encoder
        try:
            return keep, encoder.response(answer, connection, head_only=head_only)
        except HandlerMisuse as error:
            failure = self._failure(request, error)
            return keep, encoder.response(failure, connection, head_only=head_only)

    async def _respond(self, request: Request, answer: Response) -> bool:
        self.phase = Phase.ANSWERING
        keep, data = self._encode(request, answer)
        await self.wire.send(data)
        return await self._after(request, keep=keep)

    async def _after(self, request: Request, *, keep: bool) -> bool:
        """What is left to do when the answer has been sent."""
        self._late = None
        if keep:
            await request.body.skip()
            return True
        unread = self._at < len(self._buffer) or not self.wire.quiet()
        if unread or not request.body.finished:
            await self._linger()
        return False

    async def _stream(self, request: Request, answer: StreamedResponse) -> bool:
        head = request.head
        keep = (
            head.keep_alive
            and head.http_1_1
            and self._shared.keeps_alive
            and request.body.skippable
        )
        try:
            start = self._shared.encoder.stream_head(
                answer, connection=_NOTHING if keep else CLOSE, chunked=head.http_1_1
            )
        except HandlerMisuse as error:
            return await self._respond(request, self._failure(request, error))
        if head.method == "HEAD":
            self.phase = Phase.ANSWERING
            await self.wire.send(start)
            return await self._after(request, keep=keep)
        writer = ResponseWriter(self, start, chunked=head.http_1_1)
        try:
            if answer.head_first:
                await writer.write(_NOTHING)
            await answer.write(writer)
        except Exception as error:
            if _is_only(error, (Gone,)):
                raise
            if not self._begun:
                return await self._respond(request, self._failure(request, error))
            # Without its last chunk the client knows that it has only half.
            if isinstance(error, Refusal):
                self._shared.report.refused(error, self.client)
            else:
                self._shared.report.crashed(request, error)
            return False
        self.phase = Phase.ANSWERING
        await writer.finish()
        return await self._after(request, keep=keep)

    async def _upgrade(self, request: Request, answer: Upgrade, raw: bytes) -> None:
        self.phase = Phase.UPGRADED
        # Whoever reads the stream reads its end.
        self._shared.hangups.forget(self._watched)
        self._watched = -1
        stream = UpgradedStream(self.wire, raw + self.take(len(self._buffer)))
        try:
            await answer.run(stream)
            if not self.wire.torn:
                # What it said last, as why it ends, is to be read.
                await self._linger()
        except Exception as error:  # noqa: BLE001  a handler's bug is not the server's
            self._broken = True
            if not _is_only(error, (Gone, trio.BrokenResourceError)):
                self._shared.report.crashed(request, error)

    async def _refuse(self, refusal: Refusal) -> None:
        """Answer what can't be a request, and end."""
        self.phase = Phase.ANSWERING
        self._shared.report.refused(refusal, self.client)
        answer = refusal_response(refusal, close=True)
        await self.wire.send(self._shared.encoder.response(answer, CLOSE, head_only=False))
        await self._linger()

    async def _linger(self) -> None:
        """Let the client read the answer before its own bytes meet a closed socket.

        A system that gets data for a closed socket answers with a reset, and the client's
        system may throw away on that what the client has not read yet.
        """
        self.phase = Phase.LINGERING
        until = trio.current_time() + self._shared.limits.linger_timeout
        await self.wire.end_sending()
        while trio.current_time() < until and await self.wire.receive(until):
            pass


def _refusal_in(error: Exception) -> Refusal | None:
    """The refusal that ``error`` is, also when it has come through nurseries."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error if isinstance(error, Refusal) else None


def _is_only(error: Exception, kinds: tuple[type[Exception], ...]) -> bool:
    """Whether ``error`` is of ``kinds``, also when it has come through nurseries."""
    if isinstance(error, ExceptionGroup):
        return error.split(kinds)[1] is None
    return isinstance(error, kinds)
