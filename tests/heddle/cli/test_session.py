import os
import signal

import pytest
import trio
import trio.lowlevel

from heddle.cli import session as session_module
from heddle.cli.exits import INTERRUPTIONS, Interrupted, Terminated
from heddle.cli.session import Session
from heddle.cli.terminal.outlet import Outlet
from heddle.standard_streams import OutputFailed
from plugins_host import Fault


async def done() -> str:
    return "done"


async def test_the_result_is_that_of_the_run() -> None:
    assert await Session[str]().execute(done) == "done"


async def test_what_the_run_raises_is_raised_alone() -> None:
    fault = Fault("x")
    ended: list[Exception | None] = []

    async def fail() -> str:
        raise fault

    with pytest.raises(Fault) as caught:
        await Session[str](ended=ended.append).execute(fail)
    assert caught.value is fault
    assert ended == [fault]


@pytest.mark.parametrize(("number", "kind"), INTERRUPTIONS.items())
async def test_a_signal_cancels_the_run(number: int, kind: type[Interrupted]) -> None:
    cleaned_up = False

    async def wait() -> str:
        nonlocal cleaned_up
        signal.raise_signal(number)
        try:
            await trio.sleep_forever()
        finally:
            cleaned_up = True

    with pytest.raises(kind) as caught:
        await Session[str]().execute(wait)
    assert type(caught.value) is kind
    assert cleaned_up


async def test_a_failure_while_it_is_cancelled_is_the_cause_of_the_interruption() -> None:
    async def wait() -> str:
        signal.raise_signal(signal.SIGTERM)
        try:
            await trio.sleep_forever()
        finally:
            raise Fault("cleaning up failed")

    with pytest.raises(Terminated) as caught:
        await Session[str]().execute(wait)
    assert str(caught.value.__cause__) == "cleaning up failed"


async def test_a_reason_to_stop_is_raised() -> None:
    session: Session[str] = Session()
    reason = OutputFailed("x")

    async def stop() -> str:
        session.stop(reason)
        session.stop(OutputFailed("a later one"))
        await trio.sleep_forever()

    with pytest.raises(OutputFailed) as caught:
        await session.execute(stop)
    assert caught.value is reason


async def test_an_animation_runs_beside_and_ends_with_the_run() -> None:
    frames = 0

    async def animate() -> None:
        nonlocal frames
        while True:
            frames += 1
            await trio.lowlevel.checkpoint()

    async def wait() -> str:
        await trio.lowlevel.checkpoint()
        return "done"

    assert await Session[str](animate=animate).execute(wait) == "done"
    assert frames


@pytest.mark.parametrize("late_signal", [False, True])
async def test_outlets_are_emptied_before_the_result_is_returned(late_signal: bool) -> None:
    read, write = os.pipe()
    outlet = Outlet(write, most=1_000_000)
    heard = 0

    def ended(_: Exception | None) -> None:
        if late_signal:  # it changes nothing any more about a run that is over
            signal.raise_signal(signal.SIGTERM)

    async def say_much() -> str:
        outlet.put(b"x" * 500_000)
        return "done"

    async def listen() -> None:
        nonlocal heard
        while heard < 500_000:
            heard += len(await trio.to_thread.run_sync(os.read, read, 65536))

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen)
            assert await Session[str]([outlet], ended=ended).execute(say_much) == "done"
            assert outlet.idle
    finally:
        os.close(read)
        os.close(write)


async def test_a_later_signal_ends_the_process_that_does_not_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exits: list[int] = []
    monkeypatch.setattr(session_module, "PATIENCE", 0.05)
    monkeypatch.setattr(os, "_exit", exits.append)

    async def linger() -> str:
        signal.raise_signal(signal.SIGTERM)
        with trio.CancelScope(shield=True):
            await trio.sleep(0.01)
            signal.raise_signal(signal.SIGTERM)  # too early to count
            await trio.sleep(0.2)
            assert exits == []
            signal.raise_signal(signal.SIGINT)
            await trio.sleep(0.1)
        await trio.sleep_forever()

    with pytest.raises(Terminated):
        await Session[str](at_once=lambda: exits.append(0)).execute(linger)
    assert exits == [0, 130]
