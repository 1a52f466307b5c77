"""Whatever happens in whatever order: every caller is answered, and no task is left.

Actors that answer, answer late, crash, dawdle and stop meet callers that come, wait in
line and are cancelled, under a supervisor that drains, stops and kills.
"""

import math
from typing import Any

import trio
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from trio.testing import MockClock

from actors import (
    Actor,
    ActorGone,
    Backoff,
    Call,
    Ending,
    Intensity,
    LateReply,
    Next,
    Patience,
    Restart,
    Supervisor,
)
from actors.testing import Exits, no_tasks_left

TIMES = st.floats(0, 5).map(lambda seconds: round(seconds, 1))


class Do(Call[int], frozen=True):
    """What the actor shall do about this message, and the answer that it shall give."""

    what: str
    seconds: float
    answer: int


class Client(Struct, frozen=True):
    """Who sends it, from when on, and for how long it has patience."""

    message: Do
    casts: bool
    start: float
    patience: float


class Moody(Actor[Do]):
    def __init__(self) -> None:
        self.late: list[tuple[LateReply[int], int]] = []

    async def receive(self, message: Do) -> object:
        match message.what:
            case "dawdle":
                await trio.sleep(message.seconds)
            case "crash":
                await trio.sleep(message.seconds)
                raise ZeroDivisionError
            case "stop":
                self.stop()
            case "later":
                self.late.append((self.answer_later(), message.answer))
            case "relay":
                await self.cast(Do("settle", 0, 0))
            case "settle":
                for late, answer in self.late:
                    late.set(answer)
                self.late.clear()
        return message.answer


CLIENTS = st.builds(
    Client,
    message=st.builds(
        Do,
        what=st.sampled_from(
            ["answer", "dawdle", "crash", "stop", "later", "later", "settle", "relay"]
        ),
        seconds=TIMES,
        answer=st.integers(),
    ),
    casts=st.booleans(),
    start=TIMES,
    patience=st.one_of(st.just(math.inf), TIMES),
)


@given(
    clients=st.lists(CLIENTS, max_size=25),
    capacity=st.integers(1, 3),
    restart=st.sampled_from(Restart),
    restarts=st.integers(0, 3),
    endings=st.lists(st.tuples(TIMES, st.sampled_from(Ending)), max_size=2),
    leave=TIMES,
    crash_land=st.booleans(),
)
def test_every_caller_is_answered_refused_or_cancelled_and_no_task_is_left(
    clients: list[Client],
    capacity: int,
    restart: Restart,
    restarts: int,
    endings: list[tuple[float, Ending]],
    leave: float,
    crash_land: bool,
) -> None:
    fates: list[str] = []
    exits = Exits()

    async def play() -> None:
        async with no_tasks_left(), trio.open_nursery() as nursery:
            with trio.CancelScope() as scope:
                async with Supervisor(
                    "s",
                    intensity=Intensity(restarts, 60),
                    backoff=Backoff(base=0.5),
                    patience=Patience(drain=3, stop=3),
                    report=exits,
                ) as supervisor:
                    ref = supervisor.start(
                        Moody, name="moody 1", restart=restart, capacity=capacity
                    )

                    async def client(one: Client) -> None:
                        await trio.sleep(one.start)
                        with trio.move_on_after(one.patience):
                            try:
                                if one.casts:
                                    await ref.cast(one.message)
                                else:
                                    answer = await ref.call(one.message)
                                    assert answer == one.message.answer
                            except ActorGone as error:
                                fates.append(f"refused by {error.actor}")
                            else:
                                fates.append("answered")
                            return
                        fates.append("cancelled")

                    async def end(when: float, ending: Ending) -> None:
                        await trio.sleep(when)
                        ref.end(ending)

                    for one in clients:
                        nursery.start_soon(client, one)
                    for when, ending in endings:
                        nursery.start_soon(end, when, ending)
                    await trio.sleep(leave)
                    if crash_land:
                        scope.cancel()
            assert ref.ended is not None
            assert supervisor.children == ()

    trio.run(play, clock=MockClock(autojump_threshold=0))
    assert len(fates) == len(clients)
    assert set(fates) <= {"answered", "cancelled", "refused by moody 1"}
    # Every life's end is told, and that no other follows exactly once, at last.
    assert all(event.next is Next.RESTART for event in exits.seen[:-1])
    assert exits.seen[-1].next is not Next.RESTART


@given(
    casts=st.lists(st.integers(0, 3), max_size=20),
    capacity=st.integers(1, 3),
    patience=st.lists(st.integers(0, 4), min_size=20, max_size=20),
)
def test_of_each_sender_every_message_that_was_sent_is_handled_in_order_and_no_other(
    casts: list[int], capacity: int, patience: list[int]
) -> None:
    handled: list[Any] = []
    sent: list[Any] = []

    class Slow(Actor[tuple[int, int]]):
        async def receive(self, message: tuple[int, int]) -> object:
            handled.append(message)
            await trio.sleep(1)
            return None

    async def play() -> None:
        async with Supervisor("s", patience=Patience(drain=100)) as supervisor:
            ref = supervisor.start(
                Slow, name="slow 1", restart=Restart.TEMPORARY, capacity=capacity
            )

            async def sender(who: int) -> None:
                for number, of in enumerate(casts):
                    if of == who:
                        with trio.move_on_after(patience[number]):
                            await ref.cast((who, number))
                            sent.append((who, number))

            async with trio.open_nursery() as nursery:
                for who in range(4):
                    nursery.start_soon(sender, who)

    trio.run(play, clock=MockClock(autojump_threshold=0))
    assert sorted(handled) == sorted(sent)
    for who in range(4):
        own = [message for message in handled if message[0] == who]
        assert own == sorted(own)
