"""When the readers of one run read: at once, or in turns."""

from collections.abc import Callable

import pytest

from heddle.server.turns import LONGEST_TURN, SHORTEST_TURN, TURN_SHARE, Turns


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
        """Let time pass, and make the calls that are due."""
        self.time += seconds
        due = [each for each in self.calls if each[0] <= self.time]
        self.calls = [each for each in self.calls if each not in due]
        for _, call in due:
            call()


class Reader:
    """Counts how often it was woken."""

    def __init__(self) -> None:
        self.woken = 0

    def wake(self) -> None:
        """Count."""
        self.woken += 1


@pytest.fixture
def clock() -> Clock:
    """The time, which stands still."""
    return Clock()


def waiting(clock: Clock, count: int) -> tuple[Turns, list[Reader]]:
    """So many readers who wait, after a turn at once that took no time."""
    turns = Turns(clock, 0)
    turns.readers = count
    readers = [Reader() for _ in range(count)]
    for reader in readers:
        turns.wait(reader, for_turn=False)
    turns.came(1)
    for reader in readers:
        assert reader.woken == 1
        turns.wait(reader, for_turn=False)
    return turns, readers


def test_one_reader_is_woken_by_every_event_it_waits_for(clock: Clock) -> None:
    turns, (reader,) = waiting(clock, 1)
    for last in range(2, 10):
        turns.came(last)
        assert reader.woken == last
        assert turns.visible() == last
        turns.wait(reader, for_turn=False)


def test_several_are_woken_together_and_see_the_same(clock: Clock) -> None:
    turns, readers = waiting(clock, 10)
    turns.came(2)
    turns.came(3)
    assert turns.visible() == 1
    clock.go_on(10 * SHORTEST_TURN)
    turns.came(4)
    assert [reader.woken for reader in readers] == [2] * 10
    assert turns.visible() == 3


def test_who_has_read_in_this_turn_waits_for_the_next(clock: Clock) -> None:
    turns, readers = waiting(clock, 2)
    turns.came(2)
    late = Reader()
    turns.wait(late, for_turn=True)
    assert late.woken == 0
    clock.go_on(2 * SHORTEST_TURN)
    assert late.woken == 1
    assert [reader.woken for reader in readers] == [2, 2]


def test_the_longer_they_are_busy_the_later_is_their_next_turn(clock: Clock) -> None:
    turns, readers = waiting(clock, 10)
    clock.go_on(1)
    turns.came(2)
    busy = 2 * 10 * SHORTEST_TURN
    clock.go_on(busy)
    for reader in readers:
        turns.wait(reader, for_turn=False)
    turns.came(3)
    clock.go_on(TURN_SHARE * busy - busy - 1e-6)
    assert readers[0].woken == 2
    clock.go_on(2e-6)
    assert readers[0].woken == 3


def test_those_who_do_not_come_back_are_not_waited_for_long(clock: Clock) -> None:
    turns, readers = waiting(clock, 10)
    clock.go_on(1)
    turns.came(2)
    turns.wait(readers[0], for_turn=False)
    turns.came(3)
    clock.go_on(10 * LONGEST_TURN)
    assert [reader.woken for reader in readers] == [3] + [2] * 9


def test_a_turn_that_comes_sooner_than_planned_comes_once(clock: Clock) -> None:
    turns, readers = waiting(clock, 4)
    clock.go_on(1)
    turns.came(2)
    # Planned for the latest time, before anybody has come back.
    turns.wait(readers[0], for_turn=True)
    for reader in readers[1:]:
        turns.wait(reader, for_turn=False)
    turns.came(3)
    clock.go_on(4 * SHORTEST_TURN)
    assert [reader.woken for reader in readers] == [3] * 4
    # A later one is planned again, and the call for the first plan comes before it.
    for reader in readers[1:]:
        turns.wait(reader, for_turn=False)
    clock.go_on(4 * LONGEST_TURN - 8 * SHORTEST_TURN)
    turns.came(4)
    assert [reader.woken for reader in readers] == [3, 4, 4, 4]
    turns.wait(readers[1], for_turn=True)
    clock.go_on(4 * SHORTEST_TURN + 1e-6)
    assert readers[1].woken == 4
    clock.go_on(4 * LONGEST_TURN)
    assert readers[1].woken == 5


def test_at_the_end_all_are_woken_and_see_everything(clock: Clock) -> None:
    turns, readers = waiting(clock, 3)
    turns.came(2)
    turns.end()
    assert [reader.woken for reader in readers] == [2, 2, 2]
    assert turns.visible() == 2


def test_who_waits_no_more_is_not_woken(clock: Clock) -> None:
    turns, readers = waiting(clock, 3)
    turns.wait_no_more(readers[1])
    turns.wait_no_more(readers[1])
    turns.end()
    assert [reader.woken for reader in readers] == [2, 1, 2]


def test_without_a_pace_all_are_woken_by_every_event() -> None:
    turns = Turns(None, 0)
    turns.readers = 2
    readers = [Reader(), Reader()]
    for last in range(1, 4):
        for reader in readers:
            turns.wait(reader, for_turn=False)
        turns.came(last)
        assert [reader.woken for reader in readers] == [last, last]
        assert turns.visible() == last
