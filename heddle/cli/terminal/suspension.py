"""Ctrl-Z: the process stops with the terminal as it was, and goes on as if nothing was.

    suspension = Suspension(keys.lend, keys.take)
    with suspension.heeding():      the signal is obeyed, not just suffered
        ...
        suspension.suspend()        from a thread that has read the key itself

Stopped by the kernel alone, the shell would get a terminal that shows nothing of what is
typed.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

PATIENCE: Final = 10.0
"""Seconds after which whoever read the key goes on: the main thread does not come to it."""


class Suspension:
    """What is done before the process stops, and when it goes on.

    Args:
        leave: Gives the terminal back. Called in the main thread, as is the other.
        come_back: Sets it up again.
    """

    def __init__(self, leave: Callable[[], None], come_back: Callable[[], None]) -> None:
        self._leave = leave
        self._come_back = come_back
        self._begins = threading.Event()
        self._goes_on = threading.Event()
        self._is_heeding = False

    @contextmanager
    def heeding(self) -> Iterator[None]:
        """Obey SIGTSTP, unless whoever started us has it ignored. In the main thread."""
        before = signal.getsignal(signal.SIGTSTP)
        if before is not signal.SIG_DFL:
            yield
            return
        signal.signal(signal.SIGTSTP, self._stop)
        self._is_heeding = True
        try:
            yield
        finally:
            self._is_heeding = False
            signal.signal(signal.SIGTSTP, before)

    def suspend(self) -> None:
        """Stop, and return when somebody has the process go on. In any other thread."""
        if not self._is_heeding:
            return
        self._begins.clear()
        self._goes_on.clear()
        # Whoever started us may wait for us, and is to be stopped as well.
        os.kill(0, signal.SIGTSTP)
        # The main thread stops all of us, a moment later, for as long as somebody likes;
        # until it has come back the terminal is not ours.
        if self._begins.wait(PATIENCE):
            self._goes_on.wait()

    def _stop(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self._begins.set()
        try:
            self._leave()
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)
            # Where the group has no shell nobody stops, and this is all.
            os.kill(os.getpid(), signal.SIGTSTP)
            signal.signal(signal.SIGTSTP, self._stop)
            self._come_back()
        finally:
            self._goes_on.set()
