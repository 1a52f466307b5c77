"""The WebSocket of a server: frames and messages of a client, after its handshake."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import trio
from trio.testing import memory_stream_pair, wait_all_tasks_blocked

from heddle.installation import NOTHING
from heddle.launch import RunOptions
from heddle.server.http import Refusal, Request, Server
from heddle.server.routes.table import Front
from heddle.server.serve import Loaded, open_service
from heddle.server.settings import Settings
from tests.fuzz.target import Target, cut
from tests.support.flows import end, flow, prop, start

LOADED = Loaded(Settings(max_body=4096), RunOptions(timeout=5.0), NOTHING)
OPENING = (
    b"GET /v1/stream HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
    b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: %b\r\n\r\n" % base64.b64encode(bytes(16))
)
PATIENCE = 10.0
"""Seconds. Who hangs up is waited for no longer. On a clock that jumps, nothing would be
told by it: it jumps as well while threads are at work."""


class Quiet:
    """A log and a report that keep crashes alone."""

    def __init__(self) -> None:
        self.crashes: list[Exception] = []

    def say(self, level: str, event: str, **fields: Any) -> None:
        """As of `ServerLog`."""
        assert level != "error", fields

    def plugin(self, line: object) -> None:
        """As of `ServerLog`."""

    def refused(self, refusal: Refusal, client: str) -> None:
        """Not here: the handshake is good."""

    def crashed(self, request: Request | None, error: Exception) -> None:
        """A bug."""
        self.crashes.append(error)

    def accept_failed(self, error: OSError) -> None:
        """Nothing is accepted here."""


async def talk(pieces: list[bytes]) -> bytes:
    """Send these to a server behind a handshake, and hang up; all that it says."""
    quiet, said = Quiet(), bytearray()
    ours, theirs = memory_stream_pair()

    async def listen() -> None:
        try:
            while data := bytes(await ours.receive_some()):
                said.extend(data)
        except trio.BrokenResourceError:
            pass

    with trio.fail_after(PATIENCE):
        async with open_service(LOADED, quiet) as service:
            server = Server(Front(service, None), report=quiet)
            async with trio.open_nursery() as nursery:
                await nursery.start(server.run)
                async with trio.open_nursery() as both:
                    both.start_soon(server.serve_stream, theirs)
                    both.start_soon(listen)
                    try:
                        for piece in (OPENING, *pieces):
                            await ours.send_all(piece)
                            await wait_all_tasks_blocked()
                        assert isinstance(ours, trio.StapledStream)
                        await ours.send_eof()
                    except trio.BrokenResourceError:
                        pass
                assert service.sockets == 0
                await service.runs.wait_empty()
                nursery.cancel_scope.cancel()
    if quiet.crashes:
        raise quiet.crashes[0]
    return bytes(said)


def frames(data: bytes) -> None:
    """Any bytes behind the handshake are answered by frames, or end the connection."""
    said = trio.run(talk, cut(data))
    check(said)


def messages(data: bytes) -> None:
    """Any messages are answered by messages, one line each."""
    pieces = [frame(line) for line in data.split(b"\n")]
    check(trio.run(talk, pieces))


def frame(payload: bytes, opcode: int = 0x81) -> bytes:
    """A whole message of a client, with a mask of zeros."""
    length = len(payload)
    short = length < 126
    head = bytes((opcode, 0x80 | (length if short else 126)))
    return head + (b"" if short else length.to_bytes(2)) + bytes(4) + payload


def check(said: bytes) -> None:
    """A server says whole frames: JSON that tells what it is, pongs, and a close."""
    head, _, rest = said.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101 ")
    closed = False
    for opcode, payload in _frames(rest):
        assert not closed, "something follows a close"
        if opcode == 0x81:
            told = msgspec.json.decode(payload)
            for each in told if isinstance(told, list) else [told]:
                assert isinstance(each["type"], str)
        else:
            assert opcode in (0x88, 0x89, 0x8A)
        closed = opcode == 0x88


def _frames(data: bytes) -> Iterator[tuple[int, bytes]]:
    while data:
        opcode, length, at = data[0], data[1], 2
        assert length < 128, "a server masks nothing"
        if length >= 126:
            at = 4 if length == 126 else 10
            length = int.from_bytes(data[2:at])
        assert at + length <= len(data), "half a frame"
        yield opcode, data[at : at + length]
        data = data[at + length :]


def _lines(*asked: Any) -> bytes:
    return b"\n".join(json.dumps(each, separators=(",", ":")).encode() for each in asked)


RUN = {
    "type": "run",
    "ref": "a",
    "flow": flow([start(inputs=[prop("x")]), end()], ["start", "end"]),
    "inputs": {"x": "y"},
}

SOCKET_MESSAGES = Target(
    messages,
    seeds=(
        _lines({"type": "ping", "n": 1}, {"type": "auth", "token": "x"}),
        _lines(RUN, {"type": "subscribe", "run": "r", "from": 1}),
        _lines({"type": "watch"}, {"type": "unwatch"}, {"type": "cancel", "run": "r"}),
        _lines(
            {**RUN, "detach": True, "trace": False}, {"type": "unsubscribe", "run": "r"}
        ),
    ),
    words=(
        *(
            b'{"type":"run",',
            b'"ref":',
            b'"flow":',
            b'"inputs":',
            b'"detach":',
            b'"trace":',
        ),
        *(b'"run":', b'"from":', b'"n":', b"null", b"true", b"1e999", b"-1", b"[[[[[[[[[["),
        *(
            b"\\ud800",
            b'"flowPath":',
            b'"tools":',
            b'"plugins":',
            b'"type":',
            b"\xff",
            b"\n",
        ),
    ),
    longest=3000,
)
SOCKET_FRAMES = Target(
    frames,
    seeds=(
        b"\x00"
        + frame(b'{"type":"ping","n":1}')
        + frame(b"", 0x89)
        + frame(b"\x03\xe8", 0x88),
        b"\x02" + frame(b'{"type":', 0x01) + frame(b'"ping"}', 0x80),
        b"\x00\x81\x05hello",
        b"\x00\x81\xff" + (2**40).to_bytes(8) + b"abcd",
    ),
    words=(
        *(
            b"\x81\x80abcd",
            b"\x01\x80abcd",
            b"\x00\x80abcd",
            b"\x80\x80abcd",
            b"\x88\x82abcd",
        ),
        *(
            b"\x89\x80abcd",
            b"\x82\x80abcd",
            b"\xc1\x80abcd",
            b"\x81\xfe\x00\x7eabcd",
            b"\xff",
        ),
    ),
    longest=1024,
)
