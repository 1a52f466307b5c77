"""What a crowd costs heddle-server: many waiting runs, many readers, many runs one by one.

Question: how much memory is a run that waits with a reader, and does memory grow with the
          runs of a day? Does a hundred readers slow the run that they follow? How long does
          a cancelled run keep its slot? What do the settings of the collector do?
Workload: 1,000 runs that wait for a model, an SSE reader each. Short runs are sent to a
          server that is full of them until one is let in, once one of them was cut off;
          32 connections go on beside them, with and without the collector's settings.
          100,000 runs in a loop. A run of 10,000 events whose model answers at once, with
          1 and 100 WebSocket readers.
Answer:   KiB a waiting run; ms until a slot is free; p99 over that without the settings;
          how far resident memory went in the second half of the loop; events/s delivered,
          and the time of the run with 100 readers over that with one.
"""

import contextlib
import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from http.client import HTTPConnection
from typing import Any, Final

from bench.bench_server import CONNECTIONS, body, server
from bench.harness import Answer, against_floor, median, percentile
from bench.http_load import request
from bench.place import Place
from bench.processes import Process, Served, process, resident
from tests.support.flows import end, flow, start

WAITING: Final = 1_000
CANCELLED: Final = 50
RUNS: Final = 100_000
SAMPLES: Final = 20
EVENTS: Final = 10_000
READERS: Final = 100
FOLLOWED: Final = 5

SHORT: Final = json.dumps({"flow": flow([start(), end()], ["start", "end"])}).encode()

# As if nobody had thought of the collector.
UNTUNED: Final = "import gc; gc.freeze = gc.set_threshold = lambda *_: None"


def hold(port: int, sent: bytes) -> socket.socket:
    """A run that waits for its model, with its stream open and read so far."""
    sock = socket.create_connection(("127.0.0.1", port))
    sock.sendall(request(Place(port), "/v1/runs?stream=true", sent))
    told = b""
    while told.count(b"event: node_start") < 2:
        data = sock.recv(65536)
        assert data, told
        told += data
    return sock


def ask(port: int, method: str, path: str, sent: bytes | None = None) -> tuple[int, Any]:
    """The status and JSON of one request."""
    connection = HTTPConnection("127.0.0.1", port)
    try:
        headers = {} if sent is None else {"Content-Type": "application/json"}
        connection.request(method, path, sent, headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def waiting(client: Process, stub: int) -> Iterator[Answer]:
    """Memory of runs that wait, how soon a slot is free, and the collector."""
    held = body(stub, "hold").encode()
    busy = {"path": "/v1/runs", "body": body(stub), "seconds": 1.5}
    p99: list[float] = []
    for before in ("", UNTUNED):
        room = WAITING + CONNECTIONS
        with server(most=room, before=before) as served, contextlib.ExitStack() as stack:
            _load(client, served, **busy)
            empty = resident(served.pid)
            socks = [hold(served.port, held) for _ in range(WAITING)]
            for sock in socks:
                stack.callback(sock.close)
            kib = (resident(served.pid) - empty) / WAITING / 1024
            rounds = [_load(client, served, **busy)["p99"] for _ in range(3)]
            p99.append(median(rounds))
            if before:
                continue
            yield Answer("server.waiting run", kib, "KiB", limit=120)
            for _ in range(CONNECTIONS):
                socks.append(hold(served.port, held))
                stack.callback(socks[-1].close)
            took = [
                _until_free(served.port, socks[each], held) for each in range(CANCELLED)
            ]
        yield Answer(
            "server.slot of a cancelled run",
            percentile(took, 1) * 1e3,
            "ms",
            limit=100,
            detail={"p50_ms": round(median(took) * 1e3, 2), "waiting": room},
        )
    yield against_floor("server.p99 beside 1,000 waiting runs", p99[0], "ms", floor=p99[1])


def _load(client: Process, served: Served, **how: Any) -> dict[str, float]:
    answer: dict[str, float] = client.ask(
        {"place": {"port": served.port}, "connections": CONNECTIONS, **how}
    )
    return answer


def _until_free(port: int, sock: socket.socket, held: bytes) -> float:
    """Seconds from hanging up until another is let in; then the place is taken again."""
    assert ask(port, "POST", "/v1/runs", SHORT)[0] == 429
    begin = time.perf_counter()
    sock.close()
    while ask(port, "POST", "/v1/runs", SHORT)[0] != 200:
        pass
    took = time.perf_counter() - begin
    # Kept open by the server's side of it alone: it is there until the server ends.
    hold(port, held).detach()
    return took


def loop(client: Process, stub: int) -> Iterator[Answer]:
    """Memory over the runs of a day."""
    with server() as served:
        sizes = []
        for _ in range(SAMPLES):
            _load(client, served, path="/v1/runs", body=body(stub), count=RUNS // SAMPLES)
            sizes.append(resident(served.pid))
    second = sizes[SAMPLES // 2 :]
    yield against_floor(
        "server.memory over 100,000 runs",
        max(second) / 2**20,
        "MiB",
        floor=second[0] / 2**20,
        limit=1.05,
        detail={"first_mib": round(sizes[0] / 2**20, 1)},
    )


def followed(
    served: Served,
    stub: Process,
    port: int,
    readers: int,
    *,
    meanwhile: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
) -> tuple[float, float]:
    """Seconds of the run, and events/s delivered to all its readers.

    ``meanwhile`` is entered when all follow it and before its model answers.
    """
    sent = body(port, f"long {EVENTS}").encode()
    status, begun = ask(served.port, "POST", "/v1/runs?detach=true", sent)
    assert status == 202, begun
    with process("bench.socket_readers") as client:
        place = {"port": served.port}
        asked = {"place": place, "run": begun["run"], "readers": readers}
        assert client.ask(asked) == {"following": readers}
        assert stub.line() == b"held\n"
        with meanwhile():
            begin = time.time()
            stub.tell(b"go")
            told = client.answer()
    _, shown = ask(served.port, "GET", f"/v1/runs/{begun['run']}")
    assert shown["status"] == "completed", shown
    assert told["complete"] == readers, told
    assert told["events"] >= readers * EVENTS, told
    took = shown["startedAt"] + shown["seconds"] - begin
    return took, told["events"] / told["seconds"]


def crowd(stub: Process, port: int) -> Iterator[Answer]:
    """A hundred readers beside one."""
    with server() as served:
        alone, many, rates = [], [], []
        for number in range(FOLLOWED + 1):
            one, _ = followed(served, stub, port, 1)
            all_of_them, rate = followed(served, stub, port, READERS)
            if number:
                alone.append(one)
                many.append(all_of_them)
                rates.append(rate)
    yield against_floor(
        "server.run with 100 readers",
        median(many) * 1e3,
        "ms",
        floor=median(alone) * 1e3,
        limit=1.5,
        detail={"events": EVENTS},
    )
    yield Answer(
        "server.delivered to 100 readers",
        median(rates),
        "events/s",
        limit=100_000,
        better="higher",
    )


def run() -> Iterator[Answer]:
    """All of it."""
    with process("bench.model_stub") as stub, process("bench.http_load") as client:
        port = int(stub.line())
        yield from crowd(stub, port)
        yield from waiting(client, port)
        yield from loop(client, port)
