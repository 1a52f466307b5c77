"""One WebSocket that carries many runs.

    async with client.socket() as socket:
        runs = [await socket.run(flow, {"n": n}) for n in range(100)]
        for run in runs:
            async for entry in run:
                ...

    reading task    frames in  ->  entries, put where each run is iterated over
    writing task    whole messages out, one after the other

A run that nobody iterates over takes no memory without bound and keeps no other waiting:
when its buffer is full the client unsubscribes, and subscribes again behind the last entry
once there is room. The same happens for what the server says was missed. Between the old
subscription and the new one goes a ping: what arrives before its pong is the old one's.
"""

from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, Self, assert_never

import msgspec
import trio
from trio_websocket import (
    ConnectionClosed,
    ConnectionRejected,
    HandshakeError,
    WebSocketConnection,
    wrap_client_stream,
)

from heddle.client.entries import (
    Entry,
    Flow,
    Missed,
    RunResult,
    hole,
    read_event,
    request_body,
)
from heddle.client.exchange import CONNECT, IS_IT_THERE, Exchange
from heddle.client.faults import (
    ClientFault,
    ErrorBody,
    ProtocolBroken,
    Refused,
    Unreachable,
    ended_badly,
    refusal,
)
from heddle.client.socket_messages import (
    Accepted,
    Draining,
    Ended,
    Happened,
    Lagged,
    Message,
    NotAccepted,
    Pong,
    Wrong,
    read_messages,
)
from heddle.http import MAX_BODY

SUBPROTOCOL: Final = "heddle.v1"

MAX_WAITING: Final = 1024
MAX_WAITING_BYTES: Final = 1024 * 1024
"""Entries of one run that wait to be taken; as much as a server keeps for a reader."""

QUEUE: Final = 4
"""Messages of up to 256 KiB that are read ahead."""

CLOSING: Final = 1.0
"""Seconds for a close to be answered."""

_encode: Final = msgspec.json.Encoder().encode
_state: Final = msgspec.json.Decoder(dict[str, Any]).decode


class SocketRun:
    """A run on a socket: its entries, when iterated over, and its end.

    A run that did not complete raises its `RunFailed` where it ended. Cancelled
    iterations lose nothing.

    Attributes:
        run: Its id.
        last: The number of the last entry that was handed out or told to be missing.
    """

    def __init__(self, socket: "RunSocket", run: str, after: int) -> None:
        self.run = run
        self.last = after
        self._socket = socket
        self._items: deque[tuple[int, bytes | Missed]] = deque()
        self._bytes = 0
        self._newest = after
        self._barrier: int | None = None
        self._paused = False
        self._fresh = True
        self._end: Ended | None = None
        self._fault: ClientFault | None = None
        self._wake: trio.Event | None = None

    @property
    def where(self) -> str:
        """How errors name it."""
        return f"run {self.run} at {self._socket.where}"

    async def cancel(self) -> None:
        """Ask it to end; see `RunSocket.cancel`."""
        await self._socket.cancel(self.run)

    async def unfollow(self) -> None:
        """Hear no more of it. It goes on; iterating over it ends."""
        await self._socket.unfollow(self)

    async def result(self) -> RunResult:
        """Wait for its end; entries that were not taken are passed over.

        Raises:
            RunFailed: It did not complete.
        """
        async for _ in self:
            pass
        if self._end is None or not bytes(self._end.state):
            raise Unreachable("the run is not followed any more", where=self.where)
        return RunResult(self.run, "", _state(self._end.state))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Entry:
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self._items:
            if self._paused:
                self._paused = False
                self._ask_again()
            if self._fault is not None:
                raise self._fault
            if self._end is not None:
                if self._end.error is not None:
                    raise ended_badly(self.run, self._end.error, status=self._end.status)
                raise StopAsyncIteration
            self._wake = trio.Event()
            await self._wake.wait()
        number, item = self._items.popleft()
        if isinstance(item, Missed):
            self.last = number
            return Entry(self.run, number, item, b"{}")
        self._bytes -= len(item)
        event = read_event(item, where=self.where)
        self.last = number
        return Entry(self.run, number, event, item)

    # For the socket

    def take(self, message: Happened | Ended | Lagged) -> None:
        """Something was said about it."""
        if self._barrier is not None or self._paused or self._over:
            return
        match message:
            case Happened(seq=seq, event=event):
                if seq != self._newest + 1:
                    self.fail(hole(self._newest + 1, seq, where=self.where))
                elif self._put(seq, bytes(event)):
                    self._fresh = False
            case Lagged(missed=(first, last)):
                if first != self._newest + 1 or last < first:
                    self.fail(hole(self._newest + 1, first, where=self.where))
                elif self._socket.refill and not self._fresh:
                    self._ask_again()
                else:
                    # Asked for from its beginning, and gone.
                    self._put(last, Missed(first, last))
            case Ended():
                self._end = message
                self._stir()
            case _:
                assert_never(message)

    def pong(self, n: int) -> None:
        """What comes from here on is said to the newest subscription."""
        if self._barrier == n:
            self._barrier = None

    def fail(self, fault: ClientFault) -> None:
        """It can't be followed any more."""
        if not self._over:
            self._fault = fault
            self._stir()

    def leave(self) -> None:
        """It is not followed any more: the iteration over it ends."""
        self._items.clear()
        if not self._over:
            self._end = Ended(self.run, "unfollowed")
            self._stir()

    @property
    def _over(self) -> bool:
        return self._end is not None or self._fault is not None

    def _put(self, number: int, item: bytes | Missed) -> bool:
        size = 0 if isinstance(item, Missed) else len(item)
        full = len(self._items) >= MAX_WAITING or self._bytes + size > MAX_WAITING_BYTES
        # One alone is taken whatever its size, or it could never be.
        if full and self._items:
            self._paused = True
            self._socket.say(type="unsubscribe", run=self.run)
            return False
        self._items.append((number, item))
        self._bytes += size
        self._newest = number
        self._stir()
        return True

    def _ask_again(self) -> None:
        """Subscribe anew behind the newest entry."""
        self._fresh = True
        self._barrier = self._socket.resubscribe(self.run, self._newest + 1)

    def _stir(self) -> None:
        if self._wake is not None:
            self._wake.set()


class _Outgoing:
    """A message on its way. ``sent`` is set when it is written, or never will be."""

    __slots__ = ("data", "sent")

    def __init__(self, data: str) -> None:
        self.data = data
        self.sent = trio.Event()


class _Asked:
    """Something whose answer is waited for: a run under its ref, or a pong under its n."""

    __slots__ = ("about", "fault", "found", "run", "settled")

    def __init__(self, about: str = "", run: str = "") -> None:
        self.about = about
        self.run = run
        self.fault: ClientFault | None = None
        self.found: SocketRun | None = None
        self.settled = trio.Event()


class RunSocket:
    """Many runs on one connection; made by `Client.socket`.

    Attributes:
        refill: Whether what was missed is asked for again.
        draining: Set when the server says that it is stopping: it takes no more runs, and
            closes the socket when those that are followed have ended.
        where: How errors name it.
    """

    def __init__(self, ws: WebSocketConnection, where: str, *, refill: bool) -> None:
        self.refill = refill
        self.draining = trio.Event()
        self.where = where
        self._ws = ws
        self._runs: dict[str, SocketRun] = {}
        self._asked: dict[str | int, _Asked] = {}
        self._numbers = 0
        self._outbox: deque[_Outgoing] = deque()
        self._to_write = trio.Event()
        self._fault: ClientFault | None = None

    @property
    def runs(self) -> Mapping[str, SocketRun]:
        """Those that are followed, by id. One that has ended is no longer there."""
        return self._runs

    async def run(
        self,
        flow: Flow,
        inputs: Mapping[str, Any] | None = None,
        *,
        detach: bool = False,
        tools: Sequence[Mapping[str, Any]] = (),
        plugins: Sequence[Mapping[str, Any]] = (),
    ) -> SocketRun:
        """Start a run. Without ``detach`` it ends with the socket.

        Cancelled before the server has answered, the run is cancelled as soon as it does.

        Raises:
            Refused: It did not begin, and why.
            Unreachable: The socket is closed.
        """
        ref = str(self._next())
        body = request_body(flow, inputs, tuple(tools), tuple(plugins))
        asked = self._asked[ref] = _Asked("" if detach else "run")
        # What is not sent any more has not been asked for.
        if not await self._send({"type": "run", "ref": ref, "detach": detach, **body}, ref):
            raise self._gone()
        await self._settled(asked, ref, keep=True)
        assert asked.found is not None
        return asked.found

    async def follow(self, run: str, *, after: int = 0) -> SocketRun:
        """Follow any run, whoever started it, behind entry ``after``.

        Raises:
            Refused: There is no such run in memory, or too many are followed.
            Unreachable: The socket is closed.
        """
        followed = SocketRun(self, run, after)
        old = self._runs.pop(run, None)
        if old is not None:
            old.leave()
        self._runs[run] = followed
        followed._barrier = self.resubscribe(run, after + 1)  # noqa: SLF001  its own part
        try:
            await self._barrier("subscribe", run)
        except BaseException:
            if self._runs.get(run) is followed:
                del self._runs[run]
                self.say(type="unsubscribe", run=run)
            raise
        return followed

    async def unfollow(self, run: SocketRun) -> None:
        """Hear no more of a run."""
        if self._runs.get(run.run) is run:
            del self._runs[run.run]
            self.say(type="unsubscribe", run=run.run)
        run.leave()
        await trio.lowlevel.checkpoint()

    async def cancel(self, run: str) -> None:
        """Ask a run to end, whoever started it.

        Raises:
            Refused: There is none, or it has ended already.
            Unreachable: The socket is closed.
        """
        self.say(type="cancel", run=run)
        await self._barrier("cancel", run)

    async def ping(self) -> float:
        """Seconds until the server answered."""
        began = trio.current_time()
        await self._barrier("", "")
        return trio.current_time() - began

    # What is said

    def say(self, **message: Any) -> None:
        """Send a message some time soon; nothing when the socket is closed."""
        if self._fault is None:
            self._outbox.append(_Outgoing(_encode(message).decode()))
            self._to_write.set()

    def resubscribe(self, run: str, start: int) -> int:
        """Subscribe from ``start``; the number of the pong before which nothing counts."""
        n = self._next()
        self.say(type="unsubscribe", run=run)
        self.say(type="ping", n=n)
        self.say(type="subscribe", run=run, **{"from": start})
        return n

    def _next(self) -> int:
        self._numbers += 1
        return self._numbers

    async def _send(self, message: Mapping[str, Any], ref: str) -> bool:
        """Send, and wait until it is written; whether it was."""
        if self._fault is not None:
            del self._asked[ref]
            await trio.lowlevel.checkpoint()
            return False
        outgoing = _Outgoing(_encode(message).decode())
        self._outbox.append(outgoing)
        self._to_write.set()
        try:
            await outgoing.sent.wait()
        except trio.Cancelled:
            if outgoing in self._outbox:
                self._outbox.remove(outgoing)
                self._asked.pop(ref, None)
            else:
                self._abandon(ref)
            raise
        return self._fault is None

    async def _barrier(self, about: str, run: str) -> None:
        """Wait until all that was sent before has been answered."""
        n = self._next()
        asked = self._asked[n] = _Asked(about, run)
        self.say(type="ping", n=n)
        await self._settled(asked, n, keep=False)

    async def _settled(self, asked: _Asked, key: str | int, *, keep: bool) -> None:
        if self._fault is not None:
            self._asked.pop(key, None)
            await trio.lowlevel.checkpoint()
            raise self._gone()
        try:
            await asked.settled.wait()
        except trio.Cancelled:
            if keep:
                self._abandon(str(key))
            else:
                self._asked.pop(key, None)
            raise
        if asked.fault is not None:
            raise asked.fault

    def _abandon(self, ref: str) -> None:
        """Nobody waits for this run any more; what comes of it is unwanted."""
        asked = self._asked.get(ref)
        if asked is None:
            return
        if asked.found is not None:
            self._unwanted(asked.found, ends=bool(asked.about))
            del self._asked[ref]
        elif asked.settled.is_set():
            del self._asked[ref]
        else:
            asked.run = "abandoned"

    def _unwanted(self, run: SocketRun, *, ends: bool) -> None:
        self._runs.pop(run.run, None)
        self.say(type="cancel" if ends else "unsubscribe", run=run.run)

    def _gone(self) -> ClientFault:
        assert self._fault is not None
        return self._fault

    # Tasks

    async def write(self) -> None:
        """Write what is to be sent, message by message, until the socket is closed."""
        with suppress(ConnectionClosed):
            while True:
                while self._outbox:
                    outgoing = self._outbox.popleft()
                    await self._ws.send_message(outgoing.data)
                    outgoing.sent.set()
                self._to_write = trio.Event()
                await self._to_write.wait()

    async def read(self) -> None:
        """Read what is said, until the socket is closed."""
        try:
            while True:
                for message in read_messages(await self._ws.get_message()):
                    self._take(message)
        except ConnectionClosed as closed:
            self.end(self._closed(closed))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self.end(
                ProtocolBroken(
                    f"a message can't be read: {error}", where=self.where, fix=IS_IT_THERE
                )
            )

    def end(self, fault: ClientFault) -> None:
        """Nothing comes any more: tell everybody who waits."""
        if self._fault is not None:
            return
        self._fault = fault
        for run in self._runs.values():
            run.fail(fault)
        self._runs.clear()
        for asked in self._asked.values():
            asked.fault = asked.fault or fault
            asked.settled.set()
        self._asked.clear()
        for outgoing in self._outbox:
            outgoing.sent.set()
        self._outbox.clear()

    def _closed(self, closed: ConnectionClosed) -> Unreachable:
        reason = closed.reason
        if self.draining.is_set():
            what = "the server has stopped"
        elif reason is None or reason.code in (1005, 1006):
            what = "the socket was cut"
        else:
            said = f" ({reason.reason})" if reason.reason else ""
            what = f"the socket was closed with {reason.code}{said}"
        fix = "Open another one, and follow its runs after their last entry."
        return Unreachable(what, where=self.where, fix=fix)

    def _take(self, message: Message) -> None:
        match message:
            case Happened(run=run) | Lagged(run=run):
                followed = self._runs.get(run)
                if followed is not None:
                    followed.take(message)
            case Ended(run=run):
                followed = self._runs.get(run)
                if followed is not None:
                    followed.take(message)
                    if followed._end is not None:  # noqa: SLF001  its own part
                        del self._runs[run]
            case Accepted(ref=ref, run=run):
                self._accepted(ref, run)
            case NotAccepted(ref=ref, status=status, error=error):
                asked = None if ref is None else self._asked.pop(ref, None)
                if asked is not None:
                    asked.fault = self._refused(error, status)
                    asked.settled.set()
            case Pong(n=n):
                for followed in self._runs.values():
                    followed.pong(n)
                asked = self._asked.pop(n, None)
                if asked is not None:
                    asked.settled.set()
            case Draining():
                self.draining.set()
            case Wrong():
                self._wrong(message)
            case _:
                assert_never(message)

    def _accepted(self, ref: str, run: str) -> None:
        asked = self._asked.pop(ref, None)
        followed = SocketRun(self, run, 0)
        if asked is None or asked.run == "abandoned":
            self._unwanted(followed, ends=asked is None or bool(asked.about))
            return
        self._runs[run] = followed
        asked.found = followed
        asked.settled.set()

    def _wrong(self, message: Wrong) -> None:
        fault = self._refused(message.error, message.status)
        # A server that is older says neither about what nor about which run.
        for asked in self._asked.values():
            if asked.about == message.about and asked.run == message.run:
                asked.fault = fault
                return
        if message.about == "subscribe":
            followed = self._runs.pop(message.run, None)
            if followed is not None:
                followed.fail(fault)

    def _refused(self, error: ErrorBody, status: int) -> Refused:
        return Refused(error.message, status=status, type=error.type, where=self.where)


@asynccontextmanager
async def open_socket(exchange: Exchange, *, refill: bool) -> AsyncIterator[RunSocket]:
    """A socket, until the block is left; runs that it started and did not detach end then.

    Raises:
        Refused: The server wants none.
        Unreachable: There is no connection.
    """
    address = exchange.address
    where = f"{address.shown}/v1/stream"
    stream = await exchange.dial(where)
    headers = [(b"User-Agent", b"heddle-client")]
    if exchange.authorization is not None:
        headers.append((b"Authorization", exchange.authorization.encode("latin-1")))
    failed: Exception | None = None
    try:
        async with trio.open_nursery() as nursery:
            try:
                ws = await _shake_hands(nursery, stream, exchange, headers, where)
                socket = RunSocket(ws, where, refill=refill)
                nursery.start_soon(socket.read)
                nursery.start_soon(socket.write)
                try:
                    yield socket
                finally:
                    socket.end(Unreachable("this side closed the socket", where=where))
                    with trio.move_on_after(CLOSING, shield=True):
                        await ws.aclose()
            except Exception as error:  # noqa: BLE001  raised below, outside of the group
                failed = error
            nursery.cancel_scope.cancel()
    except* HandshakeError as group:
        # Raised by the library's own task, beside the one that waits for the handshake.
        failed = _rejected(group, where)
    finally:
        with trio.move_on_after(CLOSING, shield=True):
            await trio.aclose_forcefully(stream)
    if failed is not None:
        raise failed


async def _shake_hands(
    nursery: trio.Nursery,
    stream: Any,
    exchange: Exchange,
    headers: list[tuple[bytes, bytes]],
    where: str,
) -> WebSocketConnection:
    address = exchange.address
    with trio.move_on_after(CONNECT):
        return await wrap_client_stream(
            nursery,
            stream,
            address.authority,
            f"{address.prefix}/v1/stream",
            subprotocols=[SUBPROTOCOL],
            extra_headers=headers,
            message_queue_size=QUEUE,
            max_message_size=MAX_BODY,
        )
    raise Unreachable(f"no socket within {CONNECT:g} s", where=where, fix=IS_IT_THERE)


def _rejected(group: BaseExceptionGroup[HandshakeError], where: str) -> ClientFault:
    """Why there is no socket."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, ConnectionRejected):
        headers = {name.lower(): value for name, value in error.headers}
        body = error.body or b""
        return refusal(error.status_code, headers, body, where=where, runs=False)
    return Unreachable(
        "the server closed the connection instead of opening a socket",
        where=where,
        fix=IS_IT_THERE,
    )
