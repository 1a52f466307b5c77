"""What the policies of a server said, counted: how often, which verdict, how fast.

One `Tally` for each middleware at each half where it was asked. Counting an answer costs
a microsecond; everything else is worked out when somebody looks.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from plugins_host import Half, PluginProcess, Seam

BUCKETS: Final = (
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    1.0,
    5.0,
    30.0,
)
"""Seconds. A policy that only thinks answers within the first, one that asks a service
within the middle ones, one that is about to be given up within the last."""

Place: TypeAlias = "tuple[Seam, Half, str]"
"""Where who was asked: seam, half, component type."""


class Tally:
    """The answers of one middleware at one half.

    Attributes:
        actions: How often it said what.
        failures: How often it did not do its part.
        buckets: How many answers took at most as long as each of `BUCKETS`, and no less
            than the one before; the last are those that took longer.
        seconds: How long all took together.
    """

    __slots__ = ("actions", "buckets", "failures", "seconds")

    def __init__(self) -> None:
        self.actions: dict[str, int] = {}
        self.failures = 0
        self.buckets = [0] * (len(BUCKETS) + 1)
        self.seconds = 0.0

    @property
    def consultations(self) -> int:
        """How often it was asked and it was settled what became of it."""
        return sum(self.actions.values()) + self.failures


class PolicyCounts:
    """All tallies, and the processes that answer.

    Attributes:
        tallies: By place.
        plugins: The processes by their plugin's name.
    """

    def __init__(self) -> None:
        self.tallies: dict[Place, Tally] = {}
        self.plugins: Mapping[str, PluginProcess] = {}

    def installed(self, plugins: "Mapping[str, PluginProcess]") -> None:
        """These processes answer; nothing has been started yet."""
        self.plugins = plugins

    def answered(
        self,
        seam: "Seam",
        half: "Half",
        components: Sequence[str],
        action: str,
        seconds: float,
    ) -> None:
        """These said ``action``, within so many seconds."""
        bucket = bisect_left(BUCKETS, seconds)
        tallies = self.tallies
        for component in components:
            place = seam, half, component
            tally = tallies.get(place) or self._tally(place)
            actions = tally.actions
            actions[action] = actions.get(action, 0) + 1
            tally.buckets[bucket] += 1
            tally.seconds += seconds

    def failed(self, seam: "Seam", half: "Half", component: str) -> None:
        """This one did not do its part."""
        self._tally((seam, half, component)).failures += 1

    def _tally(self, place: Place) -> Tally:
        found = self.tallies.get(place)
        if found is None:
            found = self.tallies[place] = Tally()
        return found
