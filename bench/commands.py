"""A command run to its end, in a session of its own, so that nothing of it stays behind.

An interrupt from the terminal does not reach it by itself: whoever started it ends it, by
its id, and it is given time to end what it has started in turn.
"""

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Final

from msgspec import Struct

GRACE: Final = 30.0
"""Seconds for an interrupted command to end its own processes: servers that drain."""

INTERRUPTED: Final = 130
"""The exit status after a Ctrl-C, as shells have it."""

_OF_MAKE: Final = re.compile(r"make(\[\d+\])?: ")
_ENDED_BY: Final = (signal.SIGTERM, signal.SIGHUP)


class Ran(Struct, frozen=True):
    """How a command ended, and what it said."""

    status: int
    out: str
    err: str

    @property
    def last_words(self) -> str:
        """The last line of what it complained of; make repeats that somebody did."""
        lines = [line for line in self.err.splitlines() if line.strip()]
        said = [line for line in lines if not _OF_MAKE.match(line)]
        if not said:
            return f"exit status {self.status}, and no word why"
        return said[-1].strip()


def ran(
    command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None
) -> Ran:
    """Run a command in a folder, to its end.

    Raises:
        FileNotFoundError: There is no such program.
        KeyboardInterrupt: It was interrupted meanwhile, and has ended.
    """
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as started:
        try:
            out, err = started.communicate()
        except BaseException:
            _end(started)
            raise
    return Ran(started.returncode, out, err)


@contextmanager
def running(command: Sequence[str]) -> Iterator["subprocess.Popen[str]"]:
    """A command whose lines are read as they come, to its end, in a session of its own.

    What it complains of goes where this process's own complaints go. Left early, it ends.
    """
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as started:
        try:
            yield started
            started.wait()
        except BaseException:
            _end(started)
            raise


@contextmanager
def ended_as_interrupted() -> Iterator[None]:
    """Whoever ends this process by a signal finds it tidy up as on Ctrl-C.

    That is heard also where a shell has it ignored, as for what runs in the background.
    """

    def interrupt(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, interrupt) for number in _ENDED_BY}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(started: "subprocess.Popen[str]") -> None:
    """Ask it to end; then end what is left of its session."""
    started.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        started.communicate(timeout=GRACE)
    # Its id is its session's: nobody else's processes are in there.
    with suppress(ProcessLookupError):
        os.killpg(started.pid, signal.SIGKILL)
