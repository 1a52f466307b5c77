"""A process group whose leader may be gone: signal it, and see whether anyone lives.

The kernel counts zombies as members of a group, and a container's first process often
collects them late or never. So where ``/proc`` says more than ``kill(-group, 0)``, it is
read: a group of zombies is a group that nobody lives in.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress

ENDED_STATES = frozenset(b"ZX")


class ProcessGroup:
    """The group ``number``."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._seen: list[int] = []

    def signal(self, number: int) -> bool:
        """Send a signal to every member; False when there is none that may be sent to."""
        try:
            os.killpg(self.number, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def collect_orphans(self) -> None:
        """Collect members that were given to this process when their parent ended.

        They are where heddle is the first process of a container. Only once the leader
        itself has been collected by whoever started it.
        """
        with suppress(ChildProcessError):
            while os.waitpid(-self.number, os.WNOHANG)[0]:
                pass

    def lives(self) -> bool:
        """Whether a member is running or stopped."""
        if not self.signal(0):
            return False
        # All processes are looked at only when those seen before are gone.
        self._seen = [pid for pid in self._seen if lives_in(pid, self.number)]
        if not self._seen:
            try:
                self._seen = [pid for pid in processes() if lives_in(pid, self.number)]
            except OSError:  # pragma: no cover  no /proc: a system without it
                return True
        return bool(self._seen)


def processes() -> Iterator[int]:
    """Every process there is."""
    return (int(name) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208


def lives_in(pid: int, group: int) -> bool:
    """Whether a process has not ended and is a member of the group."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            stat = file.read()
    except OSError:
        return False
    # "pid (name) state parent group …", and the name may have blanks and brackets in it
    state, _, member_of = stat[stat.rindex(b")") + 2 :].split(maxsplit=3)[:3]
    return int(member_of) == group and state[0] not in ENDED_STATES


SWEEPS = 10
"""How often a folder is looked through: what starts others while it is ended is found the
next time, and what outruns this many is a fork bomb."""


def end_processes_in(folder: str) -> int:
    """End the processes that work in a folder or below it, whatever group they are in.

    Only those that may be looked at: of this user, on a system with ``/proc``. One that
    has gone to work elsewhere is not found.

    Returns:
        How many were ended.
    """
    ended = 0
    for _ in range(SWEEPS):
        try:
            found = [pid for pid in processes() if works_in(pid, folder)]
        except OSError:  # pragma: no cover  no /proc: a system without it
            return ended
        if not found:
            break
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
                ended += 1
    return ended


def works_in(pid: int, folder: str) -> bool:
    """Whether a process has its working directory in a folder or below it."""
    try:
        place = os.readlink(f"/proc/{pid}/cwd")  # noqa: PTH115
    except OSError:
        return False
    return pid != os.getpid() and (place + "/").startswith(folder + "/")
