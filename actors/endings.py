"""How an actor is brought to its end, from patient to at once.

Each way says what is still finished, and one can be followed by the next:

    drain    what was sent is handled and what was promised is given; nothing new begins
    stop     the message in hand is finished, those that wait are refused
    kill     nothing is finished
"""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Final

from msgspec import Struct


class Ending(IntEnum):
    """A wish that somebody end. A greater one overrules a lesser one, never the reverse."""

    DRAIN = 1
    STOP = 2
    KILL = 3


class Finishes(Struct, frozen=True):
    """What an actor that was asked to end still finishes."""

    in_hand: bool
    waiting: bool


ENDINGS: Final[Mapping[Ending, Finishes]] = {
    Ending.DRAIN: Finishes(in_hand=True, waiting=True),
    Ending.STOP: Finishes(in_hand=True, waiting=False),
    Ending.KILL: Finishes(in_hand=False, waiting=False),
}


class Patience(Struct, frozen=True):
    """Seconds that each way of ending gets before the next one is taken; kill is last.

    The defaults sum up to the 10 seconds that container platforms commonly give.
    """

    drain: float = 5.0
    stop: float = 4.0

    def steps(self) -> Iterator[tuple[Ending, float]]:
        """Each ending with its seconds, in order; those with none are left out."""
        if self.drain > 0:
            yield Ending.DRAIN, self.drain
        if self.stop > 0:
            yield Ending.STOP, self.stop
        yield Ending.KILL, float("inf")
