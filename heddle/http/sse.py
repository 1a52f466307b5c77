"""Server-sent events: bytes in, events out, with no I/O in sight.

    data: {"choices": …}     one line of the event's data; several are joined by \\n
    event: error             the event's name, "message" when it has none
    id: 7                    where to go on after a lost connection
    : keep-alive             a comment, skipped
                             a blank line ends the event

Lines end with LF, CRLF or CR, and how the bytes were cut changes nothing.

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html. One difference:
an event that the end of the stream cut off is handed over by `end`, because providers
forget the last blank line; the reader of the data knows whether it is whole.
"""

from typing import Final

from msgspec import Struct

_BOM: Final = b"\xef\xbb\xbf"


class SseEvent(Struct, frozen=True, gc=False):
    """One event. ``data`` is UTF-8 as it came, not decoded.

    ``id`` is the one given with this event, empty when there was none.
    """

    data: bytes
    name: bytes = b"message"
    id: bytes = b""


class SseParser:
    """Cuts a stream into events. Holds at most one unfinished event."""

    __slots__ = ("_after_cr", "_data", "_first", "_id", "_name", "_rest")

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._data: list[bytes] = []
        self._name = b""
        self._id = b""
        self._after_cr = False
        self._first = True

    def feed(self, piece: bytes) -> list[SseEvent]:
        """The events that ``piece`` completes, in order."""
        if self._after_cr and piece:
            self._after_cr = False
            if piece[0] == 0x0A:
                piece = piece[1:]
        if not piece:
            return []
        between = not (self._rest or self._data or self._name or self._id)
        if between and piece[-2:] == b"\n\n":
            events = _plain(piece)
            if events is not None:
                self._first = False
                return events
        lines = piece.splitlines(keepends=True)
        last = lines[-1]
        ending = last[-1]
        unfinished = b""
        if ending == 0x0D:
            self._after_cr = True
        elif ending != 0x0A:
            unfinished = lines.pop()
        if self._rest and lines:
            self._rest.append(lines[0])
            lines[0] = b"".join(self._rest)
            self._rest = []
        if unfinished:
            self._rest.append(unfinished)
        events = []
        for line in lines:
            self._line(line.rstrip(b"\r\n"), events)
        return events

    def end(self) -> list[SseEvent]:
        """The event that the end of the stream cut off, when it has data."""
        events: list[SseEvent] = []
        if self._rest:
            rest, self._rest = b"".join(self._rest), []
            self._line(rest, events)
        self._line(b"", events)
        return events

    def _line(self, line: bytes, events: list[SseEvent]) -> None:
        if self._first:
            self._first = False
            line = line.removeprefix(_BOM)
        if not line:
            if self._data:
                data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
                events.append(SseEvent(data, self._name or b"message", self._id))
                self._data = []
            self._name = self._id = b""
            return
        field, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value
        elif field == b"id":
            self._id = value


def _plain(piece: bytes) -> list[SseEvent] | None:
    """The events of a piece that is nothing but whole events of one data line each.

    That is how nearly all pieces of nearly all providers look. None for the others.
    """
    blocks = piece[6:-2].split(b"\n\ndata: ")
    # With two line ends an event there is none inside, nor another kind of line.
    if (
        piece[:6] != b"data: "
        or piece.count(b"\n") != 2 * len(blocks)
        or piece.count(b"\r")
    ):
        return None
    return list(map(SseEvent, blocks))
