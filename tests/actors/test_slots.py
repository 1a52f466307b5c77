"""Reply slots: who waits gets the one answer, whatever is cancelled in between."""

from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from actors import ReplySlot


async def collect(slot: ReplySlot[Any], into: list[Any], scope: trio.CancelScope) -> None:
    """Wait in ``slot`` and append what came of it: an answer, an error, or a word."""
    with scope:
        try:
            into.append(await slot.wait())
        except ValueError as error:
            into.append(error)
        except RuntimeError:
            into.append("withdrawn")
        return
    into.append("cancelled")


async def test_an_answer_wakes_who_waits() -> None:
    slot: ReplySlot[int] = ReplySlot()
    came: list[Any] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(collect, slot, came, trio.CancelScope())
        await wait_all_tasks_blocked()
        assert slot.open
        assert slot.set(7)
    assert came == [7]
    assert not slot.open


async def test_an_answer_given_before_anybody_waits_is_kept() -> None:
    slot: ReplySlot[int] = ReplySlot()
    assert slot.set(7)
    assert await slot.wait() == 7


async def test_an_error_is_raised_where_the_answer_is_waited_for() -> None:
    slot: ReplySlot[int] = ReplySlot()
    slot.fail(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        await slot.wait()


async def test_none_is_an_answer() -> None:
    slot: ReplySlot[None] = ReplySlot()
    slot.set(None)
    await slot.wait()
    assert not slot.open


async def test_the_first_answer_counts_and_a_second_is_dropped() -> None:
    slot: ReplySlot[int] = ReplySlot()
    assert slot.set(1)
    assert not slot.set(2)
    assert not slot.fail(ValueError("late"))
    assert await slot.wait() == 1


async def test_a_second_answer_to_a_task_woken_that_has_not_run_is_dropped() -> None:
    slot: ReplySlot[int] = ReplySlot()
    came: list[Any] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(collect, slot, came, trio.CancelScope())
        await wait_all_tasks_blocked()
        assert slot.set(1)
        assert not slot.set(2)
    assert came == [1]


async def test_a_cancelled_wait_withdraws_the_slot_and_a_late_answer_is_harmless() -> None:
    slot: ReplySlot[int] = ReplySlot()
    with trio.move_on_after(0):
        await slot.wait()
    assert not slot.open
    assert not slot.set(7)
    assert not slot.fail(ValueError("late"))
    await wait_all_tasks_blocked()


async def test_an_answer_then_a_cancellation_in_one_instant_deliver_the_answer() -> None:
    slot: ReplySlot[int] = ReplySlot()
    came: list[Any] = []
    scope = trio.CancelScope()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(collect, slot, came, scope)
        await wait_all_tasks_blocked()
        assert slot.set(7)
        scope.cancel()
    assert came == [7]


async def test_a_cancellation_then_an_answer_in_one_instant_drop_the_answer() -> None:
    slot: ReplySlot[int] = ReplySlot()
    came: list[Any] = []
    scope = trio.CancelScope()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(collect, slot, came, scope)
        await wait_all_tasks_blocked()
        scope.cancel()
        assert not slot.set(7)
    assert came == ["cancelled"]


async def test_waiting_is_a_schedule_point_even_for_an_answer_that_is_there() -> None:
    slot: ReplySlot[int] = ReplySlot()
    slot.set(7)
    with trio.CancelScope() as scope:
        scope.cancel()
        await slot.wait()
    assert scope.cancelled_caught
    others_turn = False

    async def other() -> None:
        nonlocal others_turn
        others_turn = True

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        # Trio shuffles whose turn comes first: by the second the other task had its own.
        for number in range(2):
            there: ReplySlot[int] = ReplySlot()
            there.set(number)
            assert await there.wait() == number
        assert others_turn


async def test_withdrawing_is_told_once_and_only_of_an_open_slot() -> None:
    told: list[str] = []
    cancelled: ReplySlot[int] = ReplySlot()
    cancelled.on_withdrawn = lambda: told.append("cancelled")
    with trio.move_on_after(0):
        await cancelled.wait()
    given_up: ReplySlot[int] = ReplySlot()
    given_up.on_withdrawn = lambda: told.append("given up")
    given_up.withdraw()
    given_up.withdraw()
    settled: ReplySlot[int] = ReplySlot()
    settled.on_withdrawn = lambda: told.append("settled")
    settled.set(1)
    settled.withdraw()
    assert told == ["cancelled", "given up"]


async def test_a_slot_has_one_waiter_and_one_wait() -> None:
    slot: ReplySlot[int] = ReplySlot()
    came: list[Any] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(collect, slot, came, trio.CancelScope())
        await wait_all_tasks_blocked()
        with pytest.raises(RuntimeError, match="once, by one task"):
            await slot.wait()
        with pytest.raises(RuntimeError, match="cancelling the wait"):
            slot.withdraw()
        slot.set(7)
    with pytest.raises(RuntimeError, match="once, by one task"):
        await slot.wait()
    assert came == [7]


ACTS = st.lists(
    st.sampled_from(["set", "fail", "wait", "cancel", "withdraw", "turn"]), max_size=12
)


@given(ACTS)
def test_in_any_order_of_acts_an_answer_arrives_once_or_is_reported_dropped(
    acts: list[str],
) -> None:
    async def play() -> None:
        slot: ReplySlot[int] = ReplySlot()
        came: list[Any] = []
        accepted: list[Any] = []
        scopes: list[trio.CancelScope] = []
        async with trio.open_nursery() as nursery:
            for number, act in enumerate(acts):
                match act:
                    case "set":
                        if slot.set(number):
                            accepted.append(number)
                    case "fail":
                        error = ValueError(number)
                        if slot.fail(error):
                            accepted.append(error)
                    case "wait" if not scopes:
                        scopes.append(trio.CancelScope())
                        nursery.start_soon(collect, slot, came, scopes[0])
                    case "cancel" if scopes:
                        scopes[0].cancel()
                    case "withdraw" if not scopes:
                        slot.withdraw()
                    case "turn":
                        await wait_all_tasks_blocked()
            if slot.open and scopes:
                await wait_all_tasks_blocked()
                if slot.set(-1):
                    accepted.append(-1)
        assert len(accepted) <= 1
        if scopes:
            assert came in (accepted, ["cancelled"], ["withdrawn"])

    trio.run(play)
