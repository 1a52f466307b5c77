"""What Ctrl-C ends while there is something to end."""

import signal

import pytest
import trio

from heddle.cli.session import Session
from heddle.cli.terminal.interrupts import Interrupts


async def test_the_first_interrupt_cancels_and_the_second_is_for_the_program() -> None:
    interrupts = Interrupts()
    assert not interrupts.heed(signal.SIGINT)
    with interrupts.heeding() as scope:
        assert not interrupts.heed(signal.SIGTERM)
        assert interrupts.heed(signal.SIGINT)
        assert not interrupts.heed(signal.SIGINT)
        await trio.sleep_forever()
    assert scope.cancelled_caught
    assert not interrupts.heed(signal.SIGINT)


async def test_without_a_keyboard_nothing_is_heeded() -> None:
    interrupts = Interrupts(active=False)
    with interrupts.heeding():
        assert not interrupts.heed(signal.SIGINT)


async def test_a_signal_that_was_heeded_ends_no_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("heddle.cli.session.PATIENCE", 0.0)
    monkeypatch.setattr("os._exit", lambda _: pytest.fail("the process was ended"))
    interrupts = Interrupts()

    async def take_turns() -> int:
        turns = 0
        for _ in range(3):
            with interrupts.heeding() as scope:
                signal.raise_signal(signal.SIGINT)
                await trio.sleep_forever()
            turns += scope.cancelled_caught
            await trio.testing.wait_all_tasks_blocked()
        return turns

    session = Session[int](heed=interrupts.heed)
    assert await session.execute(take_turns) == 3
