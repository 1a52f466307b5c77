"""How a server is, as rows for whoever watches: only what changed is sent.

    {"type":"status","now":1796189964.2,
     "server":{"active":3},                 fields that changed
     "runs":{"<id>":{…},"<id>":null},       rows that changed, null for those that are gone
     "policies":{…},"plugins":{…}}

The first message has everything. Rows are made when somebody looks and at no other time,
once a second for all who do; a watcher remembers what it was sent.
"""

import os
import time
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
import trio
from msgspec import Struct

from heddle import __version__
from heddle.policy_counts import BUCKETS, PolicyCounts, Tally
from heddle.server.endings import Completed, Status

if TYPE_CHECKING:
    from heddle.server.runs import RunHandle
    from heddle.server.service import Service

EVERY: Final = 1.0
"""Seconds between two messages: what a person can follow."""

FRESH: Final = 0.5
"""Seconds for which rows made for one watcher do for the next."""

LIVE_ROWS: Final = 200
ENDED_ROWS: Final = 50
"""Rows of runs; more than anybody reads. The totals count all."""

LONGEST_NAME: Final = 160
LONGEST_REASON: Final = 400
"""Characters. Names are the flow's, and may be anything."""

Rows: TypeAlias = Mapping[str, bytes]
"""JSON by key."""

Sections: TypeAlias = Mapping[str, Rows]

_encode: Final = msgspec.json.Encoder().encode


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
    """A plugin. ``state`` is running, failed, stopped, or inside heddle."""

    plugin: str
    state: str
    restarts: int = 0
    retired: int = 0
    reason: str = ""


class Board:
    """Makes the rows of one server.

    Args:
        service: What is looked at.
    """

    def __init__(self, service: "Service") -> None:
        self._service = service
        self._started = time.time()
        self._made_at = float("-inf")
        self._made: Sections = {}

    def sections(self) -> Sections:
        """All rows as they are now, or were a moment ago."""
        now = trio.current_time()
        if now - self._made_at > FRESH:
            self._made_at = now
            self._made = {
                "server": self._server(),
                "runs": self._runs(),
                "policies": self._policies(),
                "plugins": self._plugins(),
            }
        return self._made

    def _server(self) -> Rows:
        from heddle.server.numbers import resident

        service = self._service
        runs = service.runs
        shown: dict[str, Any] = {
            "version": __version__,
            "status": "draining" if service.draining.is_set() else "ok",
            "startedAt": self._started,
            "pid": os.getpid(),
            "active": runs.active,
            "room": runs.max_concurrent,
            "accepted": runs.accepted,
            "rejected": runs.rejected,
            "readers": runs.tally.readers,
            "lagged": runs.tally.lagged,
            "sockets": service.sockets,
            # Whole MiB: what changes by less is not worth a message.
            "memory": resident() >> 20,
        }
        return {name: _encode(value) for name, value in shown.items()}

    def _runs(self) -> Rows:
        live = ended = 0
        rows: dict[str, bytes] = {}
        for run in self._service.runs:
            if run.ending is None:
                live += 1
                if live <= LIVE_ROWS:
                    rows[run.id] = _encode(run_row(run))
            elif ended < ENDED_ROWS:
                ended += 1
                rows[run.id] = _encode(run_row(run))
            else:
                break
        return rows

    def _policies(self) -> Rows:
        loaded = self._service.installed.plugins
        rows = {}
        known: dict[tuple[str, str, str], str] = {}
        for each in loaded.middleware if loaded is not None else ():
            component = each.component
            for seam, halves in component.seams.items():
                for half in halves:
                    place = (component.component_type, seam.value, half.value)
                    known[place] = each.plugin.name
        tallies = {
            (component, seam.value, half.value): tally
            for (seam, half, component), tally in self._service.counts.tallies.items()
        }
        for place in dict.fromkeys((*known, *tallies)):
            row = policy_row(*place, known.get(place, ""), tallies.get(place))
            rows[" ".join(place)] = _encode(row)
        return rows

    def _plugins(self) -> Rows:
        loaded = self._service.installed.plugins
        names = [each.name for each in loaded.plugins] if loaded is not None else []
        return {name: _encode(plugin_row(name, self._service.counts)) for name in names}


def run_row(run: "RunHandle") -> RunRow:
    """A run as it is shown."""
    node, ending = run.node, run.ending
    error = ""
    if ending is not None and not isinstance(ending, Completed):
        error = ending.error.message[:LONGEST_REASON]
    return RunRow(
        run.flow[:LONGEST_NAME],
        run.status,
        round(run.started_at, 3),
        run.nodes,
        run.log.last,
        run.log.readers,
        run.detached,
        "" if node is None else node.name[:LONGEST_NAME],
        "" if node is None else node.type[:LONGEST_NAME],
        None if ending is None else round(run.seconds, 6),
        error,
    )


def policy_row(
    policy: str, seam: str, half: str, plugin: str, tally: Tally | None
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


def percentile(tally: Tally, share: float) -> float:
    """The bound of the bucket within which this share of the answers is; -1 for none."""
    wanted = share * sum(tally.buckets)
    for bound, so_far in zip(BUCKETS, accumulate(tally.buckets), strict=False):
        if so_far >= wanted:
            return bound
    return -1


def plugin_row(name: str, counts: PolicyCounts) -> PluginRow:
    """A plugin as it is shown."""
    process = counts.plugins.get(name)
    if process is None:
        return PluginRow(name, "inside heddle")
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
        "" if state == "running" else counted.trouble[:LONGEST_REASON],
    )


class Watcher:
    """One who watches: knows what it was sent."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._sent: Sections = {}

    def message(self) -> bytes:
        """What has changed since the last one; at first everything."""
        sections = self._board.sections()
        parts = [b'"type":"status"', b'"now":%b' % _encode(round(time.time(), 3))]
        for name, rows in sections.items():
            changed = b",".join(_changes(self._sent.get(name, {}), rows))
            if changed:
                parts.append(b'"%b":{%b}' % (name.encode(), changed))
        self._sent = sections
        return b"{%b}" % b",".join(parts)


def _changes(before: Rows, now: Rows) -> Iterator[bytes]:
    for key, row in now.items():
        if before.get(key) != row:
            yield b"%b:%b" % (_encode(key), row)
    for key in before:
        if key not in now:
            yield b"%b:null" % _encode(key)
