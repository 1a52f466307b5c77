"""When the readers of one run read: at once, or several of them in turns.

A reader that follows alone hears of each event as it comes. Of several, each is served
once a turn and given all that came before it, so that each makes one write of many events,
the same for all. A turn goes on in slices of a millisecond or so. How long the readers were
busy in one says when the next one begins: most of the time is left to the run, however many
readers there are, and what they are late by is their cost.

    came ─▶ slice: some are served ─▶ pause ─▶ slice … ─▶ all were: the next turn
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

SHORTEST_TURN: Final = 100e-6
"""Seconds from one turn to the next, for each of the readers: fewer writes of more."""

SLICE: Final = 1e-3
"""Seconds after which no more readers are served at a time."""

SLICE_READERS: Final = 16
"""The most that are: those that work in tasks of their own take their time later."""

RUN_SHARE: Final = 4
"""How many times as long as readers were busy the run is left alone then."""

PATIENCE: Final = 2e-3
"""Seconds that the next slice waits for a reader that does not come back."""

_LOG: Final = logging.getLogger("heddle.server")


class Pace(Protocol):
    """A clock that calls back."""

    def now(self) -> float:
        """The time, in seconds."""
        ...

    def at(self, when: float, call: Callable[[], None]) -> None:
        """Call once, at that time, and not before the caller has gone on."""
        ...


class Waiting(Protocol):
    """A reader that waits for something to read."""

    def wake(self) -> None:
        """There may be something. Must not wait."""
        ...

    def serve(self) -> bool:
        """It is its turn. Must not wait.

        Returns:
            Whether it goes on in a task of its own, and comes back to wait.
        """
        ...


class Turns:
    """The turns of one log's readers. Without a pace each reads when it likes.

    Args:
        pace: Says when a turn is.
        last: The number of the newest event.

    Attributes:
        readers: How many there are. Kept by them.
        last: The newest event that has come.
        waiting: Who is to be woken. While nobody is, `came` need not be called.
    """

    __slots__ = (
        "_began",
        "_busy",
        "_due",
        "_few",
        "_over",
        "_pace",
        "_planned",
        "_queue",
        "_serving",
        "_turn_due",
        "_visible",
        "_wanted",
        "last",
        "readers",
        "waiting",
    )

    def __init__(self, pace: Pace | None, last: int) -> None:
        self.readers = 0
        self._pace = pace
        self.waiting: list[Waiting] = []
        # Those whom this turn has not come to yet.
        self._queue: deque[Waiting] = deque()
        self.last = self._visible = last
        self._began = 0.0
        self._due = 0.0
        self._turn_due = 0.0
        # When the next slice is; None when there is to be none.
        self._planned: float | None = None
        # Of those served in this slice, how many are still busy, and how many may be when
        # it counts as over.
        self._busy = 0
        self._few = 0
        self._over = False
        # Whether a slice is going on, and whether another is wanted behind it.
        self._serving = False
        self._wanted = False

    @property
    def paced(self) -> bool:
        """Whether each reads in its turn."""
        return self.readers > 1 and self._pace is not None and not self._over

    def came(self, last: int) -> None:
        """Event number ``last`` has come."""
        self.last = last
        if self._planned is not None or not self.waiting:
            return
        if self._pace is None or self.readers < 2:
            self._wake_all()
        else:
            self._plan()

    def end(self) -> None:
        """Nothing comes any more: who is left may read all there is."""
        self._over = True
        self._wake_all()

    def visible(self) -> int:
        """The newest event that a reader may read now."""
        return self._visible if self.paced else self.last

    def wait(self, reader: Waiting, *, for_turn: bool) -> None:
        """Wake this reader once: with the next event or the end, or in the next turn.

        Args:
            reader: Who has nothing to read.
            for_turn: Whether there are events, and only its turn is to come.
        """
        self.waiting.append(reader)
        # Those who come back count; who they are makes no difference.
        if self._busy:
            self._busy -= 1
            if self._busy == self._few:
                self._rest()
        if for_turn:
            self._plan()

    def wait_no_more(self, reader: Waiting) -> None:
        """This reader does not want to be woken any more."""
        for those in (self.waiting, self._queue):
            if reader in those:
                those.remove(reader)

    def _plan(self) -> None:
        """Have a slice as soon as one may be."""
        assert self._pace is not None
        if self._serving:
            self._wanted = True
            return
        when = max(self._due, self._pace.now())
        if not self._queue:
            when = max(when, self._turn_due)
        if self._planned is None or when < self._planned:
            self._planned = when
            self._pace.at(when, self._slice)

    def _slice(self) -> None:
        """Serve some of those who wait."""
        assert self._pace is not None
        now = self._began = self._pace.now()
        # What was planned may have come sooner.
        if self._planned is None or now < self._planned:
            return
        self._planned = None
        queue = self._queue
        if not queue:
            self._visible = self.last
            self._turn_due = now + self.readers * SHORTEST_TURN
            queue += self.waiting
            self.waiting.clear()
        busy = 0
        # Who comes back at once is not among those who are busy.
        self._busy = self._few = 0
        self._serving, self._wanted = True, False
        for _ in range(SLICE_READERS):
            if not queue or self._pace.now() - now > SLICE:
                break
            busy += self._serve(queue.popleft())
        self._serving = False
        self._busy = busy
        self._few = busy // 4
        self._rest()
        self._due += busy * PATIENCE
        if queue or self._wanted or (self.waiting and self._visible < self.last):
            self._plan()

    def _rest(self) -> None:
        """Leave the loop to others for as long as is theirs."""
        assert self._pace is not None
        now = self._pace.now()
        self._due = now + RUN_SHARE * (now - self._began)
        if self._planned is not None:
            self._plan()

    def _serve(self, reader: Waiting) -> bool:
        try:
            return reader.serve()
        except Exception:  # noqa: BLE001  one reader's bug is neither the run's nor the others'
            _LOG.exception("a reader of a run could not be woken")
            return False

    def _wake_all(self) -> None:
        waiting, self.waiting = [*self._queue, *self.waiting], []
        self._queue.clear()
        for reader in waiting:
            try:
                reader.wake()
            except Exception:  # noqa: BLE001
                _LOG.exception("a reader of a run could not be woken")
