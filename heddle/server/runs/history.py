"""Runs that have ended, for a while: bounded by count and bytes, the oldest dropped first.

Runs that went on without their caller are kept on a shelf of their own. Their result is
to be fetched later, so the traffic of other runs must not push them out.
"""

from collections import OrderedDict
from collections.abc import Iterator
from heapq import merge
from itertools import count
from operator import itemgetter
from typing import Final, Generic, Protocol, TypeVar

from msgspec import Struct


class Kept(Protocol):
    """What a history keeps."""

    @property
    def id(self) -> str:
        """What it is found by."""
        ...

    @property
    def detached(self) -> bool:
        """Whether somebody is to come back for it."""
        ...

    @property
    def weight(self) -> int:
        """The bytes that it holds."""
        ...


K = TypeVar("K", bound=Kept)


class HistoryLimits(Struct, frozen=True):
    """What each of the two shelves holds at most; the newest run is kept in any case."""

    runs: int = 1000
    bytes: int = 64 * 1024 * 1024


LIMITS: Final = HistoryLimits()


class Shelf(Generic[K]):
    """Ended runs by id, in the order in which they ended."""

    def __init__(self, limits: HistoryLimits) -> None:
        self._limits = limits
        self._runs: OrderedDict[str, tuple[int, int, K]] = OrderedDict()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[tuple[int, K]]:
        """Numbers and runs, the newest first."""
        return ((number, run) for number, _, run in reversed(self._runs.values()))

    def get(self, run: str) -> K | None:
        """The run of this id, while it is kept."""
        found = self._runs.get(run)
        return None if found is None else found[2]

    def add(self, run: K, number: int) -> None:
        """Keep a run that has just ended, as number ``number`` of those that did."""
        if self._limits.runs < 1:
            return
        weight = run.weight
        self._runs[run.id] = (number, weight, run)
        self.bytes += weight
        while len(self._runs) > 1 and (
            len(self._runs) > self._limits.runs or self.bytes > self._limits.bytes
        ):
            _, (_, dropped, _) = self._runs.popitem(last=False)
            self.bytes -= dropped


class History(Generic[K]):
    """Both shelves."""

    def __init__(self, limits: HistoryLimits = LIMITS) -> None:
        self.attached: Shelf[K] = Shelf(limits)
        self.detached: Shelf[K] = Shelf(limits)
        self._numbers = count()

    def __len__(self) -> int:
        return len(self.attached) + len(self.detached)

    def __iter__(self) -> Iterator[K]:
        """Those kept, the one that ended last first."""
        newest = merge(self.detached, self.attached, key=itemgetter(0), reverse=True)
        return (run for _, run in newest)

    def get(self, run: str) -> K | None:
        """The run of this id, while it is kept."""
        found = self.attached.get(run)
        return self.detached.get(run) if found is None else found

    def add(self, run: K) -> None:
        """Keep a run that has just ended."""
        shelf = self.detached if run.detached else self.attached
        shelf.add(run, next(self._numbers))
