"""A chat in plain lines: for pipes, and for terminals that cannot do more.

Answers go to stdout; the prompt, questions, warnings and errors to stderr. A line is a
message, or the answer to what the run asks meanwhile.
"""

import codecs
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, Final, TextIO

import msgspec
import trio
import trio.lowlevel
from outcome import Outcome

from heddle.cli.chat.person import PlainPerson
from heddle.cli.exits import told
from heddle.cli.terminal.outlet import write_all
from heddle.cli.text.wording import fit, fit_json
from heddle.events import Event
from heddle.standard_streams import STDOUT, output_failed
from plugins_host import Fault

if TYPE_CHECKING:
    from heddle.cli.chat.loop import Answer, Front
    from heddle.cli.reporting.readers import Reader

KEYS: Final = {"Ctrl-C": "cancel the answer", "Ctrl-D": "leave"}


class Lines:
    """The lines of a file that nothing but a line ends the reading of: a terminal, a pipe.

    A line that somebody was waiting for who was cancelled is given to the next one. The
    thread that waits is left behind when nobody does, and ends with the process.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._reading = False
        self._read, self._to_read = trio.open_memory_channel[Outcome[str]](1)

    async def next(self) -> str:
        """The next one, or what is left of it at the end of the file; then ""."""
        if not self._reading:
            self._reading = True
            token = trio.lowlevel.current_trio_token()

            def deliver(line: Outcome[str]) -> None:
                with suppress(trio.RunFinishedError):
                    token.run_sync_soon(self._read.send_nowait, line)

            trio.lowlevel.start_thread_soon(self._file.readline, deliver)
        line = await self._to_read.receive()
        self._reading = False
        return line.unwrap()


class PlainFront:
    """Lines of stdin.

    Args:
        reader: Shows what happens.
        stdout: Where answers are written.
    """

    def __init__(self, reader: "Reader", stdout: int = STDOUT) -> None:
        self._reader = reader
        self._stdout = stdout
        self._is_typed = sys.stdin is not None and sys.stdin.isatty()
        self.keys: Mapping[str, str] = KEYS if self._is_typed else {}
        self.person = PlainPerson(self._show, self._next_line)
        if isinstance(sys.stdin, TextIOWrapper):
            # A byte that is no text is no reason to end the chat, or to fail a run.
            # A locale of bare ASCII knows no more than that it is an old one.
            bare = codecs.lookup(sys.stdin.encoding).name == "ascii"
            sys.stdin.reconfigure(encoding="utf-8" if bare else None, errors="replace")
        self._lines = None if sys.stdin is None else Lines(sys.stdin)

    async def next_message(self) -> str | None:
        """The next line."""
        await self._all_written()
        return await self._next_line()

    async def tell(self, text: str, /) -> None:
        """Show it, also with --quiet: it was asked for."""
        await self._show(text)

    async def show_state(self, state: Mapping[str, Any], /) -> None:
        """Show it as JSON."""
        indented = msgspec.json.format(msgspec.json.encode(state), indent=2)
        await self._show(fit_json(indented).decode())

    async def refuse(self, error: Fault, /) -> None:
        """Tell the error."""
        self._reader.remark(told(error))

    def see(self, event: Event, /) -> None:
        """Pass it on."""
        self._reader.see(event)

    def begin(self) -> None:
        """Nothing."""

    async def give_up(self) -> None:
        """Say so."""
        await self._show("Cancelled.")

    async def answer(self, answer: "Answer", /) -> None:
        """Write it to stdout.

        Raises:
            OutputFailed: That cannot be done.
        """
        await self._all_written()
        shown = f"{fit(answer.text)}\n".encode()
        if not answer.is_json and os.isatty(self._stdout) and _is_capable():
            shown = _rendered(answer.text)
        try:
            write_all(self._stdout, shown)
        except OSError as error:
            raise output_failed(error) from error

    async def _show(self, text: str) -> None:
        await self._all_written()
        if text and sys.stderr is not None:
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()

    async def _next_line(self) -> str | None:
        if self._lines is None:
            return None
        if self._is_typed and sys.stderr is not None:
            sys.stderr.write("> ")
            sys.stderr.flush()
        line = await self._lines.next()
        return line.strip() if line else None

    async def _all_written(self) -> None:
        """Wait until stderr has what was shown, so that it stands above what comes next."""
        for outlet in self._reader.outlets:
            await outlet.drained()


def _is_capable() -> bool:
    return os.environ.get("TERM", "dumb") != "dumb"


def _rendered(text: str) -> bytes:
    """Markdown as it is meant, on a terminal that can show it."""
    from heddle.cli.live.reader import terminal_size
    from heddle.cli.terminal.region import painted
    from heddle.cli.text.streamed import Streamed

    colours = not os.environ.get("NO_COLOR")
    rows = Streamed(text).finish(terminal_size()[0] - 1)
    lines = (f"{painted(row, colours=colours)[0]}\n" for row in rows)
    return "".join(lines).encode(errors="backslashreplace")


if TYPE_CHECKING:
    _: type[Front] = PlainFront
