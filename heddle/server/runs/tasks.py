"""Tasks that carry out one run after the other, for a task and its scope cost more to make
than a short run takes otherwise.

    start(scope → run) ─▶ a task that rests, woken   or   a new one
                              │                            │
                              └──── carries it out ◀───────┘ ──▶ rests, or ends

A task rests inside the cancel scope of the run before it, which the next run is cancelled
by: it is entered anew only when somebody has used it.
"""

from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

import trio
from outcome import Value
from trio.lowlevel import Abort, Task, current_task, reschedule, wait_task_rescheduled

from heddle.server.own_scope import OwnScope

MOST_RESTING: Final = 64
"""Tasks that wait for another run. More are a burst that is over."""

Job = TypeVar("Job")


class RunTasks(Generic[Job]):
    """The tasks of a nursery that is for nothing else that must end by itself.

    Args:
        nursery: Where they live; those that rest end with its cancellation.
        carry_out: Does the work of one, inside its scope. It raises nothing but what is to
            end the nursery, and waits for nothing once the scope was cancelled.
    """

    __slots__ = ("_carry_out", "_nursery", "_resting")

    def __init__(
        self, nursery: trio.Nursery, carry_out: Callable[[Job], Awaitable[None]]
    ) -> None:
        self._nursery = nursery
        self._carry_out = carry_out
        # With the scope that each is in.
        self._resting: dict[Task, OwnScope] = {}

    @property
    def resting(self) -> int:
        """How many wait for another run."""
        return len(self._resting)

    def start(self, job: Callable[[OwnScope], Job]) -> None:
        """Have a run carried out, beginning at the next chance.

        Args:
            job: Makes it, when told the scope that it is cancelled by.
        """
        if self._resting:
            task, scope = self._resting.popitem()
            reschedule(task, Value(job(scope)))
        else:
            scope = OwnScope()
            self._nursery.start_soon(self._work, job(scope), scope, name="runs")

    async def _work(self, job: Job, scope: OwnScope) -> None:
        while True:
            with scope:
                while True:
                    await self._carry_out(job)
                    if scope.cancel_called or len(self._resting) >= MOST_RESTING:
                        break
                    job = await self._rest(scope)
            if len(self._resting) >= MOST_RESTING:
                return
            scope = OwnScope()
            # Nobody can have cancelled that one before it is entered, but its run.
            job = await self._rest(scope)

    async def _rest(self, scope: OwnScope) -> Job:
        task = current_task()
        self._resting[task] = scope

        def forget(_: object) -> Abort:
            # A start that woke it already has taken it out, and trio does not ask then.
            del self._resting[task]
            return Abort.SUCCEEDED

        job: Job = await wait_task_rescheduled(forget)
        return job
