"""A bounded number of tool processes at a time, handed out fairly.

Runs take turns: each run waits in its own line, and a slot that becomes free goes to
the line whose turn is next, first come first served within it. A run that starts a
thousand tools at once therefore delays its neighbours by one turn, not by a thousand.
"""

from collections import OrderedDict
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager

import trio


class Slots:
    """``limit`` slots, at least 1."""

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError(f"a limit of {limit} slots would let nothing run")
        self.limit = limit
        self._free = limit
        # Run → its waiting tasks. Both in order: of turns, and of arrival.
        self._lines: OrderedDict[Hashable, OrderedDict[trio.lowlevel.Task, None]] = (
            OrderedDict()
        )

    @property
    def taken(self) -> int:
        """Slots in use."""
        return self.limit - self._free

    @property
    def waiting(self) -> int:
        """Tasks that wait for a slot."""
        return sum(map(len, self._lines.values()))

    @asynccontextmanager
    async def slot(self, run_key: Hashable) -> AsyncIterator[None]:
        """Wait for a slot and keep it for the length of the block."""
        await self._take(run_key)
        try:
            yield
        finally:
            self._give_back()

    async def _take(self, run_key: Hashable) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._free:
            self._free -= 1
            return
        task = trio.lowlevel.current_task()
        line = self._lines.setdefault(run_key, OrderedDict())
        line[task] = None

        def leave_the_line(_: object) -> trio.lowlevel.Abort:
            del line[task]
            if not line:
                del self._lines[run_key]
            return trio.lowlevel.Abort.SUCCEEDED

        # Whoever gives a slot back hands it over, so nobody can overtake meanwhile.
        await trio.lowlevel.wait_task_rescheduled(leave_the_line)

    def _give_back(self) -> None:
        if not self._lines:
            self._free += 1
            return
        run_key, line = self._lines.popitem(last=False)
        task, _ = line.popitem(last=False)
        if line:
            self._lines[run_key] = line
        trio.lowlevel.reschedule(task)
