"""How long a server takes from its start to the first request that it has answered.

Question: what does ``heddle-server`` add to the start of an interpreter with its libraries?
Workload: a server on a free port, asked for /healthz as soon as it says where it listens;
          the floor is ``python -c "import trio, msgspec, httptools"``, start to end. Both
          find their modules compiled.
Answer:   ms of wall time, medians of 11 rounds that take turns.
"""

import http.client
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial

from bench.harness import Answer, against_floor, alternate

ROUNDS = 11
LIMIT = 1.6
_COMMAND = ("-c", "from heddle.__main__ import server; exit(server())", "--port", "0")
_FLOOR = ("-c", "import trio, msgspec, httptools")


def run() -> Iterator[Answer]:
    """Both, in turns."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        mine, floor = alternate(
            partial(_answered, environment), partial(_imported, environment), rounds=ROUNDS
        )
        yield against_floor(
            "server_start", mine * 1e3, "ms", floor=floor * 1e3, limit=LIMIT
        )


def _answered(environment: dict[str, str]) -> float:
    """Seconds until a server has answered."""
    start = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, *_COMMAND], stderr=subprocess.PIPE, env=environment
    ) as process:
        assert process.stderr is not None
        try:
            found = re.search(rb"127\.0\.0\.1:(\d+)", process.stderr.readline())
            assert found, "the first line says where it listens"
            client = http.client.HTTPConnection("127.0.0.1", int(found[1]))
            client.request("GET", "/healthz")
            assert client.getresponse().status == 200
            client.close()
            return time.perf_counter() - start
        finally:
            process.terminate()


def _imported(environment: dict[str, str]) -> float:
    """Seconds of the floor."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *_FLOOR], check=True, env=environment)
    return time.perf_counter() - start
