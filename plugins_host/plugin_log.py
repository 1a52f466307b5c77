"""What is told of plugins beside their answers: lines for a log, and counts.

What a plugin printed or wrote on stderr is cut into lines here, none of them longer than
`MAX_LOG_LINE`; where they go is whoever takes a `PluginLog`'s to say.
"""

from collections.abc import Callable
from typing import Final, Literal

from msgspec import Struct

# How much of what a plugin wrote on stderr last is kept, for the error of its end.
TAIL: Final = 4 * 1024

# Longest line of stderr, of stray text or of an error that is shown whole. Characters.
MAX_LOG_LINE: Final = 8 * 1024


class PluginLine(Struct, frozen=True):
    """Something for the log: what a plugin printed or wrote, or what heddle did to it."""

    plugin: str
    source: Literal["stdout", "stderr", "host"]
    text: str


PluginLog = Callable[[PluginLine], None]


class Counts:
    """What happened with one plugin since heddle started, over all of its processes."""

    __slots__ = ("late", "retired", "started", "trouble")

    def __init__(self) -> None:
        self.started = 0
        self.trouble = ""  # why no process takes calls; empty while one does
        self.retired = 0
        self.late = 0  # answers that nobody waited for any more


def shortened(text: str, limit: int) -> str:
    """A text with at most so many characters, and a sign when there were more."""
    return text if len(text) <= limit else f"{text[:limit]}…"


class Lines:
    """Cuts stderr into lines for a log. A longer one is cut short, and not kept.

    Attributes:
        tail: The last bytes of all.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open = b""
        self.tail = b""

    def feed(self, data: bytes) -> list[str]:
        """The lines that these bytes completed."""
        self.tail = (self.tail + data[-TAIL:])[-TAIL:]
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0] = self._open + lines[0]
        else:
            rest = self._open + rest
        self._open = rest[: self._limit + 1]
        return [self._text(line) for line in lines if line.strip()]

    def end(self) -> list[str]:
        """The last line, if nothing ended it."""
        line, self._open = self._open, b""
        return [self._text(line)] if line.strip() else []

    def _text(self, line: bytes) -> str:
        return shortened(
            line[: self._limit + 1].decode(errors="replace").rstrip("\r"), self._limit
        )
