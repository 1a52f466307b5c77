"""The events of one run over Server-Sent Events, entry by entry, none lost unnoticed.

    connection ── bytes ──▶ frames ──▶ entries, their numbers checked
        │ cut                  │ lagged
        └─▶ again, behind      └─▶ what was missed is fetched beside it,
            the last entry         or told as Missed when it is gone

Memory is bounded: nothing is read before what was read is taken.
"""

from collections import deque
from collections.abc import Callable, Mapping
from random import random
from types import TracebackType
from typing import Any, Final, Self

import msgspec
import trio
from msgspec import Struct

from heddle.client.entries import (
    Entry,
    Missed,
    RunInfo,
    RunResult,
    hole,
    read_event,
)
from heddle.client.exchange import MAX_ERROR, Exchange
from heddle.client.faults import (
    ErrorBody,
    ProtocolBroken,
    Refused,
    Unreachable,
    ended_badly,
    refusal,
)
from heddle.events import FlowCompleted
from heddle.http import (
    MAX_BODY,
    BadHttp,
    Connection,
    ConnectionBroken,
    SseEvent,
    SseParser,
)

SILENCE: Final = 60.0
"""Seconds without a byte after which a connection counts as cut. A server that has nothing
to tell says so every 15 to 30."""

PATIENCE: Final = 60.0
"""Seconds since the last entry for which a connection is tried to be had again."""

FIRST_REST: Final = 0.1
LONGEST_REST: Final = 5.0

PASSING: Final = frozenset({429, 502, 503, 504})
"""Statuses of a server, or of a proxy, that will soon be another."""

RUN_HEADER: Final = b"heddle-run"


class Begin(Struct, frozen=True):
    """The request that begins a run."""

    path: str
    body: bytes


class _Lag(Struct, frozen=True):
    missed: tuple[int, int]


class _Failure(Struct, frozen=True):
    error: ErrorBody


_lag: Final = msgspec.json.Decoder(_Lag).decode
_failure: Final = msgspec.json.Decoder(_Failure).decode
_info: Final = msgspec.json.Decoder(RunInfo).decode


class RunStream:
    """The entries of one run, in order. Iterate over it, inside ``async with`` when you may
    leave before the end: that hangs up, which ends a run that is not detached.

    It ends where the run did; a run that did not complete raises its `RunFailed` there.
    An iteration that is cancelled may be gone on with: no entry is lost by it.

    Attributes:
        run: The run's id; empty until the stream is open.
        last: The number of the last entry that was handed out or told to be missing.
        reconnects: How often a connection was had again.
    """

    def __init__(
        self,
        exchange: Exchange,
        *,
        begin: Begin | None = None,
        run: str = "",
        after: int = 0,
        resumes: bool = True,
        refill: bool = True,
    ) -> None:
        self.run = run
        self.last = after
        self.reconnects = 0
        self._exchange = exchange
        self._begin = begin
        self._resumes = resumes
        self._refill = refill
        self._connection: Connection | None = None
        self._parser = SseParser()
        self._frames: deque[SseEvent] = deque()
        self._unfinished = 0
        self._opened = False
        self._tries = 0
        self._since = 0.0
        self._done = False
        self._whole = False
        self._state: dict[str, Any] | None = None
        self._beside: RunStream | None = None
        self._beside_to = 0

    @property
    def where(self) -> str:
        """How errors name it."""
        return f"run {self.run} at {self._exchange.address.shown}"

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
        await trio.lowlevel.checkpoint_if_cancelled()

    def close(self) -> None:
        """Hang up. A run that this stream began, and that is not detached, ends."""
        self._done = True
        self._drop()
        if self._beside is not None:
            self._beside.close()

    async def result(self) -> RunResult:
        """Wait for the end of the run; entries that were not taken are passed over.

        Raises:
            RunFailed: It did not complete.
        """
        async for _ in self:
            pass
        if self._state is None:
            # Followed from behind its last event.
            answer = await self._exchange.ask("GET", f"/v1/runs/{self.run}")
            info = _read(_info, answer.body, self.where)
            if info.error is not None:
                raise ended_badly(self.run, info.error, status=info.status)
            return RunResult(self.run, info.flow, info.state or {})
        return RunResult(self.run, "", self._state)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Entry:
        await trio.lowlevel.checkpoint_if_cancelled()
        while True:
            if self._beside is not None:
                entry = await self._fetch()
            elif self._frames:
                entry = self._entry(self._frames.popleft())
            elif self._done:
                raise StopAsyncIteration
            else:
                await self._more()
                continue
            if entry is not None:
                self._tries = 0
                self._since = trio.current_time()
                return entry

    # Frames

    def _entry(self, frame: SseEvent) -> Entry | None:
        if frame.id:
            return self._event(frame)
        if frame.name == b"lagged":
            first, last = _read(_lag, frame.data, self.where).missed
            return self._lagged(first, last, frame.data)
        if frame.name == b"error":
            self.close()
            raise ended_badly(self.run, _read(_failure, frame.data, self.where).error)
        return None

    def _event(self, frame: SseEvent) -> Entry:
        number = int(frame.id) if frame.id.isdigit() and len(frame.id) < 20 else -1
        if number != self.last + 1:
            self.close()
            raise hole(self.last + 1, number, where=self.where)
        event = read_event(frame.data, where=self.where)
        if isinstance(event, FlowCompleted):
            self._state = event.state
        self.last = number
        return Entry(self.run, number, event, frame.data)

    def _lagged(self, first: int, last: int, data: bytes) -> Entry | None:
        if first != self.last + 1 or last < first:
            self.close()
            raise hole(self.last + 1, first, where=self.where)
        if not self._refill:
            self.last = last
            return Entry(self.run, last, Missed(first, last), data)
        # While they are kept they can be had, over a connection of their own: to close
        # this one may end the run.
        self._beside_to = last
        self._beside = RunStream(
            self._exchange, run=self.run, after=self.last, refill=False
        )
        return None

    async def _fetch(self) -> Entry | None:
        """The next one of those that were missed."""
        beside, last = self._beside, self._beside_to
        assert beside is not None
        entry = await anext(beside, None)
        if entry is None:
            entry = Entry(self.run, last, Missed(self.last + 1, last), b"{}")
        elif entry.seq > last:
            # What the server let go of reaches beyond what was missed; the rest of it
            # is still to come here.
            first = self.last + 1
            entry = Entry(self.run, last, Missed(first, last), entry.data)
        self.last = entry.seq
        if self.last >= last:
            beside.close()
            self._beside = None
        return entry

    # Connections

    async def _more(self) -> None:
        """Read once, or become connected again. All that was read has been taken."""
        if self._whole:
            self._whole = False
            await self._ended()
            return
        await self._open()
        connection = self._connection
        if connection is None:
            return
        try:
            # What came with the head of the answer is read already.
            piece = connection.take()
            if not piece and not connection.complete:
                with trio.move_on_after(SILENCE) as scope:
                    await connection.advance()
                if scope.cancelled_caught:
                    raise ConnectionBroken(f"nothing came for {SILENCE:g} s")
        except ConnectionBroken as broken:
            self._cut(broken)
            return
        except BadHttp as error:
            self.close()
            raise self._exchange.fault(error, self.where) from error
        self._feed(piece or connection.take())
        if connection.complete:
            self._connection = None
            self._exchange.give_back(connection)
            self._whole = True

    def _feed(self, piece: bytes) -> None:
        frames = self._parser.feed(piece)
        if frames:
            self._frames += frames
            self._unfinished = 0
            return
        self._unfinished += len(piece)
        if self._unfinished > MAX_BODY:
            self.close()
            raise ProtocolBroken(
                f"one event is larger than {MAX_BODY // 1024 // 1024} MiB", where=self.where
            )

    async def _ended(self) -> None:
        """The answer is whole. Where it told no end, that had been told before, or it was
        cut by something between that is polite."""
        if self._state is not None:
            self._done = True
            return
        if not self._resumes:
            self._done = True
            raise Unreachable("the stream ended before its run did", where=self.where)
        answer = await self._exchange.ask("GET", f"/v1/runs/{self.run}")
        info = _read(_info, answer.body, self.where)
        if not info.running and info.events <= self.last:
            self._done = True
            if info.error is not None:
                raise ended_badly(self.run, info.error, status=info.status)

    def _cut(self, broken: ConnectionBroken) -> None:
        self._drop()
        if self._state is not None:
            self._done = True
        elif not self._resumes:
            self._done = True
            raise Unreachable(
                f"{broken} after event {self.last}",
                where=self.where,
                fix="Start it with detach=True to go on after a cut connection.",
            ) from broken

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        self._parser = SseParser()
        self._unfinished = 0
        if connection is not None:
            connection.close()

    async def _open(self) -> None:
        """Be connected; tries again only what has been connected before."""
        if self._connection is not None or self._done:
            return
        begin, self._begin = self._begin, None
        if not self._opened:
            self._since = trio.current_time()
            try:
                if begin is not None:
                    await self._start("POST", begin.path, begin.body, {}, runs=True)
                else:
                    await self._start(*self._again(), runs=False)
            except BaseException:
                # What was asked for may have begun, and ended with this connection.
                self._done = True
                raise
            self._opened = True
            return
        while True:
            try:
                await self._rest()
                await self._start(*self._again(), runs=False)
                self.reconnects += 1
                return
            except Unreachable:
                if trio.current_time() - self._since > PATIENCE:
                    raise
            except Refused as refused:
                late = trio.current_time() - self._since > PATIENCE
                if refused.status not in PASSING or late:
                    raise
                await trio.sleep(min(refused.retry_after or 0, LONGEST_REST))

    def _again(self) -> tuple[str, str, None, Mapping[str, str]]:
        path = f"/v1/runs/{self.run}/events"
        return "GET", path, None, {"Last-Event-ID": str(self.last)}

    async def _rest(self) -> None:
        """Wait before another try: longer each time, never in step with others."""
        longest = min(FIRST_REST * 2.0 ** min(self._tries, 10), LONGEST_REST)
        self._tries += 1
        await trio.sleep(longest * (0.5 + random() / 2))  # noqa: S311  no secret

    async def _start(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        *,
        runs: bool,
    ) -> None:
        exchange = self._exchange
        where = f"{method} {exchange.address.shown}{path}"
        connection = await exchange.open(method, path, body, headers)
        if connection.status != 200:
            answer = await exchange.whole(connection, where, MAX_ERROR)
            raise refusal(
                answer.status, answer.headers, answer.body, where=where, runs=runs
            )
        kind = connection.headers.get(b"content-type", b"")
        if not kind.startswith(b"text/event-stream"):
            connection.close()
            raise ProtocolBroken(
                f"the answer is {kind.decode('latin-1')!r} and no stream of events",
                where=where,
                fix="Check that the address is that of a heddle-server.",
            )
        self._parser = SseParser()
        self._frames.clear()
        self._connection = connection
        if not self.run:
            self.run = connection.headers.get(RUN_HEADER, b"").decode("latin-1")


def _read(decode: Callable[[bytes], Any], data: bytes, where: str) -> Any:
    try:
        return decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolBroken(f"what came can't be read: {error}", where=where) from error
