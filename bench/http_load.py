"""A load of HTTP requests from one thread: so many connections, each asking over and over.

Told by JSON lines on standard input, answered by one each:

    {"port", "path", "body", "connections", "seconds" | "count"}
    {"rate", "count", "p50", "p99"}                       times in milliseconds

Answers are told by their length or their last chunk; any status but 200 ends it.
"""

import contextlib
import select
import socket
import sys
import time
from typing import Any, Final

import msgspec

from bench.harness import percentile

_LAST_CHUNK: Final = b"0\r\n\r\n"
_LENGTH: Final = b"content-length: "


def request(path: str, body: bytes) -> bytes:
    """A request as a client in a data centre sends it."""
    return (
        b"POST %b HTTP/1.1\r\nHost: 127.0.0.1:4319\r\nUser-Agent: bench/1.0\r\n"
        b"Accept: */*\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
    ) % (path.encode(), len(body), body)


class _Client:
    """One connection, and what has come of its present answer."""

    __slots__ = ("data", "sent", "sock")

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.data = b""
        self.sent = 0.0

    def complete(self, data: bytes) -> bool:
        """Take what arrived; whether that was the end of an answer."""
        self.data += data
        head = self.data.find(b"\r\n\r\n")
        if head < 0:
            return False
        if not self.data.startswith(b"HTTP/1.1 200"):
            raise AssertionError(self.data)
        lower = self.data[:head].lower()
        at = lower.find(_LENGTH)
        if at < 0:
            return self.data.endswith(_LAST_CHUNK)
        length = int(lower[at + len(_LENGTH) :].split(b"\r\n", 1)[0])
        return len(self.data) == head + 4 + length


def load(
    port: int,
    path: str,
    body: bytes,
    *,
    connections: int,
    seconds: float = 0.0,
    count: int = 0,
) -> dict[str, float]:
    """Ask for so many seconds, or so often in all."""
    message = request(path, body)
    took: list[float] = []
    left = count
    with contextlib.ExitStack() as stack:
        poll = select.epoll()
        stack.callback(poll.close)
        clients: dict[int, _Client] = {}
        for _ in range(connections):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            clients[sock.fileno()] = _Client(sock)
            poll.register(sock.fileno(), select.EPOLLIN)
        begin = now = time.perf_counter()
        for client in clients.values():
            client.sent = time.perf_counter()
            client.sock.send(message)
        left -= connections
        asking = len(clients)
        while asking:
            for number, _ in poll.poll():
                client = clients[number]
                data = client.sock.recv(262_144)
                assert data, "the server hung up"
                if not client.complete(data):
                    continue
                client.data = b""
                now = time.perf_counter()
                took.append(now - client.sent)
                if left > 0 or (not count and now < begin + seconds):
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
        answer = load(asked.pop("port"), asked.pop("path"), body, **asked)
        sys.stdout.write(msgspec.json.encode(answer).decode() + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
