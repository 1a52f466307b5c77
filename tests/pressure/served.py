"""The server of a campaign, as a program: heddle-server in a world that can be changed.

    python -m tests.pressure.served WORLD heddle-server's flags …

WORLD is a folder with ``clock``, a file of one double: seconds by which the wall clock of
all of the server's processes is wrong. It is read at each look at the clock, so that a
step reaches all at the same instant; the monotonic clock goes on as it should. The plugins
and tools, which are programs of their own, have the clock of the machine.

Where the system lets it, as it does root, ``tmp`` in WORLD is a small disk of the server's
own, gone with it: others reach it as ``/proc/PID/root``. ``WORLD/disk`` says whether.
"""

import ctypes
import mmap
import os
import struct
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

CLOCK: Final = struct.Struct("d")
DISK_BYTES: Final = 16 * 2**20

_NEW_MOUNTS: Final = 0x00020000  # CLONE_NEWNS of unshare(2)
_PRIVATE: Final = 0x00040000 | 0x00004000  # MS_PRIVATE | MS_REC of mount(2)


def follow_clock(file: Path) -> None:
    """Have ``time.time`` of this process, and of its forks, wrong by what the file says."""
    with file.open("rb") as opened:
        offset = mmap.mmap(opened.fileno(), CLOCK.size, access=mmap.ACCESS_READ)
    right = time.time
    time.time = lambda: right() + CLOCK.unpack_from(offset)[0]


def own_disk(folder: Path) -> bool:
    """Put a small disk under ``folder``, for this process and its children alone."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(_NEW_MOUNTS):
        return False
    # What is mounted here must not be seen, nor stay, outside.
    if library.mount(b"none", b"/", None, _PRIVATE, None):
        return False
    size = f"size={DISK_BYTES}".encode()
    return not library.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, size)


def main(world: Path, flags: list[str]) -> int:
    """Change the world, then be the server."""
    disk = False
    if sys.platform == "linux":
        with suppress(AttributeError):
            disk = own_disk(world / "tmp")
    (world / "disk").write_text("own" if disk else "shared")
    follow_clock(world / "clock")
    from heddle.__main__ import server

    sys.argv[1:] = flags
    return server()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
