"""Supervisors: contain crashes, start again who should be, bring all to an orderly end."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from actors import (
    RESTARTS,
    ActorCrashed,
    ActorGone,
    Backoff,
    Ended,
    Ending,
    Exit,
    Intensity,
    Next,
    Patience,
    Ref,
    Restart,
    Supervisor,
    SupervisorClosed,
    end_all,
)
from actors.testing import Exits, Probe, no_tasks_left, tasks
from tests.actors.counter import Add, Counter, Fail, Leave, Read, by_name

AT_ONCE = Backoff(base=0)


@pytest.mark.parametrize(("restart", "exit_"), RESTARTS, ids=by_name)
async def test_who_is_started_again_is_what_the_table_says(
    restart: Restart, exit_: Exit
) -> None:
    made: list[Counter] = []

    def make() -> Counter:
        made.append(Counter())
        return made[-1]

    exits = Exits()
    async with Supervisor("s", backoff=AT_ONCE, report=exits) as supervisor:
        ref = supervisor.start(make, name="counter 1", restart=restart)
        match exit_:
            case Exit.NORMAL:
                await ref.call(Leave())
            case Exit.CRASHED:
                with pytest.raises(ActorCrashed):
                    await ref.call(Fail())
            case Exit.CANCELLED:
                await ref.call(Read())
                ref.end(Ending.KILL)
        await exits.wait_for(1)
        await wait_all_tasks_blocked()
        lives = ref.ended is None
        assert lives == RESTARTS[restart, exit_]
        assert supervisor.children == ((ref,) if lives else ())
        if lives:
            assert await ref.call(Read()) == 0
    assert exits.seen[0].exit is exit_
    assert exits.seen[0].next is (Next.RESTART if lives else Next.NOTHING)
    assert len(made) == (2 if lives else 1)


@pytest.mark.parametrize("restart", Restart, ids=by_name)
@pytest.mark.parametrize("ending", Ending, ids=by_name)
async def test_who_was_asked_to_end_is_not_started_again(
    restart: Restart, ending: Ending
) -> None:
    async with Supervisor("s", backoff=AT_ONCE) as supervisor:
        ref = supervisor.start(Counter, name="counter 1", restart=restart)
        await ref.call(Read())
        ref.end(ending)
        await ref.wait_ended()
        assert supervisor.children == ()


async def test_the_crash_of_one_child_is_nothing_to_the_others() -> None:
    exits = Exits()
    async with Supervisor("s", report=exits) as supervisor:
        crashes, lives = (
            supervisor.start(Counter, name=f"counter {n}", restart=Restart.TEMPORARY)
            for n in range(2)
        )
        await lives.cast(Add(3))
        with pytest.raises(ActorCrashed):
            await crashes.call(Fail())
        assert await lives.call(Read()) == 3
    [crash] = [event for event in exits.seen if event.exit is Exit.CRASHED]
    assert (crash.supervisor, crash.actor, crash.next) == ("s", "counter 0", Next.NOTHING)
    assert isinstance(crash.error, ValueError)


async def test_a_child_that_does_not_stay_up_is_given_up_alone(
    autojump_clock: MockClock,
) -> None:
    exits = Exits()
    async with Supervisor(
        "fleet", intensity=Intensity(restarts=3, window=60), report=exits
    ) as fleet:
        lives = fleet.start(Counter, name="plugin 1", restart=Restart.PERMANENT)
        ref = fleet.start(
            lambda: Probe({Fail: ValueError("boom")}),
            name="plugin 2",
            restart=Restart.PERMANENT,
        )
        for _ in range(4):
            with pytest.raises(ActorCrashed):
                await ref.call(Fail())
        ended = await ref.wait_ended()
        assert (ended.exit, repr(ended.error)) == (Exit.CRASHED, "ValueError('boom')")
        with pytest.raises(ActorCrashed, match="'plugin 2' crashed: ValueError") as caught:
            await ref.call(Read())
        assert caught.value.__cause__ is ended.error
        assert await lives.call(Read()) == 0
        assert fleet.children == (lives,)
    assert [event.next for event in exits.seen][:4] == [Next.RESTART] * 3 + [Next.GIVE_UP]


async def test_a_child_that_crashes_now_and_then_is_started_again_each_time(
    autojump_clock: MockClock,
) -> None:
    async with Supervisor(
        "s", intensity=Intensity(restarts=1, window=60), report=Exits()
    ) as supervisor:
        ref = supervisor.start(Counter, name="counter 1", restart=Restart.TRANSIENT)
        for _ in range(10):
            with pytest.raises(ActorCrashed):
                await ref.call(Fail())
            await trio.sleep(61)
        assert await ref.call(Read()) == 0


async def test_the_rest_before_a_start_is_the_back_offs(autojump_clock: MockClock) -> None:
    backoff = Backoff(base=1, cap=4)
    expected, rng = Random(7), Random(7)
    async with Supervisor(
        "s", backoff=backoff, intensity=Intensity(4, 60), report=Exits(), rng=rng
    ) as supervisor:
        ref = supervisor.start(Counter, name="counter 1", restart=Restart.TRANSIENT)
        for restarts in range(4):
            with pytest.raises(ActorCrashed):
                await ref.call(Fail())
            before = trio.current_time()
            assert await ref.call(Read()) == 0
            waited = trio.current_time() - before
            assert waited == pytest.approx(backoff.delay(restarts, expected))


async def test_making_the_actor_anew_may_fail_too(autojump_clock: MockClock) -> None:
    attempts = 0

    def make() -> Counter:
        nonlocal attempts
        attempts += 1
        if attempts in (2, 3):
            raise OSError("not yet")
        return Counter()

    exits = Exits()
    async with Supervisor("s", report=exits) as supervisor:
        ref = supervisor.start(make, name="counter 1", restart=Restart.TRANSIENT)
        with pytest.raises(ActorCrashed):
            await ref.call(Fail())
        await exits.wait_for(3)
        assert await ref.call(Read()) == 0
    assert [type(event.error) for event in exits.seen[:3]] == [ValueError, OSError, OSError]


async def test_who_is_refused_while_a_child_rests_is_not_told_of_the_crash_before(
    autojump_clock: MockClock,
) -> None:
    async with Supervisor("s", backoff=Backoff(base=60, cap=60)) as supervisor:
        ref = supervisor.start(Counter, name="counter 1", restart=Restart.TRANSIENT)
        with pytest.raises(ActorCrashed):
            await ref.call(Fail())
        refused: list[Exception] = []

        async def call() -> None:
            try:
                await ref.call(Read())
            except ActorGone as gone:
                refused.append(gone)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            await wait_all_tasks_blocked()
            ref.end(Ending.STOP)
        assert [type(each) for each in refused] == [ActorGone]


@pytest.mark.parametrize("ending", Ending, ids=by_name)
async def test_a_child_that_rests_before_a_start_ends_at_once(
    ending: Ending, autojump_clock: MockClock
) -> None:
    exits = Exits()
    backoff = Backoff(base=1000, cap=1000)
    async with Supervisor("s", backoff=backoff, report=exits) as supervisor:
        ref = supervisor.start(Counter, name="counter 1", restart=Restart.TRANSIENT)
        with pytest.raises(ActorCrashed):
            await ref.call(Fail())
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def caller() -> None:
                with pytest.raises(ActorGone):
                    await ref.call(Read())

            await trio.sleep(1)
            ref.end(ending)
            assert await ref.wait_ended() == Ended(Exit.CANCELLED)
        assert trio.current_time() < 100
    assert [(event.exit, event.next) for event in exits.seen] == [
        (Exit.CRASHED, Next.RESTART),
        (Exit.CANCELLED, Next.NOTHING),
    ]


async def test_leaving_the_block_lets_children_finish_what_they_were_sent() -> None:
    counter = Counter()
    async with no_tasks_left(), Supervisor("s") as supervisor:
        ref = supervisor.start(lambda: counter, name="c 1", restart=Restart.PERMANENT)
        for _ in range(10):
            await ref.cast(Add())
    assert counter.total == 10
    assert ref.ended == Ended(Exit.NORMAL)


async def test_leaving_the_block_is_patient_then_stops_then_kills(
    autojump_clock: MockClock,
) -> None:
    told: list[tuple[float, str]] = []

    class Stubborn(Probe):
        """Neither drains nor stops; takes a second to be killed."""

        @asynccontextmanager
        async def living(self) -> AsyncIterator[None]:
            try:
                yield
            finally:
                told.append((trio.current_time(), "killed"))
                with trio.CancelScope(shield=True):
                    await trio.sleep(1)

    async def refused(ref: Ref[Any], then: str) -> None:
        with pytest.raises(ActorGone):
            await ref.call(Read())
        told.append((trio.current_time(), then))

    stubborn = Stubborn()
    stubborn.hold()
    async with trio.open_nursery() as nursery:
        async with Supervisor("s", patience=Patience(drain=5, stop=3)) as supervisor:
            ref = supervisor.start(lambda: stubborn, name="s 1", restart=Restart.PERMANENT)
            for who in ("in hand", "waiting"):
                nursery.start_soon(refused, ref, who)
                await wait_all_tasks_blocked()
        told.append((trio.current_time(), "gone"))
    assert sorted(told) == [(5, "waiting"), (8, "in hand"), (8, "killed"), (9, "gone")]


async def test_an_error_in_the_block_arrives_as_it_is_and_ends_the_children() -> None:
    probe = Probe()
    probe.hold()
    with pytest.raises(LookupError, match="mine") as caught:
        async with no_tasks_left(), Supervisor("s") as supervisor:
            ref = supervisor.start(lambda: probe, name="p 1", restart=Restart.PERMANENT)
            await ref.cast("in hand")
            await wait_all_tasks_blocked()
            raise LookupError("mine")
    assert not isinstance(caught.value, BaseExceptionGroup)
    assert ref.ended == Ended(Exit.CANCELLED)


async def test_cancelling_the_block_ends_everything_in_it() -> None:
    exits = Exits()
    probe = Probe()
    probe.hold()
    async with no_tasks_left(), trio.open_nursery() as nursery:
        with trio.CancelScope() as scope:
            async with Supervisor("s", report=exits) as supervisor:
                ref = supervisor.start(lambda: probe, name="p 1", restart=Restart.PERMANENT)

                @nursery.start_soon
                async def caller() -> None:
                    with pytest.raises(ActorGone):
                        await ref.call(Read())

                await wait_all_tasks_blocked()
                scope.cancel()
                await trio.sleep_forever()
        assert scope.cancelled_caught
    assert [event.exit for event in exits.seen] == [Exit.CANCELLED]
    assert ref.ended == Ended(Exit.CANCELLED)


async def test_cancelling_the_orderly_end_ends_it_at_once(
    autojump_clock: MockClock,
) -> None:
    probe = Probe()
    probe.hold()
    async with no_tasks_left():
        with trio.move_on_after(1):
            async with Supervisor("s", patience=Patience(60, 60)) as supervisor:
                ref = supervisor.start(lambda: probe, name="p", restart=Restart.PERMANENT)
                await ref.cast("in hand")
                await wait_all_tasks_blocked()
        assert trio.current_time() == 1
        assert ref.ended == Ended(Exit.CANCELLED)


async def test_a_supervisor_that_is_not_open_starts_nobody() -> None:
    supervisor = Supervisor("fleet")

    def start() -> None:
        supervisor.start(Counter, name="counter 1", restart=Restart.TEMPORARY)

    with pytest.raises(SupervisorClosed, match="'fleet' is a supervisor that is not open"):
        start()
    async with supervisor:
        start()
    with pytest.raises(SupervisorClosed):
        start()


async def test_nobody_is_started_while_the_block_is_being_left() -> None:
    refused = False

    class StartsAnother(Counter):
        @asynccontextmanager
        async def living(self) -> AsyncIterator[None]:
            nonlocal refused
            yield
            with pytest.raises(SupervisorClosed):
                supervisor.start(Counter, name="another", restart=Restart.TEMPORARY)
            refused = True

    async with Supervisor("s") as supervisor:
        supervisor.start(StartsAnother, name="first", restart=Restart.TEMPORARY)
        await wait_all_tasks_blocked()
    assert refused


async def test_a_supervisor_can_live_inside_an_actor() -> None:
    class Parent(Counter):
        @asynccontextmanager
        async def living(self) -> AsyncIterator[None]:
            async with Supervisor("children") as children:
                self.child = children.start(
                    Counter, name="child 1", restart=Restart.PERMANENT
                )
                yield

    parent = Parent()
    async with no_tasks_left(), Supervisor("parents") as parents:
        ref = parents.start(lambda: parent, name="parent 1", restart=Restart.TEMPORARY)
        await ref.call(Read())
        assert {"parent 1", "child 1"} <= {task.name for task in tasks()}
        ref.end(Ending.KILL)
        await ref.wait_ended()
        assert parent.child.ended == Ended(Exit.CANCELLED)


async def test_ending_several_waits_for_all_and_skips_who_has_ended() -> None:
    async with Supervisor("s") as supervisor:
        refs = [
            supervisor.start(Counter, name=f"c {n}", restart=Restart.PERMANENT)
            for n in range(3)
        ]
        refs[0].end(Ending.KILL)
        await refs[0].wait_ended()
        await end_all(refs, Patience())
        assert supervisor.children == ()
        await end_all([], Patience())


async def test_crashes_are_logged_with_their_traceback_and_other_ends_are_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with Supervisor("s", backoff=AT_ONCE) as supervisor:
        ref = supervisor.start(Counter, name="counter 1", restart=Restart.TRANSIENT)
        with pytest.raises(ActorCrashed):
            await ref.call(Fail())
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert record.name == "actors"
    assert record.getMessage() == "actor 'counter 1' crashed, next: restart"
    assert "ValueError: asked to fail" in caplog.text


async def test_a_thousand_children_come_and_go() -> None:
    async with no_tasks_left(), Supervisor("s") as supervisor:
        refs = [
            supervisor.start(Counter, name=f"c {n}", restart=Restart.TEMPORARY)
            for n in range(1000)
        ]
        for ref in refs:
            await ref.cast(Add(1))
        assert {await ref.call(Read()) for ref in refs} == {1}
        assert len(supervisor.children) == 1000
    assert supervisor.children == ()
