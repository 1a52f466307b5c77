"""Which core heddle works on and which its plugins: the same for all that is compared.

Where two processes that wake each other in turn run is the system's choice, and it changes
its mind: on one core a wake-up costs next to nothing and all work adds up, on two it costs
more than the work. A number taken half here and half there says nothing about either.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

# Confined to one core, or on a system that confines nobody, there is nothing to choose.
CAN_CHOOSE: Final = sys.platform == "linux" and len(os.sched_getaffinity(0)) > 1


@contextmanager
def on_cores(mine: int, theirs: int) -> Iterator[None]:
    """Keep this process on one of its cores, and the children that it has on another.

    Args:
        mine: Index among the cores that it may use, for its main thread.
        theirs: The same, for all children that run at the beginning.
    """
    if not CAN_CHOOSE:
        yield
        return
    allowed = os.sched_getaffinity(0)
    cores = sorted(allowed)
    children = _children()
    os.sched_setaffinity(0, {cores[mine]})
    _keep(children, {cores[theirs]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
        _keep(children, allowed)


def _keep(pids: Iterable[int], cores: set[int]) -> None:
    """Keep processes on these cores; those that have ended by now need none."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.sched_setaffinity(pid, cores)


def _children() -> list[int]:
    """The processes whose parent this one is."""
    mine = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # pid (name) state parent …; a name may have anything in it, a ")" as well
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue  # it has ended
        if parent == os.getpid():
            mine.append(int(stat.parent.name))
    return mine
