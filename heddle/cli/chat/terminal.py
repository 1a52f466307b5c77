"""A chat on a terminal: messages are edited, answers grow as they are written.

    › Who wrote it?              typed, with prompt_toolkit, in a thread of its own

    Ann did, in *1843*.          a `TurnView`, drawn in place like a run
    0.8 s · 1 model call

    ›

While something is typed nothing else is drawn, and while something is drawn nothing is
read: the two never share the screen. Between both the terminal only keeps what is typed
to itself, so Ctrl-C is the signal that it is anywhere.
"""

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec
import trio
import trio.lowlevel
from rich.segment import Segment

from heddle.cli.chat.commands import COMMANDS
from heddle.cli.chat.line_editor import KEYS, Kind, Left, LineEditor
from heddle.cli.chat.person import PlainPerson
from heddle.cli.chat.said_before import SaidBefore, history_file
from heddle.cli.chat.view import TurnView
from heddle.cli.exits import told
from heddle.cli.live.reader import EACH, STDERR, terminal_size
from heddle.cli.live.segments import text_rows
from heddle.cli.live.telling import STYLES, UNICODE, Marks, marks_for
from heddle.cli.reporting.plain import PlainLines, warning
from heddle.cli.terminal.keys import TerminalKeys
from heddle.cli.terminal.outlet import Outlet
from heddle.cli.terminal.region import Region
from heddle.cli.terminal.suspension import Suspension
from heddle.cli.text.markdown import Row, code_rows
from heddle.cli.text.wording import fit_json
from heddle.events import Event
from plugins_host import Fault

if TYPE_CHECKING:
    from heddle.cli.chat.loop import Answer, Front
    from heddle.cli.reporting.readers import Reader
    from heddle.cli.terminal.interrupts import Interrupts

# Bytes that may wait for the terminal: an answer of any length that a provider may give.
OUTLET_WAITING: Final = 64 * 1024 * 1024
# Lines that plugins wrote while something was typed.
REMARKS_WAITING: Final = 1000
# Events that are noted and not yet looked at.
EVENTS_WAITING: Final = 2048
# Drawing takes at most a tenth of the time, however long a text is read for it.
SHARE: Final = 10

ASCII_SIGNS: Final = str.maketrans("•│─┼…", "*|-+.")
"""The signs of Markdown as a terminal can show them that has no others."""

WELCOME: Final = "Type a message, or /help"
HOW_TO_LEAVE: Final = "Ctrl-D or /exit leaves the chat."


class TerminalFront:
    """A `heddle.cli.reporting.readers.Reader` and a `heddle.cli.chat.loop.Front` in one.

    Args:
        keys: The keyboard, quiet for as long as the chat lasts.
        interrupts: What cancels an answer.
        speakers: The nodes whose text is taken for the answer.
        verbose: Lines of all that happens; None for what a person wants to know.
        shown: Warnings that were told already.
        clock: Seconds.

    Attributes:
        suspension: What Ctrl-Z does; to be heeded as long as the chat lasts.
    """

    keys: Mapping[str, str] = KEYS

    def __init__(
        self,
        keys: TerminalKeys,
        interrupts: "Interrupts",
        *,
        speakers: frozenset[str] = frozenset(),
        verbose: PlainLines | None = None,
        shown: Iterable[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keyboard = keys
        self._interrupts = interrupts
        self._speakers = speakers
        self._verbose = verbose
        self._shown = frozenset(shown)
        self._clock = clock
        self._marks: Marks = marks_for(getattr(sys.stderr, "encoding", None))
        colours = not os.environ.get("NO_COLOR")
        self._region = Region(colours=colours)
        self._outlet = Outlet(STDERR, most=OUTLET_WAITING)
        self.outlets = (self._outlet,)
        self.suspension = Suspension(keys.lend, self._come_back)
        # Of the thread that reads.
        self._warnings: list[str] = []
        self._editor = LineEditor(
            SaidBefore(history_file(os.environ), self._warnings.append),
            keys.take_back,
            self.suspension.suspend,
            commands=COMMANDS,
            colours=colours,
            sign="›" if self._marks is UNICODE else ">",
        )
        self._hint = WELCOME
        self._leaves = False
        self._happened: list[tuple[float, Event | str]] = []
        self._remarks = 0
        self._view: TurnView = self._new_view()
        self._is_answering = False
        self._is_typing = False
        self._turn = 0
        self.person = PlainPerson(self._show_question, self._next_answer)

    # --- of a reader ------------------------------------------------------------------

    async def animate(self) -> None:
        """Draw until cancelled."""
        while True:
            took = 0.0
            if self._outlet.idle and self._is_answering and not self._is_typing:
                began = time.perf_counter()
                self._draw()
                took = time.perf_counter() - began
            await trio.sleep(max(EACH, SHARE * took))

    def see(self, event: Event, /) -> None:
        """Note what happened."""
        self._happened.append((self._clock(), event))
        if self._verbose is not None:
            for text in self._verbose.lines(event):
                self.remark(text)
        if len(self._happened) > EVENTS_WAITING:
            self._fold()

    def remark(self, text: str, /) -> None:
        """Leave it above what is drawn next."""
        self._remarks += 1
        if self._remarks <= REMARKS_WAITING:
            self._happened.append((self._clock(), text))

    def ended(self, error: Exception | None, /) -> None:  # noqa: ARG002
        """Leave what is known of an answer that was cut off, for good."""
        self._is_answering = False
        self._fold()
        self._view.pause()
        self._draw(picture=False)

    # --- of a front -------------------------------------------------------------------

    async def next_message(self) -> str | None:
        """Have a message typed."""
        while not self._leaves:
            typed = await self._read("message", self._hint)
            self._hint = ""
            if typed is Left.BY_CTRL_D:
                return None
            self._view = self._new_view()
            if isinstance(typed, str):
                return typed.strip()
            await self.tell(HOW_TO_LEAVE)
        return None

    async def tell(self, text: str, /) -> None:
        """Show it."""
        self._view.tell(text_rows(((text, STYLES["dim"]),)))

    async def show_state(self, state: Mapping[str, Any], /) -> None:
        """Show it as JSON."""
        encoded = fit_json(msgspec.json.format(msgspec.json.encode(state), indent=2))
        self._view.tell(code_rows(encoded.decode()))

    async def refuse(self, error: Fault, /) -> None:
        """Show the error."""
        self._is_answering = False
        self._fold()
        self._view.fail(told(error))

    def begin(self) -> None:
        """Draw from now on."""
        self._view = self._new_view()
        self._is_answering = True

    async def answer(self, answer: "Answer", /) -> None:
        """Leave it, unless it stands there."""
        self._is_answering = False
        self._fold()
        self._view.answer(answer, self._clock())

    async def give_up(self) -> None:
        """Say so."""
        self._is_answering = False
        self._fold()
        if not self._leaves:
            self._view.give_up()

    # --- of the person ----------------------------------------------------------------

    async def _show_question(self, text: str) -> None:
        self._fold()
        self._view.pause()
        if text:
            self._view.tell(text_rows(((text, STYLES["warning"]),)))

    async def _next_answer(self) -> str | None:
        typed = await self._read("answer")
        if isinstance(typed, str):
            return typed.strip()
        self._leaves = typed is Left.BY_CTRL_D
        self._interrupts.cancel()
        await trio.lowlevel.checkpoint()
        return None  # pragma: no cover  it was cancelled

    # --- drawing ----------------------------------------------------------------------

    async def _read(self, kind: Kind, hint: str = "") -> str | Left:
        """Leave everything, and have something typed below it."""
        self._is_typing = True
        try:
            self._fold()
            self._view.pause()
            self._draw(picture=False, apart=True)
            await self._outlet.drained()
            typed = await self._editor.read(kind, hint=hint)
            while self._warnings:
                self.remark(warning(self._warnings.pop()))
            return typed
        finally:
            self._is_typing = False

    def _come_back(self) -> None:
        """The process was stopped: others have written below what was drawn."""
        self._keyboard.take()
        self._region.forget()

    def _new_view(self) -> TurnView:
        return TurnView(
            self._clock(),
            self._speakers,
            marks=self._marks,
            shown=self._shown,
            all_told=self._verbose is not None,
        )

    def _fold(self) -> None:
        happened, self._happened = self._happened, []
        left_out, self._remarks = self._remarks - REMARKS_WAITING, 0
        if left_out > 0:
            happened.append((self._clock(), f"  {left_out} more lines left out here"))
        self._view.fold(happened, terminal_size()[0] - 1)

    def _draw(self, *, picture: bool = True, apart: bool = False) -> None:
        self._fold()
        width, height = terminal_size()
        shown: list[Row] = []
        if picture:
            self._turn += 1
            shown = self._view.picture(
                now=self._clock(), height=height - 1, turn=self._turn
            )
        above, self._view.leaving = self._view.leaving, []
        if apart and above:
            above.append([])
        if self._marks is not UNICODE:
            above, shown = ([_in_ascii(row) for row in rows] for rows in (above, shown))
        self._outlet.put(self._region.draw(shown, above=above, width=width, height=height))


def _in_ascii(row: Row) -> Row:
    return [Segment(each.text.translate(ASCII_SIGNS), each.style) for each in row]


if TYPE_CHECKING:
    _: type[Reader] = TerminalFront
    __: type[Front] = TerminalFront
