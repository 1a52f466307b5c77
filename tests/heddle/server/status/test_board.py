"""What watchers are told: everything once, then what changed, and nothing for nobody."""

import json
from types import SimpleNamespace
from typing import Any

import trio

from heddle.installation import NOTHING
from heddle.policy_counts import BUCKETS, PolicyCounts, Tally
from heddle.server.runs.registry import Runs
from heddle.server.status.board import (
    ENDED_ROWS,
    LIVE_ROWS,
    Board,
    Watcher,
)
from heddle.server.status.rows import LONGEST_NAME, percentile, plugin_row
from heddle.server.status.watch import StatusWatch
from plugins_host import Half, Seam
from tests.heddle.server.works import PREPARED, Scripted, hang


def begin(runs: Runs, flow: str = "f") -> Any:
    return runs.start(PREPARED, {}, stream=False, detached=False, flow=flow)


def service(runs: Runs, **more: Any) -> Any:
    return SimpleNamespace(
        runs=runs,
        installed=NOTHING,
        counts=more.get("counts", PolicyCounts()),
        draining=trio.Event(),
        sockets=1,
        peers=None,
    )


def told(watcher: Watcher) -> dict[str, Any]:
    message: dict[str, Any] = json.loads(watcher.message())
    assert message.pop("type") == "status"
    assert message.pop("now") > 0
    message.get("server", {}).pop("memory", None)
    return {name: rows for name, rows in message.items() if rows}


async def test_a_watcher_is_told_everything_and_then_only_what_changed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    counts = PolicyCounts()
    async with Runs(Scripted(hang)) as runs:
        watcher = Watcher(Board(service(runs, counts=counts)))
        first = begin(runs)
        await trio.testing.wait_all_tasks_blocked()
        whole = told(watcher)
        assert whole["server"]["active"] == 1
        assert whole["server"]["status"] == "ok"
        row = whole["runs"][first.id]
        assert (row["flow"], row["status"], row["node"]) == ("f", "running", "work")
        await trio.sleep(1)
        assert told(watcher) == {}
        counts.answered(Seam.NODE, Half.BEFORE, ("Gate",), "proceed", 0.002)
        second = begin(runs)
        first.cancel()
        await trio.sleep(1)
        changed = told(watcher)
        assert changed["server"] == {"accepted": 2}
        assert changed["runs"][first.id]["status"] == "cancelled"
        assert changed["runs"][second.id]["status"] == "running"
        [policy] = changed["policies"].values()
        assert (policy["asked"], policy["verdicts"]) == (1, {"proceed": 1})
        assert (policy["mean"], policy["p95"]) == (0.002, 0.0025)
        runs._history.attached._runs.clear()
        await trio.sleep(1)
        assert told(watcher) == {"runs": {first.id: None}}
        second.cancel()


async def test_rows_are_bounded_whatever_runs_there_are() -> None:
    async with Runs(Scripted(hang), max_concurrent=1000) as runs:
        board = Board(service(runs))
        started = [begin(runs, "n" * 10_000) for _ in range(LIVE_ROWS + ENDED_ROWS + 30)]
        await trio.testing.wait_all_tasks_blocked()
        for run in started[: ENDED_ROWS + 20]:
            run.cancel()
        await trio.testing.wait_all_tasks_blocked()
        rows = board.sections()["runs"]
        assert len(rows) == LIVE_ROWS + ENDED_ROWS
        flow = json.loads(rows[started[-1].id])["flow"]
        assert (len(flow), flow[-1]) == (LONGEST_NAME, "…")
        for run in started:
            run.cancel()


async def test_watchers_share_the_rows_of_a_moment(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with Runs(Scripted(hang)) as runs:
        board = Board(service(runs))
        made = board.sections()
        assert board.sections() is made
        await trio.sleep(1)
        assert board.sections() is not made


async def test_a_client_that_reads_slowly_is_owed_one_message(
    autojump_clock: trio.testing.MockClock,
) -> None:
    woken = []
    async with Runs(Scripted(hang)) as runs, trio.open_nursery() as nursery:
        watch = StatusWatch(Board(service(runs)), lambda: woken.append(1))
        nursery.start_soon(watch.run)
        await trio.sleep(3.5)
        assert (watch.due, len(woken)) == (True, 4)
        watch.message()
        assert not watch.due
        watch.end()


def test_a_percentile_is_the_bound_of_its_bucket() -> None:
    tally = Tally()
    tally.buckets[0] = 94
    tally.buckets[3] = 6
    assert percentile(tally, 0.5) == BUCKETS[0]
    assert percentile(tally, 0.95) == BUCKETS[3]
    tally.buckets[-1] = 900
    assert percentile(tally, 0.95) == -1


def test_a_plugin_is_running_failed_stopped_or_inside_heddle() -> None:
    counts = PolicyCounts()

    def process(features: Any, trouble: str) -> Any:
        counted = SimpleNamespace(started=3, retired=1, trouble=trouble)
        return SimpleNamespace(features=features, counts=counted)

    counts.plugins = {
        "a": process(frozenset(), ""),
        "b": process(None, "it exited"),
        "c": process(None, ""),
    }
    rows = [plugin_row(name, counts) for name in "abcd"]
    assert [row.state for row in rows] == ["running", "failed", "stopped", "inside heddle"]
    assert [row.reason for row in rows] == ["", "it exited", "", ""]
    assert rows[0].restarts == 2
