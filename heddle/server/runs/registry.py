"""All runs of a server: who may begin, who is running, how each one ended.

    async with Runs(engine, max_concurrent=64) as runs:
        run = runs.start(prepared, inputs, stream=True, detached=False, flow="triage")
        with Reader(run.log) as reader: …          follow it
        await run.wait_ended()                     run.ending, run.error

A run is one task under a cancel scope that contains all that it starts. It takes no
messages, so it is no actor: whoever has its `RunHandle` reads how it stands, and cancels
it. Whatever goes wrong in one, a bug included, is that run's own ending.
"""

import logging
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeAlias

import trio

from heddle.events import Event
from heddle.gentle_json import any_long
from heddle.preparing import Prepared
from heddle.server.endings import (
    Conceal,
    Ending,
    Status,
    Stop,
    forget_frames,
)
from heddle.server.following import log as event_log
from heddle.server.following.log import EventLog, LogLimits, Tally
from heddle.server.following.pacer import Pacer
from heddle.server.own_scope import OwnScope
from heddle.server.runs import history
from heddle.server.runs.handle import STATUS, CancelOutcome, RunHandle, Work
from heddle.server.runs.history import History, HistoryLimits
from heddle.server.runs.ids import new_id
from heddle.server.runs.judging import judge, only_cancelled, split
from heddle.server.runs.tasks import RunTasks
from heddle.watch import Watch
from plugins_host import Fault

MAX_CONCURRENT: Final = 64


MEAN_SHARE: Final = 1 / 16
"""How much the newest run moves the mean duration, from which it is told when to come
again."""

_LOG: Final = logging.getLogger("heddle.server")


class RunsRefused(Fault):
    """A run was not begun, for no fault of its own. Nothing of it has happened."""


class TooManyRuns(RunsRefused):
    """All slots are taken; ``retry_after`` is when to come again, in whole seconds."""

    def __init__(self, most: int, retry_after: int) -> None:
        super().__init__(
            "one run is going on, and this server takes one at a time"
            if most == 1
            else f"{most} runs are going on, which is the most this server takes at once",
            fix=f"Try again in {retry_after} s.",
        )
        self.retry_after = retry_after


class Draining(RunsRefused):
    """The server is stopping."""

    def __init__(self) -> None:
        super().__init__("this server is stopping", fix="Send it to another one.")


class Room(Protocol):
    """Room for runs that several processes share."""

    def take(self, active: int) -> bool:
        """Whether there is room for one more than the ``active`` runs of this process."""
        ...

    def hold(self, active: int) -> None:
        """This process has so many."""
        ...


class Maker(Protocol):
    """Makes runs, as `heddle.launch.Engine` does."""

    def new_run(
        self,
        prepared: Prepared,
        report: Callable[[Event], None],
        /,
        *,
        stream: bool,
        trace: bool = False,
    ) -> Work:
        """A run that has not begun. What is raised refuses it."""
        ...


def _nothing(_run: RunHandle) -> None:
    return None


class Runs:
    """The runs of one server, while its block is open. Leaving it cancels all.

    Args:
        maker: Makes them.
        max_concurrent: How many go on at once; more are refused, not queued.
        log_limits: How much of each run's events is kept.
        history_limits: How many ended runs are kept.
        conceal: Strikes out of errors what no caller may see.
        on_end: Called once a run, when it has ended; ``error`` has its traceback still.
        room: What the runs of other processes leave of ``max_concurrent``.
        prefix: What ids begin with.
        timeout: Seconds that a run may take. Those that are made must have no time-out of
            their own: each has one cancel scope, which is left at its end, its
            cancellation and its time-out.

    Attributes:
        draining: Whether no more runs are begun.
        accepted, rejected: How many runs were begun, and how many refused.
        ended: How many ended how.
        seconds: How long all of those took together.
        tally: Those who follow runs, and what they missed.
    """

    def __init__(
        self,
        maker: Maker,
        *,
        max_concurrent: int = MAX_CONCURRENT,
        log_limits: LogLimits = event_log.LIMITS,
        history_limits: HistoryLimits = history.LIMITS,
        conceal: Conceal = str,
        on_end: Callable[[RunHandle], None] = _nothing,
        room: Room | None = None,
        prefix: str = "",
        timeout: float = math.inf,
    ) -> None:
        if max_concurrent < 1:
            raise ValueError(f"there is room for one run at least, not {max_concurrent}")
        self.max_concurrent = max_concurrent
        self.draining = False
        self.accepted = 0
        self.rejected = 0
        self._ended: dict[type[Ending], int] = dict.fromkeys(STATUS, 0)
        self.seconds = 0.0
        self.tally = Tally()
        self._maker = maker
        self._log_limits = log_limits
        self._conceal = conceal
        self._on_end = on_end
        self._room = room
        self._prefix = prefix
        self._timeout = timeout
        self._active: dict[str, RunHandle] = {}
        self._history: History[RunHandle] = History(history_limits)
        self._pacer = Pacer()
        # That of the clock itself, once there is one: two calls less at each look.
        self._now = trio.current_time
        self._watch = Watch()
        self._mean_seconds = 1.0
        self._empty: trio.Event | None = None
        self._waiting: trio.CancelScope | None = None
        self._hurried = False
        self._nursery: trio.Nursery | None = None
        self._tasks: RunTasks[_Begun] | None = None
        self._stack = AsyncExitStack()

    @property
    def active(self) -> int:
        """How many are going on."""
        return len(self._active)

    @property
    def resting(self) -> int:
        """How many tasks wait to carry out another run."""
        return 0 if self._tasks is None else self._tasks.resting

    @property
    def ended(self) -> dict[Status, int]:
        """How many have ended, by how."""
        return {status: self._ended[kind] for kind, status in STATUS.items()}

    @property
    def saturation(self) -> float:
        """How much of the room for runs is taken, from 0 to 1."""
        return len(self._active) / self.max_concurrent

    def __iter__(self) -> Iterator[RunHandle]:
        """Those going on, the newest first, then those kept that have ended."""
        yield from reversed(self._active.values())
        yield from self._history

    def get(self, run: str) -> RunHandle | None:
        """The run of this id, while it goes on or is kept."""
        return self._active.get(run) or self._history.get(run)

    def start(
        self,
        prepared: Prepared,
        inputs: Mapping[str, Any],
        *,
        stream: bool,
        detached: bool,
        flow: str,
        maker: Maker | None = None,
        request: str = "",
        trace: bool = False,
    ) -> RunHandle:
        """Begin a run, or refuse it at once.

        Args:
            prepared: The flow.
            inputs: The starting state.
            stream: Whether the text of models is wanted as it comes.
            detached: Whether it goes on without who starts it.
            flow: What the flow is called in lists and logs.
            maker: Who makes this one, when it needs something that others don't.
            request: The id of the request that asked for it.
            trace: Whether the events of traced runs are wanted.

        Raises:
            Draining: The server is stopping.
            TooManyRuns: There is no room.
            Fault: The flow can't be run; nothing has.
        """
        run, work = self._admit(
            prepared, stream, flow, maker, request, detached=detached, trace=trace
        )
        assert self._tasks is not None

        def begun(scope: OwnScope) -> _Begun:
            run.scope = scope
            return run, work, inputs

        self._tasks.start(begun)
        return run

    async def carry_out(
        self,
        prepared: Prepared,
        inputs: Mapping[str, Any],
        *,
        flow: str,
        request: str = "",
        maker: Maker | None = None,
        trace: bool = False,
        scope: OwnScope | None = None,
    ) -> RunHandle:
        """A whole run, in the task of who waits for nothing but its end.

        That saves a task and two switches between tasks. Cancelled, the run ends as one
        whose caller left.

        Args:
            prepared, inputs, flow, request, maker, trace: As of `start`, which says what is
                raised, too.
            scope: One that the caller has entered, to cancel the run by. Once it has been
                cancelled, the caller must leave it before it waits for anything. None for
                one of the run's own.
        """
        run, work = self._admit(
            prepared, False, flow, maker, request, detached=False, trace=trace, scope=scope
        )
        if scope is not None:
            await self._live(run, work, inputs, Stop.CALLER_LEFT)
            return run
        with run.scope:
            await self._live(run, work, inputs, Stop.CALLER_LEFT)
        return run

    def _admit(
        self,
        prepared: Prepared,
        stream: bool,
        flow: str,
        maker: Maker | None,
        request: str,
        *,
        detached: bool,
        trace: bool,
        scope: OwnScope | None = None,
    ) -> tuple[RunHandle, Work]:
        """A run that has its slot and has not begun."""
        if self.draining or self._nursery is None:
            self.rejected += 1
            raise Draining
        active = len(self._active)
        if active >= self.max_concurrent or (
            self._room is not None and not self._room.take(active)
        ):
            self.rejected += 1
            raise TooManyRuns(self.max_concurrent, self._retry_after())
        identity = self._prefix + new_id()
        log = EventLog(
            identity,
            limits=self._log_limits,
            conceal=self._conceal,
            pace=self._pacer,
            tally=self.tally,
        )
        try:
            work = (maker or self._maker).new_run(
                prepared, log.append, stream=stream, trace=trace
            )
        except BaseException:
            if self._room is not None:
                self._room.hold(active)
            raise
        run = RunHandle(
            flow,
            log,
            work,
            detached=detached,
            request=request,
            timeout=self._timeout,
            began=self._now(),
            scope=scope,
        )
        if self._timeout < math.inf:
            self._watch.begin(run)
        self._active[identity] = run
        self.accepted += 1
        return run, work

    def cancel(self, run: str, stop: Stop = Stop.ASKED) -> CancelOutcome:
        """Ask the run of this id to end."""
        handle = self.get(run)
        return CancelOutcome.UNKNOWN if handle is None else handle.cancel(stop)

    def cancel_all(self, stop: Stop) -> None:
        """Ask all to end."""
        for run in tuple(self._active.values()):
            run.cancel(stop)

    def refuse(self) -> None:
        """Begin no more runs."""
        self.draining = True

    async def drain(self, patience: float) -> None:
        """Begin no more runs, wait for those going on, then cancel them.

        Args:
            patience: Seconds until those that are left are cancelled.
        """
        self.refuse()
        with trio.CancelScope() as self._waiting:
            self._waiting.deadline = trio.current_time() + patience
            if self._hurried:
                self._waiting.cancel()
            await self.wait_empty()
        self.cancel_all(Stop.DRAINED)
        await self.wait_empty()

    def hurry(self) -> None:
        """Let a drain that goes on, or comes, not wait for runs to end by themselves."""
        self._hurried = True
        if self._waiting is not None:
            self._waiting.cancel()

    async def wait_empty(self) -> None:
        """Wait until no run is going on."""
        await trio.lowlevel.checkpoint()
        while self._active:
            if self._empty is None:
                self._empty = trio.Event()
            await self._empty.wait()

    async def __aenter__(self) -> Self:
        nursery = await self._stack.enter_async_context(trio.open_nursery())
        nursery.start_soon(self._pacer.run, name="pacer of run readers")
        self._nursery = nursery
        self._now = trio.lowlevel.current_clock().current_time
        self._tasks = RunTasks(nursery, self._live_alone)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # The nursery is not told of the block's error: it would wrap it in a group.
        nursery, self._nursery = self._nursery, None
        assert nursery is not None
        self.cancel_all(Stop.DRAINED)
        nursery.cancel_scope.cancel()
        await self._stack.aclose()
        self._watch.close()

    # One run

    def _live_alone(self, begun: "_Begun") -> Awaitable[None]:
        return self._live(*begun, Stop.DRAINED)

    async def _live(
        self,
        run: RunHandle,
        work: Work,
        inputs: Mapping[str, Any],
        unasked: Stop,
    ) -> None:
        """From its first step to its end, inside its scope.

        When its task is cancelled from around the scope, the end is told as ``unasked``.
        """
        result: Mapping[str, Any] | None = None
        try:
            if any_long(inputs):
                await run.log.learn(inputs)
            result = await work.execute(inputs)
            if any_long(result):
                await run.log.learn(result)
        except BaseException as raised:  # noqa: BLE001  what is not its own is raised again
            error, passing = split(raised)
            self._finish(run, result, error, unasked)
            if passing is None or (run.scope.cancel_called and only_cancelled(passing)):
                # Their frames, of which this is one, would keep them, and the run's state.
                for each in (raised, error, passing):
                    if each is not None:
                        forget_frames(each)
                return
            try:
                raise passing from None
            finally:
                del error, passing
        self._finish(run, result, None, unasked)

    def _finish(
        self,
        run: RunHandle,
        result: Mapping[str, Any] | None,
        raised: BaseException | None,
        unasked: Stop,
    ) -> None:
        """Write down how it ended; its slot is free."""
        ending, error = judge(
            run, result, raised, unasked, conceal=self._conceal, timeout=self._timeout
        )
        run.finish(ending, error, result, self._now())
        self._watch.end(run)
        del self._active[run.id]
        if self._room is not None:
            self._room.hold(len(self._active))
        self._history.add(run)
        self._ended[type(ending)] += 1
        self.seconds += run.seconds
        self._mean_seconds += (run.seconds - self._mean_seconds) * MEAN_SHARE
        if not self._active and self._empty is not None:
            self._empty.set()
            self._empty = None
        run.tell()
        try:
            self._on_end(run)
        except Exception:  # noqa: BLE001  a report's bug is not the run's
            _LOG.exception("run %s: reporting its end failed", run.id)
        if error is not None:
            forget_frames(error)

    def _retry_after(self) -> int:
        """When a slot will be free, going by how long runs take; 1 to 30 seconds."""
        return math.ceil(min(30, max(1, self._mean_seconds / self.max_concurrent)))


_Begun: TypeAlias = tuple[RunHandle, Work, Mapping[str, Any]]
"""A run, what it does, and what it starts from."""
