"""What the policies of a server said, counted: how often, which verdict, how fast.

One `Tally` for each middleware at each half where it was asked. Those who are asked in one
frame most often say the same, and are counted as one: a look into one table. Everything
else is worked out when somebody looks.
"""

from bisect import bisect_left
from collections.abc import Mapping
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


class _Said:
    """How often some together said one thing, and how fast; or one said nothing."""

    __slots__ = ("buckets", "seconds", "times")

    def __init__(self) -> None:
        self.times = 0
        self.buckets = [0] * (len(BUCKETS) + 1)
        self.seconds = 0.0


class PolicyCounts:
    """All tallies, and the processes that answer.

    Attributes:
        plugins: The processes by their plugin's name.
    """

    def __init__(self) -> None:
        # By place, those who were asked together, and what they said: None for nothing.
        self._said: dict[tuple[Seam, Half, tuple[str, ...], str | None], _Said] = {}
        self.plugins: Mapping[str, PluginProcess] = {}

    def installed(self, plugins: "Mapping[str, PluginProcess]") -> None:
        """These processes answer; nothing has been started yet."""
        self.plugins = plugins

    def answered(
        self,
        seam: "Seam",
        half: "Half",
        components: tuple[str, ...],
        action: str,
        seconds: float,
    ) -> None:
        """These said ``action``, within so many seconds."""
        key = seam, half, components, action
        said = self._said.get(key)
        if said is None:
            said = self._said[key] = _Said()
        said.times += 1
        said.buckets[bisect_left(BUCKETS, seconds)] += 1
        said.seconds += seconds

    def failed(self, seam: "Seam", half: "Half", component: str) -> None:
        """This one did not do its part."""
        key = seam, half, (component,), None
        self._said.setdefault(key, _Said()).times += 1

    @property
    def tallies(self) -> dict[Place, Tally]:
        """What was counted until now, by place; in the order in which places were met."""
        found: dict[Place, Tally] = {}
        for (seam, half, components, action), said in self._said.items():
            for component in components:
                tally = found.setdefault((seam, half, component), Tally())
                if action is None:
                    tally.failures += said.times
                    continue
                tally.actions[action] = tally.actions.get(action, 0) + said.times
                tally.seconds += said.seconds
                for at, times in enumerate(said.buckets):
                    tally.buckets[at] += times
        return found
