"""Tests of signals see them, however the tests were started."""

import signal
import subprocess

import pytest

from tests.support.signals import ASKING_TO_END, hear_signals


@pytest.mark.parametrize("number", ASKING_TO_END)
def test_a_program_ends_by_a_signal_that_whoever_started_the_tests_ignores(
    number: signal.Signals,
) -> None:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        hear_signals()
        done = subprocess.run(["sh", "-c", f"kill -{number} $$"], timeout=30, check=False)
    finally:
        signal.signal(number, before)
    assert done.returncode == -number


def test_what_is_heard_already_is_left_as_it_is() -> None:
    before = [signal.getsignal(each) for each in ASKING_TO_END]
    hear_signals()
    assert [signal.getsignal(each) for each in ASKING_TO_END] == before
