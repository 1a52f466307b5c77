"""A fresh folder for a tool to work in, gone when its node is done.

The calls of one node share it: it is their working directory and ``$HEDDLE_WORKSPACE``.
It is made when the first tool asks for it, so a node whose tools never run costs no
disk, and removed with everything in it, on cancellation too.

Disks are slow when they are busy: making an empty folder then takes milliseconds. So
threads do it, and other runs go on.
"""

import contextlib
import os
import shutil
import stat
import tempfile
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

import trio

from heddle.tools.faults import WorkspaceFailed

PREFIX = "heddle-"


class Mount(NamedTuple):
    """A file that is copied into workspaces: where it is, and its place in them."""

    path: str
    dest: str


class Workspace:
    """The folder of one node. Made by `open_workspace`, which removes it.

    Args:
        within: The folder to make it in; None for the system's temporary one.
        mounts: What is found in it from the beginning.
    """

    def __init__(self, within: str | None = None, mounts: Sequence[Mount] = ()) -> None:
        self._within = within
        self._mounts = mounts
        self._path: str | None = None
        # Calls of one round come at once, and all are to get the same folder.
        self._making = threading.Lock()

    def folder(self) -> str:
        """The absolute path of the folder, which exists. From a thread: disks are slow.

        A call that removed the folder does not spoil it for the next: it is made anew.

        Raises:
            WorkspaceFailed: No folder can be made.
        """
        try:
            with self._making:
                if self._path is None:
                    made = self._make()
                    # Resolved: a tool that compares its cwd with the variable finds
                    # them equal.
                    self._path = os.path.realpath(made)
                    self._fill(self._path)
                elif not os.path.isdir(self._path):  # noqa: PTH112
                    os.makedirs(self._path, mode=0o700, exist_ok=True)  # noqa: PTH103
                    self._fill(self._path)
                return self._path
        except OSError as error:
            raise _no_folder(error) from error

    def _make(self) -> str:
        """An empty folder that nobody else has."""
        try:
            return tempfile.mkdtemp(prefix=PREFIX, dir=self._within)
        except FileNotFoundError:
            if self._within is None:
                raise
            # Whoever tidies up temporary folders may have removed the one around it.
            os.makedirs(self._within, mode=0o700, exist_ok=True)  # noqa: PTH103
            return tempfile.mkdtemp(prefix=PREFIX, dir=self._within)

    def _fill(self, folder: str) -> None:
        """Copy what is mounted: what a tool does to its copy is its own affair."""
        for mount in self._mounts:
            place = os.path.join(folder, mount.dest)  # noqa: PTH118
            os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)  # noqa: PTH103, PTH120
            shutil.copyfile(mount.path, place)
            # What may be run there may be run here, and the copy may be changed.
            os.chmod(place, os.stat(mount.path).st_mode & 0o777 | stat.S_IWUSR)  # noqa: PTH101, PTH116

    async def remove(self) -> None:
        """Remove the folder and all that is in it. Never cancelled half-way.

        What cannot be removed (another user's files, a mount) stays; nothing is raised,
        because the node's result does not depend on it.
        """
        if self._path is None:
            return
        path, self._path = self._path, None
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(remove_tree, path)


@asynccontextmanager
async def open_workspace(
    within: str | None = None, mounts: Sequence[Mount] = ()
) -> AsyncIterator[Workspace]:
    """A workspace for the time of a node's execution, ``within`` another folder."""
    workspace = Workspace(within, mounts)
    try:
        yield workspace
    finally:
        await workspace.remove()


def remove_tree(path: str) -> None:
    """Remove a folder, read-only folders in it included. Does not follow links."""
    # Most tools leave their folder empty.
    with contextlib.suppress(OSError):
        os.rmdir(path)  # noqa: PTH106
        return
    if os.path.islink(path) or not os.path.isdir(path):  # noqa: PTH112, PTH114
        # The tool put something else in its folder's place.
        with contextlib.suppress(OSError):
            os.unlink(path)  # noqa: PTH108
        return
    shutil.rmtree(path, ignore_errors=True)
    if os.path.lexists(path):
        make_writable(path)
        shutil.rmtree(path, ignore_errors=True)


def make_writable(path: str) -> None:
    """Give the owner every right on a folder and on the folders in it, but for links."""
    waiting = [path]
    while waiting:
        folder = waiting.pop()
        with contextlib.suppress(OSError):
            os.chmod(folder, stat.S_IRWXU)  # noqa: PTH101
            with os.scandir(folder) as entries:
                waiting += [
                    entry.path for entry in entries if entry.is_dir(follow_symlinks=False)
                ]


def _no_folder(error: OSError) -> WorkspaceFailed:
    where = error.filename if isinstance(error.filename, str) else ""
    return WorkspaceFailed(
        f"no workspace can be made for a tool: {error.strerror or error}",
        where=where,
        fix="Free some space there, or point $TMPDIR at another folder.",
    )
