"""What a campaign does and when: a function of its seed, its length and nothing else.

    Plan(seed=7, seconds=120)  ->  Step(1.3, "kill a policy", 0.42, 0.0)
                                   Step(2.9, "silence the models", 0.11, 2.1)  …

Steps are drawn in rounds: each round has every disturbance once, in an order of its own, so
that a long campaign has had all of them often, and a short one each at least once.
"""

from collections.abc import Mapping
from random import Random
from typing import Final

from msgspec import Struct

SECONDS: Final = 120.0
CLIENTS: Final = 24

LENGTHS: Final[Mapping[str, tuple[float, float]]] = {
    "kill a policy": (0, 0),
    "stop a policy": (0.3, 4.0),
    "kill a worker": (0, 0),
    "stop a worker": (0.3, 2.0),
    "cut the sockets": (0, 0),
    "fill the disk": (0.5, 3.0),
    "step the clock": (0, 0),
    "slow the models": (0.5, 3.0),
    "break the models": (0.5, 2.0),
    "silence the models": (0.5, 4.0),
    "send rude clients": (0.5, 3.0),
}
"""All disturbances, and the least and the most seconds that each goes on for."""

SETTLING: Final = 0.15
"""The part of the time at the end in which nothing more begins."""


class Step(Struct, frozen=True):
    """One disturbance.

    Attributes:
        at: Seconds since the begin.
        kind: A key of `LENGTHS`.
        choice: From 0 to 1; which of several it hits, or how hard.
        seconds: How long it goes on.
    """

    at: float
    kind: str
    choice: float
    seconds: float


class Plan(Struct, frozen=True):
    """One campaign.

    Attributes:
        seed: Whatever is chosen is chosen by it.
        seconds: How long runs are begun.
        clients: How many work at a time, each one run after the other.
        every: Mean seconds between two disturbances.
        limit: The server's time-out for a run, in seconds. A minute would be too long to
            wait for each that a model leaves without an answer.
    """

    seed: int
    seconds: float = SECONDS
    clients: int = CLIENTS
    every: float = 1.5
    limit: float = 6.0

    def schedule(self) -> tuple[Step, ...]:
        """Its disturbances in order."""
        random = Random(f"{self.seed} steps")
        steps: list[Step] = []
        last = self.seconds * (1 - SETTLING)
        # A short campaign still has one of each.
        every = min(self.every, last / (len(LENGTHS) + 1))
        at = 0.0
        while True:
            for kind in random.sample(sorted(LENGTHS), len(LENGTHS)):
                at += every * (0.5 + random.random())
                if at > last and len(steps) >= len(LENGTHS):
                    return tuple(steps)
                least, most = LENGTHS[kind]
                # What goes on is over before the end.
                length = min(least + random.random() * (most - least), self.seconds / 4)
                steps.append(
                    Step(round(at, 3), kind, round(random.random(), 3), round(length, 3))
                )

    def client(self, number: int) -> Random:
        """What a client chooses by."""
        return Random(f"{self.seed} client {number}")
