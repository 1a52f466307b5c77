"""One task that calls others back later: how often the readers of busy runs are woken."""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

import trio


class Pacer:
    """Calls back at given times, while `run` runs."""

    def __init__(self) -> None:
        self._calls: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._scope = trio.CancelScope()

    def now(self) -> float:
        """The time, by trio's clock."""
        return trio.current_time()

    def at(self, when: float, call: Callable[[], None]) -> None:
        """Call once at that time; of several at one time, in the order of asking.

        The call must neither wait nor raise.
        """
        heappush(self._calls, (when, next(self._numbers), call))
        if when < self._scope.deadline:
            self._scope.deadline = when

    async def run(self) -> None:
        """Make the calls, until cancelled."""
        while True:
            with trio.CancelScope() as self._scope:
                if self._calls:
                    self._scope.deadline = self._calls[0][0]
                await trio.sleep_forever()
            self._call_due()

    def _call_due(self) -> None:
        now = self.now()
        while self._calls and self._calls[0][0] <= now:
            _, _, call = heappop(self._calls)
            call()
