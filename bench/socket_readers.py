"""WebSocket readers of one run, from one thread that counts what they are sent.

Told one JSON line on standard input, answered by two:

    {"place": {"port", …}, "run", "readers"}
    {"following": 100}                         each of them has its first event
    {"events", "complete", "seconds", "ended"} when the run has ended for all of them
    {"failed", "status"}                       in place of either: it did not work

A reader is complete when it was told of every event once, in order, and of the end. The
clock runs from the first thing that any of them is told then; "ended" is what it shows at
the end.
"""

import contextlib
import re
import select
import socket
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from bench.place import Place
from bench.socket_frames import masked, messages

_END: Final = re.compile(rb'"type"\s*:\s*"end"')
_END_WORD: Final = b'"end"'
# Of the message of the end so much may be in what arrived before the rest of it.
_CUT: Final = 32
_MEANWHILE: Final = 256 * 1024
PATIENCE: Final = 30.0
"""Seconds without a word from the server that make a failure."""


class Unfollowed(Exception):
    """A run could not be followed; the status of the answer, 0 when there was none."""

    def __init__(self, told: str, status: int = 0) -> None:
        super().__init__(told)
        self.status = status


class _Event(msgspec.Struct):
    """What is looked at in a message."""

    type: str = ""
    seq: int = 0


_decode: Final = msgspec.json.Decoder(_Event | list[_Event]).decode


def handshake(place: Place) -> bytes:
    """A request for a socket."""
    return place.head(
        "GET",
        "/v1/stream",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        "Sec-WebSocket-Protocol: heddle.v1",
    )


def opened(place: Place) -> socket.socket:
    """A WebSocket of a server.

    Raises:
        Unfollowed: It gives none.
    """
    sock = socket.create_connection((place.address, place.port), PATIENCE)
    try:
        sock.sendall(handshake(place))
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            data = sock.recv(1)
            if not data:
                raise Unfollowed("the server hung up in place of opening a socket")
            head += data
        line = head.partition(b"\r\n")[0].decode(errors="replace")
        _, _, told = line.partition(" ")
        status = told[:3]
        if status != "101":
            raise Unfollowed(
                f"GET /v1/stream is answered by {told}",
                int(status) if status.isdigit() else 0,
            )
    except BaseException:
        sock.close()
        raise
    return sock


class _Reader:
    """What one has been sent."""

    __slots__ = ("data", "ended", "sock")

    def __init__(self, place: Place, run: str) -> None:
        self.sock = opened(place)
        self.sock.sendall(masked(msgspec.json.encode({"type": "subscribe", "run": run})))
        self.data: list[bytes] = []
        self.ended = False

    def take(self) -> None:
        """Keep what arrived. What it means is looked at when the clock has stopped."""
        data = self.sock.recv(_MEANWHILE)
        if not data:
            raise Unfollowed("the server hung up on a reader")
        self.data.append(data)
        self.ended = self.ended or self._is_told_of_end(data)

    def _is_told_of_end(self, data: bytes) -> bool:
        # A plain search first: the pattern takes ten times as long, and is seldom needed.
        if _END_WORD in data and _END.search(data) is not None:
            return True
        # What says so may have been cut in two.
        before = self.data[-2][-_CUT:] if len(self.data) > 1 else b""
        return _END.search(before + data[:_CUT]) is not None

    def numbers(self) -> list[int]:
        """The sequence numbers that it was told, in their order."""
        return list(self._numbers())

    def _numbers(self) -> Iterator[int]:
        for message in messages(b"".join(self.data)):
            told = _decode(message)
            for each in told if isinstance(told, list) else [told]:
                if each.type == "event":
                    yield each.seq


def follow(place: Place, run: str, readers: int) -> dict[str, Any]:
    """Read until the run has ended for all of them.

    Raises:
        Unfollowed: They are not told, or not in time.
        OSError: The server can't be reached.
    """
    with contextlib.ExitStack() as stack:
        poll = stack.enter_context(contextlib.closing(select.epoll()))
        those: dict[int, _Reader] = {}
        for _ in range(readers):
            reader = _Reader(place, run)
            stack.callback(reader.sock.close)
            reader.take()
            # The poll says when there is something, and one wait is enough.
            reader.sock.setblocking(False)
            those[reader.sock.fileno()] = reader
            poll.register(reader.sock.fileno(), select.EPOLLIN)
        _say({"following": readers})
        begin = 0.0
        left = readers
        while left:
            found = poll.poll(PATIENCE)
            if not found:
                raise Unfollowed(
                    f"{left} of {readers} readers are not told of the end within"
                    f" {PATIENCE:.0f} s"
                )
            for number, _ in found:
                begin = begin or time.monotonic()
                reader = those[number]
                reader.take()
                if reader.ended:
                    poll.unregister(number)
                    left -= 1
        ended = time.monotonic()
    told = [reader.numbers() for reader in those.values()]
    last = max((numbers[-1] for numbers in told if numbers), default=0)
    whole = list(range(1, last + 1))
    return {
        "events": sum(map(len, told)),
        "complete": sum(numbers == whole for numbers in told),
        "seconds": ended - begin,
        "ended": ended,
    }


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.write(msgspec.json.encode(answer).decode() + "\n")
    sys.stdout.flush()


def main() -> None:
    """Follow as told."""
    for line in sys.stdin:
        asked: dict[str, Any] = msgspec.json.decode(line)
        place = msgspec.convert(asked.pop("place"), Place)
        try:
            _say(follow(place, **asked))
        except Unfollowed as failed:
            _say({"failed": str(failed), "status": failed.status})
        except OSError as error:
            _say({"failed": f"{error.strerror or error}", "status": 0})


if __name__ == "__main__":
    main()
