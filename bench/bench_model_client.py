"""How many model calls per second the client makes, beside a bare loop on the same stub.

Question: does the model client stay off the critical path of a run?
Workload: 32 tasks that call one model over kept connections, buffered, streamed in one
          write, and streamed in five; the stub is a process of its own.
Answer:   calls/s as a share of a bare httptools loop's, which encodes the same request,
          reads and decodes the same answers, and has no limits, time-outs, pools, errors
          or cancellation.
"""

import contextlib
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import httptools
import msgspec
import trio

from bench.harness import Answer, against_floor, alternate
from bench.model_answers import BUFFERED, STREAMED, TEXT
from heddle.models import HttpEndpoint, ModelClient
from heddle.models.dialects import DIALECTS, request_head
from heddle.models.endpoint import Origin
from plugins_host import Message, ModelRequest

TASKS: Final = 32
CALLS: Final = 100


def serve() -> None:
    """The stub: no parser, one loop, the next write of a paced answer in the next turn."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    poll = select.epoll()
    poll.register(listener.fileno(), select.EPOLLIN)
    poll.register(sys.stdin.fileno(), select.EPOLLIN)
    open_sockets: dict[int, socket.socket] = {}
    owed: list[tuple[socket.socket, int]] = []
    while True:
        due, owed = owed, []
        for sock, number in due:
            with contextlib.suppress(OSError):
                sock.send(STREAMED[number])
            if number + 1 < len(STREAMED):
                owed.append((sock, number + 1))
        for number, _ in poll.poll(0 if owed else -1):
            if number == sys.stdin.fileno():
                return
            if number == listener.fileno():
                sock, _ = listener.accept()
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                open_sockets[sock.fileno()] = sock
                poll.register(sock.fileno(), select.EPOLLIN)
                continue
            sock = open_sockets[number]
            asked = sock.recv(65536)
            if not asked:
                poll.unregister(number)
                open_sockets.pop(number).close()
            elif b"/paced" in asked[:40]:
                sock.send(STREAMED[0])
                owed.append((sock, 1))
            elif b'"stream":true' in asked:
                sock.send(b"".join(STREAMED))
            else:
                sock.send(BUFFERED)


@contextlib.contextmanager
def stub() -> Iterator[int]:
    """The port of a stub in its own process, which ends with the block."""
    with subprocess.Popen(
        [sys.executable, "-m", "bench.bench_model_client"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.stdin.close()
            process.wait()


class _Bare:
    """The floor: one connection, one answer at a time."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.parser = httptools.HttpResponseParser(self)
        self.pieces: list[bytes] = []
        self.complete = False

    def on_body(self, piece: bytes) -> None:
        self.pieces.append(piece)

    def on_message_complete(self) -> None:
        self.complete = True

    async def call(self, request: bytes) -> bytes:
        self.socket.send(request)
        self.pieces.clear()
        self.complete = False
        while not self.complete:
            await trio.lowlevel.wait_readable(self.socket)
            self.parser.feed_data(self.socket.recv(65536))
        return b"".join(self.pieces)


_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode


def _buffered_text(body: bytes) -> str:
    text: str = _decode(body)["choices"][0]["message"]["content"]
    return text


def _streamed_text(body: bytes) -> str:
    return "".join(
        _decode(event[6:])["choices"][0]["delta"]["content"]
        for event in body.split(b"\n\n")
        if event and event != b"data: [DONE]"
    )


REQUEST: Final = ModelRequest(
    model="stub",
    messages=(
        Message("system", "You are a helpful assistant. Answer shortly."),
        Message("user", "Say something about foxes and dogs. " * 4),
    ),
    temperature=0.2,
)


def floor_rate(port: int, target: str, *, streamed: bool) -> float:
    """Calls a second of the bare loop."""
    endpoint = _endpoint(port, target)
    encoded = DIALECTS["chat_completions"].encode(REQUEST, streamed, "max_tokens")
    asked = msgspec.json.decode(encoded)
    head = request_head(endpoint, None)
    read = _streamed_text if streamed else _buffered_text

    async def main() -> float:
        idle = [_Bare(port) for _ in range(TASKS)]

        async def task(calls: int) -> None:
            bare = idle.pop()
            for _ in range(calls):
                body = _encode(asked)
                request = b"%b%d\r\n\r\n%b" % (head, len(body), body)
                assert read(await bare.call(request)) == TEXT * 5
            idle.append(bare)

        try:
            return await _timed(task)
        finally:
            for bare in idle:
                bare.socket.close()

    return trio.run(main)


def client_rate(port: int, target: str, *, streamed: bool) -> float:
    """Calls a second of the model client."""
    endpoint = _endpoint(port, target)

    async def main() -> float:
        async with ModelClient(environ={}) as client:

            async def task(calls: int) -> None:
                for _ in range(calls):
                    pieces: list[str] = []
                    response = await client.chat(
                        endpoint, REQUEST, on_text=pieces.append if streamed else None
                    )
                    assert response.content == TEXT * 5
                    assert len(pieces) == (5 if streamed else 0)

            return await _timed(task)

    return trio.run(main)


async def _timed(task: Callable[[int], Any]) -> float:
    """Calls a second, after a first round that opens the connections."""
    start = 0.0
    for calls in (1, CALLS):
        start = time.perf_counter()
        async with trio.open_nursery() as nursery:
            for _ in range(TASKS):
                nursery.start_soon(task, calls)
    return TASKS * CALLS / (time.perf_counter() - start)


def _endpoint(port: int, target: str) -> HttpEndpoint:
    return HttpEndpoint(
        name="bench", origin=Origin("http", "127.0.0.1", port), target=target
    )


CASES: Final = (
    ("buffered", "/v1/chat/completions", False, 0.5),
    ("streamed", "/v1/chat/completions", True, 0.5),
    ("streamed.paced", "/paced", True, None),
)


def run() -> Iterator[Answer]:
    """The answers."""
    with stub() as port:
        for name, target, streamed, limit in CASES:
            ours, floor = alternate(
                partial(client_rate, port, target, streamed=streamed),
                partial(floor_rate, port, target, streamed=streamed),
            )
            yield against_floor(
                f"model_client.{name}",
                ours,
                "calls/s",
                floor=floor,
                limit=limit,
                better="higher",
                detail={"tasks": TASKS, "microseconds": round(1e6 / ours, 1)},
            )


if __name__ == "__main__":
    serve()
