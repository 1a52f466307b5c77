"""All runs of a server: who may begin, who is running, how each one ends."""

import errno
import gc
import logging
import math
import random
import weakref
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from heddle import launch, preparing
from heddle.engine.faults import InputsRefused, NodeFailed, RunTimedOut, StartRefused
from heddle.events import FlowStarted
from heddle.launch import RunOptions, ToolsMissing
from heddle.server.endings import (
    Cancelled,
    Completed,
    Failed,
    RunBroke,
    RunCancelled,
    Status,
    Stop,
    concealing,
)
from heddle.server.following.log import Batch
from heddle.server.following.reader import Reader
from heddle.server.own_scope import OwnScope
from heddle.server.runs.handle import CancelOutcome, RunHandle
from heddle.server.runs.history import HistoryLimits
from heddle.server.runs.registry import Draining, Runs, RunsRefused, TooManyRuns
from plugins_host import Fault
from tests.heddle.server.serving import LOOPING
from tests.heddle.server.works import PREPARED, Report, Scripted, echo, hang
from tests.support.flows import branching, document, edge, end, flow, prop, start, tool


def begin(
    runs: Runs, inputs: Mapping[str, Any] | None = None, *, detached: bool = False
) -> RunHandle:
    """Start one."""
    return runs.start(PREPARED, inputs or {}, stream=False, detached=detached, flow="f")


def raising(error: BaseException) -> Scripted:
    """Runs that end by this error."""

    async def fail(_report: Report, _inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        await trio.lowlevel.checkpoint()
        raise error

    return Scripted(fail)


# -- a run ------------------------------------------------------------------------------


async def test_a_run_goes_on_beside_its_starter_and_ends_with_its_state() -> None:
    async with Runs(Scripted(echo)) as runs:
        run = begin(runs, {"x": 1})
        assert (run.status, run.ending, runs.active) == (Status.RUNNING, None, 1)
        ending = await run.wait_ended()
        assert isinstance(ending, Completed)
        assert msgspec.json.decode(ending.state) == {"x": 1}
        assert (run.status, run.error, runs.active) == (Status.COMPLETED, None, 0)
        assert await run.wait_ended() is ending


async def test_many_may_wait_for_one_end() -> None:
    async with Runs(Scripted(hang)) as runs, trio.open_nursery() as nursery:
        run = begin(runs)
        for _ in range(3):
            nursery.start_soon(run.wait_ended)
        await wait_all_tasks_blocked()
        run.cancel()


async def test_a_run_tells_where_it_is_and_how_long_it_has_gone_on(
    autojump_clock: MockClock,
) -> None:
    async with Runs(Scripted(hang)) as runs:
        run = begin(runs)
        assert run.node is None
        await trio.sleep(3)
        assert run.node is not None
        assert (run.node.name, run.node.type, run.nodes) == ("work", "TestNode", 1)
        assert run.seconds == pytest.approx(3)
        run.cancel()
        await run.wait_ended()
        await trio.sleep(3)
        assert run.node is not None
        assert run.seconds == pytest.approx(3)


async def test_a_summary_is_json_for_lists(autojump_clock: MockClock) -> None:
    async with Runs(Scripted(hang)) as runs:
        run = begin(runs)
        await trio.sleep(2)
        assert msgspec.json.decode(msgspec.json.encode(run.summary())) == {
            "run": run.id,
            "flow": "f",
            "status": "running",
            "startedAt": run.started_at,
            "seconds": 2.0,
            "nodes": 1,
            "events": 1,
            "detached": False,
            "readers": 0,
            "node": "work",
            "nodeType": "TestNode",
        }


async def test_ids_are_short_and_cannot_be_guessed() -> None:
    async with Runs(Scripted(echo), max_concurrent=1000) as runs:
        ids = {begin(runs).id for _ in range(1000)}
    assert len(ids) == 1000
    assert {len(each) for each in ids} == {22}  # 128 random bits


async def test_a_runs_events_can_be_followed_while_it_goes_on_and_after() -> None:
    async def speak(report: Report, _inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        for _ in range(3):
            report(FlowStarted())
            await trio.lowlevel.checkpoint()
        return {}

    async with Runs(Scripted(speak)) as runs:
        run = begin(runs)
        for _ in range(2):
            count = 0
            with Reader(run.log) as reader:
                async for item in reader:
                    count += len(item.events) if isinstance(item, Batch) else 0
            assert count == 4
        assert isinstance(run.ending, Completed)


async def test_whoever_wants_to_know_the_end_is_told_once() -> None:
    told: list[str] = []
    async with Runs(Scripted(echo)) as runs:
        run = begin(runs)
        run.when_ended(lambda: told.append("first"))
        run.when_ended(lambda: told.append("second"))
        assert told == []
        await run.wait_ended()
        assert told == ["first", "second"]
        run.when_ended(lambda: told.append("late"))
        assert told == ["first", "second", "late"]


async def test_every_end_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[tuple[str, Status]] = []

    def report(run: RunHandle) -> None:
        seen.append((run.id, run.status))
        raise ValueError("a report with a bug")

    async with Runs(Scripted(echo), on_end=report) as runs:
        run = begin(runs)
        await run.wait_ended()
        assert runs.active == 0
    assert seen == [(run.id, Status.COMPLETED)]
    assert "reporting its end failed" in caplog.text


async def test_who_listens_badly_keeps_nobody_from_being_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[str] = []

    def bad() -> None:
        raise ValueError("a listener with a bug")

    async with Runs(Scripted(echo)) as runs:
        run = begin(runs)
        run.when_ended(bad)
        run.when_ended(lambda: told.append("told"))
        await run.wait_ended()
    assert told == ["told"]
    assert "telling its end failed" in caplog.text


async def test_what_a_run_worked_with_is_let_go_when_it_ends() -> None:
    class Large:
        pass

    held: list[weakref.ref[Large]] = []

    async def fail(_report: Report, _inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        large = Large()
        held.append(weakref.ref(large))
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise Fault("outer") from error

    async with Runs(Scripted(fail)) as runs:
        run = begin(runs)
        await run.wait_ended()
        await wait_all_tasks_blocked()
        gc.collect()
        assert isinstance(run.error, Fault)
        assert [each() for each in held] == [None]


# -- what goes wrong --------------------------------------------------------------------


async def test_a_failure_is_shown_by_its_class_and_its_sentence() -> None:
    fault = RunTimedOut(2.0, where="node 'a' (AgentNode)")
    async with Runs(raising(fault)) as runs:
        run = begin(runs)
        ending = await run.wait_ended()
        assert msgspec.json.decode(msgspec.json.encode(ending)) == {
            "status": "failed",
            "error": {"type": "RunTimedOut", "message": str(fault)},
        }
        # What a status is chosen by: the class and its fields.
        assert isinstance(run.error, RunTimedOut)
        assert run.error.seconds == 2.0


async def test_the_servers_folders_are_struck_out_of_a_failure() -> None:
    fault = Fault("cannot start it", where="/srv/tools/a")
    async with Runs(raising(fault), conceal=concealing(["/srv/tools"])) as runs:
        ending = await begin(runs).wait_ended()
        assert isinstance(ending, Failed)
        assert ending.error.message == "…/a: cannot start it"


@pytest.mark.parametrize(
    "error",
    [
        KeyError("/srv/secret"),
        SystemExit(3),
        BaseExceptionGroup("/srv/secret", [ValueError("/srv/secret"), SystemExit(1)]),
        ExceptionGroup("/srv/secret", [ExceptionGroup("b", [KeyError("/srv/secret")])]),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_bug_is_the_runs_own_failure_and_its_text_is_for_the_log_alone(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    async with Runs(raising(error)) as runs:
        run = begin(runs)
        ending = await run.wait_ended()
        assert isinstance(ending, Failed)
        assert ending.error.type == "RunBroke"
        assert "secret" not in ending.error.message
        assert run.id in ending.error.message
        assert isinstance(run.error, RunBroke)
        # The next one is not touched.
        other = begin(runs)
        await other.wait_ended()
    (record, _) = caplog.records
    assert run.id in record.getMessage()
    assert record.exc_info is not None


async def test_a_lack_of_the_machine_is_told_as_that_without_its_place() -> None:
    lack = OSError(errno.EMFILE, "Too many open files", "/srv/secret")
    async with Runs(raising(lack)) as runs:
        ending = await begin(runs).wait_ended()
    assert isinstance(ending, Failed)
    assert ending.error.type == "Shortage"
    assert "may have no more files open" in ending.error.message
    assert "secret" not in ending.error.message


async def test_a_fault_alone_in_a_group_is_that_fault() -> None:
    fault = InputsRefused("no such input")
    async with Runs(raising(ExceptionGroup("g", [ExceptionGroup("h", [fault])]))) as runs:
        run = begin(runs)
        await run.wait_ended()
        assert run.error is fault


async def test_a_result_without_json_is_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    async def odd(_report: Report, _inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        await trio.lowlevel.checkpoint()
        return {"half": "\ud800"}

    async with Runs(Scripted(odd)) as runs:
        run = begin(runs)
        ending = await run.wait_ended()
        assert isinstance(ending, Failed)
        assert ending.error.type == "RunBroke"
        assert runs.active == 0


async def test_one_runs_failure_ends_no_other() -> None:
    async with Runs(Scripted(hang)) as runs:
        others = [begin(runs) for _ in range(10)]
        runs._maker = raising(SystemExit(1))
        await begin(runs).wait_ended()
        await wait_all_tasks_blocked()
        assert {other.status for other in others} == {Status.RUNNING}


async def test_an_interrupt_is_nobodys_failure_and_ends_all() -> None:
    runs = Runs(raising(KeyboardInterrupt()))
    handles: list[RunHandle] = []
    with pytest.raises(BaseExceptionGroup) as caught:
        async with runs:
            handles.append(begin(runs))
            await trio.sleep_forever()
    assert caught.group_contains(KeyboardInterrupt)
    assert handles[0].status is Status.CANCELLED


async def test_an_interrupt_beside_a_failure_ends_all_and_the_failure_is_the_runs() -> None:
    fault = InputsRefused("no such input")
    group = BaseExceptionGroup("g", [fault, KeyboardInterrupt()])
    runs = Runs(raising(group))
    handles: list[RunHandle] = []
    with pytest.raises(BaseExceptionGroup) as caught:
        async with runs:
            handles.append(begin(runs))
            await trio.sleep_forever()
    assert caught.group_contains(KeyboardInterrupt)
    assert not caught.group_contains(InputsRefused)
    assert handles[0].error is fault


# -- a run in the task of its caller ------------------------------------------------------


async def test_a_caller_that_waits_for_nothing_but_the_end_may_carry_out_a_run() -> None:
    async with Runs(Scripted(echo)) as runs:
        run = await runs.carry_out(PREPARED, {"x": 1}, flow="f")
        assert isinstance(run.ending, Completed)
        assert (run.status, runs.active, runs.accepted) == (Status.COMPLETED, 0, 1)
        assert runs.get(run.id) is run


async def test_what_goes_wrong_in_a_run_that_is_carried_out_is_its_own_ending() -> None:
    fault = InputsRefused("no such input")
    async with Runs(raising(fault)) as runs:
        run = await runs.carry_out(PREPARED, {}, flow="f")
        assert run.error is fault
    async with Runs(raising(ZeroDivisionError())) as runs:
        assert isinstance((await runs.carry_out(PREPARED, {}, flow="f")).error, RunBroke)


async def test_a_run_ends_with_the_caller_that_carries_it_out() -> None:
    async with Runs(Scripted(hang)) as runs, trio.open_nursery() as nursery:

        async def carry_out() -> None:
            await runs.carry_out(PREPARED, {}, flow="f")
            raise AssertionError("it was to be cancelled")

        nursery.start_soon(carry_out)
        await wait_all_tasks_blocked()
        (run,) = runs
        nursery.cancel_scope.cancel()
    assert isinstance(run.error, RunCancelled)
    assert (run.error.stop, runs.active) == (Stop.CALLER_LEFT, 0)


async def test_a_run_that_is_carried_out_can_be_cancelled_by_others() -> None:
    async with Runs(Scripted(hang)) as runs, trio.open_nursery() as nursery:

        async def carry_out() -> None:
            run = await runs.carry_out(PREPARED, {}, flow="f")
            assert isinstance(run.error, RunCancelled)
            assert run.error.stop is Stop.ASKED
            done.set()

        done = trio.Event()
        nursery.start_soon(carry_out)
        await wait_all_tasks_blocked()
        (run,) = runs
        assert run.cancel() is CancelOutcome.CANCELLED
        with trio.fail_after(5):
            await done.wait()


# -- who may begin ----------------------------------------------------------------------


async def test_more_runs_than_there_is_room_for_are_refused_at_once() -> None:
    async with Runs(Scripted(hang), max_concurrent=3) as runs:
        for _ in range(3):
            begin(runs)
        with pytest.raises(TooManyRuns) as caught:
            begin(runs)
        assert str(caught.value) == (
            "3 runs are going on, which is the most this server takes at once. Try again "
            "in 1 s."
        )
        assert caught.value.retry_after == 1
        assert (runs.accepted, runs.rejected, runs.active, runs.saturation) == (3, 1, 3, 1)


def test_a_server_of_one_run_at_a_time_says_it_in_the_singular() -> None:
    assert str(TooManyRuns(1, 2)) == (
        "one run is going on, and this server takes one at a time. Try again in 2 s."
    )


async def test_who_is_refused_is_told_to_wait_as_long_as_runs_take(
    autojump_clock: MockClock,
) -> None:
    async with Runs(Scripted(hang), max_concurrent=2) as runs:
        for seconds in [10] * 50:
            run = begin(runs)
            await trio.sleep(seconds)
            run.cancel()
            await run.wait_ended()
        begin(runs)
        begin(runs)
        with pytest.raises(TooManyRuns) as caught:
            begin(runs)
        assert caught.value.retry_after == 5
        runs._mean_seconds = math.inf
        with pytest.raises(TooManyRuns) as caught:
            begin(runs)
        assert caught.value.retry_after == 30


async def test_a_flow_that_cannot_run_takes_no_slot() -> None:
    maker = Scripted(echo)
    maker.refuse = Fault("no such tool")
    async with Runs(maker, max_concurrent=1) as runs:
        with pytest.raises(Fault, match="no such tool"):
            begin(runs)
        assert (runs.accepted, runs.rejected, runs.active) == (0, 0, 0)
        maker.refuse = None
        await begin(runs).wait_ended()


async def test_whether_text_is_streamed_is_each_runs_own() -> None:
    maker = Scripted(echo)
    async with Runs(maker) as runs:
        for stream in (True, False):
            runs.start(PREPARED, {}, stream=stream, detached=False, flow="f")
    assert maker.streamed == [True, False]


async def test_a_run_may_have_a_maker_of_its_own() -> None:
    async with Runs(Scripted(hang)) as runs:
        run = runs.start(
            PREPARED, {}, stream=False, detached=False, flow="f", maker=Scripted(echo)
        )
        assert isinstance(await run.wait_ended(), Completed)


def test_there_is_room_for_one_run_at_least() -> None:
    with pytest.raises(ValueError, match="not 0"):
        Runs(Scripted(echo), max_concurrent=0)


async def test_no_run_begins_before_the_block_and_after_it() -> None:
    runs = Runs(Scripted(echo))
    with pytest.raises(RunsRefused):
        begin(runs)
    async with runs:
        pass
    with pytest.raises(RunsRefused):
        begin(runs)


# -- cancelling -------------------------------------------------------------------------


async def test_cancelling_frees_the_slot() -> None:
    async with Runs(Scripted(hang), max_concurrent=1) as runs:
        run = begin(runs)
        assert runs.cancel(run.id) is CancelOutcome.CANCELLED
        assert runs.cancel(run.id) is CancelOutcome.CANCELLED  # it has not ended yet
        ending = await run.wait_ended()
        assert isinstance(ending, Cancelled)
        assert ending.error.type == "RunCancelled"
        assert ending.error.message == "it was cancelled on request"
        assert runs.active == 0
        assert runs.cancel(run.id) is CancelOutcome.FINISHED
        assert runs.cancel("never was") is CancelOutcome.UNKNOWN
        begin(runs)


async def test_the_first_reason_to_cancel_is_the_one_that_is_told() -> None:
    async with Runs(Scripted(hang)) as runs:
        run = begin(runs)
        run.cancel(Stop.CALLER_LEFT)
        run.cancel(Stop.ASKED)
        await run.wait_ended()
        assert isinstance(run.error, RunCancelled)
        assert run.error.stop is Stop.CALLER_LEFT


async def test_a_run_that_reached_its_end_before_it_was_stopped_has_completed() -> None:
    async def finish(_report: Report, _inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        with trio.CancelScope(shield=True):
            await trio.lowlevel.checkpoint()
        return {"done": True}

    async with Runs(Scripted(finish)) as runs:
        run = begin(runs)
        run.cancel()
        assert isinstance(await run.wait_ended(), Completed)


async def test_a_slot_is_not_free_before_the_run_has_cleaned_up(
    autojump_clock: MockClock,
) -> None:
    async def tidy(_report: Report, _inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(2)
        raise AssertionError

    async with Runs(Scripted(tidy), max_concurrent=1) as runs:
        run = begin(runs)
        await wait_all_tasks_blocked()
        run.cancel()
        await trio.sleep(1)
        assert (run.status, runs.active) == (Status.RUNNING, 1)
        await run.wait_ended()
        assert run.seconds == pytest.approx(2)


async def test_what_fails_while_it_is_cancelled_was_cancelled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def untidy(_report: Report, _inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("while cleaning up")

    async with Runs(Scripted(untidy)) as runs:
        run = begin(runs)
        await wait_all_tasks_blocked()
        run.cancel()
        assert isinstance(await run.wait_ended(), Cancelled)
    assert "broke" in caplog.text


async def test_one_of_a_thousand_is_cancelled_and_the_others_go_on() -> None:
    async with Runs(Scripted(hang), max_concurrent=1000) as runs:
        all_of_them = [begin(runs) for _ in range(1000)]
        await wait_all_tasks_blocked()
        one = all_of_them[500]
        one.cancel()
        # No clock in it: it takes as many turns of the loop as it takes alone.
        turns = 0
        while one.status is Status.RUNNING:
            await trio.lowlevel.checkpoint()
            turns += 1
        assert turns <= 3
        assert runs.active == 999
        begin(runs)


# -- stopping ---------------------------------------------------------------------------


async def test_leaving_the_block_cancels_all() -> None:
    async with Runs(Scripted(hang)) as runs:
        handles = [begin(runs) for _ in range(3)]
        await wait_all_tasks_blocked()
    for run in handles:
        assert isinstance(run.error, RunCancelled)
        assert run.error.stop is Stop.DRAINED
    assert runs.active == 0


async def test_the_blocks_own_error_comes_out_as_it_is() -> None:
    handles: list[RunHandle] = []
    with pytest.raises(LookupError):
        async with Runs(Scripted(hang)) as runs:
            handles.append(begin(runs))
            raise LookupError
    assert handles[0].status is Status.CANCELLED


async def test_what_fails_while_all_end_is_that_runs_failure_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def untidy(_report: Report, _inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            try:
                await trio.sleep_forever()
            finally:
                raise ValueError("while cleaning up")
        raise AssertionError

    async with Runs(Scripted(untidy)) as runs:
        run = begin(runs)
        await wait_all_tasks_blocked()
    assert run.status is Status.CANCELLED
    assert "broke" in caplog.text


async def test_a_drain_refuses_new_runs_and_waits_for_the_open_ones(
    autojump_clock: MockClock,
) -> None:
    async def slow(_report: Report, _inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        await trio.sleep(5)
        return {}

    async with Runs(Scripted(slow)) as runs, trio.open_nursery() as nursery:
        run = begin(runs)
        nursery.start_soon(runs.drain, 60)
        await wait_all_tasks_blocked()
        with pytest.raises(Draining):
            begin(runs)
        assert (runs.draining, runs.rejected) == (True, 1)
        assert run.status is Status.RUNNING
        await runs.wait_empty()
        assert run.status is Status.COMPLETED
        assert trio.current_time() == pytest.approx(5)


async def test_a_drain_cancels_what_is_left_when_its_time_is_up(
    autojump_clock: MockClock,
) -> None:
    async with Runs(Scripted(hang)) as runs:
        run = begin(runs)
        await runs.drain(60)
        assert trio.current_time() == pytest.approx(60)
        assert isinstance(run.error, RunCancelled)
        assert run.error.stop is Stop.DRAINED


async def test_waiting_until_no_run_goes_on_waits_each_time() -> None:
    async with Runs(Scripted(hang)) as runs:
        for _ in range(2):
            run = begin(runs)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(runs.wait_empty)
                await wait_all_tasks_blocked()
                run.cancel()


async def test_a_drain_without_runs_is_over_at_once(autojump_clock: MockClock) -> None:
    async with Runs(Scripted(hang)) as runs:
        await runs.drain(60)
        assert trio.current_time() == 0


@pytest.mark.parametrize("before", [True, False])
async def test_a_hurried_drain_waits_for_nobody(
    before: bool, autojump_clock: MockClock
) -> None:
    async with Runs(Scripted(hang)) as runs:
        run = begin(runs)
        await wait_all_tasks_blocked()
        if before:
            runs.hurry()
            await runs.drain(60)
        else:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(runs.drain, 60)
                await wait_all_tasks_blocked()
                runs.hurry()
        assert trio.current_time() == 0
        assert run.status is Status.CANCELLED


# -- what is kept -----------------------------------------------------------------------


async def test_an_ended_run_is_found_for_a_while() -> None:
    limits = HistoryLimits(runs=2)
    async with Runs(Scripted(echo), history_limits=limits) as runs:
        ended = []
        for number in range(4):
            run = begin(runs, {"number": number})
            assert runs.get(run.id) is run
            await run.wait_ended()
            ended.append(run)
        assert [runs.get(run.id) for run in ended] == [None, None, *ended[2:]]


async def test_runs_are_listed_the_newest_first() -> None:
    async with Runs(Scripted(echo)) as runs:
        first = begin(runs)
        await first.wait_ended()
        second = begin(runs)
        await second.wait_ended()
        runs._maker = Scripted(hang)
        third = begin(runs)
        fourth = begin(runs)
        assert list(runs) == [fourth, third, second, first]


async def test_the_weight_of_an_ended_run_is_that_of_its_events_and_result() -> None:
    async def speak(_report: Report, _inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        await trio.lowlevel.checkpoint()
        return {"text": "x" * 50_000}

    async with Runs(Scripted(speak)) as runs:
        run = begin(runs, {"text": "y" * 30_000})
        await run.wait_ended()
        assert 80_000 < run.weight < 85_000
        runs._maker = raising(Fault("z" * 30_000))
        failed = begin(runs)
        await failed.wait_ended()
        assert 60_000 < failed.weight < 65_000


# -- with the engine --------------------------------------------------------------------


def looping() -> bytes:
    """A flow that never ends by itself."""
    return document(
        flow(
            [
                start(),
                branching("again", {"x": "on"}, inputs=[prop("topic", default="y")]),
                end(),
            ],
            ["start", "again"],
            [edge("again", "again", "default"), edge("again", "end", "on")],
        )
    )


async def test_a_flow_is_run_by_the_engine() -> None:
    async with launch.open_engine(RunOptions()) as engine, Runs(engine) as runs:
        run = begin(runs, {"x": 1})
        assert isinstance(await run.wait_ended(), Completed)
        assert run.nodes == 2
        assert run.node is not None
        assert run.node.name == "end"


async def test_a_flow_without_its_tools_is_refused_before_it_begins() -> None:
    prepared = preparing.prepare(
        document(flow([start(), tool("t"), end()], ["start", "t", "end"])), name="f"
    )
    async with launch.open_engine(RunOptions()) as engine, Runs(engine) as runs:
        with pytest.raises(ToolsMissing):
            runs.start(prepared, {}, stream=False, detached=False, flow="f")
        assert runs.accepted == 0


async def test_a_flow_fails_by_its_time_out_as_such() -> None:
    prepared = preparing.prepare(looping(), name="f")
    options = RunOptions(timeout=0.05, max_iterations=10**9)
    async with launch.open_engine(options) as engine, Runs(engine) as runs:
        run = runs.start(prepared, {}, stream=False, detached=False, flow="f")
        assert isinstance(await run.wait_ended(), Failed)
        assert isinstance(run.error, RunTimedOut)


async def test_the_time_of_a_run_may_be_kept_by_its_own_scope() -> None:
    prepared = preparing.prepare(looping(), name="f")
    options = RunOptions(timeout=math.inf, max_iterations=10**9)
    async with launch.open_engine(options) as engine, Runs(engine, timeout=0.05) as runs:
        run = runs.start(prepared, {}, stream=False, detached=False, flow="f")
        assert isinstance(await run.wait_ended(), Failed)
        assert str(run.error).startswith("node ")
        assert "took longer than 0.05 s" in str(run.error)
        stopped = runs.start(prepared, {}, stream=False, detached=False, flow="f")
        stopped.cancel()
        assert isinstance(await stopped.wait_ended(), Cancelled)


async def test_a_run_in_the_scope_of_its_caller_leaves_it_as_it_was() -> None:
    long = preparing.prepare(looping(), name="f")
    short = preparing.prepare(document(flow([start(), end()], ["start", "end"])), name="f")
    options = RunOptions(timeout=math.inf, max_iterations=10**9)
    async with launch.open_engine(options) as engine, Runs(engine, timeout=0.05) as runs:
        with OwnScope() as scope:
            done = await runs.carry_out(short, {}, flow="f", scope=scope)
            assert done.cancel() is CancelOutcome.FINISHED
            done.expire()
            assert not scope.cancel_called
        assert isinstance(done.ending, Completed)

        with OwnScope() as scope:
            late = await runs.carry_out(long, {}, flow="f", scope=scope)
        assert scope.cancel_called
        assert not scope.cancelled_caught
        assert "took longer than 0.05 s" in str(late.error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancel_first, runs)
            with OwnScope() as scope:
                asked = await runs.carry_out(long, {}, flow="f", scope=scope)
        assert isinstance(asked.ending, Cancelled)
        assert not scope.cancelled_caught

        with trio.CancelScope() as around:
            around.cancel()
            with OwnScope() as scope:
                await runs.carry_out(long, {}, flow="f", scope=scope)
            raise AssertionError("it was cancelled from outside")
        assert around.cancelled_caught
        assert not runs.active


async def cancel_first(runs: Runs) -> None:
    while not runs.active:
        await trio.lowlevel.checkpoint()
    runs.cancel_all(Stop.ASKED)


@pytest.mark.parametrize(
    ("made", "kind", "node"),
    [
        (flow([start(inputs=[prop("n", "integer")]), end()], ["start", "end"]),
         StartRefused, "start"),
        (LOOPING, NodeFailed, "fork"),
    ],
)  # fmt: skip
async def test_a_node_that_fails_is_named(made: Any, kind: type[Fault], node: str) -> None:
    prepared = preparing.prepare(document(made), name="f")
    async with launch.open_engine(RunOptions()) as engine, Runs(engine) as runs:
        run = runs.start(prepared, {"n": "no"}, stream=False, detached=False, flow="f")
        ending = await run.wait_ended()
        assert isinstance(ending, Failed)
        assert type(run.error) is kind
        assert ending.error.type == kind.__name__
        assert f"node {node!r}" in ending.error.message


# -- all together -----------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
async def test_whatever_others_do_each_run_ends_as_itself(
    seed: int, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "heddle.server")
    rng = random.Random(seed)

    async def as_told(report: Report, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        await trio.sleep(inputs["seconds"])
        match inputs["does"]:
            case "complete":
                return {"number": inputs["number"]}
            case "fail":
                raise InputsRefused(f"number {inputs['number']}")
            case "break":
                raise BaseExceptionGroup("b", [SystemExit(1), ValueError()])
            case _:
                await trio.sleep_forever()
                raise AssertionError

    async def follow(run: RunHandle) -> None:
        with Reader(run.log) as reader:
            async for item in reader:
                if isinstance(item, Batch):
                    for each in item.events:
                        given = msgspec.json.decode(each)["state"]
                        assert given["number"] == expected[run.id]["number"]
                await trio.sleep(rng.random())

    expected: dict[str, dict[str, Any]] = {}
    async with Runs(Scripted(as_told), max_concurrent=500) as runs:
        async with trio.open_nursery() as nursery:
            handles = []
            for number in range(300):
                does = rng.choice(["complete", "fail", "break", "hang"])
                inputs = {"number": number, "does": does, "seconds": 3 * rng.random()}
                run = begin(runs, inputs, detached=rng.random() < 0.5)
                expected[run.id] = inputs
                handles.append(run)
                nursery.start_soon(follow, run)
                await trio.sleep(0.01 * rng.random())
            await trio.sleep(5)
            hanging = [run for run in handles if run.status is Status.RUNNING]
            for run in hanging:
                assert runs.cancel(run.id) is CancelOutcome.CANCELLED
        assert runs.active == 0
        assert runs.tally.readers == 0
        for run in handles:
            told = expected[run.id]
            match run.ending:
                case Completed(state=state):
                    assert told["does"] == "complete"
                    assert msgspec.json.decode(state) == {"number": told["number"]}
                case Failed(error=error) if error.type == "RunBroke":
                    assert told["does"] == "break"
                case Failed(error=error):
                    assert told["does"] == "fail"
                    assert error.message == f"number {told['number']}"
                case _:
                    assert told["does"] == "hang"
            assert runs.get(run.id) is run
