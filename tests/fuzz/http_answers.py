"""HTTP answers, of models and of servers: what a client of ours makes of the bytes."""

from typing import ClassVar

import msgspec

from heddle.http import BadHttp, Connection, ConnectionBroken
from tests.fuzz.target import Target, cut, finish


class Script:
    """A wire that gives pieces, then the end."""

    trusted: ClassVar[float] = 1.0

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = [each for each in pieces if each]

    def send_now(self, data: bytes, /) -> int:
        """All goes at once."""
        return len(data)

    async def send_rest(self, data: bytes) -> None:
        """Goes nowhere."""

    async def receive(self) -> bytes:
        """The next piece."""
        return self.pieces.pop(0) if self.pieces else b""

    def quiet(self) -> bool:
        """As always."""
        return True

    def mark(self) -> None:
        """Nothing is counted."""

    def undelivered(self, *, aborted: bool) -> bool:
        """As far as anybody knows."""
        return not aborted

    def wake(self) -> None:
        """Nobody waits."""

    def close(self) -> None:
        """Nothing is open."""


class Read(msgspec.Struct):
    """What became of an answer."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes
    reusable: bool
    end: str


async def exchange(pieces: list[bytes]) -> list[Read]:
    """The answers in these bytes, as a client that asks again and again reads them."""
    connection = Connection(Script(pieces), set())
    found: list[Read] = []
    while True:
        end, body = "complete", b""
        try:
            await connection.begin(b"GET / HTTP/1.1\r\n\r\n")
            while not connection.complete:
                await connection.advance()
                body += connection.take()
        except (BadHttp, ConnectionBroken) as error:
            end = type(error).__name__
        if end == "complete":
            assert 200 <= connection.status <= 999
        found.append(
            Read(connection.status, connection.headers, body, connection.reusable, end)
        )
        if not connection.reusable:
            return found
        connection.rest(0.0)


def read(data: bytes) -> None:
    """Any bytes are answers, `BadHttp` or a broken connection."""
    pieces = cut(data)
    finish(exchange(pieces))
    [first, *_] = finish(exchange([b"".join(pieces)]))
    [small, *_] = finish(exchange([bytes((each,)) for each in b"".join(pieces)]))
    if first.end == small.end == "complete":
        # What follows an answer may have come with it, or not yet.
        first.reusable = small.reusable = True
        assert first == small


HTTP_ANSWERS = Target(
    read,
    seeds=(
        b"\x00HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: y\r\n\r\nhi",
        b"\x07HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n2;a=b\r\nhi\r\n0\r\nT: u\r\n\r\n",
        b"\x00HTTP/1.0 404 \r\nConnection: close\r\n\r\nall of it",
        b"\x00HTTP/1.1 204 No\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"\x00HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: x\r\n\r\n",
    ),
    words=(
        *(b"HTTP/1.1 ", b"HTTP/1.0 ", b"200", b"304", b"204", b"101", b"100", b"\r\n\r\n"),
        *(b"Content-Length: ", b"Transfer-Encoding: ", b"chunked", b"Connection: close"),
        *(b"keep-alive", b"Upgrade: ", b"18446744073709551616", b"ffffffffffffffff", b"\n"),
    ),
)
