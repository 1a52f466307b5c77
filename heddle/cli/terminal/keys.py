"""The keyboard while an answer is on its way: what is typed is kept, and not shown.

    keys = TerminalKeys(0)
    with keys.quiet():      no echo, no lines; Ctrl-C is a signal as ever
        ...
    keys.give_back()        also without the context: before the process is ended at once

Echoed, what is typed would stand in the middle of what is drawn. It waits for whoever
reads next.
"""

import os
import select
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from heddle.cli.first_light import is_animated

LOCAL: Final = 3
"""Where `termios.tcgetattr` has the local modes."""

UNDONE: Final = b"\x1b[?2004l\x1b[?25h\x1b[?7h\x1b[0m"
"""Ends what an editor of lines asks of a terminal: marked pastes, a hidden cursor, lines
that do not wrap, colours."""


def is_fit(stdout: int) -> bool:
    """Whether a person sits at a terminal that can do more than lines."""
    typed = sys.stdin is not None and sys.stdin.isatty()
    return typed and os.isatty(stdout) and is_animated()


class TerminalKeys:
    """How a terminal was before, and how it is meanwhile.

    Args:
        file: The terminal's descriptor, for reading.
        screen: The same terminal's, for writing.
    """

    def __init__(self, file: int = 0, screen: int = 2) -> None:
        self._file = file
        self._screen = screen
        self._before: list[Any] | None = None
        self._meanwhile: list[Any] | None = None

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Keep what is typed, and give the terminal back as it was."""
        with suppress(termios.error):  # it is gone: there is nothing to give back
            self._before = termios.tcgetattr(self._file)
            self._meanwhile = termios.tcgetattr(self._file)
            self._meanwhile[LOCAL] &= ~(termios.ECHO | termios.ICANON)
            # Or Ctrl-C would take away what has been typed.
            self._meanwhile[LOCAL] |= termios.NOFLSH
        self._set(self._meanwhile)
        try:
            yield
        finally:
            self._set(self._before)
            self._before = self._meanwhile = None

    def take_back(self) -> None:
        """Go on as in `quiet`, after an editor that was cut off in the middle."""
        self._set(self._meanwhile)
        self._undo()

    def lend(self) -> None:
        """Have the terminal as it was before, until `take`."""
        self._set(self._before)

    def take(self) -> None:
        """Have it again as it is meanwhile."""
        self._set(self._meanwhile)

    def give_back(self) -> None:
        """Give the terminal back at once, as nobody will leave the context."""
        if self._before is not None:
            self._set(self._before)
            self._undo()

    def _undo(self) -> None:
        with suppress(OSError):
            if select.select([], [self._screen], [], 0)[1]:  # it may be paused
                os.write(self._screen, UNDONE)

    def _set(self, modes: list[Any] | None) -> None:
        if modes is not None:
            with suppress(termios.error):
                termios.tcsetattr(self._file, termios.TCSANOW, modes)
