"""Messages typed at a terminal: of several lines, with what was said before at hand.

    editor = LineEditor(SaidBefore(path, warn))
    text = await editor.read("message")       or `Left.BY_CTRL_C`, `Left.BY_CTRL_D`

prompt_toolkit knows asyncio and nothing else, so each message is read in a thread with a
loop of its own, and trio waits for the thread. Cancelling it ends the editor from inside,
which leaves the terminal as it was; a thread that is stuck in a write to the terminal is
given `PATIENCE`, then left behind, and the terminal taken from it.
"""

import asyncio
import io
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from enum import Enum, auto
from typing import Any, Final, Literal, TypeAlias

import trio
from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import has_focus
from prompt_toolkit.history import DummyHistory, History
from prompt_toolkit.input import create_input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.shortcuts import CompleteStyle

from heddle.cli.chat.said_before import SaidBefore
from heddle.cli.live.reader import STDERR, terminal_size
from heddle.cli.terminal.outlet import write_all

PATIENCE: Final = 0.5

KEYS: Final[Mapping[str, str]] = {
    "Enter": "send the message",
    "Alt-Enter": "begin a new line; also Esc, then Enter",
    "Up, Down": "what was sent before",
    "Ctrl-R": "search in it",
    "Tab": "complete a command",
    "Ctrl-C": "cancel the answer; at the prompt, clear what is typed",
    "Ctrl-Z": "suspend; `fg` in the shell comes back to what is typed",
    "Ctrl-D": "leave",
}
"""Keys → what they do, for whoever asks."""


class Left(Enum):
    """How a prompt is left without a text."""

    BY_CTRL_C = auto()
    BY_CTRL_D = auto()


Kind: TypeAlias = Literal["message", "answer"]
"""What is asked for: a message, or an answer to something that the flow asks."""

Typed: TypeAlias = str | Left


class LineEditor:
    """Reads from the terminal of stdin and draws on that of stderr.

    Args:
        said_before: Where messages are kept.
        cut_off: Called when a thread was left behind that has the terminal set up.
        suspend: Stops the process, and returns when it goes on; in the editor's thread.
        commands: What Tab completes.
        colours: Whether it may colour.
        sign: What stands before a message.
    """

    def __init__(
        self,
        said_before: SaidBefore,
        cut_off: Callable[[], None],
        suspend: Callable[[], None],
        *,
        commands: Iterable[str] = (),
        colours: bool = True,
        sign: str = ">",
    ) -> None:
        self._cut_off = cut_off
        output = Vt100_Output(
            _screen(),
            _size,
            term=os.environ.get("TERM"),
            # Only needed for menus; an answer that comes late would be read as typed.
            enable_cpr=False,
        )
        shared: dict[str, Any] = {
            "input": create_input(sys.stdin),
            "output": output,
            "multiline": True,
            "key_bindings": _keys(suspend),
            "color_depth": ColorDepth.default() if colours else ColorDepth.DEPTH_1_BIT,
            "include_default_pygments_style": False,
            "complete_while_typing": False,
            "complete_style": CompleteStyle.READLINE_LIKE,
            "reserve_space_for_menu": 0,
            "prompt_continuation": _indented,
        }
        self._sessions: dict[Kind, PromptSession[Typed]] = {
            "message": PromptSession(
                [("bold fg:ansigreen", f"{sign} ")],
                history=_Kept(said_before),
                completer=WordCompleter(list(commands), sentence=True),
                **shared,
            ),
            "answer": PromptSession(
                [("bold fg:ansiyellow", "? ")], history=DummyHistory(), **shared
            ),
        }

    async def read(self, kind: Kind, *, hint: str = "") -> Typed:
        """Have something typed.

        Args:
            kind: What for.
            hint: Shown where nothing is typed yet.

        Returns:
            The text as it was typed, or how it was left without one. A terminal that is
            gone is like Ctrl-D.
        """
        prompt = _Prompt(self._sessions[kind], hint)
        async with _ending(prompt.end) as waiting:
            with waiting:
                return await trio.to_thread.run_sync(prompt.run, abandon_on_cancel=True)
            self._cut_off()
        return Left.BY_CTRL_D


@asynccontextmanager
async def _ending(end: Callable[[], None]) -> AsyncIterator[trio.CancelScope]:
    """A shielded scope. When what is around it is cancelled, ``end`` is called, and what is
    in the scope has `PATIENCE` to come to an end."""
    waiting = trio.CancelScope(shield=True)

    async def watch() -> None:
        try:
            await trio.sleep_forever()
        finally:
            end()
            waiting.deadline = trio.current_time() + PATIENCE

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        yield waiting
        nursery.cancel_scope.cancel()


class _Prompt:
    """One prompt: run in a thread, ended from another."""

    def __init__(self, session: PromptSession[Typed], hint: str) -> None:
        self._session = session
        self._hint = hint
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Typed] | None = None
        self._is_over = False

    def run(self) -> Typed:
        """Read. In a thread without a loop."""
        try:
            return asyncio.run(self._run())
        except (EOFError, OSError, asyncio.CancelledError):
            return Left.BY_CTRL_D

    def end(self) -> None:
        """Have it end; from any thread, at any time."""
        self._is_over = True
        loop, task = self._loop, self._task
        if loop is not None and task is not None:
            with suppress(RuntimeError):  # it has ended by itself
                loop.call_soon_threadsafe(task.cancel)

    async def _run(self) -> Typed:
        loop = asyncio.get_running_loop()
        self._task = asyncio.ensure_future(
            self._session.prompt_async(
                placeholder=[("fg:ansibrightblack", self._hint)],
                set_exception_handler=False,
                handle_sigint=False,
            )
        )
        self._loop = loop
        # Drawing fails when the terminal is gone: then nothing can be typed either.
        loop.set_exception_handler(lambda *_: self.end())
        if self._is_over:
            self._task.cancel()
        typed = await self._task
        if isinstance(typed, str):
            # What is typed that is no UTF-8 comes as halves of pairs.
            return typed.encode(errors="surrogateescape").decode(errors="replace")
        return typed


class _Kept(History):
    """The messages of before, as prompt_toolkit wants them: the newest first."""

    def __init__(self, said_before: SaidBefore) -> None:
        super().__init__()
        self._said_before = said_before

    def load_history_strings(self) -> Iterable[str]:
        return reversed(self._said_before.load())

    def store_string(self, string: str) -> None:
        self._said_before.add(string)


def _keys(suspend: Callable[[], None]) -> KeyBindings:
    keys = KeyBindings()
    typing = has_focus(DEFAULT_BUFFER)

    @keys.add("enter", filter=typing)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("escape", "enter", filter=typing)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    @keys.add("c-c", filter=typing)
    def _(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(result=Left.BY_CTRL_C)

    @keys.add("c-z")
    def _(event: KeyPressEvent) -> None:  # noqa: ARG001
        run_in_terminal(suspend)

    return keys


def _indented(width: int, number: int, wraps: int) -> str:  # noqa: ARG001
    return " " * width


class _Written(io.RawIOBase):
    """The terminal of stderr, with nothing kept back.

    What `sys.stderr` keeps of a write that failed or is stuck is tried again when the
    interpreter ends, which then waits for a paused terminal or ends with a status that
    is not ours.
    """

    name = "<stderr>"

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return STDERR

    def isatty(self) -> bool:
        return os.isatty(STDERR)

    def write(self, data: Any, /) -> int:
        write_all(STDERR, data)
        return len(data)


def _screen() -> io.TextIOWrapper:
    encoding = getattr(sys.stderr, "encoding", None)
    return io.TextIOWrapper(_Written(), encoding, "backslashreplace", write_through=True)


def _size() -> Any:
    from prompt_toolkit.data_structures import Size

    columns, rows = terminal_size()
    return Size(rows=rows, columns=columns)
