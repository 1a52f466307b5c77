"""Where runs have their files: a folder of the server's own, and in it what is theirs.

    $TMPDIR/heddle-runs-x1y2/          the server's, locked while it lives
        heddle-ab12/                   a workspace of one node
        7rQ…/                          of a run that brings code, for its user alone
            tools/add/main.py
            plugins/shout/…
            work/                      the workspaces of its nodes

What the processes of a run leave behind in its folder is ended before it is removed. A
server that was killed can't clean up, and nobody has ended the tools that it ran: the next
one, or the worker that takes its place, finds its folder, no longer locked.
"""

import errno
import fcntl
import os
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from secrets import token_urlsafe
from typing import Final

import trio

from heddle.tools import end_processes_in, remove_tree
from plugins_host import Fault

PREFIX: Final = "heddle-runs-"
PRIVATE: Final = 0o700
WORK: Final = "work"

_ATTEMPTS: Final = 100
"""At a folder of one's own, when another server that cleans up takes it in between."""


class CodeNotWritten(Fault):
    """The server could not write down the code that came with a request."""


_CAUSES: Final[Mapping[int, str]] = {
    errno.ENOSPC: "its disk is full",
    errno.EDQUOT: "its share of the disk is used up",
    errno.EROFS: "its disk can only be read",
    errno.EMFILE: "it has too many files open",
    errno.ENFILE: "it has too many files open",
}


def _reason(error: OSError) -> str:
    return _CAUSES.get(error.errno or 0) or error.strerror or "its disk refuses"


class RunFolder:
    """The folder of one run that brings code. Nothing of it is there before it is opened.

    Args:
        path: Where it will be.
        files: What will be in it, by the path inside.
    """

    def __init__(self, path: Path, files: Mapping[str, str]) -> None:
        self.path = path
        self._files = files

    @property
    def work(self) -> str:
        """Where the workspaces of the run's nodes are made."""
        return str(self.path / WORK)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Write it; remove it on leaving.

        Raises:
            CodeNotWritten: It can't be.
        """
        try:
            try:
                await trio.to_thread.run_sync(self._write)
            except OSError as error:
                # The paths in the error are the server's own.
                raise CodeNotWritten(
                    f"the server cannot keep the code of this request: {_reason(error)}",
                    fix="Try again later, or tell whoever runs the server.",
                ) from error
            yield
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(clear, str(self.path))

    def _write(self) -> None:
        # Whoever tidies up temporary folders may have removed the server's own.
        self.path.mkdir(PRIVATE, parents=True)
        Path(self.work).mkdir(PRIVATE)
        for name, source in self._files.items():
            file = self.path / name
            file.parent.mkdir(PRIVATE, parents=True, exist_ok=True)
            file.write_bytes(source.encode())


class RunFolders:
    """The folder of a server, in which all that its runs write down is."""

    def __init__(self, path: str) -> None:
        self.path = path

    def reserve(self) -> Path:
        """A path for the folder of a run that brings code, which no other has."""
        return Path(self.path, token_urlsafe(16))


@contextmanager
def open_run_folders() -> Iterator[RunFolders]:
    """The server's own folder; those that killed servers left are removed.

    Raises:
        CodeNotWritten: There can be none.
    """
    try:
        parent = os.path.realpath(tempfile.gettempdir())
        _remove_stale(parent)
        path, lock = _make(parent)
    except OSError as error:
        raise CodeNotWritten(
            f"there can be no folder for the files of runs: {_reason(error)}",
            where=tempfile.gettempdir(),
            fix="Make room there, or point $TMPDIR at another folder.",
        ) from error
    try:
        yield RunFolders(path)
    finally:
        clear(path)
        os.close(lock)


def _make(parent: str) -> tuple[str, int]:
    """A new folder and the lock on it, which the kernel takes off when we end."""
    for _ in range(_ATTEMPTS):
        path = tempfile.mkdtemp(prefix=PREFIX, dir=parent)
        lock = _lock(path)
        if lock is not None:
            return path, lock
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def _lock(path: str) -> int | None:
    """Lock a folder; None when another has it, or it is not there any more."""
    try:
        found = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(found, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(found), os.stat(path, follow_symlinks=False)):  # noqa: PTH116
            return found
    except OSError:
        pass
    os.close(found)
    return None


def _remove_stale(parent: str) -> None:
    """Remove the folders of servers that are gone, and end what still runs in them."""
    with os.scandir(parent) as entries:
        stale = [
            entry.path
            for entry in entries
            if entry.name.startswith(PREFIX)
            and entry.is_dir(follow_symlinks=False)
            and entry.stat(follow_symlinks=False).st_uid == os.geteuid()
        ]
    for path in stale:
        lock = _lock(path)
        if lock is not None:
            clear(path)
            os.close(lock)


def clear(path: str) -> None:
    """End what works in a folder and remove it. From a thread: disks are slow."""
    with suppress(OSError):
        end_processes_in(path)
    remove_tree(path)
