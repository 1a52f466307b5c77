"""Calls and casts: answered in order, or told by name why not; nobody ever hangs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from msgspec import Struct
from trio.testing import MockClock, wait_all_tasks_blocked

from actors import (
    Actor,
    ActorCalledItself,
    ActorCrashed,
    ActorFault,
    ActorGone,
    Backoff,
    Call,
    Ending,
    LateReply,
    MailboxFull,
    Ref,
    Restart,
    Supervisor,
)
from actors.testing import Exits, Probe, no_tasks_left, running
from tests.actors.counter import Add, Counter, Fail, Read, Swap


async def test_a_call_is_answered_and_a_cast_before_it_is_handled_before_it() -> None:
    async with running(Counter()) as ref:
        await ref.cast(Add(2))
        ref.cast_nowait(Add(3))
        assert await ref.call(Read()) == 5


async def test_an_expected_refusal_is_an_answer() -> None:
    async with running(Counter()) as ref:
        assert await ref.call(Swap(-1)) == "-1 is negative"
        assert await ref.call(Read()) == 0


async def test_calls_of_one_task_are_answered_in_its_order_and_all_tasks_are() -> None:
    async with running(Counter()) as ref:
        seen: list[int] = []

        async def caller() -> None:
            last = -1
            for _ in range(20):
                await ref.cast(Add(1))
                total = await ref.call(Read())
                assert total > last
                last = total
            seen.append(last)

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(caller)
        assert len(seen) == 20
        assert max(seen) == 400


async def test_a_cast_of_a_call_is_handled_and_its_answer_goes_nowhere() -> None:
    async with running(Counter()) as ref:
        await ref.cast(Swap(7))
        assert await ref.call(Read()) == 7


async def test_a_full_mailbox_makes_a_cast_wait_and_refuses_a_cast_that_does_not() -> None:
    probe = Probe()
    probe.hold()
    async with running(probe, name="probe 1", capacity=1) as ref:
        await ref.cast("in hand")
        await wait_all_tasks_blocked()
        await ref.cast("waits")
        with pytest.raises(MailboxFull, match="'probe 1' has a full mailbox: 1 messages"):
            ref.cast_nowait("refused")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ref.cast, "in line")
            await wait_all_tasks_blocked()
            with trio.move_on_after(0):
                await ref.cast("cancelled in line")
            probe.release()
    assert probe.received == ["in hand", "waits", "in line"]


async def test_a_call_waits_for_room_too() -> None:
    probe = Probe({Read: 7})
    probe.hold()
    async with running(probe, capacity=1) as ref:
        await ref.cast("in hand")
        await wait_all_tasks_blocked()
        await ref.cast("waits")
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def caller() -> None:
                assert await ref.call(Read()) == 7

            await wait_all_tasks_blocked()
            assert len(probe.received) == 1
            probe.release()


async def test_a_call_that_was_cancelled_before_it_was_begun_is_skipped() -> None:
    probe = Probe({Read: 7})
    probe.hold()
    async with running(probe) as ref:
        await ref.cast("in hand")
        with trio.move_on_after(0):
            await ref.call(Read())
        with trio.CancelScope() as scope:
            scope.cancel()
            await ref.call(Read())
        assert scope.cancelled_caught
        await ref.cast("next")
        probe.release()
    assert probe.received == ["in hand", "next"]


async def test_answering_a_call_that_was_cancelled_while_in_hand_is_harmless(
    autojump_clock: MockClock,
) -> None:
    probe = Probe({Read: 7})
    probe.hold()
    async with running(probe) as ref:
        with trio.move_on_after(1):
            await ref.call(Read())
        probe.release()
        assert await ref.call(Read()) == 7
    assert probe.received == [Read(), Read()]


async def test_a_crash_fails_the_call_in_hand_those_that_wait_and_those_in_line() -> None:
    probe = Probe({Fail: ValueError("boom")})
    probe.hold()
    errors: list[ActorCrashed] = []

    async def caller(ref: Ref[Any], message: Call[Any]) -> None:
        with pytest.raises(ActorCrashed) as caught:
            await ref.call(message)
        errors.append(caught.value)

    async def caster(ref: Ref[Any]) -> None:
        with pytest.raises(ActorCrashed):
            await ref.cast("in line")

    async with Supervisor("s", report=Exits()) as supervisor:
        ref = supervisor.start(
            lambda: probe, name="probe 1", restart=Restart.TEMPORARY, capacity=2
        )
        async with trio.open_nursery() as nursery:
            for message in (Fail(), Read(), Read(), Read()):
                nursery.start_soon(caller, ref, message)
                await wait_all_tasks_blocked()
            nursery.start_soon(caster, ref)
            await wait_all_tasks_blocked()
            probe.release()
        with pytest.raises(ActorCrashed, match="actor 'probe 1' crashed: ValueError"):
            await ref.call(Read())
    assert len(set(map(id, errors))) == 4, "each caller is told by an error of its own"
    assert {str(error) for error in errors} == {"actor 'probe 1' crashed: ValueError"}
    assert {error.actor for error in errors} == {"probe 1"}
    assert {repr(error.__cause__) for error in errors} == {"ValueError('boom')"}
    assert probe.received == [Fail()]


async def test_a_crash_of_another_task_of_the_actor_fails_its_calls_too() -> None:
    fails = trio.Event()

    class WithHelper(Probe):
        @asynccontextmanager
        async def living(self) -> AsyncIterator[None]:
            async with trio.open_nursery() as nursery:

                @nursery.start_soon
                async def helper() -> None:
                    await fails.wait()
                    raise ZeroDivisionError

                yield

    probe = WithHelper()
    probe.hold()
    async with Supervisor("s", report=Exits()) as supervisor:
        ref = supervisor.start(lambda: probe, name="p 1", restart=Restart.TEMPORARY)
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def caller() -> None:
                with pytest.raises(ActorCrashed, match="ZeroDivisionError") as caught:
                    await ref.call(Read())
                assert isinstance(caught.value.__cause__, ZeroDivisionError)

            await wait_all_tasks_blocked()
            fails.set()


async def test_callers_learn_of_a_crash_before_the_actor_has_cleaned_up() -> None:
    class SlowToLeave(Counter):
        @asynccontextmanager
        async def living(self) -> AsyncIterator[None]:
            try:
                yield
            finally:
                await cleaned_up.wait()

    cleaned_up = trio.Event()
    exits = Exits()
    async with Supervisor("s", report=exits) as supervisor:
        ref = supervisor.start(SlowToLeave, name="slow 1", restart=Restart.TEMPORARY)
        with pytest.raises(ActorCrashed):
            await ref.call(Fail())
        assert exits.seen == []
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def late_caller() -> None:
                with pytest.raises(ActorCrashed):
                    await ref.call(Read())

            await wait_all_tasks_blocked()
            cleaned_up.set()


async def test_after_the_end_everything_that_is_sent_is_refused_by_name() -> None:
    async with running(Counter(), name="counter 1") as ref:
        pass
    for send in (ref.call, ref.cast):
        with pytest.raises(ActorGone) as caught:
            await send(Read())
        assert str(caught.value) == "actor 'counter 1' has ended"
        assert not isinstance(caught.value, ActorCrashed)
    with pytest.raises(ActorGone):
        ref.cast_nowait(Add())


async def test_an_actor_that_calls_itself_is_told_instead_of_hanging() -> None:
    class Narcissus(Actor[Read]):
        async def receive(self, message: Read) -> object:
            return await self.ref.call(message)

    with pytest.raises(ActorCalledItself, match="actor 'n 1' called itself: cast instead"):
        async with running(Narcissus(), name="n 1") as ref:
            with pytest.raises(ActorCrashed):
                await ref.call(Read())


async def test_an_actor_casts_to_itself_and_lets_others_call_it_meanwhile() -> None:
    class Echo(Actor[str | Read]):
        echoes = 0

        async def receive(self, message: str | Read) -> object:
            if message == "shout":
                self.ref.cast_nowait("echo")
            elif message == "echo":
                self.echoes += 1
            return self.echoes

    async with running(Echo()) as ref:
        await ref.cast("shout")
        await wait_all_tasks_blocked()
        assert await ref.call(Read()) == 1


class Acquire(Call[str], frozen=True):
    pass


class Release(Struct, frozen=True):
    answer: str = "yours"


class Lender(Actor[Acquire | Release]):
    """Answers each `Acquire` when there is a `Release` for it."""

    def __init__(self) -> None:
        self.line: list[LateReply[str]] = []

    async def receive(self, message: Acquire | Release) -> object:
        match message:
            case Acquire():
                self.line.append(self.answer_later())
            case Release(answer=answer):
                while not self.line.pop(0).set(answer):
                    pass
        return "not the answer"


async def acquire(ref: Ref[Acquire | Release], into: list[Any]) -> None:
    try:
        into.append(await ref.call(Acquire()))
    except ActorFault as error:
        into.append(error)


async def test_a_call_can_be_answered_after_its_message_was_handled() -> None:
    came: list[Any] = []
    async with running(Lender()) as ref, trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(acquire, ref, came)
            await wait_all_tasks_blocked()
        assert came == []
        await ref.cast(Release("first"))
        await wait_all_tasks_blocked()
        assert came == ["first"]
        await ref.cast(Release("second"))
    assert came == ["first", "second"]


async def test_a_late_answer_to_who_is_gone_says_so(autojump_clock: MockClock) -> None:
    came: list[Any] = []
    async with running(Lender()) as ref, trio.open_nursery() as nursery:
        with trio.move_on_after(1):
            await ref.call(Acquire())
        nursery.start_soon(acquire, ref, came)
        await wait_all_tasks_blocked()
        await ref.cast(Release())
    assert came == ["yours"]


async def test_a_late_answer_can_be_an_error() -> None:
    class Refuser(Lender):
        async def receive(self, message: Acquire | Release) -> object:
            late = self.answer_later()
            before, told = late.open, late.fail(KeyError("none left"))
            assert (before, told, late.open) == (True, True, False)
            return None

    async with running(Refuser()) as ref:
        with pytest.raises(KeyError, match="none left"):
            await ref.call(Acquire())


async def test_a_late_answer_to_a_cast_is_nobodys_and_does_not_hold_up_the_end() -> None:
    lender = Lender()
    async with no_tasks_left(), running(lender) as ref:
        await ref.cast(Acquire())
        await wait_all_tasks_blocked()
        assert not lender.line[0].open
        ref.end(Ending.DRAIN)
        await ref.wait_ended()


@pytest.mark.parametrize("how", ["crash", "stop", "kill"])
async def test_the_end_of_the_actor_fails_the_answers_that_it_promised(how: str) -> None:
    came: list[Any] = []
    async with Supervisor("s", report=Exits()) as supervisor:
        ref = supervisor.start(Lender, name="lender 1", restart=Restart.TEMPORARY)
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(acquire, ref, came)
            await wait_all_tasks_blocked()
            match how:
                case "crash":
                    await ref.cast(Release())
                    await ref.cast(Release())
                    await ref.cast(Release())
                case "stop":
                    ref.end(Ending.STOP)
                case _:
                    ref.end(Ending.KILL)
    if how == "crash":
        assert came == ["yours", "yours"]
        assert isinstance(ref.ended and ref.ended.error, IndexError)
    else:
        assert [str(error) for error in came] == ["actor 'lender 1' is ending"] * 2


async def test_draining_waits_for_the_answers_that_were_promised() -> None:
    class SlowLender(Lender):
        @asynccontextmanager
        async def living(self) -> AsyncIterator[None]:
            async with trio.open_nursery() as nursery:

                @nursery.start_soon
                async def release() -> None:
                    await lend.wait()
                    for late in self.line:
                        late.set("at last")

                yield

    lend = trio.Event()
    came: list[Any] = []
    async with running(SlowLender()) as ref, trio.open_nursery() as nursery:
        nursery.start_soon(acquire, ref, came)
        nursery.start_soon(acquire, ref, came)
        await wait_all_tasks_blocked()
        ref.end(Ending.DRAIN)
        await wait_all_tasks_blocked()
        assert ref.ended is None
        lend.set()
        await ref.wait_ended()
    assert came == ["at last"] * 2


async def test_a_promise_whose_caller_is_cancelled_does_not_hold_up_draining() -> None:
    async with running(Lender()) as ref, trio.open_nursery() as nursery:
        nursery.start_soon(acquire, ref, [])
        await wait_all_tasks_blocked()
        ref.end(Ending.DRAIN)
        await wait_all_tasks_blocked()
        assert ref.ended is None
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await ref.wait_ended()


async def test_messages_sent_while_the_actor_rests_are_kept_for_the_next_start() -> None:
    async with Supervisor("s", backoff=Backoff(base=0.01), report=Exits()) as supervisor:
        ref = supervisor.start(Counter, name="counter 1", restart=Restart.TRANSIENT)
        await ref.cast(Add(5))
        with pytest.raises(ActorCrashed):
            await ref.call(Fail())
        await ref.cast(Add(1))
        assert await ref.call(Read()) == 1, "with a fresh state"


async def test_refs_to_one_actor_are_equal_and_name_it() -> None:
    counter = Counter()
    async with running(counter, name="counter 1") as ref, running(Counter()) as other:
        await ref.call(Read())
        assert ref == counter.ref
        assert hash(ref) == hash(counter.ref)
        assert ref != other
        assert ref != "counter 1"
        assert ref.name == "counter 1"
        assert repr(ref) == "<Ref 'counter 1'>"
