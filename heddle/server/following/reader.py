"""One who follows a run: a position in its event log that moves at its own pace.

    with Reader(log, start=1) as reader:
        async for item in reader:
            match item:
                case Batch():    send item.framed(…)
                case Lagged():   say that item.first … item.last are missing
                case Ended():    say how the run ended; nothing follows

A reader that falls too far behind while it is busy is told what it missed and goes on
with the newest events. Who has fallen behind is not who starts behind: what was kept of
the past is read at any pace, for as long as it is kept.
"""

from collections.abc import Callable
from enum import Enum, auto
from types import TracebackType
from typing import Final, Self, TypeAlias

import trio
from msgspec import Struct
from outcome import Error, Value
from trio.lowlevel import (
    Abort,
    RaiseCancelT,
    Task,
    checkpoint,
    current_task,
    enable_ki_protection,
    reschedule,
    wait_task_rescheduled,
)

from heddle.server.endings import Ended
from heddle.server.following.log import Batch, EventLog, LogLimits

_NUDGE: Final = object()

LAG: Final = LogLimits(events=1024, bytes=1024 * 1024)
"""How far a reader may fall behind while it is busy. Published: clients count on being
told beyond it."""

KEPT_SHARE: Final = 2
"""A reader that lagged goes on with the newest half of what it may be behind: with all of
it, the next event would make it lag again."""


class Lagged(Struct, frozen=True):
    """Events ``first`` to ``last`` were not read. While they are kept, another reader
    can still be started there."""

    first: int
    last: int


Item: TypeAlias = Batch | Lagged | Ended


class _Place(Enum):
    """Where a reader is, which says what it may be behind."""

    FRESH = auto()
    """It has read nothing yet: it may be behind by all that is kept."""

    BEHIND = auto()
    """It has read some of what there was, and is still catching up."""

    LEVEL = auto()
    """It took all there was, and is busy with it: what comes meanwhile counts."""

    RESTED = auto()
    """It took all there was, and waits: what comes at once is no fault of its own."""

    OVER = auto()
    """It has been told how the run ended."""


class Reader:
    """Follows ``log`` from event ``start``; used by one task.

    Args:
        log: What is read.
        start: The first event wanted. Below 1 it is 1; beyond the newest event it is
            the next one to come.
        ready: Called when there is something to take after `take` returned None; for
            who waits for many readers at once and calls no `next`. Must not wait.
        turn: Called in place of ``ready`` when it is this reader's turn among several:
            now is the time to take, and to send.
        lag: How far it may fall behind while it is busy.
    """

    __slots__ = (
        "_armed",
        "_closed",
        "_given",
        "_knew",
        "_lag",
        "_log",
        "_place",
        "_ready",
        "_task",
        "_turn",
        "_turns",
        "position",
    )

    def __init__(
        self,
        log: EventLog,
        start: int = 1,
        *,
        ready: Callable[[], object] | None = None,
        turn: Callable[[], object] | None = None,
        lag: LogLimits = LAG,
    ) -> None:
        self._log = log
        self._turns = log.turns()
        self._ready = ready
        self._turn = turn or ready
        self._lag = lag
        self._place = _Place.FRESH
        self._task: Task | None = None
        self._armed = False
        self._closed = False
        # Whether it has had its batch of this turn. The first one is not waited for.
        self._given = False
        # The newest event when it took something last. Of several readers each reads in
        # its turn, and so takes less than there is: that part is no delay of its own.
        self._knew = 0
        self.position = max(0, min(start - 1, log.last))
        """The event that was read last."""
        self._turns.readers += 1
        log.tally.readers += 1

    @property
    def log(self) -> EventLog:
        """What is read."""
        return self._log

    @property
    def behind(self) -> int:
        """How many events there are that it has not read."""
        return self._log.last - self.position

    @property
    def at_the_end(self) -> bool:
        """Whether it has read all there will be, but for how the run ended."""
        log = self._log
        return log.ending is not None and self.position == log.last

    def take(self) -> Item | None:
        """What there is to read now; None when there is nothing.

        After None, ``ready`` is called as soon as there is.

        Raises:
            trio.ClosedResourceError: It is closed.
        """
        if self._closed:
            raise trio.ClosedResourceError
        log = self._log
        turns = self._turns
        upto = turns.visible()
        if upto <= self.position or (self._given and turns.paced):
            return self._rest()
        log.encode()
        missed = self._missed()
        if missed:
            lagged = Lagged(self.position + 1, missed)
            log.tally.lagged += 1
            log.tally.missed += missed - self.position
            self.position = missed
            self._knew = log.last
            self._place = _Place.BEHIND
            return lagged
        batch = log.batch(self.position, upto)
        self._given = True
        self.position = batch.last
        self._knew = log.last
        self._place = _Place.LEVEL if batch.last == upto else _Place.BEHIND
        return batch

    async def next(self) -> Item:
        """Wait for something to read. Cancelled, nothing was taken.

        Raises:
            trio.EndOfChannel: The end of the run has been told.
            trio.ClosedResourceError: It is closed, perhaps while it waited.
        """
        while True:
            item = await self.next_or_nudge()
            if item is not None:
                return item

    async def next_or_nudge(self) -> Item | None:
        """Wait for something to read, or for `nudge`: then it is None. Else as `next`."""
        if self._place is _Place.OVER:
            raise trio.EndOfChannel
        if self._turns.visible() > self.position or self._log.ending is not None:
            await checkpoint()
        while True:
            item = self.take()
            if item is not None or await self._park() is _NUDGE:
                return item

    def nudge(self) -> None:
        """Have the task that waits in `next_or_nudge`, if one does, come back at once.

        A cancel scope around the wait would do the same, and cost each stream more than
        all its waits do.
        """
        if self._task is not None:
            task, self._task = self._task, None
            self._turns.wait_no_more(self)
            reschedule(task, Value(_NUDGE))

    def close(self) -> None:
        """Read no more. A task that waits in `next` is told."""
        if self._closed:
            return
        self._closed = True
        self._turns.readers -= 1
        self._log.tally.readers -= 1
        self._log.left()
        self._turns.wait_no_more(self)
        if self._task is not None:
            task, self._task = self._task, None
            reschedule(task, Error(trio.ClosedResourceError()))

    def wake(self) -> None:
        """For the log: there is more."""
        self._given = False
        if self._task is not None:
            task, self._task = self._task, None
            reschedule(task)
        else:
            assert self._ready is not None
            self._armed = False
            self._ready()

    def serve(self) -> bool:
        """For the log: it is its turn. Whether a task comes back from it."""
        if self._task is not None:
            self.wake()
            return True
        assert self._turn is not None
        self._given = self._armed = False
        self._turn()
        return False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        try:
            return await self.next()
        except trio.EndOfChannel:
            raise StopAsyncIteration from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _rest(self) -> Ended | None:
        """There is nothing to read now: the end, or a wait."""
        log = self._log
        if self._place is _Place.OVER:
            return None
        if log.ending is not None:
            self._place = _Place.OVER
            return log.ending
        self._place = _Place.RESTED
        if self._ready is not None and not self._armed:
            self._armed = True
            self._turns.wait(self, for_turn=self.behind > 0)
        return None

    def _missed(self) -> int:
        """The last of the events that it can't have any more; 0 when it can have all."""
        log = self._log
        dropped = self.position + 1 < log.first
        if self._place is _Place.FRESH:
            return log.first - 1 if dropped else 0
        if not dropped and self._place is not _Place.LEVEL:
            return 0
        most = self._lag
        # One event is never too much, whatever its size, or it could not be read at all.
        late = log.last - self._knew
        if not dropped and (
            late <= 1 or (late <= most.events and self._bytes_late() <= most.bytes)
        ):
            return 0
        begin = log.tail(most.events // KEPT_SHARE, most.bytes // KEPT_SHARE)
        return begin - 1

    def _bytes_late(self) -> int:
        """At least the size of what has come since it took something."""
        log = self._log
        if log.size <= self._lag.bytes:
            return log.size
        return log.bytes_after(self._knew)

    @enable_ki_protection
    async def _park(self) -> object:
        self._task = current_task()
        self._turns.wait(self, for_turn=self.behind > 0)
        return await wait_task_rescheduled(self._forget)

    def _forget(self, _: RaiseCancelT) -> Abort:
        # Trio wakes the cancelled task itself: a wake from the log would be the second.
        self._task = None
        self._turns.wait_no_more(self)
        return Abort.SUCCEEDED
