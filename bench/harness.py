"""What every benchmark shares: timing, percentiles, and one JSON line an answer.

A benchmark is a module ``bench/bench_<subject>.py`` whose docstring states question,
workload and answer, and whose ``run()`` yields `Answer`s:

    {"name": "actors.call", "value": 11.2, "unit": "µs", "floor": 12.9, "ratio": 0.87,
     "limit": 1.0, "detail": {"p50": 11.2, "p99": 30.1}}

``floor`` is the same work without heddle, measured in the same run; ``limit`` is the
ratio that was asked for. Machines are noisy: only ratios of one run mean anything.
"""

import gc
import os
import platform
import time
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from msgspec import Struct


class Answer(Struct, frozen=True, omit_defaults=True):
    """One number and what it is to be read against.

    ``ratio`` says how far the value is from its floor in the direction of ``limit``:
    with ``better`` "lower" the limit is met while ratio <= limit, with "higher" while
    ratio >= limit. An answer without a limit is there to be read.
    """

    name: str
    value: float
    unit: str
    floor: float | None = None
    ratio: float | None = None
    limit: float | None = None
    better: str = "lower"
    detail: dict[str, Any] = {}

    @property
    def met(self) -> bool | None:
        """Whether the limit holds; None when there is none."""
        if self.limit is None:
            return None
        measured = self.value if self.ratio is None else self.ratio
        return measured <= self.limit if self.better == "lower" else measured >= self.limit


def against_floor(
    name: str,
    value: float,
    unit: str,
    *,
    floor: float,
    limit: float | None = None,
    better: str = "lower",
    detail: dict[str, Any] | None = None,
) -> Answer:
    """An answer whose ratio is ``value / floor``."""
    return Answer(
        name,
        value,
        unit,
        floor,
        value / floor,
        limit,
        better,
        {} if detail is None else detail,
    )


def percentile(samples: Sequence[float], share: float) -> float:
    """The sample below which ``share`` (0..1) of all lie, by nearest rank."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def median(samples: Sequence[float]) -> float:
    """The middle sample."""
    return percentile(samples, 0.5)


def time_calls(call: Callable[[], object], *, calls: int, rounds: int = 7) -> list[float]:
    """Seconds a call, one sample a round, after one round of warming up.

    The collector is off inside a round, so that a sample is the work and not a
    collection that another round's garbage caused.
    """
    samples: list[float] = []
    for index in range(rounds + 1):
        gc.collect()
        gc.disable()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        spent = time.perf_counter() - start
        gc.enable()
        if index:
            samples.append(spent / calls)
    return samples


def alternate(
    ours: Callable[[], float], floor: Callable[[], float], *, rounds: int = 7
) -> tuple[float, float]:
    """Medians of two measurements that take turns, so that noise hits both alike."""
    ours()
    floor()
    pairs = [(ours(), floor()) for _ in range(rounds)]
    return median([a for a, _ in pairs]), median([b for _, b in pairs])


def machine() -> dict[str, str]:
    """Where the numbers were taken and on which versions."""

    def of(package: str) -> str:
        try:
            return version(package)
        except PackageNotFoundError:
            return "absent"

    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "processor": platform.processor() or platform.machine(),
        "cores": str(os.cpu_count()),
        **{name: of(name) for name in ("trio", "msgspec", "httptools")},
    }
