"""When an actor that ended is started again: tables, and functions of data.

    Restart.PERMANENT    always there: started again however it ended
    Restart.TRANSIENT    has something to finish: started again when it crashed
    Restart.TEMPORARY    lives once

An actor that somebody ended, by asking or by cancelling, stays ended.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from random import Random
from typing import Final

from msgspec import Struct


class Restart(Enum):
    """Which ends of an actor are followed by another start."""

    PERMANENT = "permanent"
    TRANSIENT = "transient"
    TEMPORARY = "temporary"


class Exit(Enum):
    """How an actor ended: on its own or as asked, by an error, or by cancellation."""

    NORMAL = "normal"
    CRASHED = "crashed"
    CANCELLED = "cancelled"


RESTARTS: Final[Mapping[tuple[Restart, Exit], bool]] = {
    (Restart.PERMANENT, Exit.NORMAL): True,
    (Restart.PERMANENT, Exit.CRASHED): True,
    (Restart.PERMANENT, Exit.CANCELLED): False,
    (Restart.TRANSIENT, Exit.NORMAL): False,
    (Restart.TRANSIENT, Exit.CRASHED): True,
    (Restart.TRANSIENT, Exit.CANCELLED): False,
    (Restart.TEMPORARY, Exit.NORMAL): False,
    (Restart.TEMPORARY, Exit.CRASHED): False,
    (Restart.TEMPORARY, Exit.CANCELLED): False,
}


class Next(Enum):
    """What follows the end of an actor."""

    RESTART = "restart"
    NOTHING = "nothing"
    GIVE_UP = "give up"


class Intensity(Struct, frozen=True):
    """At most ``restarts`` within any ``window`` seconds; one more and it is given up.

    Five in a minute: with the default back-off that is an actor which does not stay up,
    and not one that met a passing fault.
    """

    restarts: int = 5
    window: float = 60.0

    def recent(self, history: Sequence[float], now: float) -> list[float]:
        """The instants of ``history`` that still count at ``now``."""
        return [instant for instant in history if now - instant < self.window]

    def allows(self, history: Sequence[float], now: float) -> bool:
        """Whether another restart at ``now`` keeps the promise.

        Args:
            history: The instants of earlier restarts.
            now: An instant of the same clock, not before any of them.
        """
        return len(self.recent(history, now)) < self.restarts


class Backoff(Struct, frozen=True):
    """Seconds to wait before a restart: the first after ``base`` at most, then doubling.

    Attributes:
        base: The longest wait before the first restart. 0 is no wait, ever.
        cap: No wait is longer.
    """

    base: float = 0.1
    cap: float = 10.0

    def delay(self, restarts: int, rng: Random) -> float:
        """Pick the wait: exponential, with half of it at random.

        The other half is certain, so that what fails at once cannot come back at once.

        Args:
            restarts: Restarts that count already (`Intensity.recent`), from 0.
            rng: Where the randomness comes from; tests pass a seeded one.

        Raises:
            ValueError: ``restarts`` is below 0.

        Source:
            M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015
            ("equal jitter").
        """
        if restarts < 0:
            raise ValueError(f"there can't have been {restarts} restarts")
        # 2**64 of anything is past every cap, and far from overflowing a float.
        longest = min(self.cap, self.base * 2.0 ** min(restarts, 64))
        return longest / 2 + rng.random() * longest / 2


def what_next(
    how: Exit,
    restart: Restart,
    *,
    asked: bool,
    intensity: Intensity,
    history: Sequence[float],
    now: float,
) -> Next:
    """Decide what follows the end of an actor.

    Args:
        how: How it ended.
        restart: Its restart policy.
        asked: Somebody had asked it to end. Then it stays ended, whatever happened.
        intensity: How many restarts are too many.
        history: The instants of its earlier restarts.
        now: The instant of this decision.
    """
    if asked or not RESTARTS[restart, how]:
        return Next.NOTHING
    return Next.RESTART if intensity.allows(history, now) else Next.GIVE_UP
