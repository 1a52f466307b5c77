"""One task that ends all waits that have become too long: of model calls, and whole runs.

A call that waits on a connection says until when; when that moment has passed, its
connection is told to wake it. A deadline of a cancel scope would do the same, and cost a
fifth of the whole call: that is why this is the one place where a deadline is not one.

The task sleeps until the earliest deadline that it knew of, looks at all waits, and goes
to sleep again. It ends when there are none. A wait that something arrived for in time is
not ended, even when the loop was too busy to hand it over before the deadline.
"""

from math import inf
from typing import Final, Protocol

import trio

# Seconds. A call that is told just then may be between two waits, and begin the next one:
# it is told again.
_AGAIN: Final = 0.1


class Wait(Protocol):
    """Something that must not wait for ever."""

    deadline: float
    """In the time of `trio.current_time`."""

    def expire(self) -> None:
        """The deadline has passed: stop waiting. Called until it ends or begins anew."""
        ...


class Watch:
    """All waits of one sort."""

    __slots__ = ("_running", "_scope", "_waits", "_wakes_at")

    def __init__(self) -> None:
        self._waits: set[Wait] = set()
        self._scope = trio.CancelScope()
        self._wakes_at = inf
        self._running = False

    def begin(self, wait: Wait) -> None:
        """Watch ``wait`` until `end`, by its present deadline."""
        self._waits.add(wait)
        if wait.deadline >= self._wakes_at:
            return
        self._wakes_at = wait.deadline
        if self._running:
            self._scope.deadline = wait.deadline
        else:
            self._running = True
            trio.lowlevel.spawn_system_task(self._run, name="heddle.watch")

    def end(self, wait: Wait) -> None:
        """Forget ``wait``."""
        self._waits.discard(wait)

    def close(self) -> None:
        """Forget all waits, and end the task."""
        self._waits.clear()
        self._scope.cancel()

    async def _run(self) -> None:
        try:
            while self._waits:
                with trio.CancelScope(deadline=self._wakes_at) as self._scope:
                    await trio.sleep_forever()
                now = trio.current_time()
                for wait in [wait for wait in self._waits if wait.deadline <= now]:
                    wait.deadline = now + _AGAIN
                    wait.expire()
                self._wakes_at = min((wait.deadline for wait in self._waits), default=inf)
        finally:
            self._running = False
            self._wakes_at = inf
