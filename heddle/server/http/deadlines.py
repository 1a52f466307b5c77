"""One task that notices every wait that has become too long.

A cancel scope for each wait would do the same, and a good part of what a request costs.
Instead a wait is two numbers on its wire, until when to read and until when to write, and
this task sleeps until the earliest that it knows of, looks at all of them, and goes to
sleep again.
"""

from collections.abc import Collection
from math import inf
from typing import Final, Protocol

import trio

# Looking at ten thousand connections takes milliseconds. Clients that arrange for as many
# different deadlines must not make it more than a small part of the time; nobody cares
# whether a time-out of seconds is a quarter late.
_GRAIN: Final = 0.25


class Waiting(Protocol):
    """Something that waits for a client."""

    def earliest(self) -> float:
        """The next deadline, in the time of `trio.current_time`; infinite for none."""
        ...

    def expire(self, now: float) -> None:
        """A deadline has passed, and this waits no longer."""
        ...


class Deadlines:
    """The deadlines of all connections."""

    __slots__ = ("_not_before", "_scope", "_waiting", "wakes_at")

    def __init__(self, waiting: Collection[Waiting]) -> None:
        """Watch ``waiting``, whatever is in it at the time."""
        self._waiting = waiting
        self._scope = trio.CancelScope()
        self._not_before = -inf
        self.wakes_at = inf

    def sooner(self, deadline: float) -> None:
        """A deadline before `wakes_at` has been set."""
        self.wakes_at = max(deadline, self._not_before)
        self._scope.deadline = self.wakes_at

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            with trio.CancelScope(deadline=self.wakes_at) as self._scope:
                await trio.sleep_forever()
            # Who was woken in the same turn by what it waited for goes first: a wait that
            # ended in time is not late because the loop was.
            await trio.lowlevel.checkpoint()
            now = trio.current_time()
            self._not_before = now + _GRAIN
            next_one = inf
            for one in tuple(self._waiting):
                deadline = one.earliest()
                if deadline <= now:
                    one.expire(now)
                elif deadline < next_one:
                    next_one = deadline
            self.wakes_at = max(next_one, self._not_before)
