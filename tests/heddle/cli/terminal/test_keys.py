"""The keyboard while an answer is on its way, on a pseudo-terminal of the test's own."""

import os
import select
import termios
from collections.abc import Iterator

import pytest

from heddle.cli.terminal.keys import LOCAL, UNDONE, TerminalKeys


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """The two ends: of who types, and of the program."""
    master, slave = os.openpty()
    yield master, slave
    os.close(slave)
    os.close(master)


def test_nothing_is_echoed_ctrl_c_is_a_signal_and_all_is_given_back(
    terminal: tuple[int, int],
) -> None:
    master, slave = terminal
    before = termios.tcgetattr(slave)
    with TerminalKeys(slave, slave).quiet():
        local = termios.tcgetattr(slave)[LOCAL]
        assert not local & (termios.ECHO | termios.ICANON)
        assert local & termios.ISIG
        os.write(master, b"ahead")
        assert os.read(slave, 10) == b"ahead"
        assert not select.select([master], [], [], 0)[0]
    assert termios.tcgetattr(slave) == before


def test_it_is_given_back_before_the_process_is_ended_at_once(
    terminal: tuple[int, int],
) -> None:
    master, slave = terminal
    before = termios.tcgetattr(slave)
    keys = TerminalKeys(slave, slave)
    keys.give_back()
    assert not select.select([master], [], [], 0)[0]  # there was nothing to give back
    with keys.quiet():
        keys.give_back()
        assert termios.tcgetattr(slave) == before
        assert os.read(master, 100) == UNDONE


def test_it_is_taken_back_from_an_editor_that_was_cut_off(
    terminal: tuple[int, int],
) -> None:
    _, slave = terminal
    before = termios.tcgetattr(slave)
    keys = TerminalKeys(slave, slave)
    with keys.quiet():
        meanwhile = termios.tcgetattr(slave)
        raw = termios.tcgetattr(slave)
        raw[LOCAL] &= ~termios.ISIG
        termios.tcsetattr(slave, termios.TCSANOW, raw)
        keys.take_back()
        assert termios.tcgetattr(slave) == meanwhile
    assert termios.tcgetattr(slave) == before


def test_a_terminal_that_is_gone_is_left_alone() -> None:
    read, write = os.pipe()
    try:
        with TerminalKeys(read, write).quiet():
            pass
    finally:
        os.close(read)
        os.close(write)
