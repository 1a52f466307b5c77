"""The calls that one plugin process has not answered yet, and how long each may take.

    id ──▶ Call   its run's services, the task that waits, its budget of silence

The budget starts when the call is sent, starts again with every sign of life, stands
still while heddle serves a reverse call that the plugin waits for, and never goes beyond
`CEILING` times its length.
"""

import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Self, TypeAlias

from msgspec import Raw, Struct, field
from trio.lowlevel import (
    Abort,
    RaiseCancelT,
    Task,
    current_task,
    reschedule,
    wait_task_rescheduled,
)

from plugins_host.frames import Id
from plugins_host.reverse import CallServices, Waited

# Signs of life extend a wait to at most this many times the budget of silence.
CEILING: Final = 10.0

# Reverse calls that one call may have open at the same time: more than anybody writes on
# purpose, and each is a task.
MAX_REVERSE: Final = 256

Elsewhere: TypeAlias = Callable[..., Awaitable[Raw]]
"""Takes what a request to a process was, but for itself, and asks another process."""

Following: TypeAlias = tuple[str, bytes, CallServices | None, Sequence[str], float]
"""Another question of a call: verb, params, services, components, patience."""

Onward: TypeAlias = Callable[[Raw], Following | None]
"""What is asked behind an answer; None where that is for the task that waits. Called in
whatever task reads the answer: it must neither wait nor raise."""

# One space of ids for all processes: an id is not given out again while heddle runs, and
# one plugin's is never mistaken for another's.
ids: Final = itertools.count(1)


class Budget(Struct, eq=False):
    """How long something may go on in silence. Instants are on trio's clock.

    Attributes:
        patience: Seconds of silence that are allowed.
        began: When it began.
        due: When it is given up.
        holds: How many reverse calls are being served; ``left`` is what is left meanwhile.
    """

    patience: float
    began: float
    due: float
    holds: int
    left: float

    @classmethod
    def beginning(cls, now: float, patience: float) -> Self:
        """The whole of it, from now on."""
        return cls(patience, now, now + patience, 0, 0.0)

    @property
    def ceiling(self) -> float:
        """When it is given up whatever the signs of life."""
        return self.began + self.patience * CEILING

    def progress(self, now: float) -> None:
        """A sign of life: the wait starts again."""
        if self.holds:
            self.left = self.patience
        else:
            self.due = min(now + self.patience, self.ceiling)

    def hold(self, now: float) -> None:
        """The plugin waits for heddle: its own time stands still."""
        if not self.holds:
            self.left = self.due - now
            self.due = self.ceiling
        self.holds += 1

    def release(self, now: float) -> None:
        """heddle has done its part: the plugin's time goes on where it stood."""
        self.holds -= 1
        if not self.holds:
            self.due = min(now + self.left, self.ceiling)


class Call(Budget):
    """One call: what it may use, and what came of it.

    Attributes:
        verb: What is asked.
        services: What reverse calls made inside it may use.
        components: The component types that are asked.
        on_partial: Takes its progress.
        onward: Says what is asked next in the same call, which then goes on.
        params: Of what is asked, where there is ``onward``.
        end: Where its frame ends in all that was to be written to the process, in bytes.
        outcome: The answer, or the error to raise; None while it is open.
        asked: Reverse calls that the waiting task has not begun to serve.
        at: The component that the plugin said it is at, when several were asked.
        waiting: The task that asks, while it is parked.
    """

    verb: str
    services: CallServices | None
    components: Sequence[str]
    on_partial: Callable[[Raw], None] | None
    id: int = field(default_factory=ids.__next__)
    end: int = 0
    outcome: Raw | Exception | None = None
    asked: Sequence[tuple[Id, Waited, str]] = ()
    at: str | None = None
    waiting: Task | None = None
    onward: Onward | None = None
    params: bytes = b""

    def wait(self) -> Awaitable[None]:
        """Park the task that asks until it is settled, or there is something to serve.

        Look at ``outcome`` and ``asked`` first: they may have changed already. A reply
        slot would do as well, and cost a tenth more of a consultation.
        """
        self.waiting = current_task()
        return wait_task_rescheduled(self._forget)  # noqa: ASYNC105  awaited by the caller

    def _forget(self, _: RaiseCancelT) -> Abort:
        # Trio wakes the cancelled task itself. It must not be found here when an answer
        # comes: to wake it twice would corrupt the scheduler.
        self.waiting = None
        return Abort.SUCCEEDED

    def settle(self, outcome: Raw | Exception) -> None:
        """It is over: wake the waiting task."""
        if self.outcome is None:
            self.outcome = outcome
            waiting = self.waiting
            if waiting is not None:
                self.waiting = None
                reschedule(waiting)

    def hand_over(self, asked: tuple[Id, Waited, str], now: float) -> None:
        """Give the waiting task a reverse call to serve; meanwhile the call is held."""
        self.hold(now)
        self.asked = [*self.asked, asked]
        if self.waiting is not None:
            waiting, self.waiting = self.waiting, None
            reschedule(waiting)
