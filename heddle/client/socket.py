"""One WebSocket that carries many runs.

    async with client.socket() as socket:
        runs = [await socket.run(flow, {"n": n}) for n in range(100)]
        for run in runs:
            async for entry in run:
                ...

    reading task    frames in  ->  entries, put where each run is iterated over
    writing task    whole messages out, one after the other

What is asked for is answered by a pong, which comes after all answers to what was sent
before it: one that is refused has been told by then.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, assert_never

import msgspec
import trio
from trio_websocket import ConnectionClosed, WebSocketConnection

from heddle.client.entries import Flow, request_body
from heddle.client.exchange import IS_IT_THERE
from heddle.client.faults import (
    ClientFault,
    ErrorBody,
    ProtocolBroken,
    Refused,
    Unreachable,
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
from heddle.client.socket_run import SocketRun

_encode: Final = msgspec.json.Encoder().encode


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
        trace: bool = False,
        tools: Sequence[Mapping[str, Any]] = (),
        plugins: Sequence[Mapping[str, Any]] = (),
    ) -> SocketRun:
        """Start a run. Without ``detach`` it ends with the socket.

        With ``trace`` it tells of model calls and agents, where the server allows it.

        Cancelled before the server has answered, the run is cancelled as soon as it does.

        Raises:
            Refused: It did not begin, and why.
            Unreachable: The socket is closed.
        """
        ref = str(self._next())
        body = request_body(flow, inputs, tuple(tools), tuple(plugins))
        asked = self._asked[ref] = _Asked("" if detach else "run")
        if trace:
            body["trace"] = True
        # What is not sent any more has not been asked for.
        message = {"type": "run", "ref": ref, "detach": detach, **body}
        try:
            if not await self._send(message, ref):
                raise self._gone()
            await self._settled(asked, ref)
        except trio.Cancelled:
            self._abandon(asked)
            raise
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
        followed.subscribe()
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
            raise
        return self._fault is None

    async def _barrier(self, about: str, run: str) -> None:
        """Wait until all that was sent before has been answered."""
        n = self._next()
        asked = self._asked[n] = _Asked(about, run)
        self.say(type="ping", n=n)
        try:
            await self._settled(asked, n)
        except trio.Cancelled:
            self._asked.pop(n, None)
            raise

    async def _settled(self, asked: _Asked, key: str | int) -> None:
        if self._fault is not None:
            self._asked.pop(key, None)
            await trio.lowlevel.checkpoint()
            raise self._gone()
        await asked.settled.wait()
        if asked.fault is not None:
            raise asked.fault

    def _abandon(self, asked: _Asked) -> None:
        """Nobody waits for this run any more; what comes of it is unwanted.

        It may be there already: an answer can be read before the task that asks is told
        that its question was written.
        """
        if asked.found is not None:
            self._unwanted(asked.found, ends=bool(asked.about))
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
                    try:
                        await self._ws.send_message(outgoing.data)
                    finally:
                        # Who waits for it goes on to wait for the answer, or the end.
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
            case Happened(run=run, seq=seq, event=event):
                followed = self._runs.get(run)
                if followed is not None:
                    followed.happened(seq, event)
            case Lagged(run=run):
                followed = self._runs.get(run)
                if followed is not None:
                    followed.take(message)
            case Ended(run=run):
                followed = self._runs.get(run)
                if followed is not None:
                    followed.take(message)
                    if followed.ended:
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
        old = self._runs.get(run)
        if old is not None:
            if asked is None:
                # Said twice: it is had already.
                return
            old.fail(
                ProtocolBroken(
                    "the server began another run under this id",
                    where=old.where,
                    fix="This is a bug in the server.",
                )
            )
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
