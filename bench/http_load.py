"""A load of HTTP requests from one thread: so many connections, each asking over and over.

Told by JSON lines on standard input, answered by one each:

    {"place": {"port", …}, "path", "body", "connections", "seconds" | "count"}
    {"rate", "count", "p50", "p99"}                       times in milliseconds
    {"failed", "status"}                                  an answer was no success

An answer ends by its length, its last chunk or, where it has neither, with its connection;
one that says that it closes its connection is followed by another. Any 2xx is a success,
but for a stream of events that has an error in it.
"""

import select
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

import msgspec

from bench.harness import percentile
from bench.place import Place

_LAST_CHUNK: Final = b"0\r\n\r\n"
_LENGTH: Final = b"content-length: "
_CHUNKED: Final = b"transfer-encoding: chunked"
_ERROR: Final = b"event: error"
_SHOWN: Final = 500
"""Bytes of an answer that a failure quotes."""


class Unexpected(Exception):
    """An answer that is no success; its status, 0 when there was none."""

    def __init__(self, told: str, status: int = 0) -> None:
        super().__init__(told)
        self.status = status


def request(place: Place, path: str, body: bytes) -> bytes:
    """A request as a client in a data centre sends it."""
    return (
        place.head(
            "POST",
            path,
            "User-Agent: bench/1.0",
            "Accept: */*",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
        )
        + body
    )


class _Client:
    """One connection, and what has come of its present answer."""

    __slots__ = ("closes", "data", "sent", "sock")

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.data = b""
        self.sent = 0.0
        # Whether the answer says that its connection ends with it.
        self.closes = False

    def complete(self, data: bytes) -> bool:
        """Take what arrived; whether that was the end of an answer.

        Raises:
            Unexpected: It is no success.
        """
        self.data += data
        head = self.data.find(b"\r\n\r\n")
        if head < 0:
            if not data:
                raise Unexpected("the server hung up")
            return False
        if self.data[9:10] != b"2":
            raise self._refused(head)
        lower = self.data[:head].lower()
        self.closes = b"connection: close" in lower or lower.startswith(b"http/1.0")
        at = lower.find(_LENGTH)
        if at >= 0:
            length = int(lower[at + len(_LENGTH) :].split(b"\r\n", 1)[0])
            complete = len(self.data) == head + 4 + length
        elif _CHUNKED in lower:
            complete = self.data.endswith(_LAST_CHUNK)
        elif not data:
            return self._whole()
        else:
            return False
        if complete:
            return self._whole()
        if not data:
            raise Unexpected("the server hung up in the middle of an answer")
        return False

    def _whole(self) -> bool:
        at = self.data.find(_ERROR)
        if at >= 0:
            shown = self.data[at : at + _SHOWN].decode(errors="replace")
            raise Unexpected(f"a stream of events has an error: {shown}", 200)
        return True

    def _refused(self, head: int) -> Unexpected:
        line = self.data[: self.data.find(b"\r\n")].decode(errors="replace")
        body = self.data[head + 4 :][:_SHOWN].decode(errors="replace").strip()
        status = self.data[9:12]
        return Unexpected(
            f"{line.partition(' ')[2]}: {body}", int(status) if status.isdigit() else 0
        )


class _Clients:
    """So many connections to one place, and a look at which of them something came for."""

    def __init__(self, place: Place, count: int) -> None:
        self._place = place
        self._poll = select.epoll()
        self._open: dict[int, _Client] = {}
        for _ in range(count):
            self.connect()

    def __iter__(self) -> Iterator[_Client]:
        return iter(self._open.values())

    def connect(self) -> _Client:
        """One more."""
        sock = socket.create_connection((self._place.address, self._place.port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client = self._open[sock.fileno()] = _Client(sock)
        self._poll.register(sock.fileno(), select.EPOLLIN)
        return client

    def ready(self) -> Iterator[_Client]:
        """Waits for those that something came for."""
        for number, _ in self._poll.poll():
            yield self._open[number]

    def drop(self, client: _Client) -> None:
        """This one is over."""
        number = client.sock.fileno()
        self._poll.unregister(number)
        self._open.pop(number).sock.close()

    def close(self) -> None:
        """All are."""
        for client in self:
            client.sock.close()
        self._poll.close()


def load(
    place: Place,
    path: str,
    body: bytes,
    *,
    connections: int,
    seconds: float = 0.0,
    count: int = 0,
) -> dict[str, float]:
    """Ask for so many seconds, or so often in all.

    Raises:
        Unexpected: An answer is no success.
        OSError: The server can't be reached any more.
    """
    message = request(place, path, body)
    took: list[float] = []
    with closing(_Clients(place, connections)) as clients:
        begin = now = time.perf_counter()
        for client in clients:
            client.sent = time.perf_counter()
            client.sock.send(message)
        asking = connections
        left = count - connections
        while asking:
            for client in clients.ready():
                data = client.sock.recv(262_144)
                if not client.complete(data):
                    continue
                client.data = b""
                now = time.perf_counter()
                took.append(now - client.sent)
                again = left > 0 or (not count and now < begin + seconds)
                if client.closes or not data:
                    clients.drop(client)
                    if again:
                        client = clients.connect()
                if again:
                    left -= 1
                    client.sent = now
                    client.sock.send(message)
                else:
                    asking -= 1
    return {
        "rate": len(took) / (now - begin),
        "count": len(took),
        "p50": percentile(took, 0.5) * 1e3,
        "p99": percentile(took, 0.99) * 1e3,
    }


def main() -> None:
    """Ask as told."""
    for line in sys.stdin:
        asked: dict[str, Any] = msgspec.json.decode(line)
        body = asked.pop("body").encode()
        place = msgspec.convert(asked.pop("place"), Place)
        answer: dict[str, Any]
        try:
            answer = load(place, asked.pop("path"), body, **asked)
        except Unexpected as unexpected:
            answer = {"failed": str(unexpected), "status": unexpected.status}
        except OSError as error:
            answer = {"failed": f"{error.strerror or error}", "status": 0}
        sys.stdout.write(msgspec.json.encode(answer).decode() + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
