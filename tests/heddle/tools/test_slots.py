from collections import Counter

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from heddle.tools import Slots


async def test_no_more_than_the_limit_have_a_slot_at_a_time() -> None:
    slots = Slots(3)
    release = trio.Event()

    async def use(key: int) -> None:
        async with slots.slot(key):
            await release.wait()

    async with trio.open_nursery() as nursery:
        for key in range(10):
            nursery.start_soon(use, key)
        await wait_all_tasks_blocked()
        assert (slots.taken, slots.waiting) == (3, 7)
        release.set()
    assert (slots.taken, slots.waiting) == (0, 0)


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="would let nothing run"):
        Slots(0)


async def order_of(wanted: list[str], *, limit: int = 1) -> list[str]:
    """Let ``wanted`` queue in order while every slot is taken; who got one, in order."""
    slots = Slots(limit)
    served: list[str] = []

    async def use(key: str) -> None:
        async with slots.slot(key):
            served.append(key)

    async with trio.open_nursery() as nursery, slots.slot("holder"):
        for key in wanted:
            nursery.start_soon(use, key)
            await wait_all_tasks_blocked()
    return served


async def test_within_a_run_first_come_is_first_served() -> None:
    slots = Slots(1)
    served: list[int] = []

    async def use(number: int) -> None:
        async with slots.slot("run"):
            served.append(number)

    async with trio.open_nursery() as nursery, slots.slot("run"):
        for number in range(20):
            nursery.start_soon(use, number)
            await wait_all_tasks_blocked()
    assert served == list(range(20))


async def test_a_run_that_wants_many_delays_another_by_one_turn() -> None:
    assert await order_of(["greedy"] * 5 + ["modest"]) == [
        "greedy",
        "modest",
        *["greedy"] * 4,
    ]


@given(st.lists(st.sampled_from("abc"), max_size=12))
def test_runs_take_turns_while_they_wait(wanted: list[str]) -> None:
    served = trio.run(order_of, wanted)
    assert Counter(served) == Counter(wanted)
    left = Counter(wanted)
    for index, key in enumerate(served):
        if index and served[index - 1] == key:
            assert not any(left[other] for other in left if other != key)
        left[key] -= 1


async def test_whoever_is_cancelled_in_the_queue_leaves_no_hole() -> None:
    slots = Slots(1)
    served: list[str] = []

    async def use(key: str, scope: trio.CancelScope) -> None:
        with scope:
            async with slots.slot(key):
                served.append(key)

    scopes = [trio.CancelScope() for _ in range(4)]
    async with trio.open_nursery() as nursery, slots.slot("holder"):
        for key, scope in zip("aabc", scopes, strict=True):
            nursery.start_soon(use, key, scope)
            await wait_all_tasks_blocked()
        scopes[0].cancel()
        scopes[2].cancel()
        await wait_all_tasks_blocked()
        assert slots.waiting == 2
    assert served == ["a", "c"]
    assert (slots.taken, slots.waiting) == (0, 0)


async def test_a_slot_that_was_handed_over_to_a_cancelled_task_comes_back() -> None:
    slots = Slots(1)
    scope = trio.CancelScope()

    async def use() -> None:
        with scope:
            async with slots.slot("b"):
                await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        async with slots.slot("a"):
            nursery.start_soon(use)
            await wait_all_tasks_blocked()
        scope.cancel()
    assert slots.taken == 0
    async with slots.slot("c"):
        assert slots.taken == 1


async def test_a_cancelled_caller_takes_no_slot() -> None:
    slots = Slots(1)
    with trio.CancelScope() as scope:
        scope.cancel()
        async with slots.slot("a"):
            raise AssertionError
    assert slots.taken == 0


async def test_thousands_of_waiters_are_served_in_linear_time() -> None:
    slots = Slots(4)
    served = 0

    async def use(key: int) -> None:
        nonlocal served
        async with slots.slot(key % 7):
            served += 1

    async with trio.open_nursery() as nursery:
        for key in range(5000):
            nursery.start_soon(use, key)
    assert served == 5000
