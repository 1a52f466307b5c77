"""WebSocket frames as a client needs them (RFC 6455): sent at once, read afterwards."""

from collections.abc import Iterator
from typing import Final

_TEXT: Final = 0x81
_CONTROL: Final = 0x8
_FINAL: Final = 0x80


def masked(text: bytes) -> bytes:
    """A text message of less than 64 KiB, masked with nothing."""
    length = len(text)
    if length < 126:
        head = bytes((_TEXT, 0x80 | length))
    else:
        head = bytes((_TEXT, 0x80 | 126)) + length.to_bytes(2)
    return head + b"\0\0\0\0" + text


def messages(data: bytes) -> Iterator[bytes]:
    """The data messages among what a server sent, pieces put together; the last may be
    missing its end and is left out then."""
    at = 0
    pieces: list[bytes] = []
    while at + 2 <= len(data):
        first, length = data[at], data[at + 1] & 0x7F
        at += 2
        if length >= 126:
            wide = 2 if length == 126 else 8
            length = int.from_bytes(data[at : at + wide])
            at += wide
        if at + length > len(data):
            return
        payload = data[at : at + length]
        at += length
        if first & _CONTROL:
            continue  # pings, pongs and closes may stand between the pieces of a message
        pieces.append(payload)
        if first & _FINAL:
            yield b"".join(pieces)
            pieces.clear()
