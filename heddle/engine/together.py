"""Things done side by side: so many at once, in order, the first failure ends all."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from heddle.engine.faults import RunFailed

T = TypeVar("T")

MOST: Final = 16
"""Flows that one node runs at the same time. Each may hold a connection to a model or a
process of a tool; a run with more to do takes turns with itself."""


async def together(count: int, one: Callable[[int], Awaitable[T]]) -> list[T]:
    """Await ``one`` for each number below ``count``; what they gave, by number.

    When one fails the others are cancelled. What ends the run comes before what fails a
    node, and of several failures that of the lowest number is raised.
    """
    # Here, so that a document can be checked without loading trio.
    import trio

    found: dict[int, T] = {}
    faults: dict[int, Exception] = {}
    numbers = iter(range(count))

    async def work() -> None:
        # Whoever is free takes the next.
        for number in numbers:
            try:
                found[number] = await one(number)
            except Exception as error:  # noqa: BLE001  raised below
                faults[number] = error
                nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        for _ in range(min(count, MOST)):
            nursery.start_soon(work)
    if faults:
        ends = [number for number in faults if isinstance(faults[number], RunFailed)]
        raise faults[min(ends or faults)]
    return [found[number] for number in range(count)]
