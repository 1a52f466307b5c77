"""``GET /metrics``: what the server counts, in Prometheus' text format.

Numbers are read where they are kept when they are asked for, so that counting costs runs
nothing beyond the counting. Of a server with several workers they are added up; what a
worker that is gone has counted stays in the sums.
"""

from collections.abc import Collection, Iterator, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from heddle import __version__
from heddle.policy_counts import BUCKETS
from heddle.server.endings import Status
from heddle.server.numbers import Numbers
from heddle.server.workers.board import CONNECTIONS

if TYPE_CHECKING:
    from heddle.server.service import Service

GAUGES: Final = (
    ("active_runs", "heddle_active_runs", "Runs that are going on"),
    ("stream_readers", "heddle_stream_readers", "Readers that follow runs"),
    ("sockets", "heddle_sockets", "WebSockets that are open"),
    ("resident", "process_resident_memory_bytes", "Resident memory, of all workers"),
)
COUNTERS: Final = (
    ("accepted", "heddle_runs_accepted", "Runs that were begun"),
    ("rejected", "heddle_runs_rejected", "Runs that were refused for want of room"),
    ("lags", "heddle_stream_lags", "Times that a reader fell behind"),
    ("missed", "heddle_stream_missed_events", "Events that readers missed"),
    ("cpu", "process_cpu_seconds", "User and system time, of all workers"),
)
"""Names in `Numbers`, names for Prometheus, and what they mean."""

Shown = Mapping[int | None, Numbers]
"""Numbers by the worker that counted them; None for a process alone, and for the gone."""


class ServerCollector(Collector):
    """Adds up what was counted."""

    def __init__(self, service: "Service", shown: Shown, answered: Collection[int]) -> None:
        self._service = service
        self._answered = answered
        self._shown = shown

    def collect(self) -> Iterator[Metric]:
        """All numbers as they are now."""
        total = Numbers()
        for each in self._shown.values():
            total.add(each)
        for key, name, text in GAUGES:
            yield GaugeMetricFamily(name, text, total.gauges.get(key, 0))
        most = self._service.runs.max_concurrent
        yield GaugeMetricFamily("heddle_max_concurrent_runs", "Most runs at a time", most)
        saturation = total.gauges.get("active_runs", 0) / most
        yield GaugeMetricFamily(
            "heddle_run_saturation",
            "Runs that are going on, as a share of the most at a time",
            saturation,
        )
        version = GaugeMetricFamily("heddle_build_info", "Always 1", labels=("version",))
        version.add_metric((__version__,), 1)
        yield version
        yield from ends(total)
        for key, name, text in COUNTERS:
            yield CounterMetricFamily(name, text, total.counters.get(key, 0))
        yield from self._workers()
        yield from policies(total)
        yield from processes(total)

    def _workers(self) -> Iterator[Metric]:
        """How they are, one by one."""
        peers = self._service.peers
        if peers is None:
            return
        memory = GaugeMetricFamily(
            "heddle_worker_resident_memory_bytes",
            "Resident memory; pages that workers share count for each",
            labels=("worker",),
        )
        runs = GaugeMetricFamily(
            "heddle_worker_active_runs", "Runs that are going on", labels=("worker",)
        )
        connections = GaugeMetricFamily(
            "heddle_worker_connections", "Clients that are connected", labels=("worker",)
        )
        up = GaugeMetricFamily(
            "heddle_worker_up",
            "Whether it answered; what it last showed is counted if not",
            labels=("worker",),
        )
        for row in peers.board.present():
            up.add_metric((str(row),), row in self._answered)
            connections.add_metric((str(row),), peers.board.get(row, CONNECTIONS))
            numbers = self._shown.get(row)
            if numbers is not None:
                memory.add_metric((str(row),), numbers.gauges["resident"])
                runs.add_metric((str(row),), numbers.gauges["active_runs"])
        yield up
        yield memory
        yield runs
        yield connections
        yield CounterMetricFamily(
            "heddle_worker_restarts",
            "Workers that ended on their own and were replaced",
            peers.board.restarts,
        )


ENDS: Final = (Status.COMPLETED, Status.FAILED, Status.CANCELLED)


def ends(numbers: Numbers) -> Iterator[Metric]:
    """How runs ended, and how long they took."""
    ended = CounterMetricFamily(
        "heddle_runs_ended", "Runs that ended, by how", labels=("status",)
    )
    count = 0.0
    for status in ENDS:
        some = numbers.counters.get(f"ended_{status}", 0)
        ended.add_metric((status,), some)
        count += some
    yield ended
    yield SummaryMetricFamily(
        "heddle_run_seconds",
        "How long runs took that ended",
        count_value=count,  # type: ignore[arg-type]  # a number
        sum_value=numbers.counters.get("run_seconds", 0),
    )


PLACE: Final = ("seam", "half", "middleware")


def policies(numbers: Numbers) -> Iterator[Metric]:
    """What policies said, by seam, half and middleware."""
    consultations = CounterMetricFamily(
        "heddle_consultations",
        "Questions put to a middleware",
        labels=PLACE,
    )
    verdicts = CounterMetricFamily(
        "heddle_verdicts", "Decisions of a middleware", labels=(*PLACE, "verdict")
    )
    failures = CounterMetricFamily(
        "heddle_middleware_failures",
        "Questions that a middleware did not answer as it must",
        labels=PLACE,
    )
    latency = HistogramMetricFamily(
        "heddle_consultation_seconds", "How long a middleware took to answer", labels=PLACE
    )
    for name, tally in numbers.policies.items():
        place = tuple(name.split(" ", 2))
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


def processes(numbers: Numbers) -> Iterator[Metric]:
    """How often the processes of plugins were started again, and for what."""
    restarts = CounterMetricFamily(
        "heddle_plugin_restarts",
        "Processes of a plugin after its first one",
        labels=("plugin",),
    )
    retired = CounterMetricFamily(
        "heddle_plugin_retired",
        "Processes of a plugin that did not stop when told",
        labels=("plugin",),
    )
    for name, count in numbers.restarts.items():
        restarts.add_metric((name,), count)
    for name, count in numbers.retired.items():
        retired.add_metric((name,), count)
    yield from (restarts, retired)


def exposition(service: "Service", shown: Shown, answered: Collection[int] = ()) -> bytes:
    """The text that is served; ``answered`` are the workers that did."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ServerCollector(service, shown, answered))
    return generate_latest(registry)
