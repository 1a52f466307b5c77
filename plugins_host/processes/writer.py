"""What goes to a plugin's stdin: frames into one task that writes, coalesced.

send ─▶ all that waits ─▶ one write        by the task, when it gets its turn
     └▶ written at once                    when nobody else is talking to the plugin
"""

import trio

from actors import ReplySlot
from plugins_host.processes.pipes import Outlet


class Writer:
    """The writing end of one process. `run` is its task.

    Attributes:
        sent: Bytes of all frames that were to be written.
        deaf: Nobody reads what is written any more.
        unread: Bytes of answers to reverse calls that wait.
    """

    def __init__(self, outlet: Outlet) -> None:
        self.sent = 0
        self.deaf = False
        self.unread = 0
        self._outlet = outlet
        self._waiting: list[bytes] = []
        self._sleeper: ReplySlot[None] | None = None
        self._wrote: trio.Event | None = None
        self._finishing = False

    def send(self, line: bytes, *, alone: bool) -> None:
        """Have a frame written; ``alone`` says that no other call is open."""
        self.sent += len(line)
        if self.deaf:
            return
        if self._sleeper is None:
            self._waiting.append(line)
            return
        if alone and not self._waiting and not self._finishing:
            # Nobody else is talking to it, so there is nothing to wait for: the turn of
            # the loop that collects what others send would be a fifth of the way.
            line = self._write_now(line)
            if not line:
                return
        self._waiting.append(line)
        sleeper, self._sleeper = self._sleeper, None
        sleeper.set(None)

    def reply(self, line: bytes, *, alone: bool) -> None:
        """Have an answer to a reverse call written."""
        self.unread += len(line)
        self.send(line, alone=alone)

    def finish(self) -> None:
        """Close stdin once what is sent next has been written."""
        self._finishing = True

    async def run(self) -> bool:
        """Write until it is finished; False when nobody reads any more."""
        outlet = self._outlet
        read = True
        try:
            while True:
                while self._waiting:
                    if len(self._waiting) == 1:
                        data = self._waiting[0]
                    else:
                        data = b"".join(self._waiting)
                    self._waiting.clear()
                    self.unread = 0
                    written = outlet.write_nowait(data)
                    if written < len(data):
                        await self._write_rest(memoryview(data)[written:])
                    if self._wrote is not None:
                        self._wrote.set()
                if self._finishing:
                    break
                self._sleeper = ReplySlot()
                await self._sleeper.wait()
        except OSError:
            # It has ended, or is of no use any more.
            self._waiting.clear()
            self.unread = 0
            read = False
        self.deaf = True
        if self._wrote is not None:
            self._wrote.set()
        outlet.close()
        return read

    async def wrote(self) -> None:
        """Wait for the next write, or for the end."""
        self._wrote = trio.Event()
        await self._wrote.wait()

    def _write_now(self, line: bytes) -> bytes:
        """Write a frame; the task, which sleeps, takes what is left."""
        try:
            written = self._outlet.write_nowait(line)
        except OSError:
            return line  # the task will meet the same, and knows what to do
        if written == len(line):
            self.unread = 0
        return line[written:]

    async def _write_rest(self, rest: memoryview) -> None:
        while rest:
            await self._outlet.wait_writable()
            rest = rest[self._outlet.write_nowait(rest) :]
