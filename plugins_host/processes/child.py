"""One process of a plugin: spawned in a group of its own, ended with all it started."""

import errno
import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Final, Protocol

import trio

from plugins_host.processes.guard import Guard
from plugins_host.processes.pipes import (
    CHUNK,
    ROOM,
    Inlet,
    Outlet,
    PipeInlet,
    PipeOutlet,
    open_pipe,
)
from plugins_host.program import PluginProgram
from plugins_host.shortages import shortage

# A plugin that was asked to leave has this long to. Seconds.
LEAVE_PATIENCE: Final = 1.0

# A process that SIGKILL has not ended by then hangs in the kernel, and is left to it.
# Seconds.
UNKILLABLE: Final = 5.0

# A process that closed its stdout without being asked has this long to end by itself, so
# that its exit status can be told. Seconds.
LAST_BREATH: Final = 1.0


class SpawnError(Exception):
    """The program could not be run. ``fix`` says what to do about it."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.what = what
        self.fix = fix


class Child(Protocol):
    """A process as its channel uses it; tests make theirs of code."""

    @property
    def pid(self) -> int:
        """The number of the process and of its group."""
        ...

    @property
    def outlet(self) -> Outlet:
        """Its stdin."""
        ...

    @property
    def inlet(self) -> Inlet:
        """Its stdout."""
        ...

    @property
    def errors(self) -> Inlet:
        """Its stderr."""
        ...

    async def wait(self) -> int:
        """Wait for its end; its exit status, below 0 for a signal."""
        ...

    def kill(self) -> None:
        """End it and everything that it started, at once."""
        ...


class ProcessChild:
    """A real process. Its pipes outlive it: what it wrote last is read after its end."""

    def __init__(
        self,
        process: trio.Process,
        outlet: Outlet,
        inlet: Inlet,
        errors: Inlet,
        guard: Guard | None = None,
    ) -> None:
        self.pid = process.pid
        self.outlet = outlet
        self.inlet = inlet
        self.errors = errors
        self._process = process
        self._guard = guard
        if guard is not None:
            guard.begins(self.pid, ends_itself=True)

    async def wait(self) -> int:
        """Wait for its end; its exit status, below 0 for a signal."""
        return await self._process.wait()

    def kill(self) -> None:
        """End the whole group: what the plugin started must not outlive it.

        Its members may live on after the leader, so this is right after its end too; the
        number of a group is not given out again while it has members.
        """
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        if self._guard is not None:
            self._guard.ended(self.pid)


# What is missing when these are not found.
_RUNTIMES: Final[Mapping[str, str]] = {
    "node": "Install Node.js, or put node on heddle's PATH.",
    "deno": "Install Deno, or put deno on heddle's PATH.",
    "bun": "Install Bun, or put bun on heddle's PATH.",
}


async def spawn(program: PluginProgram, guard: Guard | None = None) -> Child:
    """Start the process, its three streams in pipes, in a session of its own.

    ``guard`` ends it when this process is killed and it is stuck.

    Raises:
        SpawnError: There is no such program, or it cannot be run.
    """
    with ExitStack() as theirs, ExitStack() as ours:

        def pipe(room: int) -> tuple[int, int]:
            try:
                return open_pipe(room=room)
            except OSError as error:
                raise _refused("no pipe can be opened", error) from error

        stdin, to_stdin = pipe(ROOM)
        theirs.callback(os.close, stdin)
        outlet = ours.enter_context(closing(PipeOutlet(to_stdin)))
        from_stdout, stdout = pipe(ROOM)
        theirs.callback(os.close, stdout)
        inlet = ours.enter_context(closing(PipeInlet(from_stdout)))
        from_stderr, stderr = pipe(CHUNK)
        theirs.callback(os.close, stderr)
        errors = ours.enter_context(closing(PipeInlet(from_stderr)))
        try:
            process = await trio.lowlevel.open_process(
                list(program.argv),
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                cwd=program.cwd,
                env=dict(program.environment),
                start_new_session=True,
            )
        except (OSError, ValueError, RuntimeError, subprocess.SubprocessError) as error:
            raise _cannot_run(program, error) from error
        ours.pop_all()
    return ProcessChild(process, outlet, inlet, errors, guard)


def _cannot_run(program: PluginProgram, error: Exception) -> SpawnError:
    name = program.argv[0]
    match error:
        case FileNotFoundError() if not Path(program.cwd).is_dir():
            return SpawnError(
                f"its folder {program.cwd!r} is not there",
                "Put it back, or load it from another.",
            )
        case FileNotFoundError() if Path(program.cwd, name).is_file():
            return SpawnError(
                f"what the first line of {name!r} names to run it was not found",
                "Correct that line, or install what it names.",
            )
        case FileNotFoundError():
            fix = _RUNTIMES.get(Path(name).name, "Check its 'command', or install it.")
            return SpawnError(f"its program {name!r} was not found", fix)
        case PermissionError():
            return SpawnError(f"its program {name!r} is not executable", f"chmod +x {name}")
        case OSError(errno=errno.ENOEXEC):
            return SpawnError(
                f"its program {name!r} is no program",
                "Begin it with a line like #!/usr/bin/env python3.",
            )
        case _:
            return _refused(f"its program {name!r} cannot be run", error)


def _refused(what: str, error: Exception) -> SpawnError:
    """The system did not do ``what``, for want of something, or for a reason of its own."""
    if short := shortage(error, starting=True):
        return SpawnError(f"{what}: {short.what}", short.fix)
    return SpawnError(f"{what} ({error})", "")
