"""Who reads a run's events on the command line, and where to.

Silent     --quiet: nobody
Frames     --protocol: stdout, one JSON object a line
JsonLines  --json: stderr, one JSON object a line, while stdout has the result
Plain      stderr as lines: piped, or a terminal that cannot do more
Live       stderr on a terminal (`heddle.cli.live.reader`)
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Protocol

from heddle.cli.reporting.frames import Remark, error_frame, frame
from heddle.cli.reporting.plain import PlainLines
from heddle.cli.terminal.outlet import Outlet
from heddle.events import Event, Warned
from heddle.standard_streams import STDERR, STDOUT, OutputFailed, output_failed

# Frames that may wait for whoever reads stdout. One that is further behind has stalled.
FRAMES_WAITING: Final = 64 * 1024 * 1024
# Lines that may wait for stderr before some are left out.
LINES_WAITING: Final = 1024 * 1024
# How the line of a warning begins.
WARNING: Final = "! "


class Reader(Protocol):
    """What the run command needs of each of them."""

    @property
    def outlets(self) -> Iterable[Outlet]:
        """What it writes to."""
        ...

    @property
    def animate(self) -> Callable[[], Awaitable[None]] | None:
        """What is to run beside the flow."""
        ...

    def see(self, event: Event, /) -> None:
        """Show an event. Does not block."""
        ...

    def remark(self, text: str, /) -> None:
        """Show a line that is no event: of a plugin, of the log. Does not block."""
        ...

    def ended(self, error: Exception | None, /) -> None:
        """The run is over; the last chance to show something."""
        ...


class Silent:
    """Shows nothing."""

    outlets: Iterable[Outlet] = ()
    animate: Callable[[], Awaitable[None]] | None = None

    def see(self, event: Event, /) -> None:
        """Nothing."""

    def remark(self, text: str, /) -> None:
        """Nothing."""

    def ended(self, error: Exception | None, /) -> None:
        """Nothing."""


class Frames:
    """Events as frames on stdout; remarks as lines on stderr.

    ``stop`` is called with the reason when they cannot be written: nobody would read what
    the rest of the run has to say.
    """

    animate: Callable[[], Awaitable[None]] | None = None

    def __init__(self, stop: Callable[[Exception], None], stdout: int = STDOUT) -> None:
        self._stop = stop
        self._outlet = Outlet(stdout, most=FRAMES_WAITING, broken=self._broken)
        self._lines = LineWriter()
        self.outlets = (self._outlet, self._lines.outlet)

    def see(self, event: Event, /) -> None:
        """Write its frame."""
        if not self._outlet.put(frame(event)):
            self._stop(
                OutputFailed(
                    f"over {FRAMES_WAITING // 2**20} MiB of frames wait to be read",
                    where="stdout",
                    fix="Read them faster, or not at all: leave --protocol out.",
                )
            )

    def remark(self, text: str, /) -> None:
        """Write it."""
        self._lines.write(text)

    def ended(self, error: Exception | None, /) -> None:
        """Write why it failed."""
        if error is not None:
            self._outlet.put(error_frame(error))

    def _broken(self) -> None:
        assert self._outlet.error is not None
        self._stop(output_failed(self._outlet.error))


class JsonLines:
    """Events, and everything else that there is to say, as frames on stderr.

    Args:
        stop: As of `Frames`, when they are not read. A stderr that is gone stops nothing:
            the result has a way of its own.
        shown: Warnings that are remarked on, so that they are not told again as events.
    """

    animate: Callable[[], Awaitable[None]] | None = None

    def __init__(
        self, stop: Callable[[Exception], None], *, shown: Iterable[str] = ()
    ) -> None:
        self._stop = stop
        self._shown = frozenset(shown)
        self._outlet = Outlet(STDERR, most=FRAMES_WAITING)
        self.outlets = (self._outlet,)

    def see(self, event: Event, /) -> None:
        """Write its frame."""
        if not (isinstance(event, Warned) and event.message in self._shown):
            self._put(frame(event))

    def remark(self, text: str, /) -> None:
        """Write it as the event of a warning where it is one."""
        message = text.removeprefix(WARNING)
        self._put(frame(Remark(text.strip()) if message is text else Warned(message)))

    def ended(self, error: Exception | None, /) -> None:
        """Nothing: the error is told by the program's end, as a frame too."""

    def _put(self, data: bytes) -> None:
        if not self._outlet.put(data):
            self._stop(
                OutputFailed(
                    f"over {FRAMES_WAITING // 2**20} MiB of events wait to be read",
                    where="stderr",
                    fix="Read them faster, or not at all: leave --json out.",
                )
            )


class Plain:
    """Events as lines on stderr."""

    animate: Callable[[], Awaitable[None]] | None = None

    def __init__(self, lines: PlainLines) -> None:
        self._lines = lines
        self._writer = LineWriter()
        self.outlets = (self._writer.outlet,)

    def see(self, event: Event, /) -> None:
        """Write its lines."""
        for text in self._lines.lines(event):
            self._writer.write(text)

    def remark(self, text: str, /) -> None:
        """Write it."""
        self._writer.write(text)

    def ended(self, error: Exception | None, /) -> None:
        """Nothing: the error is told by the program's end."""


class LineWriter:
    """Lines to stderr. Those that there is no room for are counted, and the count told."""

    def __init__(self) -> None:
        self.outlet = Outlet(STDERR, most=LINES_WAITING)
        self._left_out = 0

    def write(self, text: str) -> None:
        """Write a line, or leave it out. Does not block."""
        left_out = f"… {self._left_out} left out here\n" if self._left_out else ""
        if self.outlet.put(f"{left_out}{text}\n".encode(errors="backslashreplace")):
            self._left_out = 0
        else:
            self._left_out += 1
