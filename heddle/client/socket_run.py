"""One run on a socket: what was said of it and waits to be taken, and how it ended.

A run that nobody iterates over takes no memory without bound and keeps no other waiting:
when its buffer is full the client unsubscribes, and subscribes again behind the last entry
once there is room. The same happens for what the server says was missed. Between the old
subscription and the new one goes a ping: what arrives before its pong is the old one's.
"""

from collections import deque
from typing import Any, Final, Protocol, Self, assert_never

import msgspec
import trio
from msgspec import Raw

from heddle.client.entries import Entry, Missed, RunResult, hole, read_event
from heddle.client.faults import ClientFault, ProtocolBroken, Unreachable, ended_badly
from heddle.client.socket_messages import Ended, Lagged

MAX_WAITING: Final = 1024
MAX_WAITING_BYTES: Final = 1024 * 1024
"""Entries of one run that wait to be taken; as much as a server keeps for a reader."""

_state: Final = msgspec.json.Decoder(dict[str, Any]).decode


class Carrier(Protocol):
    """What a run needs of the socket that carries it.

    Attributes:
        refill: Whether what was missed is asked for again.
        where: How errors name it.
    """

    refill: bool
    where: str

    async def cancel(self, run: str) -> None:
        """Ask a run to end."""

    async def unfollow(self, run: "SocketRun") -> None:
        """Hear no more of a run."""

    def say(self, **message: Any) -> None:
        """Send a message some time soon."""

    def resubscribe(self, run: str, start: int) -> int:
        """Subscribe from ``start``; the number of the pong before which nothing counts."""
        ...


class SocketRun:
    """A run on a socket: its entries, when iterated over, and its end.

    A run that did not complete raises its `RunFailed` where it ended. Cancelled
    iterations lose nothing.

    Attributes:
        run: Its id.
        where: How errors name it.
        last: The number of the last entry that was handed out or told to be missing.
    """

    def __init__(self, socket: Carrier, run: str, after: int) -> None:
        self.run = run
        self.where = f"run {run} at {socket.where}"
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
            ProtocolBroken: What it came to is no state.
        """
        async for _ in self:
            pass
        if self._end is None or not bytes(self._end.state):
            raise Unreachable("the run is not followed any more", where=self.where)
        try:
            return RunResult(self.run, "", _state(self._end.state))
        except (msgspec.MsgspecError, RecursionError) as error:
            raise ProtocolBroken(
                f"the state that the run ended with can't be read: {error}",
                where=self.where,
            ) from error

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Entry:
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self._items:
            if self._paused:
                self._paused = False
                self.subscribe()
            if self._fault is not None:
                raise self._fault
            if self._end is not None:
                if self._end.error is not None:
                    raise ended_badly(self.run, self._end.error, status=self._end.status)
                raise StopAsyncIteration
            wake = self._wake = trio.Event()
            await wake.wait()
        number, item = self._items.popleft()
        if type(item) is Missed:
            self.last = number
            return Entry(self.run, number, item, b"{}")
        assert type(item) is bytes
        self._bytes -= len(item)
        event = read_event(item, where=self.where)
        self.last = number
        return Entry(self.run, number, event, item)

    # For the socket

    def subscribe(self) -> None:
        """Subscribe, or do it anew, behind the newest entry."""
        self._fresh = True
        self._barrier = self._socket.resubscribe(self.run, self._newest + 1)

    def happened(self, seq: int, event: Raw) -> None:
        """Its next event was told."""
        # The conditions one by one: to call for them would cost as much as all the rest.
        if self._barrier is not None or self._paused:
            return
        if self._end is not None or self._fault is not None:
            return
        if seq != self._newest + 1:
            self.fail(hole(self._newest + 1, seq, where=self.where))
        elif self._put(seq, bytes(event)):
            self._fresh = False

    def take(self, message: Ended | Lagged) -> None:
        """Something else was said about it."""
        if self._barrier is not None or self._paused or self._over:
            return
        match message:
            case Lagged(missed=(first, last)):
                if first != self._newest + 1 or last < first:
                    self.fail(hole(self._newest + 1, first, where=self.where))
                elif self._socket.refill and not self._fresh:
                    self.subscribe()
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
    def ended(self) -> bool:
        """Whether its end was said."""
        return self._end is not None

    @property
    def _over(self) -> bool:
        return self._end is not None or self._fault is not None

    def _put(self, number: int, item: bytes | Missed) -> bool:
        items = self._items
        size = self._bytes
        if type(item) is bytes:
            size += len(item)
        # One alone is taken whatever its size, or it could never be.
        if items and (len(items) >= MAX_WAITING or size > MAX_WAITING_BYTES):
            self._paused = True
            self._socket.say(type="unsubscribe", run=self.run)
            return False
        items.append((number, item))
        self._bytes = size
        self._newest = number
        if self._wake is not None:
            self._stir()
        return True

    def _stir(self) -> None:
        if self._wake is not None:
            self._wake.set()
            self._wake = None
