"""A tape of what heddle and a plugin process say to each other, line by line.

    tape = Tape()
    fleet = Fleet([program], log=log, spawn=tape.spawn)
    mark = tape.mark()
    …
    tape.since(mark)       ['> {"id":1,"method":"init",…}', '< {"id":1,"result":{…}}']

``>`` is what heddle wrote, ``<`` what the process did.
"""

from plugins_host.processes.child import Child, spawn
from plugins_host.processes.pipes import Inlet, Outlet
from plugins_host.program import PluginProgram


class Tape:
    """What was said, in order.

    Attributes:
        statuses: How each process ended, below 0 for a signal, in order.
    """

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self._lines: list[str] = []

    def mark(self) -> int:
        """Where the tape is."""
        return len(self._lines)

    def since(self, mark: int) -> tuple[str, ...]:
        """What was said from there on."""
        return tuple(self._lines[mark:])

    def record(self, direction: str, line: bytes) -> None:
        """Add a line."""
        self._lines.append(f"{direction} {line.decode(errors='replace')}")

    async def spawn(self, program: PluginProgram) -> Child:
        """Start a process and listen."""
        return _TapedChild(await spawn(program), self)


class _Lines:
    """Puts bytes together into lines."""

    def __init__(self, tape: Tape, direction: str) -> None:
        self._tape = tape
        self._direction = direction
        self._open = b""

    def feed(self, data: bytes) -> None:
        *lines, self._open = (self._open + data).split(b"\n")
        for line in lines:
            self._tape.record(self._direction, line)

    def end(self) -> None:
        if self._open:
            self.feed(b"\n")


class _TapedOutlet:
    def __init__(self, outlet: Outlet, tape: Tape) -> None:
        self._outlet = outlet
        self._lines = _Lines(tape, ">")

    def write_nowait(self, data: bytes | memoryview) -> int:
        written = self._outlet.write_nowait(data)
        self._lines.feed(bytes(data[:written]))
        return written

    async def wait_writable(self) -> None:
        await self._outlet.wait_writable()

    def taken(self) -> int:
        return self._outlet.taken()

    def close(self) -> None:
        self._outlet.close()


class _TapedInlet:
    def __init__(self, inlet: Inlet, tape: Tape) -> None:
        self._inlet = inlet
        self._lines = _Lines(tape, "<")

    def read_nowait(self) -> bytes | None:
        data = self._inlet.read_nowait()
        if data:
            self._lines.feed(data)
        elif data is not None:
            self._lines.end()
        return data

    async def wait_readable(self) -> None:
        await self._inlet.wait_readable()

    def close(self) -> None:
        self._inlet.close()


class _TapedChild:
    """A child whose stdin and stdout are on tape."""

    def __init__(self, child: Child, tape: Tape) -> None:
        self.pid = child.pid
        self.outlet: Outlet = _TapedOutlet(child.outlet, tape)
        self.inlet: Inlet = _TapedInlet(child.inlet, tape)
        self.errors = child.errors
        self._child = child
        self._tape = tape
        self._ended = False

    async def wait(self) -> int:
        status = await self._child.wait()
        if not self._ended:
            self._ended = True
            self._tape.statuses.append(status)
        return status

    def kill(self) -> None:
        self._child.kill()
