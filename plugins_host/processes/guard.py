"""A process that outlives heddle by a second, and ends what a kill of it left behind.

    heddle -- "+ 4711", "- 4711" --> guard     process groups that begin and have ended
    heddle -- "~ 4712" ------------> guard     one that has a second to end by itself
    heddle is killed: end of file -> guard     SIGTERM to those that are left, then SIGKILL

Tools, plugins and tool servers lead groups of their own, so what kills heddle does not
reach them, and heddle, killed with SIGKILL, can do nothing more. Plugins and tool servers
see the end of their input and have things to put in order; those that are stuck do not see
it. The guard is a shell that reads lines: it is there from the first process on, one for
all of them, and costs each two writes to a pipe.
"""

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import starmap
from typing import Final

_SCRIPT: Final = """
trap '' HUP INT TERM
exec 3<&0
(
    groups=' '
    while read -r what group; do
        case $what in
            -) for was in "+$group" "~$group"; do
                   case "$groups" in
                       *" $was "*) groups="${groups%% "$was" *} ${groups#* "$was" }" ;;
                   esac
               done ;;
            *) groups="$groups$what$group " ;;
        esac
    done
    for signal in TERM KILL; do
        left=
        for each in $groups; do
            case $signal$each in
                TERM~*) kill -s 0 -- "-${each#?}" && left=1 ;;
                *) kill -s $signal -- "-${each#?}" && left=1 ;;
            esac
        done
        test -z "$left" || sleep 1
    done
) <&3 3<&- >/dev/null &
echo $!
"""
"""The inner shell is nobody's child: nobody has to collect it, and it keeps the signals off
that are for heddle and all that it started. The outer one tells its number."""


class Guard:
    """Knows which groups are alive, in a process of its own. Starts with the first one.

    Whatever goes wrong with it is nobody's trouble: they are not guarded then.
    """

    def __init__(self) -> None:
        self._pipe: int | None = None
        self._pid: int | None = None
        # Whether each ends by itself, if it can.
        self._groups: dict[int, bool] = {}
        # Tools are started in threads.
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Be there: something is about to begin. May take milliseconds: not for the loop.

        Started behind what begins, it would be there too late for a kill at that moment.
        """
        with self._lock:
            self._prepare()

    def begins(self, group: int, *, ends_itself: bool = False) -> None:
        """A group is there from now on.

        Args:
            group: The number of the group, and of the process that leads it.
            ends_itself: Whether it ends when heddle does, unless it is stuck; then it is
                given a second to.
        """
        with self._lock:
            self._groups[group] = ends_itself
            if self._pipe is None or not self._tell(_begun(group, ends_itself)):
                self._prepare()

    def ended(self, group: int) -> None:
        """A group is gone, and its number may come to be another's."""
        with self._lock:
            self._groups.pop(group, None)
            if self._pipe is not None:
                self._tell(b"- %d\n" % group)

    def close(self) -> None:
        """Nothing is left to guard."""
        with self._lock:
            self._leave()

    def __del__(self) -> None:
        self._leave()

    def _prepare(self) -> None:
        if self._pipe is not None:
            return
        with suppress(OSError, ValueError, subprocess.SubprocessError):
            self._start()
            if self._groups:
                self._tell(b"".join(starmap(_begun, self._groups.items())))

    def _start(self) -> None:
        read, write = os.pipe()
        try:
            with unstopped():
                told = subprocess.run(
                    ["/bin/sh", "-c", _SCRIPT],
                    stdin=read,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    env={"PATH": os.defpath},
                    start_new_session=True,
                    check=True,
                )
            pid = int(told.stdout)
        except BaseException:
            os.close(write)
            raise
        finally:
            os.close(read)
        # One that does not read any more is not waited for.
        os.set_blocking(write, False)
        self._pipe, self._pid = write, pid

    def _tell(self, lines: bytes) -> bool:
        """Whether it was told; one that was not is given up."""
        assert self._pipe is not None
        try:
            if os.write(self._pipe, lines) == len(lines):
                return True
        except BrokenPipeError:
            self._leave()
            return False
        except OSError:
            pass
        # It is there and does not listen. Its pipe's end would tell it that heddle has been
        # killed, and it would end those who are at work.
        if self._pid is not None:
            with suppress(OSError):
                os.kill(self._pid, signal.SIGKILL)
        self._leave()
        return False

    def _leave(self) -> None:
        pipe, self._pipe, self._pid = self._pipe, None, None
        if pipe is not None:
            os.close(pipe)


@contextmanager
def guarding() -> Iterator[Guard]:
    """A guard that comes to be beside what begins in the block, and is closed behind it."""
    guard = Guard()
    # It takes as long as a small program does to start, and so do those it is for.
    threading.Thread(target=guard.prepare, name="guard", daemon=True).start()
    try:
        yield guard
    finally:
        guard.close()


@contextmanager
def unstopped() -> Iterator[None]:
    """Let no Ctrl-Z in while this thread starts a program.

    Between fork and exec the program is in our group yet, and its parent waits for it: one
    that is stopped there keeps the parent from stopping, and the shell waits for both. What
    is started has SIGTSTP blocked; it has no terminal that could send one.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTSTP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begun(group: int, ends_itself: bool) -> bytes:
    return b"%b %d\n" % (b"~" if ends_itself else b"+", group)
