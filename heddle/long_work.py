"""Work on values, done where it holds nobody up: here while it is short, else in a thread.

    result = await bounded(lambda: check_inputs(declared, given))
    asked = briefly(lambda: read(body)) or await reading(lambda: read(body))

Nearly all of it takes microseconds, and a thread costs a hundred of them. So it is begun
in the task itself, with `BRIEF` to spend, and begun again in a thread when that was too
little. Few such threads are at work at a time, however many runs want one: the others
shall not get a smaller share of the machine.
"""

from collections.abc import Callable
from typing import Final, TypeVar

import trio

from heddle.spec import Effort, EffortExceeded, spending

BRIEF: Final = 10_000
"""Steps in a task: up to some 30 ms on a slow machine."""

AT_ONCE: Final = 2
"""Threads of each sort. Each can hold up the rest of the process by some 5 ms."""

_CHECKS: Final = trio.CapacityLimiter(AT_ONCE)
_READS: Final = trio.CapacityLimiter(AT_ONCE)

Found = TypeVar("Found")


def briefly(work: Callable[[], Found]) -> Found | None:
    """The result of work that neither waits nor changes anything; None where it would take
    more than a moment."""
    try:
        with spending(Effort(BRIEF)):
            return work()
    except EffortExceeded:
        return None


async def bounded(work: Callable[[], Found]) -> Found:
    """The result of such work, however long it takes.

    Raises:
        EffortExceeded: It takes too long for a thread too.
    """
    try:
        with spending(Effort(BRIEF)):
            return work()
    except EffortExceeded:
        pass
    return await _in_thread(work, Effort(), _CHECKS)


READING: Final = 3_000_000
"""Steps that a document may cost while it is read: two for the longest there may be, and
one for its defaults, which are held against their types."""


async def reading(work: Callable[[], Found]) -> Found:
    """The result of reading something long that somebody sent.

    Raises:
        EffortExceeded: It takes too long.
    """
    return await _in_thread(work, Effort(READING), _READS)


async def _in_thread(
    work: Callable[[], Found], effort: Effort, turns: trio.CapacityLimiter
) -> Found:
    """When cancelled, it comes to an end by itself."""

    def do() -> Found:
        with spending(effort):
            return work()

    try:
        return await trio.to_thread.run_sync(do, limiter=turns, abandon_on_cancel=True)
    finally:
        effort.stop()
