"""How long a long body holds up the other callers of heddle-server.

Question: what do others wait while 8 MiB of JSON are read, and run?
Workload: 8 MiB of inputs with some 750,000 values, flat and as objects; of 8 levels with
          too many; of a flow; of nothing but empty lists. One connection asks for
          `/healthz` over and over meanwhile.
Answer:   ms of the slowest of those answers while the body is validated, and while it is
          run; beside them, how long the body itself took.
"""

import json
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Final

from bench.bench_server import server
from bench.harness import Answer, median
from tests.support.flows import end, flow, start

LENGTH: Final = 8 * 1024 * 1024
ROUNDS: Final = 3
_FLOW: Final = json.dumps(flow([start(), end()], ["start", "end"])).encode()
_INPUTS: Final = b'{"flow":' + _FLOW + b',"inputs":{"a":['
_DOCUMENT: Final = b'{"flow":{"component_type":"Flow","a":['


def filled(unit: bytes, head: bytes = _INPUTS) -> bytes:
    """A body of that length, of one value again and again."""
    count = (LENGTH - len(head) - 2) // (len(unit) + 1)
    return head + b",".join([unit] * count) + b"]}}"


BODIES: Final = {
    "flat": (filled(b"12345.6789"), 200),
    "objects": (filled(b'{"abc":12345678901234}'), 200),
    "deep": (filled(b"[" * 8 + b'"as deep as this"' + b"]" * 8), 413),
    "flow": (filled(b'{"component_type":"X"}', _DOCUMENT), 413),
    "too many": (filled(b"[]"), 413),
}


def beside(port: int, path: str, body: bytes, status: int) -> tuple[float, float]:
    """Seconds of the slowest other answer, and of the body's own."""
    own: list[float] = []

    def post() -> None:
        connection = HTTPConnection("127.0.0.1", port)
        begin = time.perf_counter()
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == status, answer.status
        own.append(time.perf_counter() - begin)
        connection.close()

    other = HTTPConnection("127.0.0.1", port)
    slowest = 0.0
    other.request("GET", "/healthz")
    other.getresponse().read()
    thread = threading.Thread(target=post)
    thread.start()
    while thread.is_alive():
        begin = time.perf_counter()
        other.request("GET", "/healthz")
        other.getresponse().read()
        slowest = max(slowest, time.perf_counter() - begin)
        time.sleep(0.001)
    thread.join()
    other.close()
    return slowest, own[0]


def run() -> Iterator[Answer]:
    """All of it."""
    with server() as served:
        for name, (body, status) in BODIES.items():
            for what, path in (("read", "/v1/validate"), ("run", "/v1/runs")):
                if what == "run" and status != 200:
                    continue
                rounds = [beside(served.port, path, body, status) for _ in range(ROUNDS)]
                yield Answer(
                    f"long_bodies.others beside {name}, {what}",
                    median([slowest for slowest, _ in rounds]) * 1e3,
                    "ms",
                    limit=50 if what == "read" else None,
                    detail={"own_ms": round(median([own for _, own in rounds]) * 1e3)},
                )
