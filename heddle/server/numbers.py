"""What a server counts, as data: taken from one process, added up over several."""

import resource
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from heddle.policy_counts import PolicyCounts
    from heddle.server.service import Service

_STATM: Final = Path("/proc/self/statm")


class PolicyNumbers(Struct):
    """What one middleware said at one half of a seam."""

    actions: dict[str, int]
    failures: int
    buckets: list[int]
    seconds: float

    @property
    def consultations(self) -> int:
        """How often it was asked, and it was settled what became of it."""
        return sum(self.actions.values()) + self.failures


class Numbers(Struct):
    """Everything. ``gauges`` are how it stands, all else only grows.

    Policies are by seam, half and component, with a space between them.
    """

    gauges: dict[str, float] = {}
    counters: dict[str, float] = {}
    policies: dict[str, PolicyNumbers] = {}
    restarts: dict[str, int] = {}
    retired: dict[str, int] = {}

    def add(self, other: "Numbers", *, gauges: bool = True) -> None:
        """Count what another process counted as well."""
        if gauges:
            _sum(self.gauges, other.gauges)
        _sum(self.counters, other.counters)
        _sum(self.restarts, other.restarts)
        _sum(self.retired, other.retired)
        for place, theirs in other.policies.items():
            ours = self.policies.setdefault(
                place, PolicyNumbers({}, 0, [0] * len(theirs.buckets), 0.0)
            )
            _sum(ours.actions, theirs.actions)
            ours.failures += theirs.failures
            ours.seconds += theirs.seconds
            ours.buckets = [
                a + b for a, b in zip(ours.buckets, theirs.buckets, strict=True)
            ]


_Number = TypeVar("_Number", int, float)


def _sum(ours: dict[str, _Number], theirs: dict[str, _Number]) -> None:
    for name, value in theirs.items():
        ours[name] = ours.get(name, 0) + value


encode: Final = msgspec.json.Encoder().encode
decode: Final = msgspec.json.Decoder(Numbers).decode


def add_gone(gone: bytes, counts: bytes) -> bytes:
    """What those who are gone counted, with one more of them."""
    total = decode(gone) if gone else Numbers()
    total.add(decode(counts), gauges=False)
    return encode(total)


def numbers_of(service: "Service") -> Numbers:
    """What this process counts now."""
    runs, counts = service.runs, service.counts
    tally = runs.tally
    return Numbers(
        {
            "active_runs": runs.active,
            "stream_readers": tally.readers,
            "sockets": service.sockets,
            "resident": resident(),
        },
        {
            "accepted": runs.accepted,
            "rejected": runs.rejected,
            "lags": tally.lagged,
            "missed": tally.missed,
            "cpu": _cpu(),
            "run_seconds": runs.seconds,
            **{f"ended_{status}": count for status, count in runs.ended.items()},
        },
        {
            f"{seam.value} {half.value} {component}": PolicyNumbers(
                dict(tally.actions), tally.failures, list(tally.buckets), tally.seconds
            )
            for (seam, half, component), tally in counts.tallies.items()
        },
        *plugin_numbers(counts),
    )


def plugin_numbers(counts: "PolicyCounts") -> tuple[dict[str, int], dict[str, int]]:
    """How often the processes of each were started again, and how often given up."""
    started = {
        name: max(0, plugin.counts.started - 1) for name, plugin in counts.plugins.items()
    }
    retired = {name: plugin.counts.retired for name, plugin in counts.plugins.items()}
    return started, retired


def resident() -> int:
    """Bytes of memory that this process holds."""
    try:
        pages = int(_STATM.read_bytes().split()[1])
    except (OSError, IndexError, ValueError):  # pragma: no cover  not on Linux
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return pages * resource.getpagesize()


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def publish(service: "Service") -> None:
    """Write down what this worker shows, for who adds up all of them."""
    peers = service.peers
    assert peers is not None
    peers.ledger.publish(peers.row, encode(numbers_of(service)))
