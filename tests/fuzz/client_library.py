"""What heddle's own client makes of a server's words: event streams, and a socket."""

import json
from contextlib import suppress
from functools import partial
from typing import Any

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from heddle.client.address import read_address
from heddle.client.entries import Missed
from heddle.client.exchange import Exchange
from heddle.client.faults import ClientFault, Unreachable
from heddle.client.socket import RunSocket
from heddle.client.streams import Begin, RunStream
from heddle.http import Connection
from tests.fuzz.http_answers import Script
from tests.fuzz.target import Target, cut
from tests.heddle.client.scripted import FakeSocket

NEXT = b"\n====\n"
"""What stands between one connection's bytes and the next one's."""


class Scripted(Exchange):
    """A way to a server that is bytes, a connection after another."""

    def __init__(self, scripts: list[bytes]) -> None:
        address = read_address("http://127.0.0.1:1")
        super().__init__(address, token=None, ca_file=None)
        self._scripts = scripts

    async def _connect(self, where: str) -> Connection:
        await trio.lowlevel.checkpoint()
        if not self._scripts:
            raise Unreachable("there is no more", where=where)
        return Connection(Script(cut(self._scripts.pop(0))), self._connections)


async def follow(data: bytes) -> None:
    """Read a run's entries; they count up without a hole, whatever comes."""
    exchange = Scripted(data[1:].split(NEXT))
    begins, refill = data[:1] < b"\x80", data[:1] < b"\x40"
    begin = Begin("/v1/runs?stream=true", b"{}") if begins else None
    run = "" if begins else "r1"
    stream = RunStream(exchange, begin=begin, run=run, resumes=not begins, refill=refill)
    last = 0
    with suppress(ClientFault):
        async with stream:
            async for entry in stream:
                first = entry.event.first if isinstance(entry.event, Missed) else entry.seq
                assert first == last + 1
                last = entry.seq
            await stream.result()
    exchange.close()
    assert exchange.open_connections == 0


def stream(data: bytes) -> None:
    """Any bytes are a run's entries, or a fault of the client's own kinds."""
    trio.run(follow, data, clock=MockClock(autojump_threshold=0))


async def carry(data: bytes) -> None:
    """Ask for what there is to ask for, while the socket says these lines."""
    ws = FakeSocket(data[1:].split(b"\n"))
    socket = RunSocket(ws, "here", refill=data[:1] < b"\x80")

    async def watched(run: Any) -> None:
        last = 0
        async for entry in run:
            first = entry.event.first if isinstance(entry.event, Missed) else entry.seq
            assert first == last + 1
            last = entry.seq
        await run.result()

    async def begun() -> None:
        with suppress(ClientFault):
            await watched(await socket.run({}, {}))

    async def followed() -> None:
        with suppress(ClientFault):
            await watched(await socket.follow("r2"))

    async def asked(question: Any) -> None:
        with suppress(ClientFault):
            await question()

    async with trio.open_nursery() as nursery:
        # In this order, so that their numbers are those of the seeds.
        for task in (begun, followed, partial(asked, socket.ping)):
            nursery.start_soon(task)
            await wait_all_tasks_blocked()
        nursery.start_soon(asked, partial(socket.cancel, "r3"))
        nursery.start_soon(socket.write)
        await socket.read()
        await wait_all_tasks_blocked()
        # Who waits is told; what writes would wait for ever.
        assert len(nursery.child_tasks) == 1
        nursery.cancel_scope.cancel()
    assert not socket.runs


def socket(data: bytes) -> None:
    """Any messages are entries, answers, or a fault of the client's own kinds."""
    trio.run(carry, data, clock=MockClock(autojump_threshold=0))


HEAD = (
    b"\x00HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nHeddle-Run: r1\r\n"
    b"Connection: close\r\n\r\n"
)


def _events(*events: Any, first: int = 1) -> bytes:
    return b"".join(
        b"id: %d\ndata: %b\n\n" % (number, json.dumps(event).encode())
        for number, event in enumerate(events, first)
    )


def _whole(status: bytes, body: Any) -> bytes:
    text = json.dumps(body).encode()
    head = (
        b"\x00HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    )
    return head % (status, len(text)) + text


TOKEN = {"type": "token_delta", "nodeName": "a", "delta": "x"}
OVER = {"type": "flow_complete", "state": {"n": 1}}
INFO = {
    "run": "r1",
    "flow": "f",
    "status": "completed",
    "startedAt": 1.0,
    "seconds": 1.0,
    "nodes": 1,
    "events": 2,
    "state": {},
}
LAGGED = b'event: lagged\ndata: {"missed":[2,3]}\n\n'

CLIENT_STREAMS = Target(
    stream,
    seeds=(
        b"\x00" + HEAD + _events(TOKEN, OVER),
        b"\x90" + HEAD + _events(TOKEN) + NEXT + HEAD + _events(OVER, first=2),
        b"\x20" + HEAD + _events(TOKEN) + LAGGED + _events(OVER, first=4),
        b"\x90" + HEAD + _events(TOKEN) + LAGGED + NEXT + _whole(b"200 OK", INFO),
        b"\x00" + _whole(b"429 No", {"error": {"type": "TooManyRuns", "message": "m"}}),
        b"\x00" + HEAD + b'event: error\ndata: {"error":{"type":"X","message":"m"}}\n\n',
    ),
    words=(
        *(
            NEXT,
            b"\n\n",
            b"id: 1\n",
            b"id: 2\n",
            b"data: ",
            b"event: lagged\n",
            b"\r\n\r\n",
        ),
        *(b"event: error\n", b'"missed":[1,2]', b'"type":', b'"state":', b"null", b"1e999"),
        *(b"HTTP/1.1 503 x\r\n", b"Content-Length: 0\r\n", b"plugin:x", b"\xff", b"[[[["),
    ),
)


def _lines(*messages: Any) -> bytes:
    return b"\x00" + b"\n".join(json.dumps(each).encode() for each in messages)


CLIENT_SOCKETS = Target(
    socket,
    seeds=(
        _lines(
            {"type": "accepted", "ref": "1", "run": "r1"},
            {"type": "event", "run": "r1", "seq": 1, "event": TOKEN},
            [
                {"type": "event", "run": "r1", "seq": 2, "event": OVER},
                {"type": "end", "run": "r1", "status": "completed", "state": {"n": 1}},
            ],
        ),
        _lines(
            {"type": "pong", "n": 2},
            {"type": "pong", "n": 3},
            {"type": "lagged", "run": "r2", "missed": [1, 4]},
            {"type": "event", "run": "r2", "seq": 5, "event": TOKEN},
            {"type": "pong", "n": 5},
            {
                "type": "end",
                "run": "r2",
                "status": "failed",
                "error": {"type": "X", "message": "m"},
            },
        ),
        _lines(
            {"type": "refused", "ref": "1", "status": 429, "error": {"message": "m"}},
            {"type": "error", "about": "subscribe", "run": "r2", "error": {}},
            {"type": "draining"},
            {"type": "newer"},
        ),
    ),
    words=(
        *(
            b'"type":',
            b'"run":',
            b'"r1"',
            b'"r2"',
            b'"r3"',
            b'"seq":',
            b'"event":',
            b'"ref":',
        ),
        *(b'"state":', b'"error":', b'"missed":[1,2]', b'"n":', b"null", b"1e999", b"[[[["),
        *(b'{"type":"pong","n":4}', b'"about":"cancel"', b"\xff", b"\n", b"-1", b"[]"),
    ),
)
