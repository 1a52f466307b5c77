"""Real programs as tools, and a watch for whatever they leave behind."""

import gc
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from heddle.tools import ToolProgram

WriteTool = Callable[..., ToolProgram]


@pytest.fixture(autouse=True)
def nothing_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail a test that leaves a process, an open file or a temporary folder."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    gc.collect()
    files = open_files()
    yield
    gc.collect()
    assert processes_of(temporary) == []
    assert list(temporary.iterdir()) == []
    assert open_files() == files


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    folder = tmp_path / "tools"
    folder.mkdir()
    return folder


@pytest.fixture
def tool(tools: Path) -> WriteTool:
    """Write a tool and give back its program; ``shell`` unless a whole script is given."""

    def write(
        shell: str = "", *, script: str | None = None, name: str = "t"
    ) -> ToolProgram:
        path = tools / name
        path.write_text(f"#!/bin/sh\n{shell}\n" if script is None else script)
        path.chmod(0o755)
        return ToolProgram(name, str(path))

    return write


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def processes_of(folder: Path) -> list[int]:
    """Processes that work in a workspace under ``folder``, by their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                environment = (entry / "environ").read_bytes()
            except OSError:
                continue
            if f"HEDDLE_WORKSPACE={folder}".encode() in environment:
                found.append(int(entry.name))
    return found


def appears(path: Path, *, within: float = 20) -> str:
    """The text of a file that another process is about to write."""
    end = time.monotonic() + within
    while time.monotonic() < end:
        if path.exists() and (text := path.read_text()):
            return text
        time.sleep(0.01)
    raise AssertionError(f"{path} did not appear")
