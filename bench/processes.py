"""Processes that a benchmark starts beside itself, each with a clock of its own."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

HEDDLE_SERVER: Final = (
    "import sys; from heddle.__main__ import server; sys.exit(server())",
    "--port",
    "0",
)
_START: Final = 30.0
"""Seconds until a server must be listening."""


class Process:
    """One that is told things on its standard input, and answers in lines."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self.pid = process.pid

    def line(self) -> bytes:
        """The next line that it says."""
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def tell(self, line: bytes) -> None:
        """Give it a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")
        self._process.stdin.flush()

    def ask(self, question: Mapping[str, Any]) -> Any:
        """Its answer to a question, both JSON."""
        self.tell(msgspec.json.encode(question))
        return msgspec.json.decode(self.line())


@contextlib.contextmanager
def process(module: str, *arguments: str) -> Iterator[Process]:
    """A module run by itself, until its standard input ends with the block."""
    with subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as started:
        assert started.stdin is not None
        try:
            yield Process(started)
        finally:
            started.stdin.close()
            started.wait()


class Served:
    """A heddle-server of its own."""

    def __init__(self, pid: int, port: int) -> None:
        self.pid = pid
        self.port = port


@contextlib.contextmanager
def heddle_server(*flags: str, before: str = "") -> Iterator[Served]:
    """A heddle-server whose log goes to a file, as that of a service does.

    Args:
        flags: Beside its port.
        before: A statement that it runs first.
    """
    code, *port = HEDDLE_SERVER
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "log").open("wb") as log:
        started = subprocess.Popen(
            [sys.executable, "-c", f"{before}\n{code}", *port, *flags],
            stderr=log,
            stdin=subprocess.DEVNULL,
        )
        try:
            yield Served(started.pid, _port(Path(log.name), started))
        finally:
            started.send_signal(signal.SIGTERM)
            started.send_signal(signal.SIGINT)
            try:
                started.wait(_START)
            finally:
                started.kill()
                started.wait()


def _port(log: Path, started: "subprocess.Popen[bytes]") -> int:
    until = time.monotonic() + _START
    while time.monotonic() < until and started.poll() is None:
        found = re.search(r"http://[^:]+:(\d+)", log.read_text())
        if found:
            return int(found[1])
        time.sleep(0.01)
    raise AssertionError(log.read_text())


def processor_seconds(pid: int) -> float:
    """Time that a process has worked for so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> int:
    """Bytes of memory that a process holds."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")
