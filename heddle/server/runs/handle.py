"""One run, as the rest of the server knows it: how it stands, how to end it, its events.

Whoever has a `RunHandle` reads how the run stands and cancels it; `registry` makes them.
"""

import logging
import math
import time
from collections.abc import Callable, Coroutine, Mapping
from enum import Enum, auto
from typing import Any, Final, Protocol

import trio
from msgspec import Struct

from heddle.server.endings import Cancelled, Completed, Ending, Failed, Status, Stop
from heddle.server.following.log import EventLog
from heddle.server.own_scope import OwnScope
from plugins_host import Fault

HANDLE_WEIGHT: Final = 2048
EVENT_WEIGHT: Final = 64
"""About what an ended run, and each event beside its text, take up. Bytes."""

_LOG: Final = logging.getLogger("heddle.server")


class CancelOutcome(Enum):
    """What became of asking for a run's end."""

    CANCELLED = auto()
    """It ends now, if it has not just reached its end by itself."""

    UNKNOWN = auto()
    FINISHED = auto()


class AtNode(Protocol):
    """Where a run is."""

    @property
    def name(self) -> str:
        """The node's name."""
        ...

    @property
    def type(self) -> str:
        """The node's component type."""
        ...


class Place(Struct, frozen=True):
    """Where a run ended: no more of its flow than the node's name and type."""

    name: str
    type: str


class Work(Protocol):
    """One execution of a flow, as `heddle.engine.run.Run` is."""

    @property
    def at(self) -> AtNode | None:
        """The node where it is."""
        ...

    @property
    def executions(self) -> int:
        """How many executions of nodes it has begun."""
        ...

    def execute(
        self, inputs: Mapping[str, Any], /
    ) -> Coroutine[Any, Any, Mapping[str, Any]]:
        """Do it. What is raised ends the run."""
        ...


class RunSummary(Struct, frozen=True, rename="camel", omit_defaults=True):
    """How a run stands, for lists. ``started_at`` is seconds since the epoch."""

    run: str
    flow: str
    status: Status
    started_at: float
    seconds: float
    nodes: int
    events: int
    detached: bool
    readers: int
    node: str | None = None
    node_type: str | None = None


class RunHandle:
    """One run, from its start until the last who knows it lets go.

    Attributes:
        id: What it is known by; cannot be guessed.
        flow: The flow's name.
        detached: Whether it goes on without who started it.
        log: Its events.
        request: The id of the request that asked for it.
        started_at: Seconds since the epoch.
        ending: How it ended, as all are told; None while it goes on.
        error: What it failed with or was stopped by, soon without its traceback; None
            while it goes on and when it completed.
        stop: Why it was asked to end; None when nobody asked.
        scope: What it works in.
        deadline: When it will have had all the time that it may take.
        overdue: Whether it has.
    """

    __slots__ = (
        "_at",
        "_began",
        "_callbacks",
        "_ended",
        "_executions",
        "_seconds",
        "_work",
        "deadline",
        "detached",
        "ending",
        "error",
        "flow",
        "id",
        "log",
        "overdue",
        "request",
        "scope",
        "started_at",
        "stop",
    )

    def __init__(
        self,
        flow: str,
        log: EventLog,
        work: Work,
        *,
        detached: bool,
        request: str = "",
        timeout: float = math.inf,
        began: float | None = None,
        scope: OwnScope | None = None,
    ) -> None:
        self.id = log.run
        self.request = request
        self.flow = flow
        self.detached = detached
        self.log = log
        self.started_at = time.time()
        self.ending: Ending | None = None
        self.error: Fault | None = None
        self.stop: Stop | None = None
        self._began = trio.current_time() if began is None else began
        self.deadline = self._began + timeout
        self.overdue = False
        self.scope = OwnScope() if scope is None else scope
        self._seconds = 0.0
        self._work: Work | None = work
        self._at: AtNode | None = None
        self._executions = 0
        self._ended: trio.Event | None = None
        self._callbacks: list[Callable[[], object]] | None = None

    @property
    def status(self) -> Status:
        """How it stands."""
        return Status.RUNNING if self.ending is None else STATUS[type(self.ending)]

    @property
    def node(self) -> AtNode | None:
        """The node where it is, or where it ended."""
        return self._at if self._work is None else self._work.at

    @property
    def nodes(self) -> int:
        """How many executions of nodes it has begun."""
        return self._executions if self._work is None else self._work.executions

    @property
    def seconds(self) -> float:
        """How long it has gone on, or how long it took."""
        if self.ending is None:
            return trio.current_time() - self._began
        return self._seconds

    @property
    def weight(self) -> int:
        """About how many bytes it takes up once it has ended."""
        log, ending = self.log, self.ending
        if isinstance(ending, Completed):
            told = memoryview(ending.state).nbytes
        else:
            # Once as it is told and once in the exception.
            told = 0 if ending is None else 2 * len(ending.error.message)
        return HANDLE_WEIGHT + log.size + EVENT_WEIGHT * (log.last - log.first + 1) + told

    def summary(self) -> RunSummary:
        """How it stands, for lists."""
        node = self.node
        return RunSummary(
            self.id,
            self.flow,
            self.status,
            self.started_at,
            round(self.seconds, 6),
            self.nodes,
            self.log.last,
            self.detached,
            self.log.readers,
            None if node is None else node.name,
            None if node is None else node.type,
        )

    def cancel(self, stop: Stop = Stop.ASKED) -> CancelOutcome:
        """Ask it to end; the first reason given is the one that is told."""
        if self.ending is not None:
            return CancelOutcome.FINISHED
        if self.stop is None:
            self.stop = stop
        self.scope.cancel()
        return CancelOutcome.CANCELLED

    def expire(self) -> None:
        """It has had all the time that it may take."""
        if self.ending is None:
            self.overdue = True
            self.scope.cancel()

    def when_ended(self, call: Callable[[], object]) -> None:
        """Call once when it has ended, at once if it has. Must neither wait nor raise."""
        if self.ending is not None:
            call()
        elif self._callbacks is None:
            self._callbacks = [call]
        else:
            self._callbacks.append(call)

    async def wait_ended(self) -> Ending:
        """Wait until it has ended, and nothing of it is going on any more."""
        if self.ending is None:
            if self._ended is None:
                self._ended = trio.Event()
            await self._ended.wait()
            assert self.ending is not None
        else:
            await trio.lowlevel.checkpoint()
        return self.ending

    # For `Runs`

    def finish(
        self,
        ending: Ending,
        error: Fault | None,
        result: Mapping[str, Any] | None,
        now: float,
    ) -> None:
        """It has ended: let go of what it worked with, and tell who waits."""
        work, self._work = self._work, None
        assert work is not None
        at = work.at
        self._at = None if at is None else Place(at.name, at.type)
        self._executions = work.executions
        self._seconds = now - self._began
        self.error = error
        self.ending = ending
        self.log.finish(ending, result)

    def tell(self) -> None:
        """Tell those who wait for the end."""
        if self._ended is not None:
            self._ended.set()
        callbacks, self._callbacks = self._callbacks, None
        for call in callbacks or ():
            try:
                call()
            except Exception:  # noqa: BLE001  one listener's bug is not the run's
                _LOG.exception("run %s: telling its end failed", self.id)


STATUS: Final[Mapping[type[Ending], Status]] = {
    Completed: Status.COMPLETED,
    Failed: Status.FAILED,
    Cancelled: Status.CANCELLED,
}
