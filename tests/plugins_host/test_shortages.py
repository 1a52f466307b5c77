"""What the machine has too little of is told as that, and a bug as a bug."""

import errno
import os

import pytest

from plugins_host import Shortage, shortage
from plugins_host.shortages import SHORTAGES


def lack(number: int, name: str | None = None) -> OSError:
    return OSError(number, os.strerror(number), name)


@pytest.mark.parametrize("number", SHORTAGES)
def test_every_lack_that_a_start_ends_in_is_told(number: int) -> None:
    found = shortage(lack(number, "/a/file"), starting=True)
    what, fix = SHORTAGES[number]
    assert str(found) == f"/a/file: {what}. {fix}"


def test_memory_and_threads_run_short_without_a_number() -> None:
    assert str(shortage(MemoryError())).startswith("there is not enough memory. ")
    threads = shortage(RuntimeError("can't start new thread"))
    assert str(threads).startswith("there may be no more processes or threads. ")


def test_a_library_that_cannot_be_loaded_for_want_of_files_is_no_bug() -> None:
    told = "/lib/x.so: cannot open shared object file: Too many open files"
    assert str(shortage(ImportError(told))).startswith("this process may have no more")
    assert shortage(ImportError("cannot import name 'x' from 'y'")) is None


def test_all_of_a_group_has_to_be_a_lack() -> None:
    files = lack(errno.EMFILE)
    inner = ExceptionGroup("inner", [files, lack(errno.ENOSPC)])
    assert isinstance(shortage(ExceptionGroup("outer", [inner])), Shortage)
    assert shortage(ExceptionGroup("outer", [inner, ValueError()])) is None


@pytest.mark.parametrize(
    "bug",
    [
        ValueError("x"),
        RuntimeError("x"),
        OSError("no number"),
        lack(errno.ENOENT),
        # A pipe or socket that somebody forgot to wait for.
        BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)),
    ],
)
def test_anything_else_is_none(bug: Exception) -> None:
    assert shortage(bug) is None
