"""One execution of a program: JSON on stdin, JSON on stdout, nothing left afterwards.

The program leads a process group of its own. Whatever ends the execution (an answer, a
failure, the time-out, cancellation) ends the whole group: SIGTERM, and SIGKILL after
`GRACE`. A descendant that leaves the group on purpose (``setsid``) is on its own.

What a tool may rely on:

    stdin     its input, one JSON object, then end of file; it need not read it
    stdout    its answer (`heddle.tools.answer`)
    stderr    anything; the last 4 KiB are shown when it fails
    cwd       the workspace of its node, also ``$HEDDLE_WORKSPACE``
    others    the program's own environment, else that which heddle was started with
"""

import errno
import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from typing import Any, Final

import msgspec
import trio

from heddle.tools.answer import MAX_OUTPUT, read_answer
from heddle.tools.faults import ToolAnswerInvalid, ToolFailed, ToolTimedOut
from heddle.tools.group import ProcessGroup
from heddle.tools.registry import ToolProgram
from heddle.tools.starting import cannot_start
from heddle.tools.workspace import Workspace
from plugins_host.processes.guard import Guard, unstopped

# Seconds between SIGTERM and SIGKILL. Long enough to remove a lock file, short enough
# that an interrupted command line is back within two seconds.
GRACE: Final = 0.5
# Seconds that a killed process is waited for. Only one that hangs in the kernel (a dead
# network disk) or a zombie that its parent does not collect takes longer.
COLLECT: Final = 0.5
ENDING: Final = ((signal.SIGTERM, GRACE), (signal.SIGKILL, COLLECT))
# Seconds that stdout and stderr may stay open after the program has exited, because a
# process that it left behind holds them.
LINGER: Final = 0.25
# Seconds between looks at a group whose leader is gone. The kernel tells nobody when
# the last member of a group exits, and few tools leave any.
FIRST_LOOK: Final = 0.002
LAST_LOOK: Final = 0.05

STDERR_SHOWN: Final = 4096
READ_SIZE: Final = 65536
# Another thread that forks at the wrong moment holds a just-written program open for
# writing until it execs; Linux then refuses to run it. (Go issue 22315.)
BUSY_WAITS: Final = (0.01, 0.02, 0.04, 0.08)


async def run_program(
    program: ToolProgram,
    input: Mapping[str, Any],  # noqa: A002  the word of the protocol
    *,
    workspace: Workspace,
    timeout: float,
    guard: Guard | None = None,
) -> dict[str, Any]:
    """Run a program once and read its answer.

    Args:
        program: What to run.
        input: What it is given.
        workspace: Where it works.
        timeout: Seconds it may run, from its start.
        guard: Ends it when this process is killed.

    Raises:
        ToolUnusable: It cannot be started.
        ToolFailed: It ended with another status than 0.
        ToolTimedOut: It ran too long.
        ToolAnswerInvalid: It printed something that is no answer.
        WorkspaceFailed: It has nowhere to work.
    """
    question = msgspec.json.encode(input)
    child = await start(program, workspace, guard)
    heard = Heard()
    try:
        with trio.move_on_after(timeout) as limit:
            await child.converse(question, heard)
        in_time = not limit.cancelled_caught
        if not in_time and child.exited_nowait():
            # It was in time and we were not: the loop was busy when it exited.
            await child.listen(heard)
            in_time = True
    finally:
        with trio.CancelScope(shield=True):
            await child.end()
    if not in_time:
        raise ToolTimedOut(program.name, timeout, heard.complaint())
    if heard.too_much:
        raise ToolAnswerInvalid(
            program.name,
            f"stdout is over {MAX_OUTPUT // 2**20} MiB",
            fix="Answer with less, or write to a file and answer with its path.",
        )
    if child.returncode:
        raise ToolFailed(program.name, child.returncode, heard.complaint())
    return read_answer(program.name, bytes(heard.stdout))


class Heard:
    """What a program has written so far, within bounds."""

    def __init__(self) -> None:
        self.stdout = bytearray()
        self.too_much = False
        self._stderr = bytearray()
        self._cut = False

    def note_stderr(self, data: bytes) -> None:
        """Keep the end of it."""
        self._stderr += data
        if len(self._stderr) > STDERR_SHOWN:
            del self._stderr[:-STDERR_SHOWN]
            self._cut = True

    def complaint(self) -> str:
        """The end of stderr as text; "…" stands for what came before."""
        text = self._stderr.decode(errors="replace")
        return "…" + text.lstrip("\ufffd").rstrip() if self._cut else text.strip()


class Child:
    """A running program: three pipes and a process group.

    Its number is not given back to the system before the group has been signalled for
    the first time, so no signal can reach a stranger that got the same number.
    """

    def __init__(
        self,
        popen: subprocess.Popen[bytes],
        stdin: int,
        stdout: int,
        stderr: int,
        guard: Guard | None = None,
    ) -> None:
        self._guard = guard
        self._popen = popen
        self._group = ProcessGroup(popen.pid)
        self._stdin = trio.lowlevel.FdStream(stdin)
        self._stdout = trio.lowlevel.FdStream(stdout)
        self._stderr = trio.lowlevel.FdStream(stderr)
        self._exit_handle: int | None = None
        # Where there is no such handle (macOS, old kernels), a thread waits.
        with suppress(AttributeError, OSError):
            self._exit_handle = os.pidfd_open(popen.pid)

    @property
    def returncode(self) -> int | None:
        """Status, or minus the signal; None until `end` has collected it."""
        return self._popen.returncode

    async def converse(self, question: bytes, heard: Heard) -> None:
        """Ask, and listen until the program has exited and its pipes are at their end."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._tell, question)
            self._listen_in(nursery, heard)
            await self.exited()
            nursery.cancel_scope.deadline = trio.current_time() + LINGER

    async def listen(self, heard: Heard) -> None:
        """Read what an exited program has left in its pipes."""
        async with trio.open_nursery() as nursery:
            nursery.cancel_scope.deadline = trio.current_time() + LINGER
            self._listen_in(nursery, heard)

    def _listen_in(self, nursery: trio.Nursery, heard: Heard) -> None:
        nursery.start_soon(self._read_stdout, heard, nursery.cancel_scope)
        nursery.start_soon(self._read_stderr, heard)

    async def _tell(self, question: bytes) -> None:
        # A program is free not to read its input.
        with suppress(trio.BrokenResourceError):
            await self._stdin.send_all(question)
        self._stdin.close()

    async def _read_stdout(self, heard: Heard, conversation: trio.CancelScope) -> None:
        while data := await self._stdout.receive_some(READ_SIZE):
            heard.stdout += data
            if len(heard.stdout) > MAX_OUTPUT:
                heard.too_much = True
                conversation.cancel()

    async def _read_stderr(self, heard: Heard) -> None:
        while data := await self._stderr.receive_some(READ_SIZE):
            heard.note_stderr(data)

    async def exited(self) -> None:
        """Wait until the program has exited, without collecting it where that can be."""
        if self._exit_handle is None:
            await trio.to_thread.run_sync(self._popen.wait, abandon_on_cancel=True)
        else:
            await trio.lowlevel.wait_readable(self._exit_handle)

    def exited_nowait(self) -> bool:
        """Whether the program has exited."""
        if self._exit_handle is None or self._popen.returncode is not None:
            return self._popen.poll() is not None
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self._popen.pid, options) is not None

    async def end(self) -> None:
        """End the group, collect the program and close the pipes. To be shielded."""
        try:
            await self._end_program()
            if self._someone_is_left():
                await self._end_the_rest()
        finally:
            for stream in (self._stdin, self._stdout, self._stderr):
                stream.close()
            if self._guard is not None:
                self._guard.ended(self._group.number)
            if self._exit_handle is not None:
                os.close(self._exit_handle)
                self._exit_handle = None

    async def _end_program(self) -> None:
        for number, patience in ENDING:
            if self.exited_nowait():
                break
            self._group.signal(number)
            with trio.move_on_after(patience):
                await self.exited()
        self._popen.poll()

    async def _end_the_rest(self) -> None:
        # Only what hangs in the kernel outlives the last of these.
        for number, patience in ENDING:  # pragma: no branch
            self._group.signal(number)
            deadline = trio.current_time() + patience
            wait = FIRST_LOOK
            while self._someone_is_left():
                if trio.current_time() >= deadline:
                    break
                await trio.sleep(wait)
                wait = min(2 * wait, LAST_LOOK)
            else:
                return

    def _someone_is_left(self) -> bool:
        lives = self._group.lives()
        if self._popen.returncode is not None:  # pragma: no branch  as above
            # After the look and not before it: who ends between the two is not left.
            self._group.collect_orphans()
        return lives


async def start(
    program: ToolProgram, workspace: Workspace, guard: Guard | None = None
) -> Child:
    """Start a program in a group of its own.

    Raises:
        ToolUnusable: It cannot be started.
        WorkspaceFailed: It has nowhere to work.
    """
    busy_waits = iter(BUSY_WAITS)
    while True:
        try:
            # In a thread: until the program's first instruction this takes a
            # millisecond, several on a busy machine, and other runs go on meanwhile.
            started = await trio.to_thread.run_sync(_start, program, workspace, guard)
        except OSError as error:
            wait = next(busy_waits, None) if error.errno == errno.ETXTBSY else None
            if wait is None:
                raise cannot_start(program, error) from error
        else:
            return Child(*started, guard)
        await trio.sleep(wait)


def _start(
    program: ToolProgram, workspace: Workspace, guard: Guard | None
) -> tuple[subprocess.Popen[bytes], int, int, int]:
    """The program and our ends of its stdin, stdout and stderr."""
    folder = workspace.folder()
    environment = {"HEDDLE_WORKSPACE": folder}
    if program.environment is None:
        # An inherited $PWD would be that of heddle.
        environment = {**os.environ, **environment, "PWD": folder}
    else:
        environment = {**program.environment, **environment}
    with ExitStack() as theirs, ExitStack() as ours:

        def pipe(*, to_child: bool) -> tuple[int, int]:
            read, write = os.pipe()
            child_end, our_end = (read, write) if to_child else (write, read)
            theirs.callback(os.close, child_end)
            ours.callback(os.close, our_end)
            return child_end, our_end

        if guard is not None:
            guard.prepare()
        child_stdin, stdin = pipe(to_child=True)
        child_stdout, stdout = pipe(to_child=False)
        child_stderr, stderr = pipe(to_child=False)
        with unstopped():
            popen = subprocess.Popen(
                [*program.interpreter, program.path],
                stdin=child_stdin,
                stdout=child_stdout,
                stderr=child_stderr,
                cwd=folder,
                env=environment,
                start_new_session=True,
            )
        ours.pop_all()
    if guard is not None:
        guard.begins(popen.pid)
    return popen, stdin, stdout, stderr
