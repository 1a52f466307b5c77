"""What tests of actors lean on does what it says."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors.testing import Exits, Probe, no_tasks_left, running, tasks
from tests.actors.counter import Add, Counter, Fail, Read


async def test_a_probe_records_and_answers_from_its_table() -> None:
    probe = Probe({Read: 7, Add: lambda message: message.amount})
    async with running(probe) as ref:
        assert await ref.call(Read()) == 7
        await ref.cast(Add(3))
        await ref.cast("something else")
    assert probe.received == [Read(), Add(3), "something else"]


async def test_a_crash_of_the_actor_under_test_fails_the_test() -> None:
    with pytest.raises(ValueError, match="asked to fail"):
        async with running(Counter()) as ref:
            await ref.cast(Fail())


async def test_an_error_of_the_test_itself_comes_first() -> None:
    with pytest.raises(LookupError):
        async with running(Counter()) as ref:
            await ref.cast(Fail())
            raise LookupError


async def test_all_tasks_are_seen_from_any_of_them() -> None:
    seen: list[set[str]] = []

    async def look() -> None:
        seen.append({task.name for task in tasks()})

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever, name="outer")
        async with trio.open_nursery() as inner:
            inner.start_soon(trio.sleep_forever, name="inner")
            await wait_all_tasks_blocked()
            async with trio.open_nursery() as looks:
                looks.start_soon(look, name="looks")
            await look()
            nursery.cancel_scope.cancel()
    assert seen[0] - {"looks"} == seen[1]
    assert {"outer", "inner"} <= seen[1]


async def test_a_task_that_is_left_behind_is_named() -> None:
    async with trio.open_nursery() as nursery:
        with pytest.raises(AssertionError, match="left behind: forgotten"):
            async with no_tasks_left():
                nursery.start_soon(trio.sleep_forever, name="forgotten")
        async with no_tasks_left():
            pass
        nursery.cancel_scope.cancel()


async def test_exits_can_be_waited_for() -> None:
    exits = Exits()
    seen: list[int] = []
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def wait() -> None:
            seen.append(len(await exits.wait_for(2)))

        for number in range(3):
            await wait_all_tasks_blocked()
            assert seen == ([2] if number > 1 else [])
            exits(number)  # type: ignore[arg-type]
