"""``GET /metrics``: what the server counts, in Prometheus' text format.

Numbers are read where they are kept when they are asked for, so that counting costs runs
nothing beyond the counting.
"""

import resource
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from heddle.policy_counts import BUCKETS, PolicyCounts

if TYPE_CHECKING:
    from heddle.server.service import Service

_STATM: Final = Path("/proc/self/statm")


class ServerCollector(Collector):
    """Reads a service."""

    def __init__(self, service: "Service") -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        """All numbers as they are now."""
        runs = self._service.runs
        tally = runs.tally
        gauges: tuple[tuple[str, str, float], ...] = (
            ("heddle_active_runs", "Runs that are going on", runs.active),
            ("heddle_max_concurrent_runs", "Runs at a time at most", runs.max_concurrent),
            ("heddle_run_saturation", "Share of that which is taken", runs.saturation),
            ("heddle_stream_readers", "Readers that follow runs", tally.readers),
            ("heddle_sockets", "WebSockets that are open", self._service.sockets),
            ("process_resident_memory_bytes", "Resident memory", resident()),
        )
        counters: tuple[tuple[str, str, float], ...] = (
            ("heddle_runs_accepted", "Runs that were begun", runs.accepted),
            ("heddle_runs_rejected", "Runs that were refused", runs.rejected),
            ("heddle_stream_lags", "Times that a reader fell behind", tally.lagged),
            ("heddle_stream_missed_events", "Events that readers missed", tally.missed),
            ("process_cpu_seconds", "User and system time", _cpu()),
        )
        for name, text, value in gauges:
            yield GaugeMetricFamily(name, text, value)
        for name, text, value in counters:
            yield CounterMetricFamily(name, text, value)
        yield from policies(self._service.counts)
        yield from processes(self._service.counts)


PLACE: Final = ("seam", "half", "middleware")


def policies(counts: PolicyCounts) -> Iterator[Metric]:
    """What policies said, by seam, half and middleware."""
    consultations = CounterMetricFamily(
        "heddle_consultations", "Questions put to a middleware", labels=PLACE
    )
    verdicts = CounterMetricFamily(
        "heddle_verdicts", "What it decided", labels=(*PLACE, "verdict")
    )
    failures = CounterMetricFamily(
        "heddle_middleware_failures", "Times that it did not do its part", labels=PLACE
    )
    latency = HistogramMetricFamily(
        "heddle_consultation_seconds", "How long its answers took", labels=PLACE
    )
    for (seam, half, component), tally in counts.tallies.items():
        place = (seam.value, half.value, component)
        consultations.add_metric(place, tally.consultations)
        failures.add_metric(place, tally.failures)
        for action, count in tally.actions.items():
            verdicts.add_metric((*place, action), count)
        bounds = [*(str(each) for each in BUCKETS), "+Inf"]
        so_far = accumulate(tally.buckets)
        latency.add_metric(
            place, list(zip(bounds, so_far, strict=True)), sum_value=tally.seconds
        )
    yield from (consultations, verdicts, failures, latency)


def processes(counts: PolicyCounts) -> Iterator[Metric]:
    """How often the processes of plugins were started again, and for what."""
    restarts = CounterMetricFamily(
        "heddle_plugin_restarts", "Processes after the first one", labels=("plugin",)
    )
    retired = CounterMetricFamily(
        "heddle_plugin_retired", "Processes that did not stop when told", labels=("plugin",)
    )
    for name, plugin in counts.plugins.items():
        restarts.add_metric((name,), max(0, plugin.counts.started - 1))
        retired.add_metric((name,), plugin.counts.retired)
    yield from (restarts, retired)


def exposition(service: "Service") -> bytes:
    """The text that is served."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ServerCollector(service))
    return generate_latest(registry)


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
