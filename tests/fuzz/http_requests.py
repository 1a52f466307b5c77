"""Requests: heads, bodies and chunks as callers send them, to the front of a server."""

import re

import trio
from msgspec import Struct
from trio.testing import MockClock, memory_stream_pair

from heddle.server.http import Answer, Limits, Refusal, Request, Response, Server
from tests.fuzz.target import Target, cut

LIMITS = Limits(linger_timeout=0.0, body=512)


class Accepted(Struct, frozen=True):
    """A request as a handler saw it."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...]
    headers: tuple[tuple[str, str], ...]
    body: bytes


class Report:
    """Remembers what must not be."""

    def __init__(self) -> None:
        self.crashes: list[Exception] = []

    def refused(self, refusal: Refusal, client: str) -> None:
        """As it should be."""
        assert str(refusal)
        assert 400 <= refusal.status < 600

    def crashed(self, request: Request | None, error: Exception) -> None:
        """A bug."""
        self.crashes.append(error)

    def accept_failed(self, error: OSError) -> None:
        """Nothing is accepted here."""


async def serve(pieces: list[bytes]) -> tuple[list[Accepted], bytes]:
    """The requests in these bytes, and all that is answered."""
    found: list[Accepted] = []

    async def handler(request: Request) -> Answer:
        body = await request.read()
        query, headers = tuple(request.query), tuple(request.headers)
        found.append(Accepted(request.method, request.path, query, headers, body))
        return Response(200, (), b"ok")

    report = Report()
    server = Server(handler, limits=LIMITS, report=report)
    ours, theirs = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        nursery.start_soon(server.serve_stream, theirs)
        try:
            for piece in pieces:
                await ours.send_all(piece)
                await trio.testing.wait_all_tasks_blocked()
            assert isinstance(ours, trio.StapledStream)
            await ours.send_eof()
        except trio.BrokenResourceError:
            pass
        answered = b""
        try:
            while piece := bytes(await ours.receive_some()):
                answered += piece
        except trio.BrokenResourceError:
            pass
        nursery.cancel_scope.cancel()
    if report.crashes:
        raise report.crashes[0]
    return found, answered


def read(data: bytes) -> None:
    """Any bytes are requests or refusals; how they are cut changes neither."""
    pieces = [each for each in cut(data) if each]
    accepted, answered = _run(pieces)
    at_once, answered_at_once = _run([b"".join(pieces)] if pieces else [])
    assert accepted == at_once
    assert _outcomes(answered) == _outcomes(answered_at_once)


def _run(pieces: list[bytes]) -> tuple[list[Accepted], bytes]:
    return trio.run(serve, pieces, clock=MockClock(autojump_threshold=0))


def _outcomes(answered: bytes) -> list[bool]:
    """Whether each request was taken; which of its faults is told depends on the cuts."""
    statuses = re.findall(rb"HTTP/1.1 (\d+) [A-Z]", answered)
    return [each == b"200" for each in statuses if each != b"100"]


HTTP_REQUESTS = Target(
    read,
    seeds=(
        b"\x00GET /a%20b?c=d&e HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x09POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhiGET / HTTP/1.1\r\n"
        b"Host: x\r\nConnection: close\r\n\r\n",
        b"\x05POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"2;a=b\r\nhi\r\n0\r\nT: u\r\n\r\n",
        b"\x00POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
        b"Content-Length: 3\r\n\r\nabc",
        b"\x00GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    ),
    words=(
        *(
            b"GET ",
            b"POST ",
            b"OPTIONS * ",
            b" HTTP/1.1\r\n",
            b" HTTP/1.0\r\n",
            b"\r\n\r\n",
        ),
        *(
            b"Host: x\r\n",
            b"Content-Length: ",
            b"Transfer-Encoding: chunked\r\n",
            b"%2e%2e",
        ),
        *(
            b"Expect: 100-continue\r\n",
            b"Connection: upgrade\r\n",
            b"Upgrade: websocket\r\n",
        ),
        *(b"0\r\n\r\n", b"18446744073709551616", b"http://x/", b"\n", b"\t", b"%00", b"//"),
    ),
    longest=1024,
)
