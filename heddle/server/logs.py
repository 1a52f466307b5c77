"""The server's log: a line an event on stderr, as text or JSON, written by a thread.

    2026-01-02T03:04:05.678Z [info] run  run=… flow=triage status=completed seconds=0.012

Whoever logs never waits: lines are queued, a thread renders and writes them, and what
does not fit, because nobody reads stderr, is counted and told later. Python's own logging
and what plugins print end up here as well.
"""

import fcntl
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from plugins_host.plugin_log import PluginLine

MAX_WAITING: Final = 10_000
"""Lines that wait to be written; a burst of some thousand runs."""

PAUSE: Final = 0.05
"""Seconds between two writes. A thread that woke for every line would take turns with the
loop for the interpreter, and cost each run more than the line does."""

LAST_WORDS: Final = 1.0
"""Seconds that are taken at the end for what is left to write."""

_STDERR: Final = 2
_OURS: Final = ("timestamp", "level")


class RunLine(NamedTuple):
    """What is told of a run that completed. There are thousands a second, and so who says
    it only puts it together."""

    timestamp: float
    run: str
    flow: str
    status: str
    seconds: float
    nodes: int
    request: str


class ServerLog(logging.Handler):
    """Takes events from any thread. `close` writes what is left.

    Args:
        json: Write objects rather than lines for people.
        descriptor: Where to.
        lock: A file that is locked while lines are written, so that those of several
            processes do not mix; None for a process alone.
        always: Fields of every line.
    """

    def __init__(
        self,
        *,
        json: bool,
        descriptor: int = _STDERR,
        lock: int | None = None,
        **always: Any,
    ) -> None:
        super().__init__(logging.INFO)
        self._lock = lock
        self._always = always
        self._json = json
        self._descriptor = descriptor
        self._waiting: SimpleQueue[dict[str, Any] | RunLine | None] = SimpleQueue()
        self._dropped = 0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._write_all, name="log", daemon=True)
        self._thread.start()

    # For whoever has something to say

    def say(self, level: str, event: str, **fields: Any) -> None:
        """Log an event. Never waits."""
        if self._waiting.qsize() >= MAX_WAITING:
            self._dropped += 1
            return
        given = {"timestamp": time.time(), "level": level, "event": event, **fields}
        if self._always:
            given.update(self._always)
        self._waiting.put(given)

    def run(self, line: RunLine) -> None:
        """Log that a run completed. Never waits."""
        if self._waiting.qsize() >= MAX_WAITING:
            self._dropped += 1
        else:
            self._waiting.put(line)

    def plugin(self, line: "PluginLine") -> None:
        """Log what a plugin printed."""
        level = "info" if line.source == "host" else "warning"
        self.say(level, "plugin", plugin=line.plugin, source=line.source, text=line.text)

    def emit(self, record: logging.LogRecord) -> None:
        """For Python's logging."""
        fields: dict[str, Any] = {"logger": record.name}
        if record.exc_info:
            fields["traceback"] = logging.Formatter().formatException(record.exc_info)
        self.say(record.levelname.lower(), record.getMessage(), **fields)

    def close(self) -> None:
        """Write what is left, unless nobody takes it."""
        if self._thread.is_alive():
            self._closing.set()
            self._waiting.put(None)
            self._thread.join(LAST_WORDS)
        super().close()

    # In the thread

    def _write_all(self) -> None:
        first = self._waiting.get()
        render = _renderer(json=self._json)
        always = "".join(f" {name}={_fit(value)}" for name, value in self._always.items())
        while first is not None:
            lines: list[str] = []
            last: dict[str, Any] | RunLine | None = first
            while last is not None:
                if isinstance(last, dict):
                    lines.append(_rendered(render, last))
                elif self._json:
                    lines.append(_rendered(render, _fields(last) | self._always))
                else:
                    lines.append(_run_text(last, always))
                if self._waiting.empty():
                    break
                last = self._waiting.get()
            dropped, self._dropped = self._dropped, 0
            if dropped:
                lines.append(render(_dropped(dropped)))
            self._write("".join(lines).encode(errors="backslashreplace"))
            if last is None:
                return
            self._closing.wait(PAUSE)
            first = self._waiting.get()

    def _write(self, data: bytes) -> None:
        write_lines(data, self._descriptor, self._lock)


class DirectLog:
    """A log without a thread, for a process that forks and has all the time there is.

    Args:
        json: As of `ServerLog`.
        lock: As of `ServerLog`.
    """

    def __init__(self, *, json: bool, lock: int | None = None) -> None:
        self._json = json
        self._lock = lock
        self._render: Callable[[dict[str, Any]], str] | None = None

    def say(self, level: str, event: str, **fields: Any) -> None:
        """Log an event, now."""
        if self._render is None:
            self._render = _renderer(json=self._json)
        given = {"timestamp": time.time(), "level": level, "event": event, **fields}
        line = _rendered(self._render, given)
        write_lines(line.encode(errors="backslashreplace"), _STDERR, self._lock)


def log_lock() -> int:
    """A file to lock, for logs of several processes; inherited by those forked later."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("heddle-log")
    import tempfile  # pragma: no cover  not on Linux

    with tempfile.TemporaryFile() as file:  # pragma: no cover
        return os.dup(file.fileno())


def write_lines(data: bytes, descriptor: int, lock: int | None) -> None:
    """Write whole lines, in one piece where other processes write too."""
    if lock is not None:
        fcntl.lockf(lock, fcntl.LOCK_EX)
    try:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(descriptor, view) :]
            except BlockingIOError:
                time.sleep(0.05)
            except OSError:
                # A full disk may have room again; a reader that is gone does not return.
                return
    finally:
        if lock is not None:
            fcntl.lockf(lock, fcntl.LOCK_UN)


def _rendered(render: Callable[[dict[str, Any]], str], fields: dict[str, Any]) -> str:
    """A line, also of what has none as it is: no line may end the log."""
    try:
        return render({**fields})
    except Exception:  # noqa: BLE001  half a character, or a value of any type
        return render(
            {**fields, **{k: ascii(v) for k, v in fields.items() if k not in _OURS}}
        )


def _fields(line: RunLine) -> dict[str, Any]:
    timestamp, *rest = line
    named = dict(zip(line._fields[1:], rest, strict=True))
    return {"timestamp": timestamp, "level": "info", "event": "run", **named}


def _run_text(line: RunLine, always: str) -> str:
    """A run's line as all others look."""
    timestamp, run, flow, status, seconds, nodes, request = line
    return (
        f"{_stamp(timestamp)} [info] run run={run} flow={_fit_again(flow)} "
        f"status={status} seconds={seconds} nodes={nodes} request={_fit(request)}{always}\n"
    )


def _dropped(count: int) -> dict[str, Any]:
    return {
        "timestamp": time.time(),
        "level": "warning",
        "event": "log lines dropped",
        "count": count,
    }


def _renderer(*, json: bool) -> Callable[[dict[str, Any]], str]:
    """What makes a line of an event's fields; a package for it would slow the start."""
    if json:
        import msgspec

        encode = msgspec.json.Encoder(enc_hook=str).encode

        def render_json(fields: dict[str, Any]) -> str:
            fields["timestamp"] = _stamp(fields["timestamp"])
            return f"{encode(fields).decode()}\n"

        return render_json

    def render_text(fields: dict[str, Any]) -> str:
        stamp, level = _stamp(fields.pop("timestamp")), fields.pop("level")
        event = fields.pop("event")
        traceback = fields.pop("traceback", "")
        shown = " ".join(f"{name}={_fit(value)}" for name, value in fields.items())
        line = f"{stamp} [{level}] {_plain(event)} {shown}".rstrip()
        # Further lines are indented: an error's own text looks like no line of the log.
        more = "".join(f"    {_plain(each)}\n" for each in traceback.split("\n") if each)
        return f"{line}\n{more}"

    return render_text


def _stamp(seconds: float) -> str:
    return f"{_to_the_second(int(seconds))}.{int(seconds % 1 * 1000):03}Z"


@lru_cache(maxsize=2)
def _to_the_second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


_WORD: Final = re.compile(r'[^ "=]+')


def _fit(value: Any) -> str:
    """A value as it stands in a line: quoted where it would not be read as one word."""
    if not isinstance(value, str):
        return repr(value)
    plain = value.isprintable() and _WORD.fullmatch(value)
    return value if plain else repr(value)


# Flows come again and again.
_fit_again: Final = lru_cache(maxsize=256)(_fit)


def _plain(text: str) -> str:
    """Text on one line, without what acts on a terminal."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in text
    )


def tell(text: str) -> None:
    """Say something to whoever started the program, before there is a log or instead."""
    if sys.stderr is not None:
        with suppress(OSError):
            lines = "".join(f"{_plain(each)}\n" for each in text.split("\n"))
            os.write(_STDERR, lines.encode(errors="backslashreplace"))
