"""A host that speaks the protocol by hand: frames to a real plugin process, and back.

    with Driver([sys.executable, "gate.py"], folder) as plugin:
        plugin.greet()
        assert plugin.ask("before", {...}) == {"action": "proceed"}

It blocks, knows nothing of heddle's own host, and gives up after a while.
"""

import json
import os
import select
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from tests.support.measuring import VARIABLES

# Long enough for an interpreter to start on a machine that is busy with other tests.
PATIENCE = 60.0

# What a plugin finds in its environment; coverage counts what it runs.
KEPT = ("PATH", *VARIABLES)

HALVES = {
    "node": {"before": ["proceed", "reject"], "after": ["pass", "fail"]},
    "toolCall": {"before": ["proceed", "modify", "replace", "reject"], "after": ["pass"]},
}


class Driver:
    """One plugin process and the pipes to it."""

    def __init__(self, argv: Sequence[str], folder: Path) -> None:
        self.stderr_file = folder / f"stderr-{time.monotonic_ns()}"
        with self.stderr_file.open("wb") as stderr:
            self.process = subprocess.Popen(
                argv,
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env={name: os.environ[name] for name in KEPT if name in os.environ},
                bufsize=0,
            )
        self.strays: list[str] = []
        self._data = b""
        self._last_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            # Who is asked to end leaves behind what it measured of itself.
            self.process.wait(2)
        except subprocess.TimeoutExpired:
            self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        self.process.wait()

    @property
    def stderr(self) -> str:
        """All that the plugin wrote there so far."""
        return self.stderr_file.read_text(errors="replace")

    def write(self, data: bytes) -> None:
        """Bytes as they are."""
        assert self.process.stdin is not None
        remaining = memoryview(data)
        while remaining:
            remaining = remaining[self.process.stdin.write(remaining) :]

    def send(self, *frames: dict[str, Any]) -> None:
        """Frames, in one write, as compact as heddle's own."""
        encode = json.JSONEncoder(separators=(",", ":")).encode
        self.write(b"".join(encode(frame).encode() + b"\n" for frame in frames))

    def receive(self) -> dict[str, Any]:
        """The next frame; lines that cannot be one are put into ``strays``."""
        while True:
            line = self._line()
            if line.startswith(b"{"):
                frame: dict[str, Any] = json.loads(line)
                return frame
            if line:
                self.strays.append(line.decode())

    def _line(self) -> bytes:
        assert self.process.stdout is not None
        deadline = time.monotonic() + PATIENCE
        while b"\n" not in self._data:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise AssertionError(f"no frame came; stderr: {self.stderr}")
            chunk = os.read(self.process.stdout.fileno(), 1 << 16)
            if not chunk:
                raise EOFError(f"the plugin ended; stderr: {self.stderr}")
            self._data += chunk
        line, _, self._data = self._data.partition(b"\n")
        return line

    def start(self, method: str, params: dict[str, Any] | None = None) -> int:
        """Send a question; its id."""
        self._last_id += 1
        frame: dict[str, Any] = {"id": self._last_id, "method": method}
        self.send(frame if params is None else {**frame, "params": params})
        return self._last_id

    def answer(self, id: int) -> dict[str, Any]:  # noqa: A002  a frame's word
        """The next frame, which is the answer to ``id``: with a result or an error.

        Where a frame for several stands is told or not, as the machine is slow or fast.
        """
        frame = self.receive()
        while "at" in frame.get("partial", ()):
            frame = self.receive()
        assert frame.get("id") == id, frame
        assert "method" not in frame, frame
        return frame

    def ask(self, method: str, params: dict[str, Any] | None = None) -> Any:
        """The result of a question."""
        frame = self.answer(self.start(method, params))
        assert "result" in frame, frame
        return frame["result"]

    def fails(self, method: str, params: dict[str, Any] | None = None) -> dict[str, str]:
        """The error of a question."""
        frame = self.answer(self.start(method, params))
        assert "error" in frame, frame
        error: dict[str, str] = frame["error"]
        return error

    def greet(self) -> dict[str, Any]:
        """The handshake."""
        seams = {
            seam: sorted({action for admitted in halves.values() for action in admitted})
            for seam, halves in HALVES.items()
        }
        greeting: dict[str, Any] = self.ask(
            "init",
            {
                "protocol": 1,
                "events": 1,
                "capabilities": [],
                "seams": seams,
                "halves": HALVES,
                "features": ["consult"],
            },
        )
        return greeting

    def close(self) -> int:
        """Close stdin and wait for the end; the exit status."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(PATIENCE)


def question(component_type: str, seam: str = "toolCall", **keys: Any) -> dict[str, Any]:
    """The params of ``before`` and ``after``, with something in each field."""
    return {
        "seam": seam,
        "componentType": component_type,
        "component": {},
        "subject": {
            "nodeName": "ask",
            "nodeType": "AgentNode",
            "toolName": "shell",
            "toolCallId": "call-1",
        },
        "attempt": 1,
        "maxAttempts": 3,
        **keys,
    }


def consult(
    seam: str, half: str, *ask: str | tuple[str, dict[str, Any]], **keys: Any
) -> Any:
    """The params of ``consult``, who is asked before the subject as heddle writes it."""
    whole = question("", seam, **keys)
    del whole["componentType"], whole["component"]
    named = [(each, {}) if isinstance(each, str) else each for each in ask]
    asked = [{"componentType": name, "component": settings} for name, settings in named]
    return {"seam": seam, "half": half, "ask": asked, **whole}
