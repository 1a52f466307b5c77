"""Compile what tests import once, not once in each process.

A run of the suite is several test processes and some hundred commands, servers and plugins.
Where Python was told to write no bytecode, each of them would compile all that it imports
again, which takes longer than most of them live; and each test process would rewrite the
asserts of every test module.
"""

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest


def keep_bytecode() -> None:
    """Let this process and those it starts write ``__pycache__``."""
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def share_rewriting(root: Path, tests: list[Path], *, worker: int, workers: int) -> None:
    """Import all test modules, each worker its own part of them first.

    By the time a worker gets to the part of another one, that one has written it.
    What cannot be imported is left to the collection, which tells why.
    """
    names = [".".join(path.relative_to(root).with_suffix("").parts) for path in tests]
    for name in rotated(names, worker, workers):
        with suppress(Exception, pytest.skip.Exception):
            importlib.import_module(name)


def rotated(names: list[str], worker: int, workers: int) -> Iterator[str]:
    """All of the names, starting with those whose turn is the worker's."""
    for turn in range(workers):
        yield from names[(worker + turn) % workers :: workers]
