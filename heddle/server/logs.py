"""The server's log: a line an event on stderr, as text or JSON, written by a thread.

    2026-01-02T03:04:05.678Z [info] run  run=… flow=triage status=completed seconds=0.012

Whoever logs never waits: lines are queued, a thread renders and writes them, and what
does not fit, because nobody reads stderr, is counted and told later. Python's own logging
and what plugins print end up here as well.
"""

import logging
import os
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from plugins_host.channel import PluginLine

MAX_WAITING: Final = 10_000
"""Lines that wait to be written; a burst of some thousand runs."""

LAST_WORDS: Final = 1.0
"""Seconds that are taken at the end for what is left to write."""

_STDERR: Final = 2


class ServerLog(logging.Handler):
    """Takes events from any thread. `close` writes what is left.

    Args:
        json: Write objects rather than lines for people.
        descriptor: Where to.
    """

    def __init__(self, *, json: bool, descriptor: int = _STDERR) -> None:
        super().__init__(logging.INFO)
        self._json = json
        self._descriptor = descriptor
        self._waiting: deque[dict[str, Any] | None] = deque()
        self._dropped = 0
        self._come = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._write_all, name="log", daemon=True)
        self._thread.start()

    # For whoever has something to say

    def say(self, level: str, event: str, **fields: Any) -> None:
        """Log an event. Never waits."""
        if len(self._waiting) >= MAX_WAITING:
            self._dropped += 1
            return
        now = time.time()
        self._waiting.append({"timestamp": now, "level": level, "event": event, **fields})
        self._come.release()

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
            self._waiting.append(None)
            self._come.release()
            self._thread.join(LAST_WORDS)
        super().close()

    # In the thread

    def _write_all(self) -> None:
        render = None
        while True:
            self._come.acquire()
            fields = self._waiting.popleft()
            if fields is None:
                return
            render = render or _renderer(json=self._json)
            text = render(fields)
            dropped, self._dropped = self._dropped, 0
            if dropped:
                text += render(
                    {
                        "timestamp": time.time(),
                        "level": "warning",
                        "event": "log lines dropped",
                        "count": dropped,
                    }
                )
            if not self._write(text.encode(errors="backslashreplace")):
                return

    def _write(self, data: bytes) -> bool:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._descriptor, view) :]
            except BlockingIOError:
                time.sleep(0.05)
            except OSError:
                # A full disk may have room again; a reader that is gone does not return.
                return True
        return True


def _renderer(*, json: bool) -> Any:
    """What makes a line of an event's fields; loads structlog, which takes a while."""
    from structlog.processors import JSONRenderer, KeyValueRenderer

    if json:
        import msgspec

        encode = msgspec.json.Encoder(enc_hook=str).encode
        as_json: Any = JSONRenderer(serializer=lambda value, **_: encode(value).decode())

        def render_json(fields: dict[str, Any]) -> str:
            fields["timestamp"] = _stamp(fields["timestamp"])
            return f"{as_json(None, '', fields)}\n"

        return render_json
    rest = KeyValueRenderer(repr_native_str=False)

    def render_text(fields: dict[str, Any]) -> str:
        stamp, level = _stamp(fields.pop("timestamp")), fields.pop("level")
        event = fields.pop("event")
        traceback = fields.pop("traceback", "")
        shown = {name: _fit(value) for name, value in fields.items()}
        line = f"{stamp} [{level}] {_plain(event)} {rest(None, '', shown)}".rstrip()
        return f"{line}\n{_plain(traceback)}\n" if traceback else f"{line}\n"

    return render_text


def _stamp(seconds: float) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds % 1 * 1000):03}Z"


def _fit(value: Any) -> Any:
    """A value as it stands in a line: quoted where it would not be read as one word."""
    if not isinstance(value, str):
        return value
    plain = value and value.isprintable() and not any(c in value for c in ' "=')
    return value if plain else repr(value)


def _plain(text: str) -> str:
    """Text without what acts on a terminal."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode()
        for c in text
    )


def tell(text: str) -> None:
    """Say something to whoever started the program, before there is a log or instead."""
    if sys.stderr is not None:
        with suppress(OSError):
            os.write(_STDERR, (_plain(text) + "\n").encode(errors="backslashreplace"))
