"""A heddle-server as a black box: started with flags, spoken to over its socket."""

import http.client
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.support.flows import branching, edge, end, flow, start, tool

PATIENCE: Final = 60.0
CODE: Final = "import sys; from heddle.__main__ import server; sys.exit(server())"


class Answered(NamedTuple):
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body decoded."""
        return json.loads(self.body)

    @property
    def error(self) -> tuple[str, str]:
        """The type and message of an error."""
        told = self.json["error"]
        return told["type"], told["message"]


class Served:
    """A server that runs. Lines of its log come one by one."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        self._rest = b""
        self.log: list[str] = []
        self.address = ""

    @property
    def host(self) -> str:
        """Host and port."""
        return self.address.partition("//")[2]

    @property
    def port(self) -> int:
        """The port."""
        return int(self.host.rpartition(":")[2])

    @property
    def ws(self) -> str:
        """The URL of the socket."""
        return f"ws://{self.host}/v1/stream"

    def line(self, wanted: str) -> str:
        """Wait for a line of the log that has this in it."""
        until = time.monotonic() + PATIENCE
        seen = 0
        while True:
            for line in self.log[seen:]:
                if wanted in line:
                    return line
            seen = len(self.log)
            assert self._read(until), f"no line with {wanted!r} in {self.log}"

    def _read(self, until: float) -> bool:
        assert self.process.stderr is not None
        number = self.process.stderr.fileno()
        if not select.select([number], [], [], max(0, until - time.monotonic()))[0]:
            return False
        data = os.read(number, 65536)
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.log += [line.decode() for line in lines]
        return bool(data)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answered:
        """One request over a connection of its own. A body that is no bytes is JSON."""
        given = dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is not None:
            given.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, body, given)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answered(response.status, found, response.read())
        finally:
            connection.close()

    @contextmanager
    def opened(
        self, method: str, path: str, body: Any = None
    ) -> Iterator[http.client.HTTPResponse]:
        """An answer that is read as it comes; leaving hangs up."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        given = {} if body is None else {"Content-Type": "application/json"}
        try:
            connection.request(
                method, path, None if body is None else json.dumps(body), given
            )
            response = connection.getresponse()
            try:
                yield response
            finally:
                response.close()
        finally:
            connection.close()

    def runs(self, status: str | None = None) -> list[dict[str, Any]]:
        """The runs in memory, the newest first."""
        query = "" if status is None else f"?status={status}"
        found: list[dict[str, Any]] = self.ask("GET", f"/v1/runs{query}").json["runs"]
        return found

    def metric(self, name: str) -> float:
        """What it counts, without labels."""
        text = self.ask("GET", "/metrics").body.decode()
        [line] = [each for each in text.splitlines() if each.startswith(f"{name} ")]
        return float(line.rpartition(" ")[2])

    def started(self) -> str:
        """The id of the run that is going on, once there is one at a node."""
        [run] = self.until(lambda: [r for r in self.runs("running") if r.get("node")])
        return str(run["run"])

    def until(self, holds: Callable[[], Any]) -> Any:
        """Ask again and again until there is an answer to be had."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            found = holds()
            if found:
                return found
            time.sleep(0.02)
        raise AssertionError(f"never came to hold; the log: {self.log}")

    def signal(self, number: int = signal.SIGTERM) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def ended(self) -> int:
        """Wait for its exit status; the rest of its log is read."""
        until = time.monotonic() + PATIENCE
        while self._read(until):
            pass
        return self.process.wait(PATIENCE)


def environment(folder: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a server: temporary folders where a test can count them."""
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    kept = {k: v for k, v in os.environ.items() if not k.startswith("HEDDLE_")}
    return {**kept, "TMPDIR": str(temporary), **(more or {})}


@contextmanager
def server(
    folder: Path,
    *flags: str,
    variables: Mapping[str, str] | None = None,
    port: int | None = 0,
    code: str = CODE,
) -> Iterator[Served]:
    """A server in ``folder``, ended afterwards; it must not have broken."""
    given = () if port is None else ("--port", str(port))
    process = subprocess.Popen(
        [sys.executable, "-c", code, *given, *flags],
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        cwd=folder,
        env=environment(folder, variables),
    )
    served = Served(process)
    try:
        line = served.line("listening")
        found = re.search(r'(?:https?://|unix:)[^\s"]+', line)
        assert found, line
        served.address = found[0]
        yield served
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.send_signal(signal.SIGINT)
        try:
            served.ended()
        finally:
            process.kill()
            process.wait()
            assert process.stderr is not None
            process.stderr.close()
    assert not any("Traceback" in line for line in served.log), served.log


def refused(folder: Path, *flags: str, **variables: str) -> tuple[int, str]:
    """The status and words of a server that does not start."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, "--port", "0", *flags],
        capture_output=True,
        cwd=folder,
        env=environment(folder, variables),
        timeout=PATIENCE,
        check=False,
    )
    return done.returncode, done.stderr.decode()


STRAIGHT: Final = flow([start(), end()], ["start", "end"])
WAITING: Final = flow([start(), tool("wait"), end()], ["start", "wait", "end"])
"""A flow whose tool says that it has begun, and then sleeps for a minute."""

WAIT: Final = '#!/bin/sh\necho $$ > "{folder}/begun"\nsleep 60\necho "{{}}"\n'


LOOPING: Final = flow(
    [start(), branching("fork", {"never": "out"}), end()],
    ["start", "fork"],
    [edge("fork", "end", "out"), edge("fork", "fork", "default")],
)
"""A flow that goes round until its iterations are used up."""

TALKATIVE: Final = {"branching_mapping_key": "on", "text": "x" * 32_768}
"""Inputs with which each of its events is large."""


def write_tools(folder: Path) -> str:
    """A folder of tools with ``wait`` in it."""
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    program = tools / "wait"
    program.write_text(WAIT.format(folder=folder))
    program.chmod(0o755)
    return str(tools)


HANDSHAKE: Final = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}
"""Headers that ask for the socket."""


def sse(data: bytes) -> list[dict[str, str]]:
    """The frames in an event stream, comments left out."""
    frames = []
    for block in data.decode().split("\n\n"):
        lines = [line.partition(": ") for line in block.split("\n") if line]
        fields = {name: value for name, _, value in lines if name and name[0] != ":"}
        if fields:
            frames.append(fields)
    return frames
