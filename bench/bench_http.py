"""What our HTTP front costs over the bare parser, and what an idle client costs.

Question: how much of the speed of sockets and parser is left behind limits, time-outs,
          checks of every header, and watching for clients that go away?
Workload: 32 connections, each a small JSON document posted and echoed, over and over;
          then 4 pieces of an answer streamed; then 1,000 requests that wait, of which one
          after the other leaves; then 10,000 connections that do nothing.
          Server and load are processes of their own. The floor is a loop without any of
          the above: one task a connection, httptools, msgspec, a socket tried first.
Answer:   requests/s, p50/p99 milliseconds and microseconds of the server's processor time
          a request, alternating with the floor; milliseconds until the handler of a
          client that left is cancelled; KiB of memory a waiting and an idle connection.
"""

import contextlib
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import trio

from bench import bare
from bench.harness import Answer, against_floor, median, percentile

CONNECTIONS: Final = 32
SECONDS: Final = 0.6
ROUNDS: Final = 4
IDLE: Final = 10_000
WAITING: Final = 1_000
LEAVING: Final = 100

BODY: Final = msgspec.json.encode(
    {"flow": "greeting", "inputs": {"name": "Ada", "lines": ["a fox", "a dog"] * 3}}
)
REQUEST: Final = (
    b"POST %%b HTTP/1.1\r\nHost: 127.0.0.1:4319\r\nUser-Agent: bench/1.0\r\n"
    b"Accept: */*\r\nAuthorization: Bearer 0123456789abcdef\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
) % (len(BODY), BODY)
PIECES: Final = 4
PIECE: Final = b"data: " + BODY + b"\n\n"

_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode


class _Echo(bare.Bare):
    """One connection of the floor."""

    async def answer(self, body: bytes) -> None:
        body = _encode(_decode(body))
        if self.url == b"/streamed":
            self.sock.send(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n"
            )
            for _ in range(PIECES):
                self.sock.send(b"%x\r\n%b\r\n" % (len(PIECE), PIECE))
            self.sock.send(b"0\r\n\r\n")
        else:
            self.sock.send(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
            )


async def _floor() -> None:
    await bare.serve(_Echo)


async def _front() -> None:
    from heddle.server.http import (
        JSON,
        Request,
        Response,
        Server,
        StreamedResponse,
        Writer,
        bind,
    )

    async def stream(writer: Writer) -> None:
        for _ in range(PIECES):
            await writer.write(PIECE)

    left = trio.Event()

    async def wait() -> None:
        nonlocal left
        try:
            await trio.sleep_forever()
        finally:
            left.set()
            left = trio.Event()

    async def handler(request: Request) -> Response | StreamedResponse:
        if request.path == "/wait":
            await wait()
        if request.path == "/left":
            await left.wait()
        body = _decode(await request.read())
        if request.path == "/streamed":
            return StreamedResponse(200, (("Content-Type", "text/event-stream"),), stream)
        return Response(200, JSON, _encode(body))

    listeners = bind("127.0.0.1", 0)
    _say(str(listeners[0].port))
    await Server(handler, listeners).run()


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def serve(main: Callable[[], Any]) -> None:
    """A server, until its standard input ends."""

    async def until_told() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(main)
            await trio.lowlevel.wait_readable(0)
            nursery.cancel_scope.cancel()

    trio.run(until_told)


def load() -> None:
    """Ask as told by lines of standard input; write a line of what came of each."""
    for line in sys.stdin:
        port, path = line.split()
        _say(_encode(_load(int(port), path.encode())).decode())


def _load(port: int, path: bytes) -> dict[str, float]:
    """Ask over and over for a while. Answers are told by their end alone."""
    request = REQUEST % path
    end = b"0\r\n\r\n" if path == b"/streamed" else BODY
    took: list[float] = []
    sent: dict[int, float] = {}
    with contextlib.ExitStack() as stack:
        poll = select.epoll()
        stack.callback(poll.close)
        socks: dict[int, socket.socket] = {}
        for _ in range(CONNECTIONS):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            socks[sock.fileno()] = sock
            poll.register(sock.fileno(), select.EPOLLIN)
        begin = now = time.perf_counter()
        for number, sock in socks.items():
            sent[number] = time.perf_counter()
            sock.send(request)
        while sent:
            for number, _ in poll.poll():
                data = socks[number].recv(65536)
                assert data
                if data.endswith(end):
                    now = time.perf_counter()
                    took.append(now - sent.pop(number))
                    if now < begin + SECONDS:
                        sent[number] = now
                        socks[number].send(request)
    return {
        "rate": len(took) / (now - begin),
        "count": len(took),
        "p50": percentile(took, 0.5) * 1e3,
        "p99": percentile(took, 0.99) * 1e3,
    }


@contextlib.contextmanager
def _process(*arguments: str) -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(
        [sys.executable, "-m", "bench.bench_http", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        try:
            yield process
        finally:
            process.stdin.close()
            process.wait()


def _port(process: "subprocess.Popen[bytes]") -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


def _round(
    client: "subprocess.Popen[bytes]", pid: int, port: int, path: str
) -> dict[str, float]:
    before = _processor_seconds(pid)
    assert client.stdin is not None
    assert client.stdout is not None
    client.stdin.write(f"{port} {path}\n".encode())
    client.stdin.flush()
    answer: dict[str, float] = _decode(client.stdout.readline())
    answer["cpu"] = (_processor_seconds(pid) - before) / answer["count"] * 1e6
    return answer


def _compared(path: str, name: str, limit: float | None) -> Iterator[Answer]:
    with _process("front") as front, _process("floor") as floor, _process("load") as client:
        ports = {front.pid: _port(front), floor.pid: _port(floor)}
        rounds: dict[int, list[dict[str, float]]] = {front.pid: [], floor.pid: []}
        for number in range(ROUNDS + 1):
            for pid, port in ports.items():
                answer = _round(client, pid, port, path)
                if number:
                    rounds[pid].append(answer)
    ours, bare = (
        {key: median([one[key] for one in rounds[pid]]) for key in ("rate", "p50", "p99")}
        | {"cpu": median([one["cpu"] for one in rounds[pid]])}
        for pid in (front.pid, floor.pid)
    )
    yield against_floor(
        f"http.{name}",
        ours["rate"],
        "requests/s",
        floor=bare["rate"],
        limit=limit,
        better="higher",
        detail={
            "p50_ms": round(ours["p50"], 2),
            "p99_ms": round(ours["p99"], 2),
            "floor_p99_ms": round(bare["p99"], 2),
            "cpu_us": round(ours["cpu"], 1),
            "floor_cpu_us": round(bare["cpu"], 1),
        },
    )


def _idle() -> Iterator[Answer]:
    with _process("front") as front:
        port = _port(front)
        time.sleep(0.2)
        before = _resident(front.pid)
        with contextlib.ExitStack() as stack:
            socks = [
                stack.enter_context(socket.create_connection(("127.0.0.1", port)))
                for _ in range(IDLE)
            ]
            socks[-1].send(REQUEST % b"/")
            assert socks[-1].recv(65536).endswith(BODY)
            after = _resident(front.pid)
    yield Answer("http.idle", (after - before) / IDLE / 1024, "KiB/connection", limit=16)


def _leaving() -> Iterator[Answer]:
    with _process("front") as front, contextlib.ExitStack() as stack:
        port = _port(front)

        def connect(path: bytes) -> socket.socket:
            sock = socket.create_connection(("127.0.0.1", port))
            sock.send(REQUEST % path)
            return stack.enter_context(sock)

        def served() -> None:
            with connect(b"/") as sock:
                assert sock.recv(65536).endswith(BODY)

        served()
        before = _resident(front.pid)
        waiting = [connect(b"/wait") for _ in range(WAITING)]
        served()
        memory = (_resident(front.pid) - before) / WAITING / 1024
        took = []
        for sock in waiting[:LEAVING]:
            with connect(b"/left") as told:
                served()
                start = time.perf_counter()
                sock.close()
                assert told.recv(65536).endswith(BODY)
                took.append((time.perf_counter() - start) * 1e3)
    yield Answer(
        "http.leaving",
        percentile(took, 0.99),
        "ms",
        limit=100,
        detail={"p50_ms": round(median(took), 2), "waiting": WAITING},
    )
    yield Answer("http.waiting", memory, "KiB/request", limit=24)


def run() -> Iterator[Answer]:
    """The answers."""
    yield from _compared("/", "echo", 1 / 3)
    yield from _compared("/streamed", "streamed", 1 / 3)
    yield from _leaving()
    yield from _idle()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["front"]:
            serve(_front)
        case ["floor"]:
            serve(_floor)
        case ["load"]:
            load()
