"""When the readers of one run read: at once, or in turns."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.server.following.turns import (
    PATIENCE,
    RUN_SHARE,
    SHORTEST_TURN,
    SLICE,
    SLICE_READERS,
    Turns,
)


class Clock:
    """A pace whose time a test sets."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.calls: list[tuple[float, Callable[[], None]]] = []

    def now(self) -> float:
        """The time."""
        return self.time

    def at(self, when: float, call: Callable[[], None]) -> None:
        """Note it."""
        self.calls.append((when, call))

    def go_on(self, seconds: float) -> None:
        """Let time pass, and make the calls that come due, each at its time."""
        until = self.time + seconds
        while due := [each for each in self.calls if each[0] <= until]:
            first = min(due, key=lambda each: each[0])
            self.calls.remove(first)
            self.time = max(self.time, first[0])
            first[1]()
        self.time = max(self.time, until)


class Reader:
    """Counts how often it was woken or served.

    Args:
        clock: What its work takes time of.
        cost: Seconds that it is busy when it is served.
        task: Whether it is busy later, in a task of its own.
    """

    def __init__(self, clock: Clock, *, cost: float = 0.0, task: bool = False) -> None:
        self.woken = 0
        self.served: list[float] = []
        self.cost = cost
        self._clock = clock
        self._task = task

    def wake(self) -> None:
        """Count."""
        self.woken += 1

    def serve(self) -> bool:
        """Note when, and be busy."""
        self.served.append(self._clock.time)
        if not self._task:
            self._clock.time += self.cost
        return self._task


@pytest.fixture
def clock() -> Clock:
    """The time, which stands still."""
    return Clock()


def waiting(turns: Turns, *readers: Reader) -> None:
    """They wait for the next event."""
    for reader in readers:
        turns.wait(reader, for_turn=False)


def crowd(clock: Clock, count: int, **how: float) -> tuple[Turns, list[Reader]]:
    """So many readers who wait."""
    turns = Turns(clock, 0)
    turns.readers = count
    readers = [Reader(clock, **how) for _ in range(count)]  # type: ignore[arg-type]
    waiting(turns, *readers)
    return turns, readers


def test_one_reader_is_woken_by_every_event_it_waits_for(clock: Clock) -> None:
    turns, (reader,) = crowd(clock, 1)
    for last in range(1, 10):
        turns.came(last)
        assert reader.woken == last
        assert turns.visible() == last
        waiting(turns, reader)
    assert not clock.calls


def test_several_are_served_when_the_run_has_gone_on_and_see_the_same(
    clock: Clock,
) -> None:
    turns, readers = crowd(clock, 10)
    turns.came(1)
    turns.came(2)
    assert [reader.served for reader in readers] == [[]] * 10
    clock.go_on(0)
    assert [len(reader.served) for reader in readers] == [1] * 10
    turns.came(3)
    assert turns.visible() == 2


def test_who_has_read_in_this_turn_waits_for_the_next(clock: Clock) -> None:
    turns, readers = crowd(clock, 10)
    turns.came(1)
    clock.go_on(0)
    waiting(turns, *readers)
    turns.came(2)
    clock.go_on(10 * SHORTEST_TURN - 1e-6)
    assert len(readers[0].served) == 1
    late = Reader(clock)
    turns.wait(late, for_turn=True)
    clock.go_on(2e-6)
    assert [len(reader.served) for reader in readers] == [2] * 10
    assert len(late.served) == 1
    assert turns.visible() == 2


def test_a_slice_ends_when_it_has_lasted_long_enough(clock: Clock) -> None:
    cost = SLICE * 0.4
    turns, readers = crowd(clock, 5, cost=cost)
    began = clock.time
    turns.came(1)
    clock.go_on(0)
    assert [len(reader.served) for reader in readers] == [1, 1, 1, 0, 0]
    turns.came(2)
    clock.go_on(RUN_SHARE * 3 * cost - 1e-6)
    assert not readers[3].served
    clock.go_on(2e-6)
    assert [len(reader.served) for reader in readers] == [1] * 5
    assert readers[3].served[0] == pytest.approx(began + (1 + RUN_SHARE) * 3 * cost)
    # All of one turn see the same.
    assert turns.visible() == 1


def test_who_works_in_tasks_is_served_so_many_at_a_time(clock: Clock) -> None:
    turns, readers = crowd(clock, SLICE_READERS + 1, task=True)
    turns.came(1)
    clock.go_on(0)
    assert [len(reader.served) for reader in readers] == [1] * SLICE_READERS + [0]
    busy = 5e-3
    clock.time += busy
    # Most of them: one that is held up by its peer is not waited for.
    waiting(turns, *readers[: SLICE_READERS * 3 // 4])
    clock.go_on(RUN_SHARE * busy - 1e-6)
    assert not readers[-1].served
    clock.go_on(2e-6)
    assert readers[-1].served


def test_those_who_do_not_come_back_are_not_waited_for_long(clock: Clock) -> None:
    turns, readers = crowd(clock, 10, task=True)
    turns.came(1)
    clock.go_on(0)
    waiting(turns, readers[0])
    turns.came(2)
    clock.go_on(10 * PATIENCE - 1e-6)
    assert len(readers[0].served) == 1
    clock.go_on(2e-6)
    assert [len(reader.served) for reader in readers] == [2] + [1] * 9


def test_a_slice_that_comes_sooner_than_planned_comes_once(clock: Clock) -> None:
    turns, readers = crowd(clock, 4, task=True)
    turns.came(1)
    clock.go_on(0)
    # Planned for the latest time, before all have come back.
    turns.wait(readers[0], for_turn=True)
    turns.came(2)
    waiting(turns, *readers[1:])
    clock.go_on(4 * PATIENCE)
    assert [len(reader.served) for reader in readers] == [2] * 4


def test_at_the_end_all_are_woken_and_see_everything(clock: Clock) -> None:
    turns, readers = crowd(clock, SLICE_READERS + 2, cost=1e-5)
    turns.came(1)
    clock.go_on(0)
    waiting(turns, *readers[:3])
    turns.came(2)
    turns.end()
    woken = [reader.woken for reader in readers]
    assert woken == [1] * 3 + [0] * (SLICE_READERS - 3) + [1] * 2
    assert turns.visible() == 2
    clock.go_on(1)
    assert [reader.woken for reader in readers] == woken


def test_who_waits_no_more_is_not_woken(clock: Clock) -> None:
    turns, readers = crowd(clock, SLICE_READERS + 3, cost=1e-5)
    turns.wait_no_more(readers[1])
    turns.wait_no_more(readers[1])
    turns.came(1)
    clock.go_on(0)
    # In the middle of a turn that has not come to it.
    turns.wait_no_more(readers[-1])
    turns.end()
    clock.go_on(1)
    assert not readers[1].served + readers[-1].served
    assert readers[1].woken == readers[-1].woken == 0
    assert readers[-2].woken == 1


def test_without_a_pace_all_are_woken_by_every_event(clock: Clock) -> None:
    turns = Turns(None, 0)
    turns.readers = 2
    readers = [Reader(clock), Reader(clock)]
    for last in range(1, 4):
        waiting(turns, *readers)
        turns.came(last)
        assert [reader.woken for reader in readers] == [last, last]
        assert turns.visible() == last


def test_one_that_cannot_be_served_keeps_nobody_from_their_turn(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    turns, readers = crowd(clock, 3)
    readers[0].serve = lambda: 1 / 0  # type: ignore[assignment]
    turns.came(1)
    clock.go_on(0)
    assert [len(reader.served) for reader in readers] == [0, 1, 1]
    assert "could not be woken" in caplog.text


@given(
    st.lists(st.floats(0, 3 * SLICE), min_size=2, max_size=60),
    st.lists(st.floats(0, 0.01), max_size=40),
)
def test_however_many_there_are_most_of_the_time_is_the_runs(
    costs: list[float], pauses: list[float]
) -> None:
    clock = Clock()
    turns = Turns(clock, 0)
    turns.readers = len(costs)
    spent = 0.0

    class Coming(Reader):
        """Comes back at once, as one does that writes what fits."""

        def serve(self) -> bool:
            nonlocal spent
            super().serve()
            spent += self.cost
            turns.wait(self, for_turn=False)
            return False

    waiting(turns, *(Coming(clock, cost=cost) for cost in costs))
    began = clock.time
    for number, pause in enumerate(pauses, 1):
        turns.came(number)
        clock.go_on(pause)
    # One slice may be unpaid for: it has just been.
    most = SLICE + max(costs)
    assert spent <= (clock.time - began + RUN_SHARE * most) / (1 + RUN_SHARE) + 1e-9
