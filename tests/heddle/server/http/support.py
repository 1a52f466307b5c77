"""A served handler and a client that writes bytes as a test wants them.

    async with serving(handler) as served:
        async with served.connect() as peer:
            await peer.send(b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
            answer = await peer.answer()

Answers are read with h11, which is strict about what a server may send.
"""

import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import h11
import msgspec
import trio
from msgspec import Struct
from trio.testing import lockstep_stream_pair, memory_stream_pair

from heddle.server.http import (
    JSON,
    Answer,
    Handler,
    Limits,
    Listener,
    Refusal,
    Request,
    Response,
    Server,
    bind,
)

HOST = b"Host: here\r\n"
GET = b"GET / HTTP/1.1\r\n" + HOST + b"\r\n"


def post(body: bytes, *headers: bytes, path: bytes = b"/") -> bytes:
    """A request with a body of known length."""
    lines = b"".join(line + b"\r\n" for line in headers)
    return b"POST %b HTTP/1.1\r\n%b%bContent-Length: %d\r\n\r\n%b" % (
        path,
        HOST,
        lines,
        len(body),
        body,
    )


async def echo(request: Request) -> Answer:
    """Answers with what was asked."""
    body = await request.read()
    said = {
        "method": request.method,
        "path": request.path,
        "query": list(request.query),
        "headers": list(request.headers),
        "body": body.decode("latin-1"),
    }
    return Response(200, JSON, msgspec.json.encode(said))


async def ok(request: Request) -> Answer:
    """Answers without looking."""
    return Response(200, (), b"ok")


class Got(Struct):
    """An answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def error(self) -> str:
        """The type of the error in the body."""
        found = self.json["error"]
        assert set(found) == {"type", "message"}
        return str(found["type"])


async def until(true: Callable[[], bool]) -> None:
    """Wait for something that nobody tells of."""
    while not true():  # noqa: ASYNC110  that is the point
        await trio.sleep(0.001)


class Peer:
    """A client on any stream. ``spare`` is what arrived behind the last answer."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.spare = b""

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def answer(self, method: str = "GET") -> Got:
        """The next answer, whole."""
        parser = h11.Connection(h11.CLIENT)
        parser.send(h11.Request(method=method, target="/", headers=[("Host", "x")]))
        parser.send(h11.EndOfMessage())
        if self.spare:
            parser.receive_data(self.spare)
            self.spare = b""
        got: h11.Response | None = None
        body = b""
        while True:
            event = parser.next_event()
            if event is h11.NEED_DATA:
                parser.receive_data(bytes(await self.stream.receive_some()))
            elif isinstance(event, h11.Response):
                got = event
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                break
            else:
                raise AssertionError(event)
        assert got is not None
        self.spare = parser.trailing_data[0]
        headers = {key.decode(): value.decode() for key, value in got.headers}
        assert len(headers) == len(list(got.headers))
        return Got(got.status_code, headers, body)

    async def rest(self) -> bytes:
        """All that comes until the server closes; a reset is an end too."""
        data = self.spare
        try:
            while piece := await self.stream.receive_some():
                data += piece
        except trio.BrokenResourceError:
            pass
        return data

    async def until(self, end: bytes) -> bytes:
        """What comes, up to ``end``."""
        while end not in self.spare:
            piece = await self.stream.receive_some()
            assert piece, self.spare
            self.spare += piece
        at = self.spare.index(end) + len(end)
        found, self.spare = self.spare[:at], self.spare[at:]
        return found


class Noted:
    """A report that remembers."""

    def __init__(self) -> None:
        self.refusals: list[Refusal] = []
        self.crashes: list[Exception] = []
        self.shortages: list[OSError] = []

    def refused(self, refusal: Refusal, client: str) -> None:
        self.refusals.append(refusal)

    def crashed(self, request: Request | None, error: Exception) -> None:
        self.crashes.append(error)

    def accept_failed(self, error: OSError) -> None:
        self.shortages.append(error)


class Served:
    """A server that runs. Unless a test looks at crashes itself, there must be none."""

    def __init__(
        self, server: Server, report: Noted, listeners: Sequence[Listener]
    ) -> None:
        self.server = server
        self.report = report
        self.listeners = listeners
        self.port = listeners[0].port
        self.ended = trio.Event()

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Peer]:
        """A client over TCP."""
        async with await trio.open_tcp_stream("127.0.0.1", self.port) as stream:
            stream.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield Peer(stream)


@asynccontextmanager
async def serving(
    handler: Handler,
    *,
    limits: Limits | None = None,
    listeners: Sequence[Listener] | None = None,
    crashes: bool = False,
) -> AsyncIterator[Served]:
    """A server on a port of its own until the block ends."""
    report = Noted()
    if listeners is None:
        listeners = bind("127.0.0.1", 0)
    server = Server(handler, listeners, limits=limits, report=report)
    async with trio.open_nursery() as nursery:
        served = Served(server, report, listeners)

        async def run(task_status: trio.TaskStatus[None]) -> None:
            await server.run(task_status=task_status)
            served.ended.set()

        await nursery.start(run)
        yield served
        nursery.cancel_scope.cancel()
    assert server.connections == 0
    if not crashes:
        assert report.crashes == []


@asynccontextmanager
async def in_memory(
    handler: Handler, *, limits: Limits | None = None, lockstep: bool = False
) -> AsyncIterator[tuple[Peer, Noted]]:
    """A client without a socket, so that time may jump.

    With ``lockstep`` what is sent waits for the other side to read it, else never.
    """
    report = Noted()
    server = Server(handler, limits=limits, report=report)
    ours, theirs = lockstep_stream_pair() if lockstep else memory_stream_pair()
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        nursery.start_soon(partial(server.serve_stream, theirs))
        yield Peer(ours), report
        nursery.cancel_scope.cancel()
    assert report.crashes == []
