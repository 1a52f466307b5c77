"""What the machine has too little of, told as that and not as a bug.

A full disk, a low ``ulimit -n`` or a machine without memory can meet any line of a program.
Where one is expected, the code there says what could not be done. What comes up from
anywhere else is looked up here, by the kernel's number for it, before it is told as a bug.
"""

import errno
import os
from collections.abc import Iterator, Mapping
from typing import Final

from plugins_host.faults import Fault

_ROOM: Final = "Make room on it, or use another."
_FILES: Final = "Raise the limit (ulimit -n shows it), or do less at a time."
_MEMORY: Final = "Give it more, or do less at a time."

SHORTAGES: Final[Mapping[int, tuple[str, str]]] = {
    errno.ENOSPC: ("the disk is full", _ROOM),
    errno.EDQUOT: ("this user's share of the disk is used up", _ROOM),
    errno.EROFS: ("the disk can only be read", "Use another."),
    errno.EMFILE: ("this process may have no more files open", _FILES),
    errno.ENFILE: ("this machine may have no more files open", _FILES),
    errno.ENOBUFS: ("this machine has no room for more connections", _MEMORY),
    errno.ENOMEM: ("there is not enough memory", _MEMORY),
    # Of a pipe or socket it means "not now", and whoever does not expect that has a bug.
    errno.EAGAIN: (
        "there may be no more processes or threads",
        "Raise the limit (ulimit -u shows it), or do less at a time.",
    ),
}


class Shortage(Fault):
    """The machine, or a limit set for this process, has no more of what was needed."""

    of_the_machine = True


def shortage(error: BaseException, *, starting: bool = False) -> Shortage | None:
    """What was short where that is all there is to ``error``; None for anything else.

    Args:
        error: What was raised, or a group of it.
        starting: Whether a process was to be started.
    """
    found = [_of(each, starting=starting) for each in _leaves(error)]
    return None if None in found else found[0]


def _of(error: BaseException, *, starting: bool) -> Shortage | None:
    if isinstance(error, MemoryError):
        number = errno.ENOMEM
    elif isinstance(error, OSError) and (starting or error.errno != errno.EAGAIN):
        number = error.errno or 0
    elif isinstance(error, RuntimeError) and str(error) == "can't start new thread":
        number = errno.EAGAIN
    elif isinstance(error, ImportError):
        # What is imported late may be a library, whose loader tells no number.
        number = next((n for n in SHORTAGES if str(error).endswith(os.strerror(n))), 0)
    else:
        return None
    if number not in SHORTAGES:
        return None
    what, fix = SHORTAGES[number]
    where = getattr(error, "filename", None)
    return Shortage(what, where=str(where) if where else "", fix=fix)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error
