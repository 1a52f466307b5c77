"""``GET /v1/stream``: one WebSocket that carries many runs.

    reading task   a message in  ->  runs begun, followed, cancelled
    writing task   what waits for the client, of all its runs, in one write
    watching task  pings; the drain of the server

trio-websocket makes the handshake, answers pings and closes. The data frames are ours,
written to the same stream between its own (`heddle.server.sockets.frames`).
"""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import trio
from msgspec import Raw
from trio.abc import Stream
from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_server_stream

from heddle.server.endings import ShownError, Stop
from heddle.server.failures import status_of, told, unknown_run
from heddle.server.following.log import Batch
from heddle.server.following.reader import Lagged, Reader
from heddle.server.http import Refusal, Request, Upgrade
from heddle.server.run_handle import CancelOutcome, RunHandle
from heddle.server.service import Service
from heddle.server.sockets import frames
from heddle.server.sockets.handshake import SUBPROTOCOL, check_handshake, check_origin
from heddle.server.sockets.stream import (
    GOING_AWAY,
    HANDSHAKE,
    NO_ANSWER,
    POLICY_VIOLATION,
    SharedStream,
)
from heddle.server.status.watch import StatusWatch
from heddle.server.submissions import Boolean, Number, Text, read_field, read_object
from heddle.server.tokens import authorise, is_token, unauthorised
from plugins_host import Fault, one_of

if TYPE_CHECKING:
    from heddle.server.workers import Remote

MAX_FOLLOWED: Final = 1024
"""Runs that one socket follows at a time: many more than a page shows."""

MAX_UNREAD: Final = 1024
"""Answers that wait for the client. Beyond them none of its messages is read."""

WRITE_BYTES: Final = 256 * 1024
"""Collected for one write, before a client that reads slowly holds more."""

ALONE_BYTES: Final = 16 * 1024
"""A message this long is written by itself: to copy it costs more than another write."""

LONGEST_REF: Final = 256
ENVELOPE: Final = 64 * 1024
"""Bytes of a message beside the flow and inputs in it."""

PING_EVERY: Final = 30.0
"""Seconds, also the longest until its pong. Proxies give up silence after 60."""


def open_socket(service: Service, request: Request) -> Upgrade:
    """The socket that a request asks for.

    Raises:
        Refusal: It asks for none, or may not have one.
    """
    check_handshake(request)
    check_origin(service, request)
    known = service.settings.auth_token is None
    if not known and "authorization" in request.headers:
        authorise(service.settings.auth_token, request)
        known = True
    if service.leaving.is_set():
        raise Refusal(503, "this server is stopping")

    async def run(stream: Stream) -> None:
        service.sockets += 1
        try:
            await _serve(service, SharedStream(stream), known=known, request=request.id)
        finally:
            service.sockets -= 1

    return Upgrade(run)


async def _serve(
    service: Service, stream: SharedStream, *, known: bool, request: str = ""
) -> None:
    try:
        async with trio.open_nursery() as nursery:
            with trio.fail_after(HANDSHAKE):
                asked = await wrap_server_stream(
                    nursery,
                    stream,
                    max_message_size=service.settings.max_body + ENVELOPE,
                    receive_buffer_size=ENVELOPE,
                )
                offered = SUBPROTOCOL in asked.proposed_subprotocols
                socket = await asked.accept(
                    subprotocol=SUBPROTOCOL if offered else None,
                    extra_headers=[(b"X-Request-ID", request.encode())] if request else [],
                )
            stream.opened(socket)
            session = Session(
                service, socket, stream, nursery, known=known, request=request
            )
            try:
                nursery.start_soon(session.write)
                nursery.start_soon(session.watch_drain)
                nursery.start_soon(session.watch_client)
                await session.read()
            except ConnectionClosed:
                # The library's own task, which closes the stream, ends with this one.
                await stream.end_broken()
                raise
            finally:
                session.end()
            nursery.cancel_scope.cancel()
    except* (
        ConnectionClosed,
        trio.BrokenResourceError,
        trio.ClosedResourceError,
        trio.TooSlowError,
    ):
        pass


class Session:
    """What one client has asked for."""

    def __init__(
        self,
        service: Service,
        socket: WebSocketConnection,
        stream: SharedStream,
        nursery: trio.Nursery,
        *,
        known: bool,
        request: str = "",
    ) -> None:
        self._service = service
        self._socket = socket
        self._stream = stream
        self._nursery = nursery
        self._known = known
        self._watch: StatusWatch | None = None
        self._request = request
        self._outbox: deque[bytes] = deque()
        self._followed: dict[str, Reader | Remote] = {}
        self._ready: deque[Reader | Remote] = deque()
        # Those that end with the socket.
        self._own: dict[str, RunHandle] = {}
        self._to_write = trio.Event()
        self._room = trio.Event()
        self._leaving = False
        # Whether the writing task has nothing to do, and whether a part of what was sent
        # for it waits for the client.
        self._resting = False
        self._unsent = False

    # Reading

    async def read(self) -> None:
        """Do what the client asks for, until the socket is closed."""
        if not self._known and not await self._introduced():
            return
        while True:
            await self._take(await self._socket.get_message())
            while len(self._outbox) >= MAX_UNREAD:
                self._room = trio.Event()
                await self._room.wait()

    async def _introduced(self) -> bool:
        """Whether the first message says who it is."""
        with trio.move_on_after(HANDSHAKE):
            try:
                fields = self._fields(await self._socket.get_message())
                if read_field(fields, "type", Text) == "auth":
                    self._authorise(fields)
            except Fault:
                self._known = False
        if self._known:
            return True
        refusal = told(unauthorised(), self._service.conceal)
        with trio.move_on_after(HANDSHAKE):
            await self._stream.send_all(frames.frame(frames.error(refusal)))
            await self._socket.aclose(POLICY_VIOLATION, "unauthorized")
        return False

    async def _take(self, message: str | bytes) -> None:
        """Do one thing. What is wrong with it is told, and the socket stays open."""
        about: dict[str, Any] = {}
        fields: dict[str, Raw] = {}
        kind = ""
        try:
            fields = self._fields(message)
            kind = read_field(fields, "type", Text)
            act = _ACTS.get(kind)
            if act is None:
                raise Refusal(
                    400, f"there is no message {kind[:80]!r}", fix=one_of(kind, _ACTS)
                )
            about["about"] = kind
            doing = act(self, fields)
            if doing is not None:
                await doing
        except Fault as error:
            if fields and kind in _ABOUT_RUNS:
                with suppress(Fault):
                    about["run"] = read_field(fields, "run", Text)[:LONGEST_REF]
            about["status"] = status_of(error)
            self._say(frames.error(self._shown(error), **about))

    def _fields(self, message: str | bytes) -> dict[str, Raw]:
        if isinstance(message, bytes):
            raise Refusal(400, "a binary message means nothing here", fix="Send text.")
        return read_object(message.encode(), "the message")

    def _shown(self, error: Fault) -> ShownError:
        return told(error, self._service.conceal)

    def _authorise(self, fields: Mapping[str, Raw]) -> None:
        token = self._service.settings.auth_token
        if token is not None and not is_token(token, read_field(fields, "token", Text)):
            raise unauthorised()
        self._known = True

    async def _run(self, fields: dict[str, Raw]) -> None:
        ref: str | None = None
        try:
            ref = read_field(fields, "ref", Text)
            if len(ref) > LONGEST_REF:
                ref = None
                raise Refusal(400, f"'ref' is longer than {LONGEST_REF} characters")
            if len(self._followed) >= MAX_FOLLOWED:
                raise _too_many()
            detached = "detach" in fields and read_field(fields, "detach", Boolean)
            trace = "trace" in fields and read_field(fields, "trace", Boolean)
            if trace:
                self._service.check_trace()
            for name in ("type", "ref", "detach", "trace"):
                fields.pop(name, None)
            asked = await self._service.read_fields(fields)
            run = await self._service.start(
                asked, stream=True, detached=detached, request=self._request, trace=trace
            )
        except Fault as error:
            status = status_of(error)
            self._say(frames.refused(ref, status, self._shown(error)))
            return
        except RecursionError:
            seen = ShownError("bad_request", "the request is nested too deep")
            self._say(frames.refused(ref, 400, seen))
            return
        self._say(frames.plain(type="accepted", ref=ref, run=run.id))
        if not detached:
            self._own[run.id] = run
            run.when_ended(lambda: self._ended(run.id))
        self._follow(run, 1)

    def _ended(self, run: str) -> None:
        self._own.pop(run, None)
        self._to_write.set()

    def _subscribe(self, fields: Mapping[str, Raw]) -> None:
        name = read_field(fields, "run", Text)
        row = self._elsewhere(name)
        run = self._found(fields) if row is None else None
        start = read_field(fields, "from", Number) if "from" in fields else 1
        if start < 1:
            raise Refusal(400, f"'from' is {start}, and events are counted from 1")
        if name not in self._followed and len(self._followed) >= MAX_FOLLOWED:
            raise _too_many()
        self._unfollow(name)
        if run is not None:
            self._follow(run, start)
        elif row is not None:
            self._follow_elsewhere(row, name, start)

    def _unsubscribe(self, fields: Mapping[str, Raw]) -> None:
        self._unfollow(read_field(fields, "run", Text))

    async def _cancel(self, fields: Mapping[str, Raw]) -> None:
        name = read_field(fields, "run", Text)
        row = self._elsewhere(name)
        if row is not None:
            await self._cancel_elsewhere(row, name)
            return
        run = self._found(fields)
        if run.cancel() is CancelOutcome.FINISHED:
            raise Refusal(409, "this run has ended already")

    def _ping(self, fields: Mapping[str, Raw]) -> None:
        n = read_field(fields, "n", Number) if "n" in fields else 0
        self._say(frames.plain(type="pong", n=n))

    def _watched(self, _: Mapping[str, Raw]) -> None:
        if self._watch is not None:
            self._watch.end()
        self._watch = StatusWatch(self._service.board, self._to_write_set)
        self._nursery.start_soon(self._watch.run)

    def _unwatched(self, _: Mapping[str, Raw]) -> None:
        if self._watch is not None:
            self._watch.end()
            self._watch = None
            self._to_write.set()

    def _to_write_set(self) -> None:
        self._to_write.set()

    def _found(self, fields: Mapping[str, Raw]) -> RunHandle:
        run = self._service.runs.get(read_field(fields, "run", Text))
        if run is None:
            raise unknown_run()
        return run

    def _elsewhere(self, run: str) -> int | None:
        """Which other worker has this run; None when it is this one's, or nobody's."""
        peers = self._service.peers
        return None if peers is None else peers.elsewhere(run)

    async def _cancel_elsewhere(self, row: int, run: str) -> None:
        assert self._service.peers is not None
        answer = await self._service.peers.ask(row, "DELETE", f"/v1/runs/{run}")
        if answer.status == 409:
            raise Refusal(409, "this run has ended already")
        if answer.status != 202:
            raise unknown_run()

    def _follow_elsewhere(self, row: int, run: str, start: int) -> None:
        from heddle.server.workers import Remote

        reader = Remote(run, start, lambda: self._is_ready(reader))
        self._followed[run] = reader
        self._nursery.start_soon(self._read_elsewhere, reader, row)

    async def _read_elsewhere(self, reader: "Remote", row: int) -> None:
        peers, run = self._service.peers, reader.run
        assert peers is not None
        try:
            await reader.follow(peers, row)
        except Refusal as refusal:
            if self._followed.get(run) is reader:
                self._unfollow(run)
            told_of = {"about": "subscribe", "run": run, "status": refusal.status}
            self._say(frames.error(self._shown(refusal), **told_of))

    def _follow(self, run: RunHandle, start: int) -> None:
        reader = Reader(
            run.log,
            start,
            ready=lambda: self._is_ready(reader),
            turn=lambda: self._has_turn(reader),
        )
        self._followed[run.id] = reader
        self._is_ready(reader)

    def _unfollow(self, run: str) -> None:
        reader = self._followed.pop(run, None)
        if reader is not None:
            reader.close()
            if reader in self._ready:
                self._ready.remove(reader)
        self._to_write.set()

    # Writing

    def _say(self, text: bytes) -> None:
        self._outbox.append(text)
        self._to_write.set()

    def _is_ready(self, reader: "Reader | Remote") -> None:
        self._ready.append(reader)
        self._to_write.set()

    def _has_turn(self, reader: Reader) -> None:
        """Write what this reader may read now, at once if nothing is in the way.

        Of a crowd that follows one run, each would cost it a switch between tasks.
        """
        self._ready.append(reader)
        if (
            not self._resting
            or self._to_write.is_set()
            or not self._stream.free
            or self._leaving
            or self._socket.closed is not None
        ):
            self._to_write.set()
            return
        data = b"".join(self._collect())
        if data:
            self._unsent = not self._stream.send_at_once(data)
        if self._unsent or self._ready:
            self._to_write.set()

    async def write(self) -> None:
        """Write what there is, as the client takes it."""
        while True:
            # What is left of a write that could not be whole at once goes first.
            parts = [b""] if self._unsent else self._collect()
            if parts:
                self._unsent = False
                for part in parts:
                    if self._socket.closed is None:
                        await self._stream.send_all(part)
                self._room.set()
            elif self._leaving and not self._busy:
                await self._socket.aclose(GOING_AWAY, "draining")
                return
            else:
                self._to_write = trio.Event()
                self._resting = True
                await self._to_write.wait()
                self._resting = False

    @property
    def _busy(self) -> bool:
        """Whether there is more to tell before the server stops."""
        watches = self._watch is not None and self._service.runs.active > 0
        return bool(self._own or self._followed or watches)

    def _collect(self) -> list[bytes]:
        """What waits for the client, a part of each run's in turn; each is a write."""
        parts: list[bytes] = []
        short: list[bytes] = []
        size = 0
        while True:
            # What was said about a run comes before what is read of it.
            if self._outbox:
                short.append(frames.message(tuple(self._outbox)))
                self._outbox.clear()
            if self._watch is not None and self._watch.due:
                short.append(frames.frame(self._watch.message()))
            if not self._ready or size >= WRITE_BYTES:
                break
            part = self._next(self._ready.popleft())
            size += len(part)
            if len(part) < ALONE_BYTES:
                short.append(part)
                continue
            parts.append(b"".join(short))
            short.clear()
            parts.append(part)
        parts.append(b"".join(short))
        return [part for part in parts if part]

    def _next(self, reader: "Reader | Remote") -> bytes:
        """The next message of a run; nothing when its reader has to wait."""
        if not isinstance(reader, Reader):
            part = reader.take()
            if reader.over:
                self._followed.pop(reader.run, None)
            return part
        run = reader.log.run
        match reader.take():
            case None:
                return b""
            case Batch() as batch:
                self._ready.append(reader)
                return batch.framed(frames.events)
            case Lagged(first=first, last=last):
                self._ready.append(reader)
                text = frames.plain(type="lagged", run=run, missed=[first, last])
                return frames.frame(text)
            case ending:
                self._followed.pop(run).close()
                return frames.frame(frames.ended(run, ending))

    # Watching

    async def watch_drain(self) -> None:
        """Tell that the server stops, and close once there is nothing left to tell."""
        await self._service.leaving.wait()
        self._leaving = True
        self._say(frames.plain(type="draining"))
        # Who watches sees the last run end.
        await self._service.runs.wait_empty()
        self._to_write.set()

    async def watch_client(self) -> None:
        """Find out when the client is gone without having said so."""
        while True:
            await trio.sleep(PING_EVERY)
            with trio.move_on_after(PING_EVERY) as waiting:
                await self._socket.ping()
            if waiting.cancelled_caught:
                await self._stream.end(NO_ANSWER, "no pong came")
                raise trio.TooSlowError

    def end(self) -> None:
        """The socket is closed: its runs end, and nobody reads the others here."""
        for run in tuple(self._own.values()):
            run.cancel(Stop.CALLER_LEFT)
        for reader in self._followed.values():
            reader.close()
        self._followed.clear()
        self._ready.clear()


_ABOUT_RUNS: Final = frozenset({"subscribe", "unsubscribe", "cancel"})


def _too_many() -> Refusal:
    return Refusal(
        429,
        f"this socket follows {MAX_FOLLOWED} runs, which is the most",
        fix="Unsubscribe from some.",
    )


_ACTS: Final[Mapping[str, Callable[[Session, dict[str, Raw]], Awaitable[None] | None]]] = {
    "auth": Session._authorise,  # noqa: SLF001  the table is this class's
    "run": Session._run,  # noqa: SLF001
    "subscribe": Session._subscribe,  # noqa: SLF001
    "unsubscribe": Session._unsubscribe,  # noqa: SLF001
    "cancel": Session._cancel,  # noqa: SLF001
    "ping": Session._ping,  # noqa: SLF001
    "watch": Session._watched,  # noqa: SLF001
    "unwatch": Session._unwatched,  # noqa: SLF001
}
