"""Who is started again, how often, and how soon: tables and functions of data."""

from itertools import pairwise, product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import (
    ENDINGS,
    RESTARTS,
    Backoff,
    Ending,
    Exit,
    Intensity,
    Next,
    Patience,
    Restart,
)
from actors.restarts import what_next

INSTANTS = st.lists(st.floats(0, 1000), max_size=30).map(sorted)
INTENSITIES = st.builds(Intensity, st.integers(0, 5), st.floats(0.001, 100))


def test_the_table_answers_every_question_once() -> None:
    assert set(RESTARTS) == set(product(Restart, Exit))


def test_who_was_cancelled_is_never_started_again_and_who_is_temporary_neither() -> None:
    assert not any(RESTARTS[restart, Exit.CANCELLED] for restart in Restart)
    assert not any(RESTARTS[Restart.TEMPORARY, exit_] for exit_ in Exit)


def test_permanent_restarts_always_and_transient_after_a_crash() -> None:
    assert [exit_ for exit_ in Exit if RESTARTS[Restart.PERMANENT, exit_]] == [
        Exit.NORMAL,
        Exit.CRASHED,
    ]
    assert [exit_ for exit_ in Exit if RESTARTS[Restart.TRANSIENT, exit_]] == [Exit.CRASHED]


@pytest.mark.parametrize(("restart", "exit_"), RESTARTS)
def test_who_was_asked_to_end_stays_ended(restart: Restart, exit_: Exit) -> None:
    def then(*, asked: bool) -> Next:
        return what_next(
            exit_, restart, asked=asked, intensity=Intensity(), history=[], now=0.0
        )

    assert then(asked=True) is Next.NOTHING
    again = RESTARTS[restart, exit_]
    assert then(asked=False) is (Next.RESTART if again else Next.NOTHING)


def test_one_restart_too_many_within_the_window_is_giving_up() -> None:
    def then(history: list[float]) -> Next:
        return what_next(
            Exit.CRASHED,
            Restart.TRANSIENT,
            asked=False,
            intensity=Intensity(restarts=2, window=10),
            history=history,
            now=20.0,
        )

    assert then([]) is Next.RESTART
    assert then([11.0]) is Next.RESTART
    assert then([10.0, 11.0]) is Next.RESTART, "at the end of the window it is out of it"
    assert then([10.5, 11.0]) is Next.GIVE_UP
    assert then([1.0, 2.0, 3.0, 4.0]) is Next.RESTART


@given(INTENSITIES, INSTANTS)
def test_no_window_ever_holds_more_restarts_than_allowed(
    intensity: Intensity, instants: list[float]
) -> None:
    history: list[float] = []
    for now in instants:
        if intensity.allows(history, now):
            history.append(now)
    for start in history:
        within = [t for t in history if start <= t and t - start < intensity.window]
        assert len(within) <= intensity.restarts


@given(INTENSITIES, INSTANTS)
def test_forgetting_what_is_not_recent_changes_no_decision(
    intensity: Intensity, instants: list[float]
) -> None:
    whole: list[float] = []
    pruned: list[float] = []
    for now in instants:
        allowed = intensity.allows(whole, now)
        assert intensity.allows(pruned, now) == allowed
        pruned = intensity.recent(pruned, now)
        if allowed:
            whole.append(now)
            pruned.append(now)
    assert len(pruned) <= intensity.restarts


@given(
    st.floats(0, 100),
    st.floats(0, 1000),
    st.integers(0, 10_000),
    st.integers(),
)
def test_a_back_off_is_never_longer_than_its_cap_nor_shorter_than_half_of_its_due(
    base: float, cap: float, restarts: int, seed: int
) -> None:
    delay = Backoff(base=base, cap=cap).delay(restarts, Random(seed))
    due = min(cap, base * 2 ** min(restarts, 64))
    assert due / 2 <= delay <= due


def test_the_back_off_doubles_until_it_is_capped() -> None:
    class Most(Random):
        def random(self) -> float:
            return 1.0

    backoff = Backoff(base=0.5, cap=5)
    assert [backoff.delay(n, Most()) for n in range(6)] == [0.5, 1, 2, 4, 5, 5]
    assert Backoff(base=0).delay(3, Most()) == 0


def test_a_negative_number_of_restarts_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="-1 restarts"):
        Backoff().delay(-1, Random(0))


def test_every_ending_says_what_it_finishes_and_a_greater_one_finishes_less() -> None:
    assert set(ENDINGS) == set(Ending)
    for lesser, greater in pairwise(sorted(Ending)):
        assert ENDINGS[lesser].in_hand >= ENDINGS[greater].in_hand
        assert ENDINGS[lesser].waiting >= ENDINGS[greater].waiting
        assert ENDINGS[lesser] != ENDINGS[greater]


@given(st.floats(0, 10), st.floats(0, 10))
def test_patience_goes_from_the_least_to_the_kill(drain: float, stop: float) -> None:
    steps = list(Patience(drain, stop).steps())
    endings = [ending for ending, _ in steps]
    assert endings == sorted(set(endings))
    assert steps[-1] == (Ending.KILL, float("inf"))
    assert (Ending.DRAIN in endings, Ending.STOP in endings) == (drain > 0, stop > 0)
