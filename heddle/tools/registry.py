"""A folder of tools: every file in it is a tool, by the name before its extension.

    tools/
      search.py        → "search"
      send_mail        → "send_mail"
      send_mail.md     → refused: two files would be "send_mail"
      .cache, notes~   → left out

Left out are what no operator means as a tool: hidden files (``.x``), folders, sockets
and other special files, and what editors leave behind (`LEFTOVERS`). A file that is
there and cannot be run is kept with its ``problem``, so that whoever names it learns why.
The folder is the operator's own: symbolic links are followed.
"""

import errno
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from heddle.tools.faults import ToolFolderInvalid

# Backup and swap files: vi (x~, .x.swp), Emacs (x~, #x#), patch (x.orig, x.rej).
LEFTOVERS: Final = ("~", "#", ".bak", ".orig", ".rej", ".swp", ".tmp")


class ToolProgram(Struct, frozen=True):
    """One tool: the absolute path of its program, and what keeps it from running.

    ``interpreter`` is what runs the program, when it is not run by itself;
    ``environment`` what it finds beside its workspace, None for heddle's own.
    """

    name: str
    path: str
    problem: str = ""
    fix: str = ""
    interpreter: tuple[str, ...] = ()
    environment: Mapping[str, str] | None = None


def find_tools(directory: Path) -> Mapping[str, ToolProgram]:
    """Read a folder of tools, in order of name.

    Raises:
        ToolFolderInvalid: The folder cannot be read, or two files have one name.
    """
    try:
        with os.scandir(directory) as entries:
            paths = sorted(Path(entry.path) for entry in entries if is_candidate(entry))
    except OSError as error:
        raise _unreadable(directory, error) from error
    files: dict[str, list[Path]] = {}
    for path in paths:
        files.setdefault(path.stem, []).append(path)
    clashes = {name: same for name, same in files.items() if len(same) > 1}
    if clashes:
        raise ToolFolderInvalid(
            "; ".join(
                f"{_listed(same)} would {'both' if len(same) == 2 else 'all'} be the "
                f"tool {name!r}"
                for name, same in clashes.items()
            ),
            where=str(directory),
            fix="Rename them, or move what is no tool into a folder.",
        )
    return MappingProxyType({name: _program(name, same[0]) for name, same in files.items()})


def is_candidate(entry: os.DirEntry[str]) -> bool:
    """Whether a directory entry is meant as a tool. A link to nothing is: it was one."""
    if entry.name.startswith((".", "#")) or entry.name.endswith(LEFTOVERS):
        return False
    try:
        entry.name.encode()
    except UnicodeEncodeError:  # no flow could name it
        return False
    try:
        return stat.S_ISREG(entry.stat().st_mode)
    except OSError:
        return entry.is_symlink()


def _program(name: str, path: Path) -> ToolProgram:
    absolute = os.path.abspath(path)  # noqa: PTH100  resolve() would lose a link's own name
    if not os.path.exists(absolute):  # noqa: PTH110  the same
        return ToolProgram(
            name, absolute, f"{absolute} is a link to nothing", "Point it at a program."
        )
    if not os.access(absolute, os.X_OK):
        return ToolProgram(
            name, absolute, f"{absolute} is not executable", f"Run: chmod +x {absolute}"
        )
    return ToolProgram(name, absolute)


def _listed(paths: list[Path]) -> str:
    *first, last = (repr(path.name) for path in paths)
    return f"{', '.join(first)} and {last}"


FOLDER_PROBLEMS: Final[Mapping[int, tuple[str, str]]] = {
    errno.ENOENT: ("does not exist", "Make it, or correct --tools-dir."),
    errno.ENOTDIR: (
        "is not a folder",
        "Give --tools-dir the folder that has the tools.",
    ),
    errno.EACCES: ("may not be read by this user", "Run: chmod u+rx on it."),
}


def _unreadable(directory: Path, error: OSError) -> ToolFolderInvalid:
    what, fix = FOLDER_PROBLEMS.get(
        error.errno or 0, (f"cannot be read: {error.strerror or error}", "")
    )
    return ToolFolderInvalid(f"the tools folder {what}", where=str(directory), fix=fix)
