"""What workers counted, kept where it outlives them.

A counter that went down looks to Prometheus like one that began again at zero, and what is
left of it like so many new events. So each worker writes down what it shows, and when it
is gone its counts are added to those of all that went before.

Files without a name, one a worker, inherited from the parent; locked while they are read
together, so that nobody is counted twice or not at all while a worker is settled.
"""

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def _nameless() -> int:
    """A file without a name."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("heddle-counts")
    with tempfile.TemporaryFile() as file:  # pragma: no cover  not on Linux
        return os.dup(file.fileno())


class Ledger:
    """The files, by row; the last one is of those who are gone."""

    def __init__(self, rows: int) -> None:
        self._files = [_nameless() for _ in range(rows + 1)]

    def publish(self, row: int, counts: bytes) -> None:
        """This is what the worker of ``row`` shows from now on."""
        with self._locked():
            _write(self._files[row], counts)

    def read(self) -> dict[int | None, bytes]:
        """What was published, by row; None for what those who are gone left."""
        with self._locked():
            found = [_read(file) for file in self._files]
        rows = [*range(len(found) - 1), None]
        return {row: each for row, each in zip(rows, found, strict=True) if each}

    def settle(self, row: int, add: Callable[[bytes, bytes], bytes]) -> None:
        """The worker of ``row`` is gone: add what it counted to what is left of others.

        Args:
            row: Whose.
            add: Makes one of what is there, perhaps nothing, and what it counted.
        """
        with self._locked():
            counts = _read(self._files[row])
            if counts:
                _write(self._files[-1], add(_read(self._files[-1]), counts))
                _write(self._files[row], b"")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        # A lock of the process: one that dies gives it back.
        fcntl.lockf(self._files[-1], fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self._files[-1], fcntl.LOCK_UN)


def _read(file: int) -> bytes:
    return os.pread(file, os.fstat(file).st_size, 0)


def _write(file: int, data: bytes) -> None:
    os.ftruncate(file, 0)
    os.pwrite(file, data, 0)
