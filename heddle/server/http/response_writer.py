"""The writing side of a streamed answer, piece by piece."""

from typing import Final, Protocol

from heddle.server.http.answers import LAST_CHUNK, HandlerMisuse
from heddle.server.http.wire import Wire

_NOTHING: Final = b""


class Way(Protocol):
    """The connection, for one answer on it."""

    @property
    def wire(self) -> Wire:
        """What is written to."""
        ...

    async def send_part(self, data: bytes, *, ends_by_closing: bool) -> None:
        """Send a part of an answer, of which more is to come."""
        ...

    def answered(self) -> None:
        """The answer that was sent in parts is complete."""
        ...


class ResponseWriter:
    """Writes the body of a streamed answer."""

    __slots__ = ("_busy", "_chunked", "_connection", "_last", "_start")

    def __init__(self, connection: Way, start: bytes, *, chunked: bool) -> None:
        self._connection = connection
        self._start = start
        self._chunked = chunked
        # What is sent with the end.
        self._last = _NOTHING
        # Why nothing can be written now.
        self._busy = ""

    async def write(self, data: bytes) -> None:
        """Send ``data``, or the head alone; see `Writer`."""
        await self._send(self._part(data))

    def write_last(self, data: bytes) -> None:
        """Keep ``data`` for `finish`; see `Writer`."""
        self._last = self._part(data)

    async def finish(self) -> None:
        """Send what ends the body."""
        await self._send(self._last + LAST_CHUNK if self._chunked else self._last)
        self._busy = "a handler writes to an answer that has ended"
        self._connection.answered()

    def _part(self, data: bytes) -> bytes:
        if data and self._chunked:
            return b"%x\r\n%b\r\n" % (len(data), data)
        return data

    async def _send(self, data: bytes) -> None:
        connection = self._connection
        if self._busy:
            raise HandlerMisuse(self._busy)
        if connection.wire.torn:
            raise HandlerMisuse("an answer goes on behind a write that was cancelled")
        if self._start:
            data = self._start + data
        if not data:
            return
        self._busy = "two tasks write one answer at once"
        try:
            await connection.send_part(data, ends_by_closing=not self._chunked)
        finally:
            self._busy = ""
        self._start = _NOTHING
