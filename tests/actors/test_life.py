"""One life: what surrounds it, how it ends, and that a busy actor leaves others a turn."""

import gc
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors import (
    Actor,
    ActorCrashed,
    ActorGone,
    Ended,
    Ending,
    Exit,
    LateReply,
    MailboxFull,
    Next,
    Restart,
    Supervisor,
)
from actors.life import BURST
from actors.testing import Exits, Probe, no_tasks_left, running, tasks
from tests.actors.counter import Add, Counter, Fail, Leave, Read


class Diary(Probe):
    """Writes down when its life begins and ends."""

    def __init__(self) -> None:
        super().__init__({Fail: ValueError("boom")})
        self.lines: list[str] = []

    @asynccontextmanager
    async def living(self) -> AsyncIterator[None]:
        self.lines.append("born")
        try:
            yield
        finally:
            self.lines.append("buried")

    async def receive(self, message: Any) -> object:
        self.lines.append("message")
        return await super().receive(message)


@pytest.mark.parametrize("ending", Ending)
async def test_what_surrounds_a_life_is_left_however_it_ends(ending: Ending) -> None:
    diary = Diary()
    async with running(diary) as ref:
        await ref.call(Read())
        ref.end(ending)
    assert diary.lines == ["born", "message", "buried"]


async def test_what_surrounds_a_life_is_left_after_a_crash() -> None:
    diary = Diary()
    with pytest.raises(ValueError, match="boom"):
        async with running(diary) as ref:
            await ref.cast(Fail())
    assert diary.lines == ["born", "message", "buried"]


async def test_an_actor_that_cannot_begin_its_life_has_crashed() -> None:
    class Stillborn(Counter):
        @asynccontextmanager
        async def living(self) -> AsyncIterator[None]:
            if self.total == 0:
                raise FileNotFoundError("no such program")
            yield

    exits = Exits()
    async with Supervisor("s", report=exits) as supervisor:
        ref = supervisor.start(Stillborn, name="plugin 1", restart=Restart.TEMPORARY)
        with pytest.raises(ActorCrashed) as caught:
            await ref.call(Read())
    assert isinstance(caught.value.__cause__, FileNotFoundError)
    assert [event.exit for event in exits.seen] == [Exit.CRASHED]


async def test_an_actor_that_cannot_be_made_has_crashed() -> None:
    def make() -> Counter:
        raise LookupError("no counter")

    async with Supervisor("s", report=Exits()) as supervisor:
        ref = supervisor.start(make, name="counter 1", restart=Restart.TEMPORARY)
        with pytest.raises(ActorCrashed, match="counter 1' crashed: LookupError"):
            await ref.call(Read())


async def test_draining_finishes_what_is_in_hand_and_what_waits_and_takes_nothing_new() -> (
    None
):
    probe = Probe()
    probe.hold()
    async with running(probe) as ref:
        await ref.cast("in hand")
        await ref.cast("waits")
        await wait_all_tasks_blocked()
        ref.end(Ending.DRAIN)
        with pytest.raises(ActorGone, match="is ending"):
            await ref.cast("new")
        probe.release()
        assert await ref.wait_ended() == Ended(Exit.NORMAL)
    assert probe.received == ["in hand", "waits"]


async def test_stopping_finishes_what_is_in_hand_and_refuses_what_waits() -> None:
    probe = Probe({Read: 7})
    probe.hold()
    async with running(probe) as ref, trio.open_nursery() as nursery:

        @nursery.start_soon
        async def in_hand() -> None:
            assert await ref.call(Read()) == 7

        await wait_all_tasks_blocked()

        @nursery.start_soon
        async def waits() -> None:
            with pytest.raises(ActorGone, match="is ending"):
                await ref.call(Read())
            assert not probe.gate.is_set(), "it is refused at once"
            probe.release()

        await wait_all_tasks_blocked()
        ref.end(Ending.STOP)
        assert await ref.wait_ended() == Ended(Exit.NORMAL)
    assert len(probe.received) == 1


async def test_killing_finishes_nothing() -> None:
    probe = Probe()
    probe.hold()
    async with running(probe) as ref, trio.open_nursery() as nursery:

        async def refused() -> None:
            with pytest.raises(ActorGone):
                await ref.call(Read())

        for _ in range(2):
            nursery.start_soon(refused)
            await wait_all_tasks_blocked()
        ref.end(Ending.KILL)
        assert await ref.wait_ended() == Ended(Exit.CANCELLED)
    assert len(probe.received) == 1


@pytest.mark.parametrize("ending", Ending)
async def test_an_idle_actor_ends_as_soon_as_it_is_asked(ending: Ending) -> None:
    async with running(Counter()) as ref:
        await wait_all_tasks_blocked()
        ref.end(ending)
        await ref.wait_ended()


@pytest.mark.parametrize("ending", Ending)
async def test_an_actor_can_be_ended_before_its_task_first_ran(ending: Ending) -> None:
    probe = Probe()
    async with running(probe) as ref:
        ref.cast_nowait("first")
        ref.end(ending)
        await ref.wait_ended()
    assert probe.received == (["first"] if ending is Ending.DRAIN else [])


async def test_a_greater_ending_overrules_a_lesser_one_and_never_the_reverse() -> None:
    probe = Probe()
    probe.hold()
    async with running(probe) as ref:
        await ref.cast("in hand")
        await ref.cast("waits")
        await wait_all_tasks_blocked()
        ref.end(Ending.DRAIN)
        await wait_all_tasks_blocked()
        ref.end(Ending.STOP)
        ref.end(Ending.DRAIN)
        await wait_all_tasks_blocked()
        assert ref.ended is None
        ref.end(Ending.KILL)
        ref.end(Ending.STOP)
        await ref.wait_ended()
        ref.end(Ending.KILL)
        assert await ref.wait_ended() == Ended(Exit.CANCELLED)
    assert probe.received == ["in hand"]


@pytest.mark.parametrize("ending", [Ending.STOP, Ending.KILL])
async def test_a_stop_ends_the_wait_of_one_that_drains_for_a_promise(
    ending: Ending,
) -> None:
    class Promiser(Actor[Read]):
        async def receive(self, message: Read) -> object:
            return self.answer_later()

    async with running(Promiser()) as ref, trio.open_nursery() as nursery:

        @nursery.start_soon
        async def caller() -> None:
            with pytest.raises(ActorGone):
                await ref.call(Read())

        await wait_all_tasks_blocked()
        ref.end(Ending.DRAIN)
        await wait_all_tasks_blocked()
        assert ref.ended is None
        ref.end(ending)
        await ref.wait_ended()


async def test_who_waits_in_line_for_room_when_draining_begins_is_still_handled() -> None:
    probe = Probe({Read: 7})
    probe.hold()
    async with running(probe, capacity=1) as ref, trio.open_nursery() as nursery:
        await ref.cast("in hand")
        await wait_all_tasks_blocked()
        await ref.cast("waits")
        nursery.start_soon(ref.cast, "in line")
        await wait_all_tasks_blocked()

        @nursery.start_soon
        async def caller() -> None:
            assert await ref.call(Read()) == 7

        await wait_all_tasks_blocked()
        ref.end(Ending.DRAIN)
        probe.release()
    assert probe.received == ["in hand", "waits", "in line", Read()]


class Chain(Actor[int]):
    """Handles a number by telling itself the next lower one, down to 0."""

    def __init__(self) -> None:
        self.handled: list[int] = []

    async def receive(self, message: int) -> object:
        self.handled.append(message)
        if message % 2:
            await self.cast(message - 1)
        elif message:
            self.cast_nowait(message - 1)
        return None


async def test_what_an_actor_tells_itself_is_handled_while_it_drains() -> None:
    chain = Chain()
    async with running(chain) as ref:
        await ref.cast(20)
        ref.end(Ending.DRAIN)
        await ref.wait_ended()
    assert chain.handled == list(range(20, -1, -1))


async def test_what_an_actor_tells_itself_is_dropped_when_it_stops() -> None:
    class Stopper(Chain):
        async def receive(self, message: int) -> object:
            self.stop()
            return await super().receive(message)

    for first in (7, 8):
        stopper = Stopper()
        async with running(stopper) as ref:
            await ref.cast(first)
        assert stopper.handled == [first]


async def test_an_actor_that_would_wait_for_room_in_its_own_mailbox_is_told() -> None:
    class Overeager(Actor[str]):
        async def receive(self, message: str) -> object:
            match message:
                case "by itself":
                    await self.cast("more")
                    await self.cast("too much")
                case "by its ref":
                    await self.ref.cast("more")
                    await self.ref.cast("too much")
                case "at once":
                    self.cast_nowait("more")
                    self.cast_nowait("too much")
            return None

    for how in ("by itself", "by its ref", "at once"):
        with pytest.raises(MailboxFull, match="'eager 1' has a full mailbox: 1 messages"):
            async with running(Overeager(), name="eager 1", capacity=1) as ref:
                await ref.cast(how)
                await ref.wait_ended()


class Lookup(Actor[Read | int]):
    """Answers from a helper task, which tells the actor what it found."""

    def __init__(self, found: trio.Event) -> None:
        self.found = found
        self.asked: list[LateReply[int]] = []

    @asynccontextmanager
    async def living(self) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.look)
            yield
            nursery.cancel_scope.cancel()

    async def look(self) -> None:
        await self.found.wait()
        while True:
            await self.cast(7)

    async def receive(self, message: Read | int) -> object:
        if isinstance(message, Read):
            self.asked.append(self.answer_later())
        while isinstance(message, int) and self.asked:
            self.asked.pop().set(message)
        return None


async def test_a_promise_is_kept_with_what_a_helper_tells_while_the_actor_drains() -> None:
    found = trio.Event()
    async with running(Lookup(found)) as ref, trio.open_nursery() as nursery:

        @nursery.start_soon
        async def caller() -> None:
            assert await ref.call(Read()) == 7

        await wait_all_tasks_blocked()
        ref.end(Ending.DRAIN)
        await wait_all_tasks_blocked()
        with pytest.raises(ActorGone):
            await ref.cast(8)
        found.set()
        ref_ended = await ref.wait_ended()
    assert ref_ended == Ended(Exit.NORMAL)


@pytest.mark.parametrize("ending", [Ending.STOP, Ending.KILL])
async def test_a_helper_that_never_stops_telling_does_not_outlive_the_actor(
    ending: Ending,
) -> None:
    found = trio.Event()
    found.set()
    async with no_tasks_left(), running(Lookup(found), capacity=1) as ref:
        assert await ref.call(Read()) == 7
        ref.end(ending)
        await ref.wait_ended()


async def test_an_actor_stops_by_itself_after_the_message_in_hand() -> None:
    async with running(Counter()) as ref:
        assert await ref.call(Leave()) == "bye"
        assert await ref.wait_ended() == Ended(Exit.NORMAL)


async def test_an_actor_crashing_while_it_is_killed_has_crashed() -> None:
    class SoreLoser(Counter):
        @asynccontextmanager
        async def living(self) -> AsyncIterator[None]:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.lose)
                yield

        async def lose(self) -> None:
            try:
                await trio.sleep_forever()
            finally:
                raise ZeroDivisionError

    exits = Exits()
    async with no_tasks_left(), Supervisor("s", report=exits) as supervisor:
        ref = supervisor.start(SoreLoser, name="loser 1", restart=Restart.PERMANENT)
        await wait_all_tasks_blocked()
        ref.end(Ending.KILL)
        ended = await ref.wait_ended()
    assert ended.exit is Exit.CRASHED
    assert isinstance(ended.error, ZeroDivisionError)
    assert [event.next for event in exits.seen] == [Next.NOTHING]


async def test_a_crash_while_all_is_cancelled_is_reported_and_contained() -> None:
    class SoreLoser(Counter):
        @asynccontextmanager
        async def living(self) -> AsyncIterator[None]:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.lose)
                yield

        async def lose(self) -> None:
            try:
                await trio.sleep_forever()
            finally:
                raise ZeroDivisionError

    exits = Exits()
    with trio.CancelScope() as scope:
        async with Supervisor("s", report=exits) as supervisor:
            ref = supervisor.start(SoreLoser, name="loser 1", restart=Restart.PERMANENT)
            await wait_all_tasks_blocked()
            scope.cancel()
            await trio.lowlevel.checkpoint()
    assert [(event.exit, event.next) for event in exits.seen] == [
        (Exit.CRASHED, Next.NOTHING)
    ]
    assert ref.ended is not None
    assert isinstance(ref.ended.error, ZeroDivisionError)


async def test_a_life_may_swallow_its_own_end() -> None:
    class Stoic(Counter):
        @asynccontextmanager
        async def living(self) -> AsyncIterator[None]:
            with suppress(ValueError):
                yield

    async with running(Stoic(), name="stoic 1") as ref:
        with pytest.raises(ActorCrashed):
            await ref.call(Fail())
        assert await ref.wait_ended() == Ended(Exit.NORMAL)
        with pytest.raises(ActorGone, match="has ended"):
            await ref.call(Read())


async def test_an_error_that_ends_the_program_is_not_contained() -> None:
    class Interrupted(Counter):
        async def receive(self, message: Any) -> object:
            raise KeyboardInterrupt

    with pytest.raises(BaseExceptionGroup) as caught:
        async with Supervisor("s") as supervisor:
            ref = supervisor.start(Interrupted, name="i 1", restart=Restart.PERMANENT)
            await ref.call(Read())
    assert caught.group_contains(KeyboardInterrupt)
    assert ref.ended == Ended(Exit.CANCELLED)


async def test_an_error_of_a_helper_that_ends_the_program_is_not_contained() -> None:
    class Interrupted(Counter):
        @asynccontextmanager
        async def living(self) -> AsyncIterator[None]:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.interrupt)
                yield

        async def interrupt(self) -> None:
            raise KeyboardInterrupt

    with pytest.raises(BaseExceptionGroup) as caught:
        async with Supervisor("s") as supervisor:
            ref = supervisor.start(Interrupted, name="i 1", restart=Restart.PERMANENT)
            await trio.sleep_forever()
    assert caught.group_contains(KeyboardInterrupt)
    assert ref.ended == Ended(Exit.CANCELLED)


async def test_a_crash_is_told_even_when_the_clean_up_after_it_is_cancelled() -> None:
    class Untidy(Counter):
        @asynccontextmanager
        async def living(self) -> AsyncIterator[None]:
            try:
                yield
            finally:
                await trio.sleep_forever()

    exits = Exits()
    async with Supervisor("s", report=exits) as supervisor:
        ref = supervisor.start(Untidy, name="untidy 1", restart=Restart.TRANSIENT)
        with pytest.raises(ActorCrashed):
            await ref.call(Fail())
        ref.end(Ending.KILL)
        ended = await ref.wait_ended()
    assert ended.exit is Exit.CRASHED
    assert isinstance(ended.error, ValueError)
    assert [event.error for event in exits.seen] == [ended.error]


async def test_the_task_of_an_actor_is_called_like_the_actor() -> None:
    async with running(Counter(), name="run 7f3"):
        assert "run 7f3" in [task.name for task in tasks()]


async def test_a_busy_actor_leaves_others_a_turn() -> None:
    class Busy(Actor[int]):
        handled = 0

        async def receive(self, message: int) -> object:
            self.handled += 1
            self.cast_nowait(message)  # Never runs out of messages.
            return None

    busy = Busy()
    async with running(busy) as ref:
        await ref.cast(0)
        await ref.cast(1)
        # Two turns, as trio shuffles whose comes first.
        for _ in range(20):
            before = busy.handled
            await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()
            assert 0 < busy.handled - before <= 3 * (BURST + 1)
        ref.end(Ending.KILL)
        await ref.wait_ended()


async def test_a_flooded_actor_is_killed_without_delay() -> None:
    class Flooded(Actor[int]):
        async def receive(self, message: int) -> object:
            await self.cast(message)
            return None

    async with running(Flooded()) as ref:
        await ref.cast(0)
        ref.end(Ending.KILL)
        assert (await ref.wait_ended()).exit is Exit.CANCELLED


@pytest.mark.parametrize("ending", Ending)
async def test_an_actor_that_ended_is_freed_without_the_collector(ending: Ending) -> None:
    made: list[weakref.ref[Counter]] = []

    def make() -> Counter:
        counter = Counter()
        made.append(weakref.ref(counter))
        return counter

    gc.disable()
    try:
        async with Supervisor("s") as supervisor:
            ref = supervisor.start(make, name="counter 1", restart=Restart.TEMPORARY)
            await ref.call(Read())
            ref.end(ending)
            await ref.wait_ended()
            await wait_all_tasks_blocked()
            assert made[0]() is None
            assert supervisor.children == ()
    finally:
        gc.enable()


async def test_casts_before_the_first_turn_are_all_handled() -> None:
    counter = Counter()
    async with running(counter, capacity=100) as ref:
        for _ in range(100):
            ref.cast_nowait(Add(1))
    assert counter.total == 100
