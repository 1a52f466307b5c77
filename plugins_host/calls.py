"""The calls that one plugin process has not answered yet, and how long each may take.

    id ──▶ Call   its run's services, the task that waits, its budget of silence

The budget starts when the call is sent, starts again with every sign of life, stands
still while heddle serves a reverse call that the plugin waits for, and never goes beyond
`CEILING` times its length.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Raw

from actors import ReplySlot
from plugins_host.frames import Id
from plugins_host.reverse import CallServices, Waited

# Signs of life extend a wait to at most this many times the budget of silence.
CEILING: Final = 10.0

# Reverse calls that one call may have open at the same time: more than anybody writes on
# purpose, and each is a task.
MAX_REVERSE: Final = 256

# One space of ids for all processes: an id is not given out again while heddle runs, and
# one plugin's is never mistaken for another's.
ids: Final = itertools.count(1)


class Call:
    """One call: what it may use, how long it may take, and what came of it.

    Attributes:
        outcome: The answer, or the error to raise; None while it is open.
        due: When it is given up, on trio's clock.
        asked: Reverse calls that the waiting task has not begun to serve.
        at: The component that the plugin said it is at, when several were asked.
    """

    __slots__ = (
        "asked",
        "at",
        "ceiling",
        "components",
        "due",
        "holds",
        "id",
        "left",
        "on_partial",
        "outcome",
        "patience",
        "services",
        "slot",
        "verb",
    )

    def __init__(
        self,
        verb: str,
        *,
        services: CallServices | None,
        components: Sequence[str],
        patience: float,
        now: float,
        on_partial: Callable[[Raw], None] | None = None,
    ) -> None:
        self.id = next(ids)
        self.verb = verb
        self.services = services
        self.components = components
        self.patience = patience
        self.due = now + patience
        self.ceiling = now + patience * CEILING
        self.holds = 0
        self.left = patience
        self.on_partial = on_partial
        self.outcome: Raw | Exception | None = None
        self.asked: list[tuple[Id, Waited, str]] = []
        self.at: str | None = None
        self.slot: ReplySlot[None] = ReplySlot()

    def hand_over(self, asked: tuple[Id, Waited, str], now: float) -> None:
        """Give the waiting task a reverse call to serve; meanwhile the call is held."""
        self.hold(now)
        self.asked.append(asked)
        self.slot.set(None)

    def settle(self, outcome: Raw | Exception) -> None:
        """It is over: wake the waiting task."""
        if self.outcome is None:
            self.outcome = outcome
            self.slot.set(None)

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
