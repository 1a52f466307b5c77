"""Flows that callers name by path, in the one folder that the operator shows.

Whatever leads out of the folder, or looks as if it were meant to, is a flow that is not
there: the answer to ``../../etc/passwd`` is that of any misspelt name.
"""

import os
import stat
from pathlib import Path
from typing import Final

from heddle.server.http import Refusal
from heddle.spec import MAX_DOCUMENT

LONGEST_SHOWN: Final = 200


class FlowsRoot:
    """The folder ``root``, which must be there."""

    def __init__(self, root: str) -> None:
        self._root = os.path.realpath(root)

    @property
    def path(self) -> str:
        """The folder, without links in it."""
        return self._root

    def read(self, name: str) -> bytes:
        """The bytes of the flow called ``name``.

        Raises:
            Refusal: 404; there is none.
        """
        if not _is_plain(name):
            raise _missing(name)
        try:
            path = os.path.realpath(os.path.join(self._root, name), strict=True)  # noqa: PTH118  resolve() raises on loops in some versions only
            inside = os.path.commonpath((self._root, path)) == self._root
            data = _contents(path) if inside else None
        except (OSError, ValueError) as error:
            raise _missing(name) from error
        if data is None:
            raise _missing(name)
        return data


def _is_plain(name: str) -> bool:
    """Whether a name leads down from the folder, and to nothing that is hidden in it."""
    if "\0" in name or "\\" in name:
        return False
    return all(step and not step.startswith(".") for step in name.split("/"))


def _contents(path: str) -> bytes | None:
    """A regular file's bytes; None for anything else."""
    # A pipe would be waited for, and a link can't be the last step any more.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:  # noqa: PTH123  it is a descriptor
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        return file.read(MAX_DOCUMENT + 1)


def _missing(name: str) -> Refusal:
    shown = name if len(name) <= LONGEST_SHOWN else name[:LONGEST_SHOWN] + "…"
    return Refusal(
        404,
        f"there is no flow {shown!r} on this server. Name its file by its path within "
        "the folder of --flows-root, with its ending.",
    )


def is_folder(path: str) -> bool:
    """Whether there is such a folder and it can be read."""
    return Path(path).is_dir() and os.access(path, os.R_OK | os.X_OK)
