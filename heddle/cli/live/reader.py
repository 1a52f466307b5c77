"""A run live on a terminal: its tree at the bottom, what a person must not miss above it.

    ! middleware 'Gate' of plugin 'gate', toolCall.before: refuses …     stays
    ⠹ flow.json  3.4 s                                                   drawn again
      ⠹ librarian  3.3 s
    █

Events are only noted as they come, and put into a tree many at once. A task draws, at most
every `EACH` seconds and only while the terminal takes what it is given, so a flood of
events or a paused terminal holds up nothing: what is drawn is always the newest state. The
cursor stays visible and no mode of the terminal is changed: whatever ends the process
leaves it usable.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from types import FrameType
from typing import TYPE_CHECKING, Final

import trio

from heddle.cli import first_light
from heddle.cli.exits import Interrupted
from heddle.cli.live.rows import rows
from heddle.cli.live.segments import segments, text_rows
from heddle.cli.live.summary import summary
from heddle.cli.live.telling import STYLES, Marks, Spans, marks_for
from heddle.cli.live.tree import RunTree
from heddle.cli.reporting.plain import PlainLines
from heddle.cli.terminal.outlet import Outlet
from heddle.cli.terminal.region import Region
from heddle.events import Event, TokenDelta

if TYPE_CHECKING:
    from heddle.policy_counts import PolicyCounts

STDERR: Final = 2
# Pictures a second: what turns looks alive, and a terminal over a slow line keeps up.
EACH: Final = 0.1
# What drawing may take of the time that passes: a picture that is slow is drawn less often.
SHARE: Final = 0.05
# Events that are put into the tree together, at most: many at once take half as long as
# one by one, and what they hold is not kept for longer than it takes this many to come.
AT_ONCE: Final = 512
# Bytes that may wait for the terminal.
OUTLET_WAITING: Final = 1024 * 1024
# Characters of lines that wait to be left above the picture. A terminal that takes them
# is given them at once from the first on; one that does not loses those over the second.
LINES_AT_ONCE: Final = 32 * 1024
LINES_WAITING: Final = 128 * 1024

# The marks of plain lines → how they look.
PLAIN_STYLES: Final = {
    ">": STYLES["node"],
    "<": STYLES["good"],
    "x": STYLES["bad"],
    "!": STYLES["warning"],
    " ": STYLES["dim"],
}


class Live:
    """Events as a picture on the terminal of stderr.

    Args:
        title: What to call the run.
        policies: What policies said, for the summary.
        verbose: Lines of all that happens, to be left above the picture; None for what a
            person must not miss.
        shown: Warnings that were told already.
        clock: Seconds.

    Attributes:
        see: Notes what happened.
    """

    def __init__(
        self,
        title: str,
        policies: "PolicyCounts",
        *,
        verbose: PlainLines | None = None,
        shown: Iterable[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._policies = policies
        self._verbose = verbose
        self._clock = clock
        self._marks: Marks = marks_for(getattr(sys.stderr, "encoding", None))
        self._tree = RunTree(title, clock(), marks=self._marks, shown=shown)
        self._region = Region(colours=not os.environ.get("NO_COLOR"))
        self._outlet = Outlet(STDERR, most=OUTLET_WAITING)
        self.outlets = (self._outlet,)
        self._came: list[Event] = []
        self._when: list[float] = []
        self._note = noting(self._came, self._when, clock=clock, full=self._fold)
        self.see: Callable[[Event], None] = self._note if verbose is None else self._tell
        self._above: list[Spans] = []
        self._waiting = 0
        self._left_out = 0
        self._turn = 0
        self._is_left = False
        self._is_over = False

    async def animate(self) -> None:
        """Draw until the run is over."""
        before = signal.signal(signal.SIGCONT, self._go_on)
        try:
            while not self._is_over:
                began = self._clock()
                if self._outlet.idle:
                    self._draw()
                else:
                    self._fold()
                await trio.sleep(max(EACH, (self._clock() - began) / SHARE))
        finally:
            signal.signal(signal.SIGCONT, before)

    def _go_on(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """The process was stopped, and whoever did that has written below the picture."""
        self._is_left = True

    def _tell(self, event: Event, /) -> None:
        assert self._verbose is not None
        self._note(event)
        for text in self._verbose.lines(event):
            self._leave(_plain(text))

    def remark(self, text: str, /) -> None:
        """Leave it above the picture."""
        self._fold()
        self._leave(_plain(text))

    def ended(self, error: Exception | None, /) -> None:
        """Leave a summary in the place of the picture, for good: a terminal may need longer
        for it than there is between two pictures."""
        self._is_over = True
        self._fold()
        self._tree.ended(error, self._clock())
        self._take_leaving()
        if self._tree.begun:
            self._above += summary(
                self._tree,
                marks=self._marks,
                policies=self._policies.tallies,
                width=terminal_size()[0],
                stopped=isinstance(error, Interrupted),
            )
        self._draw()

    def _fold(self) -> None:
        """Put into the tree what came."""
        self._tree.see_all(self._came, self._when)
        self._came.clear()
        self._when.clear()
        if self._tree.leaving:
            self._take_leaving()

    def _take_leaving(self) -> None:
        leaving, self._tree.leaving = self._tree.leaving, []
        if self._verbose is None:  # else it was told as it happened
            for spans in leaving:
                self._leave(spans)

    def _leave(self, spans: Spans) -> None:
        if self._waiting > LINES_WAITING:
            self._left_out += 1
            return
        if self._left_out:
            told = f"{self._marks.more} {self._left_out} left out here"
            self._above.append(((told, STYLES["dim"]),))
            self._left_out = 0
        self._above.append(spans)
        self._waiting += sum(len(text) for text, _ in spans)
        if self._waiting > LINES_AT_ONCE and self._outlet.idle:
            self._draw()

    def _draw(self) -> None:
        self._fold()
        if self._is_left:
            self._is_left = False
            self._region.forget()
        width, height = terminal_size()
        shown: list[Spans] = []
        if not self._is_over:
            self._turn += 1
            shown = rows(
                self._tree,
                now=self._clock(),
                width=width,
                height=height - 1,
                marks=self._marks,
                turn=self._turn,
            )
        above, self._above, self._waiting = self._above, [], 0
        drawn = self._region.draw(
            [segments(each) for each in shown],
            above=[row for each in above for row in text_rows(each)],
            width=width,
            height=height,
        )
        self._outlet.put(first_light.taken() + drawn)


def noting(
    came: list[Event],
    when: list[float],
    *,
    clock: Callable[[], float],
    full: Callable[[], None],
) -> Callable[[Event], None]:
    """What notes an event. It does next to nothing: a run may have thousands a second.

    Args:
        came: Where to put them.
        when: Where to put their times, but of text, which has none.
        clock: Seconds.
        full: Called when there are `AT_ONCE`, to take them from there.
    """
    put, mark = came.append, when.append

    def note(event: Event, /) -> None:
        put(event)
        if type(event) is not TokenDelta:
            mark(clock())
        if len(came) >= AT_ONCE:
            full()

    return note


def terminal_size() -> tuple[int, int]:
    """Columns and lines. A terminal that does not know, a serial one, says 0."""
    try:
        width, height = os.get_terminal_size(STDERR)
    except OSError:  # it is gone; the outlet is about to find out
        width = height = 0
    return width or 80, height or 24


def _plain(text: str) -> Spans:
    return ((text, PLAIN_STYLES.get(text[:1], STYLES["plain"])),)
