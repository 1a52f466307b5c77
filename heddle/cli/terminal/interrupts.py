"""What Ctrl-C ends in the place of the whole program, while there is something.

with interrupts.heeding() as answer:
    await engine.run(…)        # the first SIGINT cancels this, and no more
if answer.cancelled_caught: …
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import trio


class Interrupts:
    """At most one thing at a time.

    Args:
        active: Whether there is somebody at a keyboard; else nothing is taken care of.
    """

    def __init__(self, *, active: bool = True) -> None:
        self._active = active
        self._scope: trio.CancelScope | None = None

    @contextmanager
    def heeding(self) -> Iterator[trio.CancelScope]:
        """Whatever is awaited inside is what an interrupt cancels."""
        with trio.CancelScope() as scope:
            self._scope = scope
            try:
                yield scope
            finally:
                self._scope = None

    def heed(self, number: int) -> bool:
        """Take care of a signal.

        Returns:
            Whether that was done. A second interrupt while the first is still being
            obeyed is for the program, as are all other signals.
        """
        return self._active and number == signal.SIGINT and self.cancel()

    def cancel(self) -> bool:
        """Cancel what there is; whether there was something that had not been."""
        if self._scope is None or self._scope.cancel_called:
            return False
        self._scope.cancel()
        return True
