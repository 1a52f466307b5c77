"""How a server is, as rows for whoever watches: only what changed is sent.

    {"type":"status","now":1796189964.2,
     "server":{"active":3},                 fields that changed
     "runs":{"<id>":{…},"<id>":null},       rows that changed, null for those that are gone
     "policies":{…},"plugins":{…}}

The first message has everything. Rows are made when somebody looks and at no other time,
once a second for all who do; a watcher remembers what it was sent. Of several workers each
tells the one that is watched what it has (`Part`): runs and plugins are listed together,
numbers added up.
"""

import os
import time
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
import trio
from msgspec import Struct

from heddle import __version__
from heddle.server.numbers import Numbers, numbers_of
from heddle.server.numbers import decode as decode_numbers
from heddle.server.status.rows import PluginRow, RunRow, plugin_row, policy_row, run_row

if TYPE_CHECKING:
    from heddle.server.service import Service

EVERY: Final = 1.0
"""Seconds between two messages: what a person can follow."""

FRESH: Final = 0.5
"""Seconds for which rows made for one watcher do for the next."""

LIVE_ROWS: Final = 200
ENDED_ROWS: Final = 50
"""Rows of runs; more than anybody reads. The totals count all."""

Rows: TypeAlias = Mapping[str, bytes]
"""JSON by key."""

Sections: TypeAlias = Mapping[str, Rows]

_encode: Final = msgspec.json.Encoder().encode


class Part(Struct, frozen=True):
    """What one worker has to show. Runs are by id, the newest first."""

    live: Mapping[str, RunRow]
    ended: Mapping[str, RunRow]
    plugins: tuple[PluginRow, ...]
    numbers: Numbers


_decode: Final = msgspec.json.Decoder(Part).decode


def part_of(service: "Service") -> Part:
    """What this process has to show."""
    live: dict[str, RunRow] = {}
    ended: dict[str, RunRow] = {}
    for run in service.runs:
        if run.ending is None:
            if len(live) < LIVE_ROWS:
                live[run.id] = run_row(run)
        elif len(ended) < ENDED_ROWS:
            ended[run.id] = run_row(run)
        else:
            break
    loaded = service.installed.plugins
    names = [each.name for each in loaded.plugins] if loaded is not None else []
    worker = None if service.peers is None else service.peers.row
    plugins = tuple(plugin_row(name, service.counts, worker) for name in names)
    return Part(live, ended, plugins, numbers_of(service))


class Board:
    """Makes the rows of one server.

    Args:
        service: What is looked at.
    """

    def __init__(self, service: "Service") -> None:
        self._service = service
        peers = service.peers
        self._started = time.time() if peers is None else peers.started
        self._made_at = float("-inf")
        self._made: Sections = {}
        self._theirs: list[Part] = []
        self._asked_at = float("-inf")
        self._asking = trio.Lock()

    async def refresh(self) -> None:
        """Ask the other workers, unless that was just done. To do before `sections`."""
        peers = self._service.peers
        if peers is None:
            return
        async with self._asking:
            if trio.current_time() - self._asked_at <= FRESH:
                return
            # One that is stuck is left out, and the page says that it is.
            heard = await peers.ask_all("GET", "/-/status", patience=EVERY)
            self._theirs = [_decode(each) for each in heard.bodies]
            self._asked_at = trio.current_time()
            self._made_at = float("-inf")

    def sections(self) -> Sections:
        """All rows as they are now, or were a moment ago."""
        now = trio.current_time()
        if now - self._made_at > FRESH:
            self._made_at = now
            parts = [part_of(self._service), *self._theirs]
            total = Numbers()
            for part in parts:
                total.add(part.numbers)
            peers = self._service.peers
            if peers is not None and (gone := peers.ledger.read().get(None)):
                total.add(decode_numbers(gone), gauges=False)
            self._made = {
                "server": self._server(total, len(parts)),
                "runs": _runs(parts),
                "policies": self._policies(total),
                "plugins": _plugins(parts),
            }
        return self._made

    def _server(self, total: Numbers, answering: int) -> Rows:
        service = self._service
        gauges, counters = total.gauges, total.counters
        shown: dict[str, Any] = {
            "version": __version__,
            "status": "draining" if service.draining.is_set() else "ok",
            "startedAt": self._started,
            "pid": os.getpid(),
            "active": int(gauges["active_runs"]),
            "room": service.runs.max_concurrent,
            "accepted": int(counters["accepted"]),
            "rejected": int(counters["rejected"]),
            "readers": int(gauges["stream_readers"]),
            "lagged": int(counters["lags"]),
            "sockets": int(gauges["sockets"]),
            # Whole MiB: what changes by less is not worth a message.
            "memory": int(gauges["resident"]) >> 20,
        }
        if service.peers is not None:
            shown["worker"] = service.peers.row
            shown["workers"] = 1 + len(service.peers.others())
            shown["answering"] = answering
        return {name: _encode(value) for name, value in shown.items()}

    def _policies(self, total: Numbers) -> Rows:
        loaded = self._service.installed.plugins
        known: dict[str, str] = {}
        for each in loaded.middleware if loaded is not None else ():
            component = each.component
            for seam, halves in component.seams.items():
                for half in halves:
                    place = f"{seam.value} {half.value} {component.component_type}"
                    known[place] = each.plugin.name
        rows = {}
        for place in dict.fromkeys((*known, *total.policies)):
            seam_name, half_name, policy = place.split(" ", 2)
            row = policy_row(
                policy,
                seam_name,
                half_name,
                known.get(place, ""),
                total.policies.get(place),
            )
            rows[f"{policy} {seam_name} {half_name}"] = _encode(row)
        return rows


def _runs(parts: list[Part]) -> Rows:
    live = [each for part in parts for each in part.live.items()]
    ended = [each for part in parts for each in part.ended.items()]
    if len(parts) > 1:
        live.sort(key=lambda each: -each[1].started_at)
        ended.sort(key=lambda each: -each[1].started_at)
    shown = chain(live[:LIVE_ROWS], ended[:ENDED_ROWS])
    return {run: _encode(row) for run, row in shown}


def _plugins(parts: list[Part]) -> Rows:
    """By name, and in a server of several workers by worker as well."""
    rows = [row for part in parts for row in part.plugins]
    rows.sort(key=lambda row: row.worker or 0)
    return {
        row.plugin if row.worker is None else f"{row.plugin} {row.worker}": _encode(row)
        for row in rows
    }


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
