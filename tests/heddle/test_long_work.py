"""Work on values: in the task while it is brief, else in a thread that can be stopped."""

import threading

import pytest
import trio

from heddle.long_work import BRIEF, READING, bounded, briefly, reading
from heddle.spec import EffortExceeded
from heddle.spec.effort import effort


def thread_after(steps: int) -> str:
    """The name of the thread in which so many steps were spent."""
    spent = effort()
    for _ in range(steps):
        spent.spend()
    return threading.current_thread().name


async def test_brief_work_is_done_here() -> None:
    here = threading.current_thread().name
    assert await bounded(lambda: thread_after(BRIEF)) == here
    assert briefly(lambda: thread_after(BRIEF)) == here


async def test_longer_work_is_done_in_a_thread() -> None:
    here = threading.current_thread().name
    assert await bounded(lambda: thread_after(BRIEF + 1)) != here
    assert briefly(lambda: thread_after(BRIEF + 1)) is None
    assert await reading(lambda: thread_after(1)) != here


async def test_work_without_end_is_given_up() -> None:
    with pytest.raises(EffortExceeded):
        await reading(lambda: thread_after(READING + 1))


async def test_work_that_nobody_waits_for_comes_to_an_end() -> None:
    begun, ended = threading.Event(), threading.Event()

    def work() -> None:
        try:
            spent = effort()
            while True:
                begun.set()
                spent.spend(0)
        except EffortExceeded:
            ended.set()
            raise

    async with trio.open_nursery() as nursery:
        nursery.start_soon(reading, work)
        await trio.to_thread.run_sync(begun.wait)
        nursery.cancel_scope.cancel()
    assert await trio.to_thread.run_sync(ended.wait, 20)
