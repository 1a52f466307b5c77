"""Why a program that is there did not start, in words.

The kernel answers with a number, and one number has several causes: ENOENT for a file
that is plainly there means that the interpreter of its first line is missing. Looking
at the file tells them apart.
"""

import errno
from collections.abc import Mapping
from typing import Final

from heddle.tools.faults import ToolUnusable
from heddle.tools.registry import ToolProgram

# Of a first line. The kernel itself reads 256 bytes at most.
FIRST_LINE: Final = 256

EXHAUSTED: Final = "Lower --max-tools, or raise the limit (ulimit -a shows it)."
CAUSES: Final[Mapping[int, tuple[str, str]]] = {
    errno.ENOENT: ("{path} is gone", "Put it back, or start heddle anew."),
    errno.EACCES: (
        "{path} may not be executed",
        "Run: chmod +x {path}. If it is executable, its file system may be mounted noexec.",
    ),
    errno.EPERM: ("{path} may not be executed", "See that this user may run it."),
    errno.ENOEXEC: (
        "{path} is neither a program for this machine nor a script",
        "Begin a script with a line such as #!/bin/sh",
    ),
    errno.ETXTBSY: ("{path} is being written to", "Try again when it is complete."),
    errno.E2BIG: ("the environment is too large to start a program", ""),
    errno.EMFILE: ("this process has too many files open to start a program", EXHAUSTED),
    errno.ENFILE: ("the machine has too many files open to start a program", EXHAUSTED),
    errno.EAGAIN: ("there are too many processes to start another", EXHAUSTED),
    errno.ENOMEM: ("there is not enough memory to start a program", EXHAUSTED),
}


def cannot_start(program: ToolProgram, error: OSError) -> ToolUnusable:
    """The fault for an attempt to start ``program`` that ended in ``error``."""
    number = error.errno or 0
    if number in (errno.ENOENT, errno.EACCES) and (line := interpreter_line(program.path)):
        # The line is told whole: the missing part of "#!/usr/bin/env -S x" is anywhere.
        problem = "does not exist" if number == errno.ENOENT else "may not be executed"
        return ToolUnusable(
            program.name,
            f"the interpreter in the first line of {program.path}, {line!r}, {problem}",
            fix="End its lines with LF, not CR LF."
            if line.endswith("\r")
            else "Correct the line, or install the interpreter.",
        )
    what, fix = CAUSES.get(number, ("{path} cannot be started: {reason}", ""))
    reason = error.strerror or str(error)
    fault = ToolUnusable(
        program.name,
        what.format(path=program.path, reason=reason),
        fix=fix.format(path=program.path),
    )
    fault.of_the_machine = fix is EXHAUSTED
    return fault


def interpreter_line(path: str) -> str:
    """The ``#!`` line of a script, or "" when it has none or cannot be read."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            line = file.readline(FIRST_LINE)
    except OSError:
        return ""
    return line.rstrip(b"\n").decode(errors="replace") if line.startswith(b"#!") else ""
