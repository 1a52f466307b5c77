"""The first thing on the terminal: a line that says that the program is at work.

    ⠹ flow.json  starting

Drawn before anything is imported that takes time, and taken away by whoever writes to the
terminal next. It has no newline, so that nothing but itself is ever erased with it.
"""

import os
import select
import sys
from collections.abc import Sequence
from typing import Final

STDERR: Final = 2
ERASE: Final = b"\r\x1b[K"
# Options of `heddle run` with which the terminal shows something else, or nothing.
DARK: Final = frozenset({"--quiet", "--interactive", "--json", "--protocol", "--help"})
DARK_LETTERS: Final = frozenset("qih")
# Where the name ends that is shown: a line that wraps could not be taken away again.
NARROW: Final = 24

_shown = False


def show(arguments: Sequence[str]) -> None:
    """Say that a run begins, where these arguments lead to a live picture of it."""
    if not _is_lit(arguments):
        return
    name = arguments[1] if len(arguments) > 1 else ""
    if name.startswith("-") or not (name.isascii() and name.isprintable()):
        name = "heddle run"
    name = name.rpartition("/")[2]
    encoding = getattr(sys.stderr, "encoding", None) or "ascii"
    mark = "⠋" if encoding.lower().replace("-", "") == "utf8" else "|"
    told = f"{mark} {name[:NARROW]}  starting"[: _columns() - 1]
    if _write(told.encode(encoding, "replace")):
        global _shown
        _shown = True


def taken() -> bytes:
    """What takes the line away, for whoever writes next; "" where there is none."""
    global _shown
    shown, _shown = _shown, False
    return ERASE if shown else b""


def clear() -> None:
    """Take the line away."""
    if erase := taken():
        _write(erase)


def is_animated() -> bool:
    """Whether stderr is a terminal on which something can be drawn again."""
    try:
        return os.isatty(STDERR) and os.environ.get("TERM", "dumb") != "dumb"
    except OSError:
        return False


def _columns() -> int:
    try:
        return os.get_terminal_size(STDERR).columns or 80  # a serial line says 0
    except OSError:  # it is gone
        return 80


def _is_lit(arguments: Sequence[str]) -> bool:
    if arguments[:1] != ["run"] or not is_animated():
        return False
    for each in arguments[1:]:
        if each.startswith("--"):
            if each.partition("=")[0] in DARK:
                return False
        elif each.startswith("-") and not DARK_LETTERS.isdisjoint(each):
            return False
    return True


def _write(data: bytes) -> bool:
    """Write, unless the terminal is paused or gone: neither is to hold up the start."""
    try:
        if not select.select([], [STDERR], [], 0)[1]:
            return False
        os.write(STDERR, data)
    except OSError:
        return False
    return True
