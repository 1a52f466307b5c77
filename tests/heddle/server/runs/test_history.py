"""Ended runs are kept for a while, bounded by count and bytes."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from heddle.server.runs.history import History, HistoryLimits, Shelf


class Run(Struct, frozen=True):
    """What is kept."""

    id: str
    weight: int = 1
    detached: bool = False


def test_a_run_is_found_by_its_id() -> None:
    history: History[Run] = History()
    history.add(Run("a"))
    history.add(Run("b", detached=True))
    assert history.get("a") == Run("a")
    assert history.get("b") == Run("b", detached=True)
    assert history.get("c") is None
    assert len(history) == 2


def test_the_one_that_ended_first_is_dropped_first() -> None:
    history: History[Run] = History(HistoryLimits(runs=2))
    for name in "abc":
        history.add(Run(name))
    assert [run.id for run in history] == ["c", "b"]


def test_heavy_runs_push_out_more() -> None:
    history: History[Run] = History(HistoryLimits(bytes=10))
    for weight in (4, 4, 9):
        history.add(Run(str(weight), weight))
    assert [run.weight for run in history] == [9]


def test_the_newest_is_kept_however_heavy_it_is() -> None:
    history: History[Run] = History(HistoryLimits(bytes=10))
    history.add(Run("a", 5))
    history.add(Run("b", 100))
    assert [run.id for run in history] == ["b"]
    history.add(Run("c", 5))
    assert [run.id for run in history] == ["c"]


def test_nothing_is_kept_when_nothing_may_be() -> None:
    history: History[Run] = History(HistoryLimits(runs=0))
    history.add(Run("a"))
    assert len(history) == 0


def test_runs_with_a_caller_do_not_push_out_those_to_be_fetched_later() -> None:
    history: History[Run] = History(HistoryLimits(runs=3))
    history.add(Run("later", detached=True))
    for number in range(100):
        history.add(Run(str(number)))
    assert history.get("later") is not None


def test_all_are_listed_as_they_ended_the_newest_first() -> None:
    history: History[Run] = History()
    for number in range(6):
        history.add(Run(str(number), detached=number % 3 == 0))
    assert [run.id for run in history] == ["5", "4", "3", "2", "1", "0"]


@given(st.lists(st.integers(0, 50), max_size=60), st.integers(1, 10), st.integers(0, 120))
def test_the_newest_that_fit_are_kept(weights: list[int], runs: int, size: int) -> None:
    shelf: Shelf[Run] = Shelf(HistoryLimits(runs, size))
    for number, weight in enumerate(weights):
        shelf.add(Run(str(number), weight), number)
        kept = [run.weight for _, run in shelf]
        assert kept == weights[: number + 1][::-1][: len(kept)]
        assert shelf.bytes == sum(kept)
        assert len(kept) == 1 or (len(kept) <= runs and sum(kept) <= size)
