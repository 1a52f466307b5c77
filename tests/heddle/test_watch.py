"""One task ends the waits that have become too long, and sleeps otherwise."""

from math import inf

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from heddle.watch import Watch


class Waiter:
    """Something that waits until it is told to stop."""

    def __init__(self, seconds: float) -> None:
        self.deadline = trio.current_time() + seconds
        self.expired_at = inf
        self.told = 0

    def expire(self) -> None:
        self.told += 1
        self.expired_at = min(self.expired_at, trio.current_time())


def tasks() -> int:
    return trio.lowlevel.current_statistics().tasks_living


async def test_a_wait_is_ended_at_its_deadline_and_not_before(
    autojump_clock: MockClock,
) -> None:
    watch = Watch()
    long, short = Waiter(30), Waiter(10)
    watch.begin(long)
    watch.begin(short)

    await trio.sleep(100)

    assert (short.expired_at, long.expired_at) == (10, 30)


async def test_a_wait_that_was_extended_ends_later(autojump_clock: MockClock) -> None:
    watch = Watch()
    waiter = Waiter(10)
    watch.begin(waiter)

    await trio.sleep(9)
    waiter.deadline = trio.current_time() + 10
    watch.begin(waiter)
    await trio.sleep(100)

    assert waiter.expired_at == 19


async def test_a_wait_that_was_shortened_ends_sooner(autojump_clock: MockClock) -> None:
    watch = Watch()
    waiter = Waiter(100)
    watch.begin(waiter)

    await trio.sleep(5)
    waiter.deadline = trio.current_time() + 1
    watch.begin(waiter)
    await trio.sleep(100)

    assert waiter.expired_at == 6


async def test_a_wait_that_ended_is_left_alone(autojump_clock: MockClock) -> None:
    watch = Watch()
    waiter = Waiter(10)
    watch.begin(waiter)
    watch.end(waiter)
    watch.end(waiter)

    await trio.sleep(100)

    assert waiter.expired_at == inf


async def test_a_wait_that_goes_on_is_told_again(autojump_clock: MockClock) -> None:
    watch = Watch()
    deaf = Waiter(10)
    watch.begin(deaf)

    await trio.sleep(11.05)
    assert (deaf.expired_at, deaf.told) == (10, 11)
    watch.end(deaf)
    await trio.sleep(10)
    assert deaf.told == 11


async def test_a_wait_that_begins_anew_has_all_its_time(autojump_clock: MockClock) -> None:
    watch = Watch()
    waiter = Waiter(10)
    watch.begin(waiter)
    await trio.sleep(10.05)
    assert waiter.told == 1

    waiter.deadline = trio.current_time() + 10
    watch.begin(waiter)
    await trio.sleep(9)
    assert waiter.told == 1

    await trio.sleep(1.05)
    assert waiter.told == 2


async def test_the_task_ends_when_there_is_nothing_to_wait_for(
    autojump_clock: MockClock,
) -> None:
    before = tasks()
    watch = Watch()
    first = Waiter(10)
    watch.begin(first)
    await wait_all_tasks_blocked()
    assert tasks() == before + 1

    watch.end(first)
    await trio.sleep(11)
    await wait_all_tasks_blocked()
    assert tasks() == before

    second = Waiter(5)
    watch.begin(second)
    await trio.sleep(20)
    assert second.expired_at == 16


async def test_closing_ends_the_task_at_once(autojump_clock: MockClock) -> None:
    before = tasks()
    watch = Watch()
    watch.close()
    waiter = Waiter(10)
    watch.begin(waiter)
    await wait_all_tasks_blocked()

    watch.close()
    await wait_all_tasks_blocked()

    assert tasks() == before
    assert waiter.told == 0


async def test_it_does_not_wake_for_every_wait(autojump_clock: MockClock) -> None:
    watch = Watch()
    for _ in range(100):
        waiter = Waiter(10)
        watch.begin(waiter)
        watch.end(waiter)
        await trio.sleep(0.01)
    last = Waiter(10)
    watch.begin(last)

    await trio.sleep(50)

    assert last.expired_at == last.deadline or last.expired_at >= 11
