"""A file that is written whole, or stays as it was: on a full disk, too.

It is written beside its place and moved there. What is no plain file, such as a pipe or
/dev/stdout, is written where it is, and so is a file in a folder that allows nothing else.
"""

import os
import tempfile
from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Write a file, in the place of one that may be there.

    Raises:
        OSError: It can't be; what was there is there still.
    """
    # Of a file that is open already, such as /dev/stdout, its own place is no matter.
    opened = path.absolute().parts[1] in ("dev", "proc")
    if opened or (path.exists() and not path.is_file()):
        path.write_bytes(data)
        return
    # A link is to lead where it leads.
    place = Path(os.path.realpath(path))
    try:
        mode = place.stat().st_mode & 0o777
    except FileNotFoundError:
        mode = 0o666 & ~_umask()
    try:
        descriptor, beside = tempfile.mkstemp(prefix=".heddle-", dir=place.parent)
    except PermissionError:
        path.write_bytes(data)
        return
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        Path(beside).chmod(mode)
        os.replace(beside, place)  # noqa: PTH105
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)  # noqa: PTH108
        raise


def _umask() -> int:
    """What new files are not given. It can only be read by setting it."""
    before = os.umask(0o077)
    os.umask(before)
    return before
