"""When the readers of one run read: at once, or several of them in turns.

A reader that follows alone hears of each event as it comes. Of several, each reads once
a turn all that came since, so that a hundred cost the run little more than one does, and
each makes one write of many events, the same for all. How long the readers were busy in
one turn says when the next one begins.
"""

import logging
from collections.abc import Callable
from typing import Final, Protocol

SHORTEST_TURN: Final = 100e-6
LONGEST_TURN: Final = 2e-3
"""Seconds from one turn to the next, for each of the readers."""

TURN_SHARE: Final = 4
"""How many times as long as the readers are busy in a turn it is at least until the next
one begins: most of the time is left to the run, however many there are."""

_LOG: Final = logging.getLogger("heddle.server")


class Pace(Protocol):
    """A clock that calls back."""

    def now(self) -> float:
        """The time, in seconds."""
        ...

    def at(self, when: float, call: Callable[[], None]) -> None:
        """Call once, at that time."""
        ...


class Waiting(Protocol):
    """A reader that waits for something to read."""

    def wake(self) -> None:
        """There may be something. Must not wait."""
        ...


class Turns:
    """The turns of one log's readers. Without a pace each reads when it likes.

    Args:
        pace: Says when a turn is.
        last: The number of the newest event.

    Attributes:
        readers: How many there are. Kept by them.
    """

    __slots__ = (
        "_began",
        "_busy",
        "_due",
        "_last",
        "_over",
        "_pace",
        "_planned",
        "_visible",
        "_waiting",
        "readers",
    )

    def __init__(self, pace: Pace | None, last: int) -> None:
        self.readers = 0
        self._pace = pace
        self._waiting: list[Waiting] = []
        self._last = self._visible = last
        self._began = 0.0
        self._due = 0.0
        self._planned = False
        # How many of those woken in this turn must come back until it counts as over.
        self._busy = 0
        self._over = False

    def came(self, last: int) -> None:
        """Event number ``last`` has come."""
        self._last = last
        if not self._waiting or self._planned:
            return
        if self._pace is None or self.readers < 2:
            self._wake_all()
            return
        now = self._pace.now()
        if now >= self._due:
            self._begin(now)
        else:
            self._plan()

    def end(self) -> None:
        """Nothing comes any more: who is left may read when they like."""
        self._over = True
        self._wake_all()

    def visible(self) -> int:
        """The newest event that a reader that has read all before may read now."""
        if self._pace is None or self.readers < 2 or self._over:
            return self._last
        now = self._pace.now()
        if now >= self._due:
            self._begin(now)
        return self._visible

    def wait(self, reader: Waiting, *, for_turn: bool) -> None:
        """Wake this reader once: with the next event or the end, or in the next turn.

        Args:
            reader: Who has nothing to read.
            for_turn: Whether there are events, and only its turn is to come.
        """
        self._waiting.append(reader)
        # Those who come back count; who they are makes no difference.
        if self._busy:
            self._busy -= 1
            if not self._busy:
                self._read()
        if for_turn and not self._planned:
            self._plan()

    def wait_no_more(self, reader: Waiting) -> None:
        """This reader does not want to be woken any more."""
        if reader in self._waiting:
            self._waiting.remove(reader)

    def _plan(self) -> None:
        assert self._pace is not None
        self._planned = True
        self._pace.at(self._due, self._on_time)

    def _on_time(self) -> None:
        assert self._pace is not None
        now = self._pace.now()
        # What was planned may have come sooner.
        if self._planned and now >= self._due:
            self._begin(now)

    def _begin(self, now: float) -> None:
        """Begin a turn."""
        self._planned = False
        self._visible = self._last
        self._began = now
        self._due = now + self.readers * LONGEST_TURN
        # A reader that is held up by its peer is not busy: the others do not wait for it.
        self._busy = (len(self._waiting) * 3 + 3) // 4
        self._wake_all()

    def _read(self) -> None:
        """Most readers have read what there was in this turn."""
        assert self._pace is not None
        took = self._pace.now() - self._began
        due = self._began + max(self.readers * SHORTEST_TURN, TURN_SHARE * took)
        if due < self._due:
            self._due = due
            if self._planned:
                self._plan()

    def _wake_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        for reader in waiting:
            try:
                reader.wake()
            except Exception:  # noqa: BLE001  one reader's bug is neither the run's nor the others'
                _LOG.exception("a reader of a run could not be woken")
