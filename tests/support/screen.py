"""A program on a terminal of the test's own, and what a person sees on it.

    with Screen([*COMMAND, "run", "-i", "flow.json"], cwd=folder) as screen:
        screen.wait_for("Message")
        screen.type("hello\\r")
        screen.wait_for("You said hello.")
        assert screen.ended() == 0

The terminal is a real pseudo-terminal; pyte is the emulator behind it. Lines that
scrolled away are kept. Nothing here sleeps for an order of things: `wait` reads until
what it is told to wait for is on the screen, and fails with the screen when it is not.
"""

import contextlib
import fcntl
import os
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pyte

KEPT: Final = 10_000
"""Lines that scrolled away."""
PATIENCE: Final = 30.0
"""Seconds: a machine that is busy with other tests is slow."""


class Screen:
    """A program, its terminal, and the screen.

    Args:
        command: The program and its arguments.
        columns: Width of the terminal.
        rows: Height of the terminal.
        env: The whole environment; ``TERM`` is added. None for that of the tests.
        cwd: Where it runs.
        term: What kind of terminal it is told that it has.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        columns: int = 80,
        rows: int = 24,
        env: Mapping[str, str] | None = None,
        cwd: Path | str | None = None,
        term: str = "xterm-256color",
    ) -> None:
        self.raw = b""
        """All that the program wrote, as it wrote it."""
        self._screen = pyte.HistoryScreen(columns, rows, history=KEPT, ratio=0.5)
        self._screen.write_process_input = self._answer
        self._stream = pyte.ByteStream(self._screen)
        self._status: int | None = None
        self._kept_open: int | None = None
        self._master, self._slave = os.openpty()
        self._size(columns, rows)
        self.modes_before = self.modes()
        environment = {**(os.environ if env is None else env), "TERM": term}
        self.pid = os.fork()
        if self.pid == 0:  # pragma: no cover  another program follows at once
            try:
                os.close(self._master)
                os.login_tty(self._slave)
                if cwd is not None:
                    os.chdir(cwd)
                os.execvpe(command[0], list(command), environment)
            finally:
                os._exit(127)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the program, if it has not ended."""
        if self._status is None and not self._reap():
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._master)
        os.close(self._slave)
        if self._kept_open is not None:
            os.close(self._kept_open)

    # -- what is seen ------------------------------------------------------------------

    @property
    def lines(self) -> list[str]:
        """What is on the screen now, a text a row, blanks at the ends left out."""
        return [line.rstrip() for line in self._screen.display]

    @property
    def cells(self) -> list[list[Any]]:
        """The same cell by cell: ``data``, ``fg``, ``bold``, …; "" behind a wide one."""
        screen = self._screen
        across = range(screen.columns)
        return [[screen.buffer[y][x] for x in across] for y in range(screen.lines)]

    @property
    def columns(self) -> int:
        """How wide it is."""
        return int(self._screen.columns)

    @property
    def text(self) -> str:
        """The same as one text, without the empty rows below."""
        return "\n".join(self.lines).rstrip()

    @property
    def scrollback(self) -> str:
        """All that a person can scroll back to, and the screen below it."""
        above = [
            "".join(line[x].data for x in range(self._screen.columns)).rstrip()
            for line in self._screen.history.top
        ]
        return "\n".join([*above, *self.lines]).rstrip()

    @property
    def cursor(self) -> tuple[int, int]:
        """Its column and row, from 0."""
        return self._screen.cursor.x, self._screen.cursor.y

    @property
    def cursor_hidden(self) -> bool:
        """Whether the program hid it."""
        return bool(self._screen.cursor.hidden)

    def style(self, text: str) -> Any:
        """The cell (``fg``, ``bold``, …) where ``text`` begins on the screen."""
        for y, line in enumerate(self._screen.display):
            if text in line:
                return self._screen.buffer[y][line.index(text)]
        raise AssertionError(f"{text!r} is not on the screen:\n{self.text}")

    # -- what a person does ------------------------------------------------------------

    def type(self, keys: str) -> None:
        """Press keys; ``\\r`` is Enter, ``\\x03`` Ctrl-C."""
        os.write(self._master, keys.encode())

    def resize(self, columns: int, rows: int) -> None:
        """Make the window another size; the program gets SIGWINCH."""
        self._screen.resize(rows, columns)
        # pyte leaves it where it was, below the last row of a screen that has shrunk.
        self._screen.ensure_hbounds()
        self._screen.ensure_vbounds()
        self._size(columns, rows)

    def pause(self) -> None:
        """Have the terminal take no more output, as Ctrl-S has."""
        termios.tcflow(self._slave, termios.TCOOFF)

    def hang_up(self) -> None:
        """Take the terminal away, as a line that drops; nothing is seen from then on."""
        silent, self._kept_open = os.pipe()
        os.dup2(silent, self._master)
        os.close(silent)

    def signal(self, number: int) -> None:
        """Send the program a signal."""
        os.kill(self.pid, number)

    def modes(self) -> list[Any]:
        """How the terminal is set up now, as `termios.tcgetattr` has it."""
        return termios.tcgetattr(self._slave)

    # -- waiting -----------------------------------------------------------------------

    def wait(
        self, until: Callable[["Screen"], object], *, seconds: float = PATIENCE
    ) -> None:
        """Read what the program writes until ``until`` holds."""
        end = time.monotonic() + seconds
        while not until(self):
            left = end - time.monotonic()
            assert left > 0, f"not within {seconds} s; the screen:\n{self.scrollback}"
            if not self._read(min(left, 0.2)) and self._reap():
                while self._read(0):
                    pass
                assert until(self), f"it ended; the screen:\n{self.scrollback}"
                return

    def wait_for(self, text: str, *, seconds: float = PATIENCE) -> None:
        """Read until ``text`` is on the screen."""
        self.wait(lambda screen: text in screen.text, seconds=seconds)

    def ended(self, *, seconds: float = PATIENCE) -> int:
        """Wait for the end of the program; its exit status, below 0 for a signal."""
        self.wait(lambda screen: screen._reap(), seconds=seconds)
        while self._read(0):
            pass
        assert self._status is not None
        return self._status

    def _reap(self) -> bool:
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
        return self._status is not None

    def _read(self, seconds: float) -> bool:
        if not select.select([self._master], [], [], seconds)[0]:
            return False
        data = os.read(self._master, 65536)
        self.raw += data
        self._stream.feed(data)
        return True

    def _answer(self, data: str) -> None:
        with contextlib.suppress(OSError):
            os.write(self._master, data.encode())

    def _size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(
            self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0)
        )
