"""Descriptors 0 to 2 as whoever started the program gave them: closed, full or read-only.

    keep()                          the first thing that a program does
    …
    except OSError as error:
        if of_stdout(error): …      told as a failed output, and not as a bug

A number that is free is given to the next file that is opened, and a message for stderr is
then written into a socket. So closed ones are occupied, and stdout by something that
refuses to be written: what nobody gets is no success.
"""

import errno
import fcntl
import os
import sys
from typing import Final

from plugins_host import Fault

STDOUT: Final = 1
STDERR: Final = 2

# What writing to stdout ends in; with a file's name it is about that file.
_FAILURES: Final = (errno.ENOSPC, errno.EPIPE, errno.EIO, errno.EDQUOT, errno.EFBIG)


class OutputFailed(Fault):
    """stdout could not be written: closed, a full disk, or nobody reads it any more."""


def keep() -> None:
    """Occupy descriptors 0 to 2 where the caller closed them."""
    for wanted in range(3):
        try:
            os.fstat(wanted)
        except OSError:
            # The lowest free number is given out, and those below are taken.
            os.open(os.devnull, os.O_RDONLY if wanted == STDOUT else os.O_RDWR)
    if sys.stdout is None:
        sys.stdout = open(STDOUT, "w", closefd=False)  # noqa: SIM115


def writable(descriptor: int) -> bool:
    """Whether it was opened for writing."""
    return fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY


def of_stdout(error: BaseException) -> bool:
    """Whether this is what writing to stdout ended in."""
    if not isinstance(error, OSError) or error.filename:
        return False
    closed = error.errno == errno.EBADF and not writable(STDOUT)
    return closed or error.errno in _FAILURES


def output_failed(error: OSError) -> OutputFailed:
    """The fault for stdout that cannot be written."""
    if error.errno == errno.EBADF:
        return OutputFailed(
            "it is closed",
            where="stdout",
            fix="Leave it open, or lead it to a file or to /dev/null.",
        )
    return OutputFailed(f"cannot write: {error.strerror or error}", where="stdout")


def give_up_stdout() -> None:
    """Lead stdout to nowhere, so that nothing is tried again when the interpreter ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, STDOUT)
    os.close(nowhere)
