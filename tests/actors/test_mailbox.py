"""The mailbox: in order, bounded, nobody overtakes, nothing lost, nothing twice."""

from contextlib import suppress
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from actors import Mailbox, MailboxClosed, MailboxFull, MailboxWoken


class Refused(Exception):
    """What the closed mailboxes of these tests refuse with."""


async def test_messages_come_out_in_the_order_they_went_in() -> None:
    mailbox: Mailbox[int] = Mailbox("box")
    for number in range(5):
        mailbox.put_nowait(number)
    assert [await mailbox.get() for _ in range(5)] == [0, 1, 2, 3, 4]


async def test_a_message_wakes_the_receiver() -> None:
    mailbox: Mailbox[str] = Mailbox("box")
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def receiver() -> None:
            assert await mailbox.get() == "first"
            assert await mailbox.get() == "second"

        await wait_all_tasks_blocked()
        mailbox.put_nowait("first")
        mailbox.put_nowait("second")


def test_a_full_mailbox_refuses_who_does_not_wait() -> None:
    mailbox: Mailbox[int] = Mailbox("run 7", capacity=2)
    mailbox.put_nowait(0)
    mailbox.put_nowait(1)
    assert mailbox.full
    with pytest.raises(MailboxFull) as caught:
        mailbox.put_nowait(2)
    assert str(caught.value) == "actor 'run 7' has a full mailbox: 2 messages wait in it"
    assert (caught.value.actor, caught.value.capacity) == ("run 7", 2)
    assert len(mailbox) == 2


def test_a_mailbox_has_room_for_one_message_at_least() -> None:
    with pytest.raises(ValueError, match="at least one message, not 0"):
        Mailbox("box", capacity=0)


async def test_senders_wait_in_line_for_room() -> None:
    mailbox: Mailbox[int] = Mailbox("box", capacity=1)
    mailbox.put_nowait(0)
    async with trio.open_nursery() as nursery:
        for number in (1, 2):
            nursery.start_soon(mailbox.put, number)
            await wait_all_tasks_blocked()
        assert await mailbox.get() == 0
        with pytest.raises(MailboxFull):
            mailbox.put_nowait(3)
        assert [await mailbox.get() for _ in range(2)] == [1, 2]
    assert len(mailbox) == 0


async def test_a_cancelled_sender_leaves_the_line_and_no_message() -> None:
    mailbox: Mailbox[int] = Mailbox("box", capacity=1)
    mailbox.put_nowait(0)
    with trio.move_on_after(0) as scope:
        await mailbox.put(1)
    assert scope.cancelled_caught
    assert await mailbox.get() == 0
    assert len(mailbox) == 0


async def test_a_sender_cancelled_before_it_sends_leaves_no_message() -> None:
    mailbox: Mailbox[int] = Mailbox("box")
    with trio.CancelScope() as scope:
        scope.cancel()
        await mailbox.put(1)
    assert scope.cancelled_caught
    assert len(mailbox) == 0


async def test_a_cancelled_receiver_takes_no_message() -> None:
    mailbox: Mailbox[int] = Mailbox("box")
    with trio.move_on_after(0):
        await mailbox.get()
    mailbox.put_nowait(1)
    with trio.CancelScope() as scope:
        scope.cancel()
        await mailbox.get()
    assert scope.cancelled_caught
    assert await mailbox.get() == 1


async def test_two_receivers_are_a_mistake() -> None:
    mailbox: Mailbox[int] = Mailbox("box")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(mailbox.get)
        await wait_all_tasks_blocked()
        with pytest.raises(RuntimeError, match="two tasks take from the mailbox of 'box'"):
            await mailbox.get()
        mailbox.put_nowait(1)


async def test_a_closed_mailbox_refuses_senders_and_gives_out_what_it_has() -> None:
    mailbox: Mailbox[int] = Mailbox("box", capacity=1)
    mailbox.put_nowait(1)

    async def refused() -> None:
        with pytest.raises(Refused):
            await mailbox.put(2)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(refused)
        await wait_all_tasks_blocked()
        mailbox.close(Refused)
    await refused()
    with pytest.raises(Refused):
        mailbox.put_nowait(2)
    assert await mailbox.get() == 1
    with pytest.raises(MailboxClosed):
        await mailbox.get()
    mailbox.reopen()
    await mailbox.put(3)
    assert await mailbox.get() == 3


async def test_closing_ends_the_wait_of_the_receiver() -> None:
    mailbox: Mailbox[int] = Mailbox("box")
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def receiver() -> None:
            with pytest.raises(MailboxClosed):
                await mailbox.get()

        await wait_all_tasks_blocked()
        mailbox.close(Refused)


async def test_a_receiver_that_waits_can_be_woken_without_a_message() -> None:
    mailbox: Mailbox[int] = Mailbox("box")
    mailbox.wake()  # Nobody waits.
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def receiver() -> None:
            with pytest.raises(MailboxWoken):
                await mailbox.get()
            assert await mailbox.get() == 1

        await wait_all_tasks_blocked()
        mailbox.wake()
        mailbox.wake()
        mailbox.put_nowait(1)


async def test_a_receiver_that_finds_the_mailbox_cleared_goes_on_waiting() -> None:
    found_it_cleared = 0
    # Trio shuffles whose turn comes first, and only in one order it is too late.
    for _ in range(40):
        mailbox: Mailbox[int] = Mailbox("box")
        mailbox.put_nowait(1)
        cleared: list[int] = []
        async with trio.open_nursery() as nursery:
            begins = trio.Event()

            @nursery.start_soon
            async def receiver(
                mailbox: Mailbox[int] = mailbox,
                cleared: list[int] = cleared,
                begins: trio.Event = begins,
            ) -> None:
                begins.set()
                assert await mailbox.get() == (2 if cleared else 1)

            await begins.wait()
            cleared += mailbox.clear(Refused)
            found_it_cleared += len(cleared)
            await wait_all_tasks_blocked()
            if cleared:
                mailbox.put_nowait(2)
    assert found_it_cleared


async def test_each_refused_sender_gets_an_error_of_its_own() -> None:
    mailbox: Mailbox[int] = Mailbox("box", capacity=1)
    mailbox.put_nowait(0)
    errors: list[Refused] = []

    async def refused() -> None:
        with pytest.raises(Refused) as caught:
            await mailbox.put(1)
        errors.append(caught.value)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(refused)
        nursery.start_soon(refused)
        await wait_all_tasks_blocked()
        assert mailbox.clear(Refused) == [0]
    assert len(set(map(id, errors))) == 2


async def test_putting_and_getting_are_schedule_points() -> None:
    mailbox: Mailbox[int] = Mailbox("box")
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        for number in range(10):
            await mailbox.put(number)
            await mailbox.get()
        # Trio shuffles whose turn comes first, so the other task may be one behind.
        assert turns >= 20 - 1
        nursery.cancel_scope.cancel()


ACTS = st.lists(
    st.one_of(
        st.sampled_from(["put_nowait", "put", "get", "cancel get", "close", "reopen"]),
        st.sampled_from(["put", "get", "clear"]),
        st.tuples(st.just("cancel put"), st.integers(0, 5)),
    ),
    max_size=40,
)


@given(st.integers(1, 3), ACTS)
def test_it_does_what_a_list_and_a_line_would_do(capacity: int, acts: list[Any]) -> None:
    """Every task comes to rest after each act, so that a simple model can be exact."""

    async def play() -> None:
        mailbox: Mailbox[int] = Mailbox("box", capacity)
        senders: dict[int, trio.CancelScope] = {}
        receivers: list[trio.CancelScope] = []
        results: dict[int, str] = {}
        received: list[int] = []
        closed_to_receiver = 0
        # The model.
        queue: list[int] = []
        line: list[int] = []
        taken: list[int] = []
        waiting = closed = False

        async def put(number: int) -> None:
            with senders[number]:
                try:
                    await mailbox.put(number)
                except Refused:
                    results[number] = "refused"
                else:
                    results[number] = "put"

        async def get(scope: trio.CancelScope) -> None:
            nonlocal closed_to_receiver
            with scope:
                try:
                    received.append(await mailbox.get())
                except MailboxClosed:
                    closed_to_receiver += 1

        async with trio.open_nursery() as nursery:
            for number, act in enumerate(acts):
                match act:
                    case "put_nowait":
                        try:
                            mailbox.put_nowait(number)
                        except Refused:
                            assert closed
                        except MailboxFull:
                            assert not closed
                            assert len(queue) == capacity
                        else:
                            assert not closed
                            taken.append(number) if waiting else queue.append(number)
                            waiting = False
                    case "put":
                        senders[number] = trio.CancelScope()
                        nursery.start_soon(put, number)
                        if closed:
                            pass
                        elif waiting:
                            taken.append(number)
                            waiting = False
                        elif len(queue) < capacity:
                            queue.append(number)
                        else:
                            line.append(number)
                    case "get" if not waiting:
                        receivers.append(trio.CancelScope())
                        nursery.start_soon(get, receivers[-1])
                        if queue:
                            taken.append(queue.pop(0))
                            queue.extend(line[:1])
                            del line[:1]
                        else:
                            waiting = not closed
                    case "cancel get" if receivers:
                        receivers[-1].cancel()
                        waiting = False
                    case ("cancel put", int(index)) if index < len(line):
                        senders[line.pop(index)].cancel()
                    case "close":
                        mailbox.close(Refused)
                        closed = True
                        line.clear()
                        waiting = False
                    case "reopen":
                        mailbox.reopen()
                        closed = False
                    case "clear":
                        assert mailbox.clear(Refused) == queue
                        queue.clear()
                        line.clear()
                await wait_all_tasks_blocked()
                assert len(mailbox) == len(queue)
                assert mailbox.full == (len(queue) == capacity)
                assert received == taken
                blocked = [n for n, task in senders.items() if n in line]
                assert all(number not in results for number in blocked)
            nursery.cancel_scope.cancel()
        assert [mailbox.get_nowait() for _ in range(len(mailbox))] == queue

    trio.run(play)


@given(st.integers(1, 3), ACTS, st.data())
def test_however_acts_and_cancellations_race_nothing_is_lost_doubled_or_reordered(
    capacity: int, acts: list[Any], data: st.DataObject
) -> None:
    """Tasks are left wherever they are; what each was told must still add up."""

    async def play() -> None:
        mailbox: Mailbox[int] = Mailbox("box", capacity)
        accepted: set[int] = set()
        out: list[int] = []
        senders: list[trio.CancelScope] = []
        receivers: list[trio.CancelScope] = []
        receiving = False

        async def put(number: int, scope: trio.CancelScope) -> None:
            with scope:
                try:
                    await mailbox.put(number)
                except Refused:
                    return
                accepted.add(number)

        async def get(scope: trio.CancelScope) -> None:
            nonlocal receiving
            with scope, suppress(MailboxClosed):
                out.append(await mailbox.get())
            receiving = False

        async with trio.open_nursery() as nursery:
            for number, act in enumerate(acts):
                match act:
                    case "put_nowait":
                        try:
                            mailbox.put_nowait(number)
                        except (Refused, MailboxFull):
                            pass
                        else:
                            accepted.add(number)
                    case "put":
                        senders.append(trio.CancelScope())
                        nursery.start_soon(put, number, senders[-1])
                    case "get" if not receiving:
                        receiving = True
                        receivers.append(trio.CancelScope())
                        nursery.start_soon(get, receivers[-1])
                    case "cancel get" if receivers:
                        receivers[-1].cancel()
                    case ("cancel put", int(index)) if index < len(senders):
                        senders[-1 - index].cancel()
                    case "close":
                        mailbox.close(Refused)
                    case "reopen":
                        mailbox.reopen()
                    case "clear" if not receiving:
                        out += mailbox.clear(Refused)
                if data.draw(st.booleans()):
                    await trio.lowlevel.checkpoint()
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        out.extend(mailbox.get_nowait() for _ in range(len(mailbox)))
        assert len(out) == len(set(out))
        assert set(out) == accepted

    trio.run(play)
