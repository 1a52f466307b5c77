"""A body in chunks: bytes in, content out, with no I/O in sight.

    5;any=extension CRLF hello CRLF 0 CRLF Trailer: ignored CRLF CRLF

Where the body ends is where the next request begins, so this is as strict as the head is:
sizes are digits and nothing else, lines end in CR LF, and trailers are header lines.
"""

import re
from enum import Enum, auto
from typing import Final

from heddle.server.http.head import check_trailers
from heddle.server.http.refusals import Refusal

# A size with extensions, which nobody reads.
_LONGEST_LINE: Final = 256
# Bytes of framing beyond what chunks of a reasonable size need. A body of one-byte chunks
# with long extensions costs two hundred times what it is.
_MOST_EXCESS: Final = 16 * 1024
_FREE_FRAMING: Final = 16

_EXTENSIONS: Final = rb"(?:;[\t\x20-\x7e\x80-\xff]*)?"
_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})" + _EXTENSIONS)
_PARTIAL_SIZE: Final = re.compile(rb"(?:[0-9A-Fa-f]{1,15}" + _EXTENSIONS + rb"\r?)?")
_BROKEN_LINE: Final = re.compile(rb"(?<!\r)\n|\r(?!\n|\Z)")


class _Awaited(Enum):
    SIZE = auto()
    DATA = auto()
    END_OF_DATA = auto()
    TRAILERS = auto()
    NOTHING = auto()


class ChunkedBody:
    """Takes a body in chunks apart, in whatever pieces it arrives."""

    __slots__ = ("_awaited", "_excess", "_kept", "_left", "_most", "_trailers", "received")

    def __init__(self, *, most: int, trailers: int) -> None:
        """Begin a body.

        Args:
            most: Bytes of content.
            trailers: Bytes of trailers.
        """
        self._awaited = _Awaited.SIZE
        self._kept = b""
        self._left = 0
        self._excess = 0
        self._most = most
        self._trailers = trailers
        self.received = 0

    @property
    def finished(self) -> bool:
        """Whether the body has ended; `rest` is then what follows it."""
        return self._awaited is _Awaited.NOTHING

    @property
    def rest(self) -> bytes:
        """What arrived and does not belong to the body, once it is finished."""
        return self._kept

    def feed(self, data: bytes) -> bytes:
        """Take what arrived; the content that was in it.

        Raises:
            Refusal: 400 when it is not a body in chunks, 413 when it is too long.
        """
        if self._kept:
            data = self._kept + data
        at = 0
        content: list[bytes] = []
        while True:
            match self._awaited:
                case _Awaited.SIZE:
                    after = self._read_size(data, at)
                case _Awaited.DATA:
                    after = min(at + self._left, len(data))
                    content.append(data[at:after])
                    self._left -= after - at
                    if self._left:
                        at = after
                        break
                    self._awaited = _Awaited.END_OF_DATA
                case _Awaited.END_OF_DATA:
                    after = self._read_end(data, at)
                case _Awaited.TRAILERS:
                    after = self._read_trailers(data, at)
                case _Awaited.NOTHING:
                    break
            if after < 0:
                break
            at = after
        self._kept = data[at:]
        return content[0] if len(content) == 1 else b"".join(content)

    def _read_size(self, data: bytes, at: int) -> int:
        end = data.find(b"\r\n", at, at + _LONGEST_LINE)
        if end < 0:
            line = data[at : at + _LONGEST_LINE]
            if len(line) == _LONGEST_LINE or not _PARTIAL_SIZE.fullmatch(line):
                raise _bad_size()
            return -1
        found = _SIZE.fullmatch(data, at, end)
        if found is None:
            raise _bad_size()
        size = int(found[1], 16)
        self.received += size
        if self.received > self._most:
            raise too_long(self._most)
        self._excess = max(0, self._excess + end - at + 4 - _FREE_FRAMING - 2 * size)
        if self._excess > _MOST_EXCESS:
            raise Refusal(400, "the body's chunks are mostly not content")
        self._left = size
        self._awaited = _Awaited.DATA if size else _Awaited.TRAILERS
        return end + 2

    def _read_end(self, data: bytes, at: int) -> int:
        end = data[at : at + 2]
        if end == b"\r\n":
            self._awaited = _Awaited.SIZE
            return at + 2
        if end in (b"", b"\r"):
            return -1
        raise Refusal(400, "a chunk of the body is not as long as it says")

    def _read_trailers(self, data: bytes, at: int) -> int:
        if data.startswith(b"\r\n", at):
            self._awaited = _Awaited.NOTHING
            return at + 2
        end = data.find(b"\r\n\r\n", at, at + self._trailers)
        if end < 0:
            if len(data) - at >= self._trailers:
                raise Refusal(431, f"the trailers are longer than {self._trailers} bytes")
            if _BROKEN_LINE.search(data, at):
                raise Refusal(400, "a trailer of the body is not a header line")
            return -1
        check_trailers(data[at : end + 4])
        self._awaited = _Awaited.NOTHING
        return end + 4


def too_long(most: int) -> Refusal:
    """The refusal of a body over its limit."""
    return Refusal(413, f"the body is longer than {most} bytes")


def _bad_size() -> Refusal:
    return Refusal(400, "a chunk of the body does not begin with its size")
