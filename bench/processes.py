"""Processes that a benchmark starts beside itself, each with a clock of its own."""

import contextlib
import os
import re
import select
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


class WorkFailed(Exception):
    """A process could not do what it was told; the status of the answer that it had from
    the server, 0 when it had none."""

    def __init__(self, told: str, status: int = 0) -> None:
        super().__init__(told)
        self.status = status


class Process:
    """One that is told things on its standard input, and answers in lines."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self._rest = b""
        self.pid = process.pid

    def line(self, patience: float | None = None) -> bytes:
        """The next line that it says, "" when it has ended.

        Raises:
            TimeoutError: It says none within so many seconds.
        """
        assert self._process.stdout is not None
        number = self._process.stdout.fileno()
        while b"\n" not in self._rest:
            if not select.select([number], [], [], patience)[0]:
                raise TimeoutError
            data = os.read(number, 65536)
            if not data:
                break
            self._rest += data
        said, end, self._rest = self._rest.partition(b"\n")
        return said + end

    def tell(self, line: bytes) -> None:
        """Give it a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        """The next line that it says, from JSON.

        Raises:
            WorkFailed: It says that it could not do it, or has ended.
        """
        said = self.line()
        if not said:
            raise WorkFailed("a process of the benchmark has ended; see above")
        told = msgspec.json.decode(said)
        if "failed" in told:
            raise WorkFailed(told["failed"], told["status"])
        return told

    def ask(self, question: Mapping[str, Any]) -> Any:
        """Its answer to a question, both JSON.

        Raises:
            WorkFailed: It says that it could not do it, or has ended.
        """
        self.tell(msgspec.json.encode(question))
        return self.answer()


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
