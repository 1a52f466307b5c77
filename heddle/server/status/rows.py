"""Rows of the status page: a run, a policy, a plugin. Bounded, whatever is in them."""

from collections.abc import Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from heddle.policy_counts import BUCKETS, PolicyCounts, Tally
from heddle.server.endings import Completed, Status

if TYPE_CHECKING:
    from heddle.server.numbers import PolicyNumbers
    from heddle.server.runs.handle import RunHandle

LONGEST_NAME: Final = 160
LONGEST_REASON: Final = 400
"""Characters. Names are the flow's, and may be anything."""


class RunRow(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A run. What a watcher can work out by the clock is not in it."""

    flow: str
    status: Status
    started_at: float
    nodes: int
    events: int
    readers: int = 0
    detached: bool = False
    node: str = ""
    node_type: str = ""
    seconds: float | None = None
    error: str = ""


class PolicyRow(Struct, frozen=True, omit_defaults=True):
    """One middleware at one half. ``mean`` and the percentiles are seconds; a percentile
    is the bound of its bucket, -1 beyond the last."""

    policy: str
    plugin: str
    seam: str
    half: str
    asked: int = 0
    failures: int = 0
    verdicts: Mapping[str, int] = {}
    mean: float | None = None
    p50: float | None = None
    p95: float | None = None


class PluginRow(Struct, frozen=True, omit_defaults=True):
    """A plugin. ``state`` is running, failed, stopped, or inside heddle; ``worker`` says
    in which of several."""

    plugin: str
    state: str
    restarts: int = 0
    retired: int = 0
    reason: str = ""
    worker: int | None = None


def run_row(run: "RunHandle") -> RunRow:
    """A run as it is shown."""
    node, ending = run.node, run.ending
    error = ""
    if ending is not None and not isinstance(ending, Completed):
        error = _shortened(ending.error.message, LONGEST_REASON)
    return RunRow(
        _shortened(run.flow, LONGEST_NAME),
        run.status,
        round(run.started_at, 3),
        run.nodes,
        run.log.last,
        run.log.readers,
        run.detached,
        "" if node is None else _shortened(node.name, LONGEST_NAME),
        "" if node is None else _shortened(node.type, LONGEST_NAME),
        None if ending is None else round(run.seconds, 6),
        error,
    )


def policy_row(
    policy: str, seam: str, half: str, plugin: str, tally: "PolicyNumbers | Tally | None"
) -> PolicyRow:
    """A middleware at a half as it is shown."""
    if tally is None:
        return PolicyRow(policy, plugin, seam, half)
    answers = sum(tally.buckets)
    return PolicyRow(
        policy,
        plugin,
        seam,
        half,
        tally.consultations,
        tally.failures,
        dict(tally.actions),
        round(tally.seconds / answers, 6) if answers else None,
        percentile(tally, 0.5) if answers else None,
        percentile(tally, 0.95) if answers else None,
    )


def percentile(tally: "PolicyNumbers | Tally", share: float) -> float:
    """The bound of the bucket within which this share of the answers is; -1 for none."""
    wanted = share * sum(tally.buckets)
    for bound, so_far in zip(BUCKETS, accumulate(tally.buckets), strict=False):
        if so_far >= wanted:
            return bound
    return -1


def plugin_row(name: str, counts: PolicyCounts, worker: int | None = None) -> PluginRow:
    """A plugin as it is shown."""
    process = counts.plugins.get(name)
    if process is None:
        return PluginRow(name, "inside heddle", worker=worker)
    counted = process.counts
    if process.features is not None:
        state = "running"
    else:
        state = "failed" if counted.trouble else "stopped"
    return PluginRow(
        name,
        state,
        max(0, counted.started - 1),
        counted.retired,
        "" if state == "running" else _shortened(counted.trouble, LONGEST_REASON),
        worker,
    )


def _shortened(text: str, most: int) -> str:
    """At most so many characters, with a sign where there were more."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
