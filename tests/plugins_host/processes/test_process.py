"""A plugin process seen from heddle, with a process made of test code and jumping time."""
# ruff: noqa: E501  tables of sentences, and headers of tests whose names are sentences

import gc
import math
import time
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, cast

import msgspec
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from plugins_host.conversation import ModelResponse
from plugins_host.frames import Refusal
from plugins_host.plugin_faults import (
    PluginFailed,
    PluginGone,
    PluginNotStarted,
    PluginOverdue,
    ProtocolBroken,
)
from plugins_host.plugin_log import MAX_LOG_LINE, Lines, PluginLine
from plugins_host.processes import channel as channel_module
from plugins_host.processes.child import SpawnError
from plugins_host.processes.lifecycle import Phase
from plugins_host.processes.open_calls import CANCEL_PATIENCE
from plugins_host.processes.process import PluginProcess
from plugins_host.testing import RecordedServices, Stage, plugin_pair


class Asked:
    """A request made in a task of its own, and what came of it."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.done = trio.Event()
        self.result: Any = None
        self.error: Exception | None = None

    async def failure(self) -> Exception:
        await self.done.wait()
        assert self.error is not None
        return self.error

    async def answer(self) -> Any:
        await self.done.wait()
        if self.error is not None:
            raise self.error
        return self.result


def ask(
    nursery: trio.Nursery, plugin: PluginProcess, verb: str = "before", **how: Any
) -> Asked:
    asked = Asked()
    params = msgspec.json.encode(how.pop("params", {}))

    async def make() -> None:
        with asked.scope:
            try:
                asked.result = msgspec.json.decode(
                    await plugin.request(verb, params, **how)
                )
            except Exception as error:
                asked.error = error
        asked.done.set()

    nursery.start_soon(make)
    return asked


def was_killed(stage: Stage) -> bool:
    """The same as ``stage.killed``, which type checkers do not believe to change."""
    return stage.killed


def tasks() -> int:
    """How many tasks there are."""

    def below(task: trio.lowlevel.Task) -> int:
        children = [t for nursery in task.child_nurseries for t in nursery.child_tasks]
        return 1 + sum(below(child) for child in children)

    root = trio.lowlevel.current_root_task()
    assert root is not None
    return below(root)


# --- starting -----------------------------------------------------------------------------


async def test_a_process_starts_with_the_first_call(autojump_clock: MockClock) -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        await trio.sleep(60)
        assert troupe.stages == []
        asked = ask(nursery, plugin)
        stage = await troupe.on_stage()
        stage.answers(await stage.asked("before"), {"action": "proceed"})
        assert await asked.answer() == {"action": "proceed"}
        assert plugin.counts.started == 1


async def test_it_can_be_started_before_anybody_asks(autojump_clock: MockClock) -> None:
    async with plugin_pair(features=["consult", "flying"]) as (plugin, troupe):
        assert await plugin.start() == {"consult"}
        assert await plugin.start() == {"consult"}
        assert len(troupe.stages) == 1


async def test_the_first_frame_tells_what_heddle_speaks(autojump_clock: MockClock) -> None:
    async with plugin_pair(capabilities=["log", "emitEvent"]) as (plugin, troupe):
        await plugin.start()
        (init,) = troupe.stages[0].requests
        said = msgspec.json.decode(init.params)
        assert init.method == "init"
        assert said["protocol"] == said["events"] == 1
        assert said["capabilities"] == ["emitEvent", "log"]
        assert said["seams"]["agentRound"] == ["proceed", "reject", "pass", "fail"]
        assert said["halves"]["agentRound"] == {
            "before": ["proceed", "reject"],
            "after": ["pass", "fail"],
        }
        assert "consult" in said["features"]


@pytest.mark.parametrize(
    "greeting", [{}, {"protocol": 1}, None, "hello", {"protocol": None}]
)
async def test_a_plugin_that_says_no_version_speaks_the_first(
    greeting: object, autojump_clock: MockClock
) -> None:
    async with plugin_pair(greet=False) as (plugin, troupe), trio.open_nursery() as nursery:
        nursery.start_soon(plugin.start)
        stage = await troupe.on_stage()
        stage.answers(await stage.asked("init"), greeting)


async def test_a_plugin_that_does_not_know_init_speaks_the_first_version(
    autojump_clock: MockClock,
) -> None:
    async with plugin_pair(greet=False) as (plugin, troupe), trio.open_nursery() as nursery:
        nursery.start_soon(plugin.start)
        stage = await troupe.on_stage()
        stage.refuses(await stage.asked("init"), "Error", "unknown method init")


@pytest.mark.parametrize("version", [2, "1", [1], {}])
async def test_another_version_is_refused_naming_both(
    version: object, autojump_clock: MockClock
) -> None:
    async with plugin_pair(greet=False) as (plugin, troupe), trio.open_nursery() as nursery:
        asked = ask(nursery, plugin)
        stage = await troupe.on_stage()
        await stage.greets(protocol=version)
        error = await asked.failure()
        assert isinstance(error, PluginNotStarted)
        assert f"it speaks version {version!r} of the protocol, and heddle speaks 1" in str(
            error
        )
        await wait_all_tasks_blocked()
        assert stage.killed


async def test_a_program_that_cannot_be_run_fails_the_call_and_says_what_to_do(
    autojump_clock: MockClock,
) -> None:
    async with plugin_pair() as (plugin, troupe):
        troupe.refuse = SpawnError("its program 'node' was not found", "Install Node.js.")
        with pytest.raises(PluginNotStarted) as caught:
            await plugin.request("before", b"{}")
    assert str(caught.value) == (
        "plugin 'pair': its program 'node' was not found. Install Node.js."
    )


async def test_a_plugin_that_ends_before_it_greets_did_not_start(
    autojump_clock: MockClock,
) -> None:
    async with plugin_pair(greet=False) as (plugin, troupe), trio.open_nursery() as nursery:
        asked = ask(nursery, plugin)
        stage = await troupe.on_stage()
        await stage.asked("init")
        stage.stderr.write_nowait(b"ImportError: no module named foo\n")
        stage.exits(1)
        error = await asked.failure()
    assert isinstance(error, PluginNotStarted)
    assert error.status == 1
    assert str(error) == (
        "plugin 'pair': it did not start: its process exited with status 1; on stderr it "
        "said: ImportError: no module named foo"
    )


async def test_a_plugin_that_never_greets_is_killed_after_ten_seconds(
    autojump_clock: MockClock,
) -> None:
    async with plugin_pair(greet=False) as (plugin, troupe):
        with pytest.raises(PluginNotStarted) as caught:
            await plugin.request("before", b"{}")
        assert trio.current_time() == pytest.approx(10)
        await wait_all_tasks_blocked()
        assert troupe.stages[0].killed
    assert "it did not answer 'init' within 10 s" in str(caught.value)


async def test_a_greeting_that_arrived_while_heddle_was_suspended_is_in_time(
    autojump_clock: MockClock,
) -> None:
    async with plugin_pair(greet=False) as (plugin, troupe), trio.open_nursery() as nursery:
        asked = ask(nursery, plugin)
        stage = await troupe.on_stage()
        init = await stage.asked("init")
        await wait_all_tasks_blocked()
        # It arrives, nobody looks, and the time is over before anybody does.
        stage.stdout._held += f'{{"id":{init.id},"result":{{"protocol":1}}}}\n'.encode()
        await trio.sleep(20)
        stage.answers(await stage.asked(), "fine")
        assert await asked.answer() == "fine"


async def test_all_calls_that_wait_for_one_start_fail_with_it(
    autojump_clock: MockClock,
) -> None:
    async with plugin_pair(greet=False) as (plugin, troupe), trio.open_nursery() as nursery:
        calls = [ask(nursery, plugin) for _ in range(100)]
        stage = await troupe.on_stage()
        await stage.asked("init")
        stage.exits(3)
        errors = [await call.failure() for call in calls]
        assert {type(error) for error in errors} == {PluginNotStarted}
        assert len({id(error) for error in errors}) == 100
        assert len(troupe.stages) == 1


async def test_a_start_goes_on_when_the_call_that_caused_it_is_cancelled(
    autojump_clock: MockClock,
) -> None:
    async with plugin_pair(greet=False) as (plugin, troupe), trio.open_nursery() as nursery:
        first = ask(nursery, plugin)
        second = ask(nursery, plugin)
        stage = await troupe.on_stage()
        first.scope.cancel()
        await first.done.wait()
        await stage.greets()
        stage.answers(await stage.asked("before"), {})
        assert await second.answer() == {}


async def dies_at_start(plugin: PluginProcess) -> float:
    began = trio.current_time()
    with pytest.raises(PluginNotStarted):
        await plugin.request("before", b"{}")
    return trio.current_time() - began


async def test_a_plugin_that_keeps_dying_rests_longer_and_then_fails_at_once(
    autojump_clock: MockClock,
) -> None:
    async with plugin_pair() as (plugin, troupe):
        troupe.refuse = SpawnError("no", "")
        waits = [await dies_at_start(plugin) for _ in range(6)]
        assert waits == pytest.approx([0, 0.1, 0.2, 0.4, 0.8, 0])


async def test_a_plugin_that_was_given_up_recovers_by_a_probe(
    autojump_clock: MockClock,
) -> None:
    lines: list[PluginLine] = []
    async with plugin_pair(log=lines.append) as (plugin, troupe):
        troupe.refuse = SpawnError("no such file", "")
        for _ in range(6):
            await dies_at_start(plugin)
        assert any("only probed" in line.text for line in lines)
        troupe.refuse = None
        assert await dies_at_start(plugin) == 0
        await trio.sleep(5.1)
        assert await plugin.start() == set()
        assert len(troupe.stages) == 1


async def test_a_start_that_goes_well_makes_up_for_the_deaths_before(
    autojump_clock: MockClock,
) -> None:
    async with plugin_pair() as (plugin, troupe):
        troupe.refuse = SpawnError("no", "")
        for _ in range(4):
            await dies_at_start(plugin)
        troupe.refuse = None
        await plugin.start()
        troupe.stages[0].exits(1)
        await wait_all_tasks_blocked()
        troupe.refuse = SpawnError("no", "")
        waits = [await dies_at_start(plugin) for _ in range(4)]
        assert waits == pytest.approx([0, 0.1, 0.2, 0.4])


async def test_nobody_probes_a_plugin_that_nobody_asks_for(
    autojump_clock: MockClock,
) -> None:
    async with plugin_pair() as (plugin, troupe):
        troupe.refuse = SpawnError("no", "")
        for _ in range(6):
            await dies_at_start(plugin)
        await trio.sleep(5.1)  # the one probe that the last call asked for
        troupe.refuse = None
        await trio.sleep(600)
        assert troupe.stages == []


# --- calls and answers ---------------------------------------------------------------------


async def test_answers_find_their_calls_in_any_order(autojump_clock: MockClock) -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        await plugin.start()
        calls = [ask(nursery, plugin, params={"n": n}) for n in range(20)]
        stage = troupe.stages[0]
        requests = [await stage.asked("before") for _ in calls]
        for request in reversed(requests):
            stage.answers(request, msgspec.json.decode(request.params)["n"])
        assert [await call.answer() for call in calls] == list(range(20))


async def test_all_that_waits_is_written_at_once(autojump_clock: MockClock) -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        await plugin.start()
        stage = troupe.stages[0]
        writes: list[int] = []
        pipe = stage.stdin
        write = pipe.write_nowait
        pipe.write_nowait = lambda data: writes.append(len(data)) or write(data)  # type: ignore[func-returns-value,method-assign]
        calls = [ask(nursery, plugin) for _ in range(50)]
        for _ in calls:
            stage.answers(await stage.asked(), {})
        for call in calls:
            await call.answer()
        assert len(writes) <= 2
        del pipe.write_nowait


async def test_ids_are_never_given_out_again(autojump_clock: MockClock) -> None:
    seen: set[Any] = set()
    count = 0
    for _ in range(2):
        async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
            for process in range(1, 4):
                asked = ask(nursery, plugin)
                stage = await troupe.on_stage(process)
                await stage.asked("before")
                stage.exits(1)
                await asked.failure()
                seen.update(request.id for request in stage.requests)
                count += len(stage.requests)
    assert len(seen) == count == 12


async def test_an_error_is_told_as_the_plugin_told_it(autojump_clock: MockClock) -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        asked = ask(nursery, plugin)
        stage = await troupe.on_stage()
        stage.refuses(await stage.asked(), "TypeError", "cmd is undefined")
        error = await asked.failure()
    assert isinstance(error, PluginFailed)
    assert (error.plugin, error.name, error.message) == (
        "pair",
        "TypeError",
        "cmd is undefined",
    )
    assert str(error) == "plugin 'pair': it failed with TypeError: cmd is undefined"


async def test_progress_reaches_who_listens_to_it(autojump_clock: MockClock) -> None:
    heard: list[Any] = []
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        asked = ask(
            nursery,
            plugin,
            "chat",
            on_partial=lambda raw: heard.append(msgspec.json.decode(raw)),
        )
        stage = await troupe.on_stage()
        request = await stage.asked("chat")
        for piece in ("a", "b"):
            stage.reports(request, {"content": piece})
        stage.answers(request, {"content": "c"})
        assert await asked.answer() == {"content": "c"}
    assert heard == [{"content": "a"}, {"content": "b"}]


async def test_who_cannot_take_progress_fails_alone(autojump_clock: MockClock) -> None:
    def full(_: Any) -> None:
        raise RuntimeError("no room")

    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        first, second = (
            ask(nursery, plugin, "one", on_partial=full),
            ask(nursery, plugin, "two"),
        )
        stage = await troupe.on_stage()
        requests = [await stage.asked(), await stage.asked()]
        one, two = sorted(requests, key=lambda request: request.method)
        stage.reports(one, {})
        assert str(await first.failure()) == "no room"
        stage.answers(await stage.asked("cancel"), {})
        stage.answers(two, "fine")
        assert await second.answer() == "fine"


async def test_an_endless_error_is_cut(autojump_clock: MockClock) -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        asked = ask(nursery, plugin)
        stage = await troupe.on_stage()
        stage.stdout._capacity = 2_000_000
        stage.refuses(await stage.asked(), "Error", "x" * 1_000_000)
        assert len(str(await asked.failure())) < MAX_LOG_LINE + 100


async def test_answers_to_nobody_are_dropped_and_counted(autojump_clock: MockClock) -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        asked = ask(nursery, plugin)
        stage = await troupe.on_stage()
        request = await stage.asked()
        stage.writes(b'{"id":"who","result":{}}\n{"id":999999999,"partial":{}}\n')
        stage.answers(request, 1)
        stage.answers(request, 2)
        assert await asked.answer() == 1
        await wait_all_tasks_blocked()
        assert plugin.counts.late == 3


async def test_what_a_plugin_prints_is_logged_and_changes_nothing(
    autojump_clock: MockClock,
) -> None:
    lines: list[PluginLine] = []
    async with (
        plugin_pair(log=lines.append) as (plugin, troupe),
        trio.open_nursery() as nursery,
    ):
        asked = ask(nursery, plugin)
        stage = await troupe.on_stage()
        stage.writes(b"debug: here\n")
        stage.answers(await stage.asked(), 1)
        stage.writes(b"x" * (MAX_LOG_LINE + 1) + b"\n")
        assert await asked.answer() == 1
        await wait_all_tasks_blocked()
    assert lines[0] == PluginLine("pair", "stdout", "debug: here")
    assert lines[1].text == "x" * MAX_LOG_LINE + "…"


async def test_a_broken_line_fails_all_calls_and_a_fresh_process_takes_the_next(
    autojump_clock: MockClock,
) -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        calls = [ask(nursery, plugin) for _ in range(3)]
        stage = await troupe.on_stage()
        for _ in calls:
            await stage.asked()
        stage.writes(b'{"id": 1, "resu\n')
        errors = [await call.failure() for call in calls]
        assert {type(error) for error in errors} == {ProtocolBroken}
        assert str(errors[0]) == (
            "plugin 'pair': a frame is not valid JSON: '{\"id\": 1, \"resu'. "
            "stdout carries the protocol; write logs to stderr."
        )
        fresh = ask(nursery, plugin)
        second = await troupe.on_stage(2)
        second.answers(await second.asked(), "fine")
        assert await fresh.answer() == "fine"
        assert stage.killed


async def test_an_answer_that_cannot_be_used_fails_its_call_alone(
    autojump_clock: MockClock,
) -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        first, second = ask(nursery, plugin, "one"), ask(nursery, plugin, "two")
        stage = await troupe.on_stage()
        requests = [await stage.asked(), await stage.asked()]
        one, two = sorted(requests, key=lambda request: request.method)
        stage.writes(f'{{"id":{one.id},"result":{{"x":NaN}}}}\n'.encode())
        stage.answers(two, "fine")
        error = await first.failure()
        assert isinstance(error, ProtocolBroken)
        assert str(error) == "plugin 'pair': its answer: a frame is not valid JSON"
        assert await second.answer() == "fine"
        assert len(troupe.stages) == 1


async def test_an_answer_over_the_limit_fails_its_call_alone(
    autojump_clock: MockClock,
) -> None:
    async with (
        plugin_pair(max_line=1000) as (plugin, troupe),
        trio.open_nursery() as nursery,
    ):
        first, second = ask(nursery, plugin, "one"), ask(nursery, plugin, "two")
        stage = await troupe.on_stage()
        requests = [await stage.asked(), await stage.asked()]
        one, two = sorted(requests, key=lambda request: request.method)
        stage.answers(one, "x" * 1500)
        stage.answers(two, "fine")
        assert "longer than 1000 bytes" in str(await first.failure())
        assert await second.answer() == "fine"


# --- ends ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (0, "its process exited with status 0"),
        (7, "its process exited with status 7"),
        (-9, "its process was killed by signal 9 (SIGKILL)"),
        (-1000, "its process was killed by signal 1000"),
    ],
)
async def test_calls_in_flight_fail_naming_how_the_process_ended(
    status: int, told: str, autojump_clock: MockClock
) -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        calls = [ask(nursery, plugin) for _ in range(3)]
        stage = await troupe.on_stage()
        for _ in calls:
            await stage.asked()
        stage.exits(status)
        for call in calls:
            error = await call.failure()
            assert isinstance(error, PluginGone)
            assert error.status == status
            assert str(error) == f"plugin 'pair': {told}"
        again = ask(nursery, plugin)
        second = await troupe.on_stage(2)
        second.answers(await second.asked(), "fine")
        assert await again.answer() == "fine"


async def test_what_a_process_had_not_read_when_it_ended_is_asked_in_a_fresh_one(
    autojump_clock: MockClock,
) -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        await plugin.start()
        read = ask(nursery, plugin, params={"n": 0})
        stage = await troupe.on_stage()
        await stage.asked()
        unread = [ask(nursery, plugin, params={"n": n}) for n in (1, 2, 3)]
        await wait_all_tasks_blocked()
        stage.exits(-9)
        assert "SIGKILL" in str(await read.failure())
        second = await troupe.on_stage(2)
        for _ in unread:
            request = await second.asked("before")
            second.answers(request, msgspec.json.decode(request.params))
        assert [await each.answer() for each in unread] == [{"n": n} for n in (1, 2, 3)]
        assert len(troupe.stages) == 2


async def test_what_ends_before_it_reads_is_not_started_again_for_ever(
    autojump_clock: MockClock,
) -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        await plugin.start()
        asked = ask(nursery, plugin)
        for number in (1, 2):
            stage = await troupe.on_stage(number)
            await wait_all_tasks_blocked()
            stage.exits(number)
        error = await asked.failure()
        assert isinstance(error, PluginGone)
        assert error.status == 2
        assert len(troupe.stages) == 2


async def test_half_a_question_counts_as_unread(autojump_clock: MockClock) -> None:
    async with (
        plugin_pair(capacity=1000) as (plugin, troupe),
        trio.open_nursery() as nursery,
    ):
        await plugin.start()
        asked = ask(nursery, plugin, params={"x": "y" * 1500})
        stage = await troupe.on_stage()
        await stage._read()
        await wait_all_tasks_blocked()
        stage.exits(-9)
        second = await troupe.on_stage(2)
        second.answers(await second.asked(), "fine")
        assert await asked.answer() == "fine"


async def test_what_was_written_before_the_end_counts(autojump_clock: MockClock) -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        asked = ask(nursery, plugin)
        stage = await troupe.on_stage()
        request = await stage.asked()
        stage.writes(f'{{"id":{request.id},"result":"last words"}}'.encode())
        stage.exits(0)
        assert await asked.answer() == "last words"


@pytest.mark.parametrize("shared", [True, False])
async def test_stderr_is_quoted_only_where_one_run_owns_the_process(
    shared: bool, autojump_clock: MockClock
) -> None:
    lines: list[PluginLine] = []
    async with (
        plugin_pair(shared=shared, log=lines.append) as (plugin, troupe),
        trio.open_nursery() as nursery,
    ):
        asked = ask(nursery, plugin)
        stage = await troupe.on_stage()
        await stage.asked()
        stage.stderr.write_nowait(b"first\nsecret of another run")
        stage.exits(1)
        error = await asked.failure()
    assert ("secret of another run" in str(error)) is not shared
    assert [line.text for line in lines] == ["first", "secret of another run"]


async def test_a_long_line_on_stderr_is_cut_and_its_end_quoted(
    autojump_clock: MockClock,
) -> None:
    lines: list[PluginLine] = []
    async with (
        plugin_pair(log=lines.append) as (plugin, troupe),
        trio.open_nursery() as nursery,
    ):
        asked = ask(nursery, plugin)
        stage = await troupe.on_stage()
        await stage.asked()
        for _ in range(20):
            stage.stderr.write_nowait(b"x" * 50_000)
            await wait_all_tasks_blocked()
        stage.stderr.write_nowait(b"the end\r\n\nnext\n")
        stage.exits(1)
        error = await asked.failure()
    assert [len(line.text) for line in lines] == [MAX_LOG_LINE + 1, len("next")]
    assert str(error).endswith("the end\r\n\nnext")
    assert len(str(error)) < 5000


def test_no_more_is_kept_of_an_endless_line_than_is_shown() -> None:
    lines = Lines(10)

    for _ in range(100):
        assert lines.feed(b"x" * 1000) == []
        assert len(lines._open) <= 11

    assert lines.feed(b"x\nshort\n") == ["x" * 10 + "…", "short"]
    assert lines.feed(b"y" * 12) == []
    assert lines.end() == ["y" * 10 + "…"]
    assert lines.end() == []


async def test_a_process_that_closes_its_stdout_has_a_second_to_end(
    autojump_clock: MockClock,
) -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        asked = ask(nursery, plugin)
        stage = await troupe.on_stage()
        await stage.asked()
        stage.stdout.close()
        failure = await asked.failure()
        assert trio.current_time() == pytest.approx(1)
        assert stage.killed
        assert str(failure) == (
            "plugin 'pair': it closed its stdout and went on, so heddle ended it. stdin and "
            "stdout carry the protocol: leave both open."
        )


async def test_a_process_that_closes_its_stdin_is_of_no_use(
    autojump_clock: MockClock,
) -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        await plugin.start()
        stage = troupe.stages[0]
        stage.stubborn = True
        stage.stdin.close()
        calls = [ask(nursery, plugin) for _ in range(3)]
        second = await troupe.on_stage(2)
        assert trio.current_time() == pytest.approx(1)
        assert stage.killed
        for _ in calls:
            second.answers(await second.asked(), "fine")
        assert [await call.answer() for call in calls] == ["fine"] * 3


async def test_one_that_closes_its_stdin_under_a_call_is_told_as_that(
    autojump_clock: MockClock,
) -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        asked = ask(nursery, plugin)
        stage = await troupe.on_stage()
        await stage.asked()
        stage.stubborn = True
        stage.stdin.close()
        # heddle finds out when it next has something to say.
        another = ask(nursery, plugin)
        assert "it closed its stdin and went on" in str(await asked.failure())
        second = await troupe.on_stage(2)
        second.answers(await second.asked(), "fine")
        assert await another.answer() == "fine"


async def test_what_nobody_had_read_yet_when_it_ended_counts(
    autojump_clock: MockClock,
) -> None:
    lines: list[PluginLine] = []
    async with (
        plugin_pair(log=lines.append) as (plugin, troupe),
        trio.open_nursery() as nursery,
    ):
        await plugin.start()
        stage = troupe.stages[0]
        asked = ask(nursery, plugin)
        request = await stage.asked()
        # Its end is noticed before anybody looks at its pipes.
        stage.stdout.wait_readable = stage.stderr.wait_readable = trio.sleep_forever  # type: ignore[method-assign]
        stage.reports(request, {})
        await wait_all_tasks_blocked()
        stage.stdout._held += f'{{"id":{request.id},"result":"last words"}}\n'.encode()
        stage.stderr._held += b"and these\n"
        stage.exits(0)
        assert await asked.answer() == "last words"
        await wait_all_tasks_blocked()
    assert "and these" in [line.text for line in lines]


async def test_leaving_asks_the_plugin_to_shut_down(autojump_clock: MockClock) -> None:
    async with plugin_pair() as (plugin, troupe):
        await plugin.start()
    stage = troupe.stages[0]
    assert stage.stdin.closed
    assert not stage.killed
    assert trio.current_time() == pytest.approx(0)
    with pytest.raises(PluginGone, match="heddle is ending it"):
        await plugin.request("before", b"{}")


async def test_leaving_closes_stdin_also_under_a_call(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        async with plugin_pair() as (plugin, troupe):
            asked = ask(nursery, plugin)
            stage = await troupe.on_stage()
            await stage.asked("before")
        assert isinstance(await asked.failure(), PluginGone)
        assert not stage.killed
        assert trio.current_time() == pytest.approx(0)


async def test_a_crash_of_the_host_fails_the_call_and_the_next_one_starts_afresh(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        troupe.refuse = cast("Any", ZeroDivisionError())
        with pytest.raises(PluginGone, match="heddle itself failed"):
            await plugin.request("before", b"{}")
        troupe.refuse = None
        asked = ask(nursery, plugin)
        stage = await troupe.on_stage()
        stage.answers(await stage.asked(), "fine")
        assert await asked.answer() == "fine"
    assert "ZeroDivisionError" in caplog.text


async def test_a_plugin_that_does_not_leave_is_killed_after_a_second(
    autojump_clock: MockClock,
) -> None:
    async with plugin_pair() as (plugin, troupe):
        await plugin.start()
        stage = troupe.stages[0]
        stage.stubborn = True
    assert stage.killed
    assert trio.current_time() == pytest.approx(1)


async def test_cancelling_everything_kills_at_once(autojump_clock: MockClock) -> None:
    stages: list[Stage] = []
    with trio.move_on_after(5):
        async with plugin_pair() as (plugin, troupe):
            await plugin.start()
            stages += troupe.stages
            stages[0].stubborn = True
            await plugin.request("before", b"{}")
    assert stages[0].killed
    assert trio.current_time() == pytest.approx(5)


# --- deadlines -----------------------------------------------------------------------------


async def test_a_call_that_is_late_fails_and_the_plugin_is_told_to_stop(
    autojump_clock: MockClock,
) -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        asked = ask(nursery, plugin, patience=2)
        stage = await troupe.on_stage()
        request = await stage.asked("before")
        error = await asked.failure()
        assert trio.current_time() == pytest.approx(2)
        assert isinstance(error, PluginOverdue)
        assert str(error) == (
            "plugin 'pair': it did not answer 'before' within 2 s. Make it answer sooner, "
            "or allow it more with --plugin-timeout."
        )
        cancel = await stage.asked("cancel")
        assert msgspec.json.decode(cancel.params) == {"call": request.id}
        stage.answers(cancel, {})
        await trio.sleep(10)
        assert plugin.counts.retired == 0


async def test_progress_restarts_the_wait(autojump_clock: MockClock) -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        await plugin.start()
        stage = troupe.stages[0]
        asked = ask(nursery, plugin, patience=30)
        request = await stage.asked()
        for percent in (25, 50, 75):
            await trio.sleep(29)
            stage.reports(request, {"percent": percent})
        await trio.sleep(29)
        stage.answers(request, "at last")
        assert await asked.answer() == "at last"
        assert trio.current_time() == pytest.approx(4 * 29)


@pytest.mark.parametrize("sign", ["log", "emitEvent", "partial"])
async def test_no_sign_of_life_extends_a_wait_beyond_ten_times(
    sign: str, autojump_clock: MockClock
) -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        await plugin.start()
        stage = troupe.stages[0]
        asked = ask(nursery, plugin, patience=0.5, services=RecordedServices())
        request = await stage.asked()

        async def beat() -> None:
            while not asked.done.is_set():
                await trio.sleep(0.1)
                if sign == "partial":
                    stage.reports(request, {})
                elif sign == "log":
                    stage.asks("log", request, level="info", message="alive")
                else:
                    stage.asks("emitEvent", request, name="alive")

        nursery.start_soon(beat)
        error = await asked.failure()
        assert trio.current_time() == pytest.approx(5, abs=0.2)
        assert "it reported progress, but it did not answer 'before' within 5 s" in str(
            error
        )
        nursery.cancel_scope.cancel()


async def test_time_stands_still_while_a_tool_runs_and_goes_on_where_it_stood(
    autojump_clock: MockClock,
) -> None:
    async def slow(_: dict[str, Any]) -> dict[str, Any]:
        await trio.sleep(100)
        return {}

    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        await plugin.start()
        stage = troupe.stages[0]
        asked = ask(nursery, plugin, patience=30, services=RecordedServices({"slow": slow}))
        request = await stage.asked()
        await trio.sleep(20)
        await stage.told(stage.asks("runTool", request, name="slow", input={}))
        assert isinstance(await asked.failure(), PluginOverdue)
        assert trio.current_time() == pytest.approx(20 + 100 + 10)


async def test_a_sign_of_life_while_a_tool_runs_starts_the_wait_again(
    autojump_clock: MockClock,
) -> None:
    async def slow(_: dict[str, Any]) -> dict[str, Any]:
        await trio.sleep(100)
        return {}

    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        await plugin.start()
        stage = troupe.stages[0]
        asked = ask(nursery, plugin, patience=30, services=RecordedServices({"slow": slow}))
        request = await stage.asked()
        await trio.sleep(20)
        reverse = stage.asks("runTool", request, name="slow", input={})
        await trio.sleep(50)
        stage.reports(request, {})
        await stage.told(reverse)
        assert isinstance(await asked.failure(), PluginOverdue)
        assert trio.current_time() == pytest.approx(20 + 100 + 30)


async def test_a_tool_that_never_ends_is_ended_at_ten_times_the_patience(
    autojump_clock: MockClock,
) -> None:
    ended: list[float] = []

    async def endless(_: dict[str, Any]) -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.append(trio.current_time())

    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        await plugin.start()
        stage = troupe.stages[0]
        asked = ask(nursery, plugin, patience=3, services=RecordedServices({"x": endless}))
        stage.asks("runTool", await stage.asked(), name="x")
        assert isinstance(await asked.failure(), PluginOverdue)
    assert ended == [pytest.approx(30)]


async def test_an_answer_that_has_arrived_is_in_time_however_busy_the_loop(
    autojump_clock: MockClock,
) -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        await plugin.start()
        stage = troupe.stages[0]
        asked = ask(nursery, plugin, patience=0.2)
        request = await stage.asked()
        await wait_all_tasks_blocked()
        # The answer arrives, nobody looks, and the deadline passes before anybody does.
        stage.stdout._held += f'{{"id":{request.id},"result":"in time"}}\n'.encode()
        await trio.sleep(0.4)
        assert await asked.answer() == "in time"


@pytest.mark.parametrize("how", ["silent", "refuses"])
async def test_a_plugin_that_does_not_stop_is_replaced_and_its_other_calls_end_well(
    how: str, autojump_clock: MockClock
) -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        cancelled, other = ask(nursery, plugin), ask(nursery, plugin)
        stage = await troupe.on_stage()
        requests = [await stage.asked(), await stage.asked()]
        await wait_all_tasks_blocked()
        cancelled.scope.cancel()
        cancel = await stage.asked("cancel")
        if how == "refuses":
            stage.refuses(cancel, "Error", "unknown method cancel")
        await trio.sleep(1)
        assert plugin.counts.retired == 1
        fresh = ask(nursery, plugin)
        second = await troupe.on_stage(2)
        second.answers(await second.asked(), "fresh")
        assert await fresh.answer() == "fresh"
        assert not was_killed(stage)
        named = msgspec.json.decode(cancel.params)["call"]
        (open_request,) = [request for request in requests if request.id != named]
        stage.answers(open_request, "other")
        assert await other.answer() == "other"
        await wait_all_tasks_blocked()
        assert stage.killed
        assert not second.killed


async def test_a_retired_process_is_killed_when_its_last_call_is_late(
    autojump_clock: MockClock,
) -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        first, second = ask(nursery, plugin, patience=1), ask(nursery, plugin, patience=20)
        stage = await troupe.on_stage()
        await stage.asked()
        await stage.asked()
        await first.failure()
        await trio.sleep(1)
        assert plugin.counts.retired == 1
        assert not was_killed(stage)
        await second.failure()
        await wait_all_tasks_blocked()
        assert stage.killed


async def test_what_a_retired_process_has_not_read_does_not_wait_for_it(
    autojump_clock: MockClock,
) -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        stuck = ask(nursery, plugin, patience=1)
        stage = await troupe.on_stage()
        await stage.asked()
        read = ask(nursery, plugin, patience=3)
        await stage.asked()
        unread = ask(nursery, plugin, patience=100)
        await stuck.failure()
        await trio.sleep(1)
        assert plugin.counts.retired == 1
        assert not was_killed(stage)
        await read.failure()
        second = await troupe.on_stage(2)
        assert stage.killed
        second.answers(await second.asked(), "fine")
        assert await unread.answer() == "fine"
        assert trio.current_time() == pytest.approx(3)


async def test_a_retired_process_reads_nothing_more_once_its_end_is_decided(
    autojump_clock: MockClock,
) -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        stuck = ask(nursery, plugin, patience=1)
        stage = await troupe.on_stage()
        await stage.asked()
        unread = ask(nursery, plugin, patience=100)
        await stuck.failure()
        channel = plugin._channel
        assert channel is not None

        # The process comes to itself as heddle gives it up, and reads what there is.
        await trio.sleep(CANCEL_PATIENCE)
        while channel._phase in {Phase.READY, Phase.RETIRING}:
            await trio.lowlevel.checkpoint()
        if not stage.killed:
            stage.stdin.read_nowait()
        with trio.fail_after(10):
            second = await troupe.on_stage(2)
            second.answers(await second.asked(), "fine")
            assert await unread.answer() == "fine"


async def test_a_cancelled_call_that_stopped_leaves_the_process_as_it_was(
    autojump_clock: MockClock,
) -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        asked = ask(nursery, plugin)
        stage = await troupe.on_stage()
        await stage.asked()
        asked.scope.cancel()
        stage.answers(await stage.asked("cancel"), {})
        await trio.sleep(10)
        again = ask(nursery, plugin)
        stage.answers(await stage.asked("before"), "fine")
        assert await again.answer() == "fine"
        assert len(troupe.stages) == 1


async def test_two_hundred_late_calls_leave_nothing_behind(
    autojump_clock: MockClock,
) -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        before = tasks()
        await plugin.start()
        calls = [ask(nursery, plugin, patience=1 + n / 1000) for n in range(200)]
        errors = [await call.failure() for call in calls]
        assert {type(error) for error in errors} == {PluginOverdue}
        await trio.sleep(1)
        stage = troupe.stages[0]
        assert stage.killed
        assert trio.current_time() < 3
        assert tasks() == before
        fresh = ask(nursery, plugin)
        second = await troupe.on_stage(2)
        second.answers(await second.asked(), "fine")
        assert await fresh.answer() == "fine"


async def test_a_plugin_that_does_not_read_makes_its_calls_late_and_no_others(
    autojump_clock: MockClock,
) -> None:
    async with (
        plugin_pair(capacity=1000) as (plugin, troupe),
        trio.open_nursery() as nursery,
    ):
        await plugin.start()
        calls = [
            ask(nursery, plugin, params={"x": "y" * 500}, patience=1) for _ in range(50)
        ]
        for call in calls:
            assert isinstance(await call.failure(), PluginOverdue)
        await trio.sleep(1)
        assert troupe.stages[0].killed


async def test_a_call_of_several_learns_where_it_stood(autojump_clock: MockClock) -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        asked = ask(nursery, plugin, "consult", components=("A", "B", "C"), patience=1)
        stage = await troupe.on_stage()
        stage.answers(
            await stage.asked("consult") and await stage.asked("cancel"), {"at": "B"}
        )
        error = await asked.failure()
        assert isinstance(error, PluginOverdue)
        assert error.at == "B"


async def test_a_call_of_several_that_does_not_say_where_it_stood_fails_all_the_same(
    autojump_clock: MockClock,
) -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        asked = ask(nursery, plugin, "consult", components=("A", "B"), patience=1)
        stage = await troupe.on_stage()
        stage.reports(await stage.asked(), {"at": "A"})
        error = await asked.failure()
        assert isinstance(error, PluginOverdue)
        assert error.at == "A"
        await wait_all_tasks_blocked()
        assert trio.current_time() == pytest.approx(1.5)
        assert stage.killed


async def test_a_call_of_several_that_is_late_stays_late_when_the_process_ends(
    autojump_clock: MockClock,
) -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        asked = ask(nursery, plugin, "consult", components=("A", "B"), patience=1)
        stage = await troupe.on_stage()
        await stage.asked("consult")
        await stage.asked("cancel")
        stage.exits(1)
        assert isinstance(await asked.failure(), PluginOverdue)


@pytest.mark.parametrize("at", ["not an object", {}, {"at": 7}, {"at": "B"}])
async def test_where_a_call_of_several_stood_is_a_name_or_unknown(
    at: object, autojump_clock: MockClock
) -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        asked = ask(nursery, plugin, "consult", components=("A", "B"), patience=1)
        stage = await troupe.on_stage()
        await stage.asked("consult")
        stage.answers(await stage.asked("cancel"), at)
        error = await asked.failure()
        assert isinstance(error, PluginOverdue)
        assert error.at == ("B" if at == {"at": "B"} else None)


async def test_a_refusal_to_nobody_is_dropped_and_counted(
    autojump_clock: MockClock,
) -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        asked = ask(nursery, plugin)
        stage = await troupe.on_stage()
        request = await stage.asked()
        stage.writes(b'{"id":"who","error":{"message":"no"}}\n')
        stage.answers(request, 1)
        assert await asked.answer() == 1
        assert plugin.counts.late == 1


# --- reverse calls -------------------------------------------------------------------------

Inside = Callable[[Stage, Any], Awaitable[None]]


async def serve(inside: Inside, *, services: Any, **how: Any) -> Any:
    """One call during which the plugin does ``inside``; the call's answer."""
    capabilities = how.pop("capabilities", ("runTool", "callModel", "emitEvent", "log"))
    async with (
        plugin_pair(capabilities=capabilities) as (plugin, troupe),
        trio.open_nursery() as nursery,
    ):
        how.setdefault("components", ("Gate",))
        asked = ask(nursery, plugin, services=services, **how)
        stage = await troupe.on_stage()
        request = await stage.asked()
        await inside(stage, request)
        stage.answers(request, "done")
        return await asked.answer()


async def test_the_reverse_calls_reach_the_run_of_the_call_that_they_name(
    autojump_clock: MockClock,
) -> None:
    model = ModelResponse(content="")
    services = RecordedServices({"add": lambda given: {"sum": given["a"] + 1}}, model)
    results: list[Any] = []

    async def inside(stage: Stage, request: Any) -> None:
        results.append(
            await stage.told(stage.asks("runTool", request, name="add", input={"a": 1}))
        )
        messages = [{"role": "user", "content": "hi"}]
        results.append(
            await stage.told(stage.asks("callModel", request, messages=messages))
        )
        results.append(
            await stage.told(stage.asks("emitEvent", request, name="n", data={"x": 1}))
        )
        results.append(
            await stage.told(stage.asks("log", request, level="warn", message="m"))
        )

    assert await serve(inside, services=services) == "done"
    assert results == [{"sum": 2}, {"content": "", "finish_reason": "stop"}, {}, {}]
    assert [event[:2] for event in services.events] == [
        ("runTool", "add"),
        ("callModel", "Gate"),
        ("event", "Gate"),
        ("log", "Gate"),
    ]
    assert services.events[2] == ("event", "Gate", "n", {"x": 1})
    assert services.events[3] == ("log", "Gate", "warn", "m")


async def test_what_a_tool_raises_is_told_to_the_plugin(autojump_clock: MockClock) -> None:
    def broken(_: dict[str, Any]) -> None:
        raise ValueError("no such city \ud83d")

    told: list[Any] = []

    async def inside(stage: Stage, request: Any) -> None:
        told.append(await stage.told(stage.asks("runTool", request, name="broken")))

    assert await serve(inside, services=RecordedServices({"broken": broken})) == "done"
    assert (told[0].name, told[0].message) == ("ValueError", "no such city ?")


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("shell", {}, "heddle has no verb 'shell'"),
    ("runtool", {}, "Did you mean 'runTool'?"),
    (
        "runTool",
        {},
        "the params of runTool are not right (Object missing required field `name`)",
    ),
    (
        "runTool",
        {"name": "x", "input": []},
        "Expected `object`, got `array` - at `$.input`",
    ),
    ("callModel", {}, "missing required field `messages`"),
    (
        "callModel",
        {"messages": [{"role": "boss", "content": ""}]},
        "Invalid enum value 'boss'",
    ),
    ("callModel", {"messages": [{"role": "tool", "content": ""}]}, "has no 'tool_call_id'"),
    ("emitEvent", {"name": "not a name"}, "'not a name' is no name of an event"),
    ("log", {"level": "loud", "message": ""}, "Invalid enum value 'loud'"),
    ("log", {"level": "info"}, "missing required field `message`"),
]


@pytest.mark.parametrize(("verb", "params", "why"), REFUSED)
async def test_what_is_asked_for_wrongly_is_refused(
    verb: str, params: dict[str, Any], why: str, autojump_clock: MockClock
) -> None:
    services = RecordedServices()

    async def inside(stage: Stage, request: Any) -> None:
        refusal = await stage.told(stage.asks(verb, request, **params))
        assert isinstance(refusal, Refusal)
        assert refusal.name == "ReverseRefused"
        assert why in refusal.message

    assert await serve(inside, services=services) == "done"
    assert services.events == []


@pytest.mark.parametrize("verb", ["runTool", "callModel", "emitEvent", "log"])
async def test_what_is_not_granted_is_refused(verb: str, autojump_clock: MockClock) -> None:
    services = RecordedServices()

    async def inside(stage: Stage, request: Any) -> None:
        refusal = await stage.told(stage.asks(verb, request, name="x"))
        assert f"{verb} is not granted to this plugin" in refusal.message

    assert await serve(inside, services=services, capabilities=()) == "done"
    assert services.events == []


async def test_a_reverse_call_that_names_no_call_is_refused(
    autojump_clock: MockClock,
) -> None:
    async def inside(stage: Stage, _: Any) -> None:
        refusal = await stage.told(stage.asks("log", level="info", message="x"))
        assert "log names no call. Send the id of the request in 'call'." in refusal.message
        wrongs: list[Any] = [None, [], 10**9, "7", 1.5]
        for wrong in wrongs:
            refusal = await stage.told(
                stage.asks("log", call=wrong, level="info", message="x")
            )
            assert isinstance(refusal, Refusal)

    await serve(inside, services=RecordedServices())


async def test_a_call_that_has_ended_serves_nothing_any_more(
    autojump_clock: MockClock,
) -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        services = RecordedServices()
        asked = ask(nursery, plugin, services=services)
        stage = await troupe.on_stage()
        request = await stage.asked()
        stage.answers(request, "done")
        await asked.answer()
        # Also while another one of the same plugin is open.
        later = ask(nursery, plugin, services=services)
        open_one = await stage.asked()
        for verb in ("runTool", "log"):
            refusal = await stage.told(
                stage.asks(verb, request, name="x", level="info", message="x")
            )
            assert isinstance(refusal, Refusal)
            assert f"the call {request.id} is not open: it has ended" in refusal.message
        stage.answers(open_one, "done")
        await later.answer()
        assert services.events == []


async def test_another_plugins_call_serves_nothing(autojump_clock: MockClock) -> None:
    async with (
        plugin_pair() as (plugin, troupe),
        plugin_pair() as (other, other_troupe),
        trio.open_nursery() as nursery,
    ):
        services = RecordedServices()
        asked = ask(nursery, plugin, services=services)
        foreign = ask(nursery, other, services=services)
        stage, other_stage = await troupe.on_stage(), await other_troupe.on_stage()
        request, theirs = await stage.asked(), await other_stage.asked()
        refusal = await stage.told(stage.asks("log", theirs, level="info", message="x"))
        assert "was never this plugin's" in refusal.message
        assert services.events == []
        stage.answers(request, "done")
        other_stage.answers(theirs, "done")
        assert await asked.answer() == await foreign.answer() == "done"


async def test_a_call_without_a_run_has_nothing_to_ask_for(
    autojump_clock: MockClock,
) -> None:
    async def inside(stage: Stage, request: Any) -> None:
        refusal = await stage.told(stage.asks("log", request, level="info", message="x"))
        assert "inside 'listTools' there is nothing to ask for" in refusal.message

    await serve(inside, services=None, verb="listTools")


async def test_inside_a_call_of_several_a_reverse_call_says_for_whom(
    autojump_clock: MockClock,
) -> None:
    services = RecordedServices()

    async def inside(stage: Stage, request: Any) -> None:
        refusal = await stage.told(stage.asks("emitEvent", request, name="x"))
        assert (
            "componentType None is not asked in this call. Name one of: A, B."
            in refusal.message
        )
        refusal = await stage.told(
            stage.asks("emitEvent", request, name="x", componentType="C")
        )
        assert "componentType 'C' is not asked in this call" in refusal.message
        await stage.told(stage.asks("emitEvent", request, name="x", componentType="B"))

    await serve(inside, services=services, components=("A", "B"))
    assert services.events == [("event", "B", "x", None)]


async def test_events_arrive_before_the_answer_that_follows_them(
    autojump_clock: MockClock,
) -> None:
    order: list[str] = []

    class Ordered(RecordedServices):
        def emit_event(self, component_type: str, name: str, data: Any, /) -> None:
            order.append(name)

    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        asked = ask(nursery, plugin, services=Ordered())
        stage = await troupe.on_stage()
        request = await stage.asked()
        for name in ("a", "b"):
            stage.asks("emitEvent", request, name=name)
        stage.answers(request, "done")
        order.append(await asked.answer())
    assert order == ["a", "b", "done"]


async def test_a_run_whose_events_fail_does_not_end_the_process(
    autojump_clock: MockClock,
) -> None:
    lines: list[PluginLine] = []

    class Broken(RecordedServices):
        def emit_event(self, component_type: str, name: str, data: Any, /) -> None:
            raise RuntimeError("full")

    async with (
        plugin_pair(log=lines.append) as (plugin, troupe),
        trio.open_nursery() as nursery,
    ):
        asked = ask(nursery, plugin, services=Broken())
        stage = await troupe.on_stage()
        request = await stage.asked()
        refusal = await stage.told(stage.asks("emitEvent", request, name="x"))
        assert refusal.message == "full"
        stage.answers(request, "done")
        assert await asked.answer() == "done"
    assert "could not be served" in lines[0].text


class Slow:
    """A tool that takes for ever, and a while to clean up."""

    def __init__(self) -> None:
        self.began = trio.Event()
        self.left: float = math.nan

    async def __call__(self, _: dict[str, Any]) -> None:
        self.began.set()
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(0.3)
            self.left = trio.current_time()


async def test_a_frame_that_finds_too_little_room_arrives_whole(
    autojump_clock: MockClock,
) -> None:
    async with (
        plugin_pair(capacity=1000) as (plugin, troupe),
        trio.open_nursery() as nursery,
    ):
        await plugin.start()
        await wait_all_tasks_blocked()  # its writer sleeps, so the frame is tried at once
        params = {"text": "x" * 5000}
        asked = ask(nursery, plugin, params=params)
        request = await troupe.stages[0].asked()
        assert msgspec.json.decode(request.params) == params
        troupe.stages[0].answers(request, "done")
        assert await asked.answer() == "done"


@pytest.mark.parametrize("how", ["answers", "exits", "cancelled"])
async def test_a_tool_that_a_plugin_asked_for_ends_with_the_call(
    how: str, autojump_clock: MockClock
) -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        await plugin.start()
        stage = troupe.stages[0]
        tool = Slow()
        asked = ask(nursery, plugin, services=RecordedServices({"slow": tool}))
        request = await stage.asked()
        reverse = stage.asks("runTool", request, name="slow")
        await tool.began.wait()
        if how == "answers":
            stage.answers(request, "done")
            assert await asked.answer() == "done"
            refusal = await stage.told(reverse)
            assert refusal.message == "the call that it was made inside has ended"
        elif how == "exits":
            stage.exits(1)
            assert isinstance(await asked.failure(), PluginGone)
        else:
            asked.scope.cancel()
            await asked.done.wait()
        assert tool.left == pytest.approx(0.3)
        assert trio.current_time() == pytest.approx(0.3)


async def test_a_tool_asked_for_together_with_the_answer_is_refused(
    autojump_clock: MockClock,
) -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        await plugin.start()
        stage = troupe.stages[0]
        services = RecordedServices({"quick": lambda _: {}})
        asked = ask(nursery, plugin, services=services)
        request = await stage.asked()
        reverse = stage.asks("runTool", request, name="quick")
        stage.answers(request, "done")
        assert await asked.answer() == "done"
        refusal = await stage.told(reverse)
        assert refusal.message == "the call that it was made inside has ended"
        assert services.events == []


async def test_a_tool_asked_for_while_a_cancelled_call_ends_is_refused(
    autojump_clock: MockClock,
) -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        await plugin.start()
        stage = troupe.stages[0]
        tool = Slow()
        services = RecordedServices({"slow": tool})
        asked = ask(nursery, plugin, services=services)
        request = await stage.asked()
        stage.asks("runTool", request, name="slow")
        await tool.began.wait()
        asked.scope.cancel()
        await wait_all_tasks_blocked()  # the tool is cleaning up
        refusal = await stage.told(stage.asks("runTool", request, name="another"))
        assert refusal.message == "the call that it was made inside has ended"
        assert [name for _, name, _ in services.events] == ["slow"]


@pytest.mark.parametrize("how", ["answers", "cancelled"])
async def test_a_tool_that_fails_while_it_is_ended_changes_nothing(
    how: str, autojump_clock: MockClock
) -> None:
    async def fails_at_the_end() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("while cleaning up")

    async def tool(_: dict[str, Any]) -> None:
        async with trio.open_nursery() as workers:
            workers.start_soon(fails_at_the_end)
            workers.start_soon(trio.sleep_forever)

    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        await plugin.start()
        stage = troupe.stages[0]
        asked = ask(nursery, plugin, services=RecordedServices({"tool": tool}))
        request = await stage.asked()
        reverse = stage.asks("runTool", request, name="tool")
        await wait_all_tasks_blocked()
        if how == "answers":
            stage.answers(request, "done")
            assert await asked.answer() == "done"
            assert isinstance(await stage.told(reverse), Refusal)
        else:
            asked.scope.cancel()
            await asked.done.wait()
            assert asked.error is None


async def test_a_call_that_failed_is_let_go_of_without_the_collector(
    autojump_clock: MockClock,
) -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        await plugin.start()
        stage = troupe.stages[0]

        async def refuse() -> None:
            stage.refuses(await stage.asked(), "Error", "no")

        nursery.start_soon(refuse)
        services = RecordedServices()
        kept = weakref.ref(services)
        gc.collect()
        gc.disable()
        try:
            with suppress(PluginFailed):
                await plugin.request("before", b"{}", services=services)
            del services
            assert kept() is None
        finally:
            gc.enable()


async def test_several_tools_of_one_call_run_side_by_side(
    autojump_clock: MockClock,
) -> None:
    async def slow(given: dict[str, Any]) -> dict[str, Any]:
        await trio.sleep(10)
        return given

    async def inside(stage: Stage, request: Any) -> None:
        ids = [
            stage.asks("runTool", request, name="slow", input={"n": n}) for n in range(20)
        ]
        assert [await stage.told(id_) for id_ in ids] == [{"n": n} for n in range(20)]

    assert await serve(inside, services=RecordedServices({"slow": slow})) == "done"
    assert trio.current_time() == pytest.approx(10)


async def test_a_call_may_not_have_tools_without_end_at_work(
    autojump_clock: MockClock,
) -> None:
    async def inside(stage: Stage, request: Any) -> None:
        ids = [stage.asks("runTool", request, name="slow") for _ in range(300)]
        refusal = await stage.told(ids[-1])
        assert "256 requests of this call are open already" in refusal.message

    services = RecordedServices({"slow": lambda _: trio.sleep_forever()})
    assert await serve(inside, services=services) == "done"


async def test_a_request_of_no_use_is_answered_and_nothing_else_happens(
    autojump_clock: MockClock,
) -> None:
    async def inside(stage: Stage, _: Any) -> None:
        stage.writes(b'{"id":77,"method":"log","params":{"message":NaN}}\n')
        assert (await stage.told(77)).name == "FrameError"

    assert await serve(inside, services=RecordedServices()) == "done"


async def test_a_plugin_that_asks_without_end_and_never_reads_is_not_read_either(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    monkeypatch.setattr(channel_module, "MAX_UNREAD", 10_000)
    services = RecordedServices()
    async with (
        plugin_pair(capacity=1000) as (plugin, troupe),
        trio.open_nursery() as nursery,
    ):
        asked = ask(nursery, plugin, services=services, patience=5)
        stage = await troupe.on_stage()
        request = await stage.asked()

        async def flood() -> None:
            while not stage.killed:
                if not stage.stdout._held:
                    stage.asks("log", request, level="info", message="x" * 100)
                await trio.lowlevel.checkpoint()
                await trio.sleep(0.001)

        nursery.start_soon(flood)
        assert isinstance(await asked.failure(), PluginOverdue)
        await trio.sleep(1)
        assert stage.killed
        assert 10 < len(services.events) < 1000


async def test_a_started_plugin_waits_without_waking(autojump_clock: MockClock) -> None:
    async with plugin_pair() as (plugin, _):
        await plugin.start()
        began = time.perf_counter()
        await trio.sleep(80_000)
        assert time.perf_counter() - began < 5
