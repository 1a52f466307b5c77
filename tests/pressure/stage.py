"""The server of a campaign as it is seen from outside: its processes, its log, its disk."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import trio

from tests.pressure.models import Models
from tests.pressure.relay import Relay
from tests.pressure.served import CLOCK

STARTING: Final = 60.0
"""Seconds for a server to listen on a machine that is busy with a suite of tests."""

ENDING: Final = 30.0

FLAGS: Final[Mapping[str, str]] = {
    "--port": "0",
    "--workers": "2",
    "--log-format": "json",
    "--allow-net": "127.0.0.1",
    "--max-concurrent": "200",
    "--drain-timeout": "10000",
}

LIMITS: Final[Mapping[str, float]] = {
    "--timeout": 1.0,
    "--tool-timeout": 0.7,
    "--plugin-timeout": 0.25,
}
"""Parts of the time that a plan gives a run."""

WORKERS: Final = int(FLAGS["--workers"])

FILLER: Final = "filler"


class Stage:
    """A server that runs.

    Attributes:
        world: Its folder.
        process: The parent of its workers.
        log: Its lines so far, decoded; those that are no JSON as ``{"text": …}``.
        port: Where it listens.
        relay: The way to it that is cut.
        models: What its flows ask.
    """

    def __init__(self, world: Path, process: trio.Process, models: Models) -> None:
        self.world = world
        self.process = process
        self.models = models
        self.log: list[dict[str, Any]] = []
        self.port = 0
        self.relay = Relay(0)
        self._more = trio.Event()

    @property
    def disk(self) -> bool:
        """Whether its temporary folder is a disk of its own."""
        return (self.world / "disk").read_text() == "own"

    @property
    def temporary(self) -> Path:
        """Its temporary folder, as it sees it."""
        inside = self.world / "tmp"
        if self.disk:
            return Path(f"/proc/{self.process.pid}/root{inside}")
        return inside

    # Processes

    def workers(self) -> list[int]:
        """Its workers, the eldest first."""
        return children(self.process.pid)

    def policies(self) -> list[tuple[str, int]]:
        """The processes of its policies: in which language, and which process."""
        found = []
        for worker in self.workers():
            for pid in children(worker):
                line = command_line(pid)
                for language, name in (("py", "py.py"), ("js", "js.mjs")):
                    if str(self.world / name) in line:
                        found.append((language, pid))
        return sorted(found)

    def everything(self) -> list[int]:
        """All processes: itself and whatever descends from it."""
        return descendants(self.process.pid)

    def strays(self) -> dict[int, str]:
        """Processes that are of this server and not below it any more."""
        mark = str(self.world).encode()
        known = {*self.everything(), *descendants(os.getpid())}
        found = {}
        for pid in parents():
            with suppress(OSError):
                if pid not in known and mark in Path(f"/proc/{pid}/environ").read_bytes():
                    found[pid] = command_line(pid)
        return found

    # The world

    def set_clock(self, offset: float) -> None:
        """Have its wall clock be wrong by so many seconds."""
        with (self.world / "clock").open("r+b") as file:
            file.write(CLOCK.pack(offset))

    def fill(self) -> None:
        """Fill its disk, or let none of its processes write to any."""
        if not self.disk:
            self._limit_files(0)
            return
        with (self.temporary / FILLER).open("wb", buffering=0) as file:
            for size in (2**20, 4096):
                with suppress(OSError):
                    while True:
                        file.write(b"x" * size)

    def empty(self) -> None:
        """There is room again."""
        if not self.disk:
            self._limit_files(resource.RLIM_INFINITY)
            return
        (self.temporary / FILLER).unlink(missing_ok=True)

    def _limit_files(self, size: int) -> None:
        for pid in (self.process.pid, *self.workers()):
            with suppress(ProcessLookupError):
                _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, most))

    # The log

    async def line(self, event: str) -> dict[str, Any]:
        """The first line of its log about this, once it is there."""
        while True:
            for each in self.log:
                if each.get("event") == event:
                    return each
            await self._more.wait()

    async def read_log(self) -> None:
        """Read its log to the end."""
        assert self.process.stderr is not None
        rest = b""
        async for data in self.process.stderr:
            *lines, rest = (rest + data).split(b"\n")
            self.log += [_decoded(line) for line in lines]
            self._more.set()
            self._more = trio.Event()


def _decoded(line: bytes) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(line)
    except ValueError:
        found = {"text": line.decode("utf-8", "replace")}
    return found


@asynccontextmanager
async def open_stage(
    world: Path, flags: list[str], models: Models, limit: float = 6.0
) -> AsyncIterator[Stage]:
    """A server in a folder, until the block is left: ended by then, in one way or other."""
    (world / "tmp").mkdir()
    (world / "clock").write_bytes(CLOCK.pack(0.0))
    limits = {flag: str(part * limit * 1000) for flag, part in LIMITS.items()}
    given = [part for pair in {**FLAGS, **limits}.items() for part in pair]
    command = [sys.executable, "-m", "tests.pressure.served", str(world), *given, *flags]
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("HEDDLE_", "COV"))}
    async with trio.open_nursery() as nursery:
        process = await trio.lowlevel.open_process(
            command,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**kept, "TMPDIR": str(world / "tmp")},
        )
        stage = Stage(world, process, models)
        try:
            nursery.start_soon(stage.read_log)
            with trio.fail_after(STARTING):
                listening = await stage.line("listening")
            stage.port = int(listening["address"].rpartition(":")[2])
            yield stage
        finally:
            with trio.CancelScope(shield=True):
                await end(stage)


async def end(stage: Stage) -> None:
    """End a server that may have ended, and whatever of it is left."""
    stage.process.terminate()
    stage.process.terminate()
    with trio.move_on_after(ENDING):
        await stage.process.wait()
    for pid in (*stage.everything(), *stage.strays()):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    await stage.process.wait()


async def until(holds: Callable[[], bool], *, every: float = 0.05) -> None:
    """Look again and again: what other processes do tells nobody."""
    while not holds():  # noqa: ASYNC110
        await trio.sleep(every)


# /proc


def parents() -> dict[int, int]:
    """The parent of every process; zombies left out."""
    found = {}
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            with suppress(OSError, IndexError, ValueError):
                state, parent = (each / "stat").read_text().rpartition(")")[2].split()[:2]
                if state != "Z":
                    found[int(each.name)] = int(parent)
    return found


def children(pid: int) -> list[int]:
    """Those whose parent this is."""
    return sorted(child for child, parent in parents().items() if parent == pid)


def descendants(pid: int) -> list[int]:
    """This one, and all below it."""
    known = parents()
    found = [pid] if pid in known else []
    for each in found:
        found += [child for child, parent in known.items() if parent == each]
    return found


def command_line(pid: int) -> str:
    """How it was started; nothing when it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""


def open_files(pid: int) -> Iterator[str]:
    """What its open files are."""
    with suppress(OSError):
        for each in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                yield re.sub(r":\[\d+\]$", "", os.readlink(each))  # noqa: PTH115


def resident(pid: int) -> int:
    """Bytes of memory that it holds; 0 when it is gone."""
    with suppress(OSError):
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGESIZE")
    return 0
