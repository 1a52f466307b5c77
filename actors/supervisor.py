"""A supervisor: starts actors, contains their crashes, and starts again who should be.

    async with Supervisor("runs") as runs:
        ref = runs.start(lambda: Run(flow), name="run 7", restart=Restart.TEMPORARY)
        …

Each child lives in a task of its own, called like the child. The end of one never touches
another (one-for-one): a child that does not stay up is given up, and it alone. Leaving
the block brings all to an orderly end; leaving it by an error ends all at once.
"""

import logging
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from random import Random
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import trio
from msgspec import Struct

from actors.actor import Actor
from actors.address import Address, Ended
from actors.endings import Patience
from actors.faults import SupervisorClosed
from actors.life import live
from actors.mailbox import MAILBOX_SIZE
from actors.ref import Ref
from actors.restarts import Backoff, Exit, Intensity, Next, Restart, what_next

M = TypeVar("M")

INTENSITY: Final = Intensity()
BACKOFF: Final = Backoff()
PATIENCE: Final = Patience()

_LOG: Final = logging.getLogger("actors")


class ChildExited(Struct, frozen=True):
    """A life of a child ended, and what follows. ``error`` is what it crashed with.

    A child that is ended while it rests before another start is told as cancelled.
    """

    supervisor: str
    actor: str
    exit: Exit
    next: Next
    error: Exception | None = None


def log_crash(event: ChildExited) -> None:
    """The report of a supervisor that was given none: crashes go to the log."""
    if event.exit is Exit.CRASHED:
        _LOG.error(
            "actor %r crashed, next: %s",
            event.actor,
            event.next.value,
            exc_info=event.error,
        )


async def end_all(refs: Iterable[Ref[Any]], patience: Patience) -> None:
    """Bring actors to their end, ever less patiently, and wait until all have ended."""
    left = list(refs)
    for ending, seconds in patience.steps():  # pragma: no branch  the last has no end
        left = [ref for ref in left if ref.ended is None]
        for ref in left:
            ref.end(ending)
        with trio.move_on_after(seconds) as scope:
            for ref in left:
                await ref.wait_ended()
        if not scope.cancelled_caught:
            return


class Supervisor:
    """Starts actors and decides what follows their ends, while its block is open.

    Args:
        name: What it is called in errors and reports.
        intensity: How often a child is started again before it is given up.
        backoff: How long a child rests before it is started again.
        patience: How long leaving the block waits before it stops and then kills.
        report: Told of every end of a life, and last of the child's end: then ``next``
            is not a restart. It must not raise.
        rng: Where the back-off's randomness comes from.
    """

    def __init__(
        self,
        name: str,
        *,
        intensity: Intensity = INTENSITY,
        backoff: Backoff = BACKOFF,
        patience: Patience = PATIENCE,
        report: Callable[[ChildExited], None] = log_crash,
        rng: Random | None = None,
    ) -> None:
        self.name = name
        self._intensity = intensity
        self._backoff = backoff
        self._patience = patience
        self._report = report
        self._rng = Random() if rng is None else rng  # noqa: S311  spreads load, hides nothing
        self._children: dict[Address, Ref[Any]] = {}
        self._nursery: trio.Nursery | None = None
        self._stack = AsyncExitStack()

    @property
    def children(self) -> tuple[Ref[Any], ...]:
        """Who lives, or rests before another start, oldest first."""
        return tuple(self._children.values())

    def start(
        self,
        make: Callable[[], Actor[M]],
        *,
        name: str,
        restart: Restart,
        capacity: int = MAILBOX_SIZE,
    ) -> Ref[M]:
        """Start an actor; messages can be sent to it at once.

        Args:
            make: Makes the actor, in its own task, once for every start.
            name: Says what it is and which: ``"run 7f3"``. Its task is called the same.
            restart: After which ends it is started again.
            capacity: How many messages its mailbox holds.

        Raises:
            SupervisorClosed: The block is not open, or is being left.
        """
        if self._nursery is None:
            raise SupervisorClosed(self.name)
        address = Address(name, capacity)
        ref: Ref[M] = Ref(address)
        self._children[address] = ref
        self._nursery.start_soon(self._keep, address, make, restart, name=name)
        return ref

    async def __aenter__(self) -> Self:
        self._nursery = await self._stack.enter_async_context(trio.open_nursery())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # The nursery is not told of the block's error: it would wrap it in a group, which
        # no `except` of the caller matches.
        nursery = self._nursery
        assert nursery is not None
        self._nursery = None
        try:
            if error is None:
                await end_all(self.children, self._patience)
        finally:
            nursery.cancel_scope.cancel()
            await self._stack.aclose()

    async def _keep(
        self, address: Address, make: Callable[[], Actor[Any]], restart: Restart
    ) -> None:
        history: list[float] = []
        ended = Ended(Exit.CANCELLED)
        try:
            while True:
                exit_ = await _make_and_live(make, address)
                ended = Ended(exit_, address.error)
                now = trio.current_time()
                then = what_next(
                    exit_,
                    restart,
                    asked=address.asked is not None,
                    intensity=self._intensity,
                    history=history,
                    now=now,
                )
                self._tell(address, ended, then)
                if then is not Next.RESTART:
                    break
                history = self._intensity.recent(history, now)
                pause = self._backoff.delay(len(history), self._rng)
                history.append(now)
                if not await address.rest(pause):
                    ended = Ended(Exit.CANCELLED)
                    self._tell(address, ended, Next.NOTHING)
                    break
        except BaseException:
            # Cancelled from outside, or something that ends the program is under way.
            exit_ = Exit.CANCELLED if address.error is None else Exit.CRASHED
            ended = Ended(exit_, address.error)
            self._tell(address, ended, Next.NOTHING)
            raise
        finally:
            del self._children[address]
            address.finish(ended)

    def _tell(self, address: Address, ended: Ended, then: Next) -> None:
        event = ChildExited(self.name, address.name, ended.exit, then, ended.error)
        self._report(event)


async def _make_and_live(make: Callable[[], Actor[Any]], address: Address) -> Exit:
    try:
        actor = make()
    except Exception as error:  # noqa: BLE001  containing crashes is what it is for
        address.crash(error)
        return Exit.CRASHED
    return await live(actor, address)
