"""WebSocket readers of one run, from one thread that counts what they are sent.

Told one JSON line on standard input, answered by two:

    {"port", "run", "readers"}
    {"following": 100}                         each of them has its first event
    {"events", "complete", "seconds"}          when the run has ended for all of them

A reader is complete when it was told of every event once, in order, and of the end.
"""

import contextlib
import re
import select
import socket
import sys
import time
from typing import Any, Final

import msgspec

_HANDSHAKE: Final = (
    b"GET /v1/stream HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\n"
    b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
_SEQ: Final = re.compile(rb'"seq":(\d+),"event":')
_MEANWHILE: Final = 256 * 1024


def masked(text: bytes) -> bytes:
    """A text message of less than 126 bytes, masked with nothing."""
    return bytes((0x81, 0x80 | len(text))) + b"\0\0\0\0" + text


class _Reader:
    """What one has been sent."""

    __slots__ = ("data", "ended", "sock")

    def __init__(self, port: int, run: str) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port))
        self.sock.sendall(_HANDSHAKE)
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self.sock.recv(1)
        assert head.startswith(b"HTTP/1.1 101"), head
        message = msgspec.json.encode({"type": "subscribe", "run": run})
        self.sock.sendall(masked(message))
        self.data: list[bytes] = []
        self.ended = False

    def take(self) -> None:
        """Keep what arrived. What it means is looked at when the clock has stopped."""
        data = self.sock.recv(_MEANWHILE)
        assert data, "the server hung up"
        self.data.append(data)
        # The message of the end may have been cut in two.
        before = self.data[-2][-16:] if len(self.data) > 1 else b""
        self.ended = self.ended or b'"type":"end"' in before + data

    def numbers(self) -> list[int]:
        """The sequence numbers that it was told, in their order."""
        return [int(each) for each in _SEQ.findall(b"".join(self.data))]


def follow(port: int, run: str, readers: int) -> dict[str, Any]:
    """Read until the run has ended for all of them."""
    with contextlib.ExitStack() as stack:
        poll = stack.enter_context(contextlib.closing(select.epoll()))
        those: dict[int, _Reader] = {}
        for _ in range(readers):
            reader = _Reader(port, run)
            stack.callback(reader.sock.close)
            reader.take()
            those[reader.sock.fileno()] = reader
            poll.register(reader.sock.fileno(), select.EPOLLIN)
        _say({"following": readers})
        begin = 0.0
        left = readers
        while left:
            for number, _ in poll.poll():
                begin = begin or time.perf_counter()
                reader = those[number]
                reader.take()
                if reader.ended:
                    poll.unregister(number)
                    left -= 1
        seconds = time.perf_counter() - begin
    told = [reader.numbers() for reader in those.values()]
    last = max(numbers[-1] for numbers in told)
    whole = list(range(1, last + 1))
    return {
        "events": sum(map(len, told)),
        "complete": sum(numbers == whole for numbers in told),
        "seconds": seconds,
    }


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.write(msgspec.json.encode(answer).decode() + "\n")
    sys.stdout.flush()


def main() -> None:
    """Follow as told."""
    for line in sys.stdin:
        _say(follow(**msgspec.json.decode(line)))


if __name__ == "__main__":
    main()
