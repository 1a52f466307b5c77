"""One run from the command line: its signals watched, its outlets emptied.

The first SIGINT, SIGTERM or SIGHUP cancels the run, which ends its tools and plugins
before anything else happens. Should that take longer than `PATIENCE`, the next signal
ends the process on the spot.
"""

import math
import os
import signal
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
)
from contextlib import contextmanager
from types import FrameType
from typing import Final, Generic, TypeVar

import trio

from heddle.cli.exits import INTERRUPTIONS, Interrupted
from heddle.cli.terminal.outlet import Outlet

Result = TypeVar("Result")

# Seconds that an interrupted run may take to end what it started.
PATIENCE: Final = 2.0
# Seconds that readers get for what is left to write once the run was interrupted.
LAST_WORDS: Final = 0.3


class Arrivals:
    """The signals as they arrive, and since when one asks the process to end."""

    def __init__(self, numbers: AsyncIterator[int]) -> None:
        self.numbers = numbers
        self.asked = math.inf


class Session(Generic[Result]):
    """What goes on around one run. `execute` is called once, by ``trio.run``.

    Args:
        outlets: Where readers write to; emptied before `execute` returns.
        animate: Runs beside the flow and is cancelled after it.
        ended: Told of the error that ended the run, or None, before the outlets are
            emptied.
        heed: Asked first what to do about a signal; whether that was all there is to do.
        at_once: Called before the process is ended where it is.
    """

    def __init__(
        self,
        outlets: Iterable[Outlet] = (),
        *,
        animate: Callable[[], Awaitable[None]] | None = None,
        ended: Callable[[Exception | None], None] = lambda _: None,
        heed: Callable[[int], bool] | None = None,
        at_once: Callable[[], None] | None = None,
    ) -> None:
        self._outlets = tuple(outlets)
        self._animate = animate
        self._ended = ended
        self._heed = heed
        self._at_once = at_once
        self._running = trio.CancelScope()
        self._emptying = trio.CancelScope()
        self._reason: Exception | None = None

    def stop(self, reason: Exception) -> None:
        """Cancel the run; `execute` raises ``reason``."""
        self._reason = self._reason or reason
        self._running.cancel()

    async def execute(self, run: Callable[[], Awaitable[Result]]) -> Result:
        """Carry out ``run``.

        Raises:
            Interrupted: A signal asked for it.
            Exception: What `stop` was given, or whatever ``run`` raises.
        """
        failure: Exception | None = None
        results: list[Result] = []
        with arriving(heeded(), self._at_once) as arrivals:
            async with trio.open_nursery() as nursery:
                if arrivals is not None:
                    nursery.start_soon(self._watch, arrivals)
                for outlet in self._outlets:
                    nursery.start_soon(outlet.run)
                if self._animate is not None:
                    nursery.start_soon(self._animate)
                with self._running:
                    try:
                        results.append(await run())
                    except Exception as error:  # noqa: BLE001  raised below, outside the nursery
                        failure = error
                if self._running.cancelled_caught:
                    failure = self._reason
                elif failure is not None and self._reason is not None:
                    # It failed while it was being stopped.
                    failure, self._reason.__cause__ = self._reason, failure
                self._ended(failure)
                with self._emptying:
                    for outlet in self._outlets:
                        await outlet.drained()
                nursery.cancel_scope.cancel()
        if failure is None and not self._is_told():
            failure = self._reason
        if failure is not None:
            raise failure
        (result,) = results
        return result

    def _is_told(self) -> bool:
        """Whether all was written, of a run that came to its end.

        Then it does not matter any more that a signal came while it was.
        """
        late = isinstance(self._reason, Interrupted) and not self._emptying.cancelled_caught
        return self._reason is None or late

    async def _watch(self, arrivals: Arrivals) -> None:
        heard = False
        # To the end: trio sends those again that nobody took.
        async for number in arrivals.numbers:
            if not heard and self._heed is not None and self._heed(number):
                arrivals.asked = math.inf
            elif not heard:
                heard = True
                now = trio.current_time()
                self._emptying.deadline = now + PATIENCE / 2 + LAST_WORDS
                self.stop(INTERRUPTIONS[number]())


@contextmanager
def arriving(
    signals: Collection[int], at_once: Callable[[], None] | None
) -> Iterator[Arrivals | None]:
    """The signals as they arrive; None when there are none to watch.

    One that comes `PATIENCE` after the first ends the process where it arrives, for the
    loop may be what hangs: in a policy inside heddle that never returns. ``at_once`` is
    called before.
    """
    if not signals:
        yield None
        return
    with trio.open_signal_receiver(*signals) as numbers:
        arrivals = Arrivals(numbers)
        receivers = {each: signal.getsignal(each) for each in signals}

        def arrived(number: int, frame: FrameType | None) -> None:
            now = time.monotonic()
            if now > arrivals.asked + PATIENCE:
                if at_once is not None:
                    at_once()
                os._exit(128 + number)
            arrivals.asked = min(arrivals.asked, now)
            receive = receivers[number]
            assert callable(receive)
            receive(number, frame)

        for each in signals:
            signal.signal(each, arrived)
        yield arrivals


def heeded() -> list[int]:
    """The signals to watch: those that whoever started us did not have ignored (nohup)."""
    return [each for each in INTERRUPTIONS if signal.getsignal(each) != signal.SIG_IGN]
