"""One client's connection: requests in, answers out, one after the other.

    IDLE -> HEAD -> HANDLING -> ANSWERING -> IDLE …     -> LINGERING -> closed
                            \\-> UPGRADED

Everything happens in one task and one cancel scope, entered once. A client that goes away
while its handler works cancels the scope: for a handler a lost client is a cancellation
and nothing else, in whatever nursery it happens to be.
"""

from enum import Enum, auto
from math import inf
from typing import Final, Protocol, assert_never

import trio
from trio.abc import Stream

from heddle.server.http.answers import (
    CLOSE,
    CONTINUE,
    KEEP_ALIVE,
    LAST_CHUNK,
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
    Handler,
    Request,
    Response,
    StreamedResponse,
    Upgrade,
)
from heddle.server.http.refusals import Refusal
from heddle.server.http.wire import READ, Gone, Wire

_NOTHING: Final = b""


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
        "_buffer",
        "_clean",
        "_hung_up",
        "_late",
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
        # Whether closing tells the client the truth: nothing is half said.
        self._clean = True
        self._hung_up = False
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
            self._clean = False
        elif self.phase is Phase.HEAD:
            self._late = Refusal(408, "the head of the request took too long to arrive")
        elif self.phase is Phase.HANDLING:
            self._late = Refusal(408, "the body of the request took too long to arrive")
        self.wire.read_until = self.wire.write_until = inf
        self._scope.cancel()

    def close_if_idle(self) -> bool:
        """Close a connection that no request is on its way over; whether it was one."""
        if self.phase is not Phase.IDLE or not self.wire.quiet():
            return False
        self._scope.cancel()
        return True

    # Where a body comes from.

    def take(self, most: int) -> bytes:
        """Up to ``most`` bytes that have arrived."""
        data = self._buffer[self._at : self._at + most]
        self._at += len(data)
        return data

    def give_back(self, rest: bytes) -> None:
        """Return the end of what was taken last."""
        self._at -= len(rest)

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
        if self.phase is Phase.HANDLING and self._clean:
            await self.send(CONTINUE)

    async def send(self, data: bytes) -> None:
        """Send, on behalf of a handler; a client that is gone cancels it."""
        try:
            await self.wire.send(data)
        except Gone:
            await self._give_up()

    async def send_part(self, data: bytes) -> None:
        """Send a part of an answer: until the rest is sent, the client knows only half."""
        try:
            await self.send(data)
        except BaseException:
            self._clean = self._clean and not self.wire.torn
            raise
        self._clean = False

    def nothing_half_said(self) -> None:
        """The answer that was sent in parts is complete."""
        self._clean = True

    async def _give_up(self) -> None:
        """End the task as a cancelled one, or by `Gone` where it is shielded."""
        self._clean = False
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
            if self._late is not None and self._clean:
                with trio.move_on_after(limits.linger_timeout):
                    await self._refuse(self._late)
        except Gone:
            self._clean = False
        except Exception as error:  # noqa: BLE001  one connection's bug is not the server's
            self._clean = False
            if not _is_only(error, (Gone,)):
                self._shared.report.crashed(None, error)
        finally:
            self._shared.hangups.forget(self._watched)
            if self._clean:
                await self.wire.close()
            else:
                await self.wire.abort()

    async def _serve(self) -> None:
        shared = self._shared
        while True:
            end = self._buffer.find(b"\r\n\r\n", self._at)
            if end < 0:
                end = await self._receive_head()
                if end < 0:
                    return
            raw = self._buffer[self._at : end + 4]
            self._at = end + 4
            try:
                head = read_head(raw, shared.limits)
                if head.content_length and head.content_length > shared.limits.body:
                    raise too_long(shared.limits.body)
            except Refusal as refusal:
                await self._refuse(refusal)
                return
            if not await self._exchange(head, raw):
                return
            self.phase = Phase.IDLE
            read_over = self._at == len(self._buffer)
            if not shared.keeps_alive and read_over and self.wire.quiet():
                # It was to be kept when its answer began.
                return

    async def _receive_head(self) -> int:
        """Where the next head ends in the buffer; -1 if there is none."""
        limits = self._shared.limits
        began = trio.current_time()
        self.since = began
        self._buffer = self._buffer[self._at :]
        self._at = 0
        until = began + (limits.header_timeout if self._buffer else limits.idle_timeout)
        seen = 0
        while True:
            if self._buffer:
                if self.phase is Phase.IDLE:
                    self.phase = Phase.HEAD
                    until = trio.current_time() + limits.header_timeout
                try:
                    check_partial(self._buffer, seen, limits)
                except Refusal as refusal:
                    await self._refuse(refusal)
                    return -1
                seen = len(self._buffer)
            data = await self.wire.receive(until)
            if not data:
                self._clean = not self._buffer
                return -1
            self._buffer = self._buffer + data if seen else data
            end = self._buffer.find(b"\r\n\r\n", max(0, seen - 3))
            if end >= 0:
                return end

    async def _exchange(self, head: Head, raw: bytes) -> bool:
        """One request and its answer; whether the connection may carry another."""
        shared = self._shared
        request = Request(head, body_of(head, self, shared.limits), self.client)
        self.phase = Phase.HANDLING
        if self._hung_up:
            # It may have said all it had to say before it did, so what needs no waiting
            # is still answered.
            self._scope.cancel()
        try:
            answer = await shared.handler(request)
        except Gone:
            raise
        except Exception as error:  # noqa: BLE001  a handler's bug is an answer 500
            answer = self._failure(request, error)
        match answer:
            case Response():
                self.phase = Phase.ANSWERING
                keep, data = self._encode(request, answer)
                if not self.wire.send_at_once(data):
                    await self.wire.finish_sending()
                if keep and request.body.finished:
                    return True
                return await self._after(request, keep=keep)
            case StreamedResponse():
                return await self._stream(request, answer)
            case Upgrade():
                if head.upgrade is None:
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
        self._late = None
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
        if keep:
            if not request.body.finished:
                await request.body.skip()
            return True
        if not request.body.finished or self._at < len(self._buffer):
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
        except Gone:
            raise
        except Exception as error:  # noqa: BLE001  a handler's bug is not the server's
            if not writer.begun:
                return await self._respond(request, self._failure(request, error))
            if not _is_only(error, (Gone,)):
                self._shared.report.crashed(request, error)
            self._clean = False
            return False
        self.phase = Phase.ANSWERING
        await writer.finish()
        return await self._after(request, keep=keep)

    async def _upgrade(self, request: Request, answer: Upgrade, raw: bytes) -> None:
        self.phase = Phase.UPGRADED
        # Whoever reads the stream reads its end.
        self._shared.hangups.forget(self._watched)
        stream = UpgradedStream(self.wire, raw + self.take(len(self._buffer)))
        try:
            await answer.run(stream)
        except Exception as error:  # noqa: BLE001  a handler's bug is not the server's
            self._clean = False
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


class ResponseWriter:
    """Writes the body of a streamed answer."""

    __slots__ = ("_chunked", "_connection", "_start", "_writing")

    def __init__(self, connection: Connection, start: bytes, *, chunked: bool) -> None:
        self._connection = connection
        self._start = start
        self._chunked = chunked
        self._writing = False

    @property
    def begun(self) -> bool:
        """Whether the client has been sent something."""
        return not self._start or self._connection.wire.torn

    async def write(self, data: bytes) -> None:
        """Send ``data``, or the head alone; see `Writer`."""
        if data and self._chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        await self._send(data)

    async def finish(self) -> None:
        """Send what ends the body."""
        await self._send(LAST_CHUNK if self._chunked else _NOTHING)
        self._connection.nothing_half_said()

    async def _send(self, data: bytes) -> None:
        if self._writing:
            raise HandlerMisuse("two tasks write one answer at once")
        if self._connection.wire.torn:
            raise HandlerMisuse("an answer goes on behind a write that was cancelled")
        if self._start:
            data = self._start + data
        if not data:
            return
        self._writing = True
        try:
            await self._connection.send_part(data)
        finally:
            self._writing = False
        self._start = _NOTHING


class UpgradedStream(Stream):
    """The connection as a stream, beginning with the bytes of the request.

    More tasks than one may send: what each of them sends arrives in one piece.
    """

    def __init__(self, wire: Wire, replay: bytes) -> None:
        self._wire = wire
        self._kept = replay
        self._closed = False
        self._sending = trio.Lock()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of ``data``, after what others are sending."""
        try:
            self._sending.acquire_nowait()
        except trio.WouldBlock:
            await self._sending.acquire()
        try:
            if self._closed:
                raise trio.ClosedResourceError
            if self._wire.torn:
                raise trio.BrokenResourceError
            await self._wire.send(bytes(data))
        except Gone as error:
            if self._closed:
                raise trio.ClosedResourceError from error
            raise trio.BrokenResourceError from error
        finally:
            self._sending.release()

    async def wait_send_all_might_not_block(self) -> None:
        """Let others go first; the wire can't tell more than that."""
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Some bytes, none at the end."""
        if self._closed:
            raise trio.ClosedResourceError
        if self._kept:
            await trio.lowlevel.checkpoint()
        else:
            try:
                self._kept = await self._wire.receive(inf)
            except Gone as error:
                if self._closed:
                    raise trio.ClosedResourceError from error
                raise trio.BrokenResourceError from error
        most = READ if max_bytes is None else max_bytes
        data, self._kept = self._kept[:most], self._kept[most:]
        return data

    async def aclose(self) -> None:
        """Close the connection."""
        self._closed = True
        await self._wire.close()
        await trio.lowlevel.checkpoint()


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
