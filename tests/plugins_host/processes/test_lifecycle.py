"""Questions to the graph of phases, and to the memory of failed starts."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins_host.processes.lifecycle import (
    FIRST_REST,
    LONGEST_REST,
    MAX_DEATHS,
    PHASES,
    PROBE_EVERY,
    TRANSITIONS,
    WELL,
    WINDOW,
    Phase,
    Signal,
    StartHistory,
    following,
)

ALIVE = [phase for phase in Phase if PHASES[phase].runs]


def reachable(start: Phase) -> set[Phase]:
    seen, todo = {start}, [start]
    while todo:
        for phase in TRANSITIONS[todo.pop()].values():
            if phase not in seen:
                seen.add(phase)
                todo.append(phase)
    return seen


def test_every_phase_has_a_row_in_both_tables() -> None:
    assert set(PHASES) == set(TRANSITIONS) == set(Phase)


def test_every_phase_can_be_reached() -> None:
    assert reachable(Phase.ABSENT) == set(Phase)


@pytest.mark.parametrize("phase", Phase)
def test_every_phase_can_end(phase: Phase) -> None:
    assert Phase.GONE in reachable(phase)


def test_what_is_gone_stays_gone() -> None:
    assert all(following(Phase.GONE, signal) is Phase.GONE for signal in Signal)


@pytest.mark.parametrize("phase", ALIVE)
def test_an_exit_is_always_the_end(phase: Phase) -> None:
    assert following(phase, Signal.EXITED) is Phase.GONE


@pytest.mark.parametrize("phase", Phase)
def test_after_a_stop_no_call_is_taken(phase: Phase) -> None:
    assert not PHASES[following(phase, Signal.STOP_ASKED)].takes_calls


@pytest.mark.parametrize("phase", [phase for phase in ALIVE if PHASES[phase].answers])
def test_a_broken_channel_answers_nobody(phase: Phase) -> None:
    assert not PHASES[following(phase, Signal.BROKE)].answers


def test_only_a_greeted_process_takes_calls_and_never_again_once_it_stopped() -> None:
    taking = {phase for phase in Phase if PHASES[phase].takes_calls}
    assert taking == {Phase.READY}
    into = [
        (p, s)
        for p, s in product(Phase, Signal)
        if following(p, s) in taking and p not in taking
    ]
    assert into == [(Phase.GREETING, Signal.GREETED)]


def test_a_retired_process_still_answers_its_open_calls() -> None:
    retiring = following(Phase.READY, Signal.RETIRED)
    assert PHASES[retiring].answers
    assert following(retiring, Signal.EMPTIED) is Phase.ENDING


@given(st.lists(st.sampled_from(Signal)))
def test_no_order_of_signals_brings_a_process_back(signals: list[Signal]) -> None:
    phase = Phase.ABSENT
    for signal in signals:
        before, phase = phase, following(phase, signal)
        if before is Phase.GONE:
            assert phase is Phase.GONE
        if not PHASES[before].runs and PHASES[phase].runs:
            assert (before, signal) == (Phase.ABSENT, Signal.SPAWNED)


def test_a_plugin_that_never_died_starts_at_once() -> None:
    assert not WELL.given_up
    assert WELL.next_start() == float("-inf")


def test_each_death_doubles_the_rest_up_to_a_bound() -> None:
    history, rests = WELL, []
    for count in range(MAX_DEATHS):
        history = history.died(count * WINDOW, "x")
        rests.append(history.next_start() - count * WINDOW)
    assert rests == pytest.approx([FIRST_REST * 2**n for n in range(MAX_DEATHS)])
    assert max(rests) <= LONGEST_REST


def test_five_deaths_within_a_minute_leave_only_a_probe() -> None:
    history = WELL
    for count in range(MAX_DEATHS):
        assert not history.given_up
        history = history.died(count * WINDOW / MAX_DEATHS, f"death {count}")
    assert history.given_up
    assert history.reason == "death 4"
    assert history.next_start() == history.deaths[-1] + PROBE_EVERY


def test_five_deaths_over_a_longer_time_are_passing_faults() -> None:
    history = WELL
    for count in range(20):
        history = history.died(count * (WINDOW / (MAX_DEATHS - 1) + 1), "x")
        assert not history.given_up


def test_a_probe_that_fails_keeps_it_given_up() -> None:
    history = WELL
    for count in range(20):
        history = history.died(count * PROBE_EVERY, "x")
    assert history.given_up


@given(st.lists(st.floats(0, 1000)))
def test_the_memory_of_deaths_is_bounded(gaps: list[float]) -> None:
    history, now = WELL, 0.0
    for gap in gaps:
        now += gap
        history = history.died(now, "x")
        assert len(history.deaths) <= MAX_DEATHS
        assert history.next_start() > now


def test_histories_are_plain_data() -> None:
    assert WELL.died(1.0, "x") == StartHistory((1.0,), "x")
