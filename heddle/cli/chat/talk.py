"""What a chat of ``heddle run -i`` is made of, chosen by what it is read from and shown on.

A terminal that can be drawn on gets `heddle.cli.chat.terminal`; anything else, and
``--quiet``, plain lines.
"""

import sys
from collections.abc import Collection
from typing import TYPE_CHECKING

from heddle.cli.chat.loop import Chat, Front
from heddle.cli.chat.plain import PlainFront
from heddle.cli.reporting.plain import PlainLines
from heddle.cli.reporting.readers import Plain, Reader, Silent
from heddle.cli.terminal.interrupts import Interrupts
from heddle.cli.terminal.keys import TerminalKeys, is_fit

if TYPE_CHECKING:
    from heddle.cli.terminal.suspension import Suspension
    from heddle.launch import Engine, RunOptions
    from heddle.preparing import Prepared


class Talk:
    """One chat.

    Args:
        prepared: The flow.
        stdout: Where plain answers are written.
        verbose: Whether to show all that goes in and comes out.
        quiet: Whether to show answers and errors alone.
        shown: Warnings that are told already.

    Attributes:
        reader: Shows what happens beside the turns as well.
    """

    reader: Reader

    def __init__(
        self,
        prepared: "Prepared",
        stdout: int,
        *,
        verbose: bool,
        quiet: bool,
        shown: Collection[str],
    ) -> None:
        self._prepared = prepared
        self._is_typed = sys.stdin is not None and sys.stdin.isatty()
        self._interrupts = Interrupts(active=self._is_typed)
        self._keys: TerminalKeys | None = None
        self._suspension: Suspension | None = None
        self._front: Front
        lines = PlainLines(verbose=verbose, shown=frozenset(shown))
        if quiet or sys.stderr is None:
            self.reader = Silent()
        elif is_fit(stdout):
            # It takes a while to load, and whoever pipes need not wait for it.
            from heddle.cli.chat.speakers import last_speakers
            from heddle.cli.chat.terminal import TerminalFront

            self._keys = TerminalKeys()
            front = TerminalFront(
                self._keys,
                self._interrupts,
                speakers=last_speakers(prepared.plan.graph),
                verbose=lines if verbose else None,
                shown=shown,
            )
            self.reader = self._front = front
            self._suspension = front.suspension
            return
        else:
            self.reader = Plain(lines)
        self._front = PlainFront(self.reader, stdout)

    def heed(self, number: int) -> bool:
        """Take care of a signal; whether that was done."""
        return self._interrupts.heed(number)

    async def run(self, engine: "Engine", options: "RunOptions") -> int:
        """Take turns until the person leaves.

        Returns:
            The exit status: of what no person has typed, and so nobody may have read, 1
            where it was not all done.
        """
        chat = Chat(
            engine,
            self._prepared,
            options.inputs,
            self._front,
            self._interrupts,
            # Plain answers are shown when they are whole.
            stream=self._keys is not None and options.stream,
        )
        if self._keys is not None and self._suspension is not None:
            with self._keys.quiet(), self._suspension.heeding():
                await chat.run()
            return 0
        is_done = await chat.run()
        return 0 if is_done or self._is_typed else 1

    def give_back(self) -> None:
        """Give the terminal back at once."""
        if self._keys is not None:
            self._keys.give_back()
