"""What a model's text costs on its way through a plugin beyond a line there and back.

Question: how long after a provider was free to write a batch of chunks has heddle's reader
          of the text all of it?
Workload: an answer of 200 batches of 8 chunks, each a word, from a provider in a process of
          its own that reads and writes lines and does nothing else. It writes a batch when
          a byte on a pipe says so; the byte is written when the text of the batch before
          has arrived, so that nothing overlaps. The same child answers bare echoes.
Answer:   the time of a batch over that of a bare round trip of the floor (raw pipes, one
          reader, parked tasks); p99 as a detail. Chunks a second when it writes them all
          at once stand beside it, without a limit.
"""

import gc
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import trio

from bench.bench_consultation import Floor, one_caller
from bench.harness import Answer, median, percentile
from plugins_host import (
    Fleet,
    Message,
    ModelRequest,
    PluginProgram,
    Served,
    chat,
)

BATCHES: Final = 200
CHUNKS: Final = 8
PAIRS: Final = 15

CHILD: Final = r"""
import os, re, sys
BATCHES, CHUNKS = 200, 8
go = os.open(sys.argv[1], os.O_RDONLY) if len(sys.argv) > 1 else None
find = re.compile(rb'\{"id":(\d+),"method":"([a-zA-Z]+)"').match
def write(data):
    view = memoryview(data)
    while view:
        view = view[os.write(1, view):]
rest = b""
while True:
    data = os.read(0, 1 << 16)
    if not data:
        break
    *lines, rest = (rest + data).split(b"\n")
    for line in lines:
        id, verb = find(line).groups()
        if verb == b"init":
            write(b'{"id":%b,"result":{"protocol":1}}\n' % id)
        elif verb == b"chat":
            piece = b'{"id":%b,"partial":{"content":"word "}}\n' % id
            batch = piece * CHUNKS
            paced = b'"at once"' not in line
            for _ in range(BATCHES):
                if paced:
                    os.read(go, 1)
                write(batch)
            write(b'{"id":%b,"result":{"finish_reason":"stop"}}\n' % id)
        else:
            write(b'{"id":%b,"result":{}}\n' % id)
"""

ASKED: Final = ModelRequest("m", (Message("user", "tell me " + "x" * 180),))


async def paced(served: Served, go: int) -> list[float]:
    """Seconds of each batch, from the byte that asks for it to its last piece of text."""
    samples: list[float] = []
    arrived = 0
    asked = time.perf_counter()

    def on_text(_piece: str) -> None:
        nonlocal arrived, asked
        arrived += 1
        if arrived % CHUNKS == 0:
            now = time.perf_counter()
            samples.append(now - asked)
            if len(samples) < BATCHES:
                asked = time.perf_counter()
                os.write(go, b".")

    async with trio.open_nursery() as nursery:

        async def first() -> None:
            nonlocal asked
            asked = time.perf_counter()
            os.write(go, b".")

        nursery.start_soon(first)
        answer = await chat(served, {"pace": "paced"}, ASKED, stream=True, on_text=on_text)
    assert answer.content == "word " * (BATCHES * CHUNKS)
    assert len(samples) == BATCHES
    return samples[1:]  # the first is asked for before the question has arrived


async def at_once(served: Served) -> float:
    """Chunks a second when nothing holds the provider back."""
    pieces: list[str] = []
    began = time.perf_counter()
    await chat(served, {"pace": "at once"}, ASKED, stream=True, on_text=pieces.append)
    taken = time.perf_counter() - began
    assert len(pieces) == BATCHES * CHUNKS
    return len(pieces) / taken


async def measure(script: Path, fifo: Path) -> list[Answer]:
    """Both sides in turn."""
    go = os.open(fifo, os.O_RDWR)
    python = (sys.executable, str(script))
    program = PluginProgram("model", (*python, str(fifo)), str(script.parent))
    floor = Floor(python)
    mine, theirs, tails, rates = [], [], [], []
    async with Fleet([program], log=print) as fleet, trio.open_nursery() as nursery:
        nursery.start_soon(floor.write)
        nursery.start_soon(floor.read)
        await fleet.start()
        served = Served("Model", "model", fleet["model"])
        gc.collect()
        gc.freeze()
        for number in range(PAIRS + 1):
            gc.collect()
            batches = await paced(served, go)
            bare = await one_caller(lambda: floor.call({"text": "x" * 189}), BATCHES)
            rate = await at_once(served)
            if number:  # the first warms up
                mine.append(median(batches))
                theirs.append(median(bare))
                tails.append(percentile(batches, 0.99))
                rates.append(rate)
        nursery.cancel_scope.cancel()
    floor.close()
    os.close(go)
    ratio = median([a / b for a, b in zip(mine, theirs, strict=True)])
    return [
        Answer(
            "provider.batch of 8 chunks",
            median(mine) * 1e6,
            "µs",
            median(theirs) * 1e6,
            ratio,
            1.5,
            detail={"p99": median(tails) * 1e6},
        ),
        Answer("provider.chunks at once", median(rates), "/s", better="higher"),
    ]


def run() -> Iterator[Answer]:
    """Measure, in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        script, fifo = Path(folder) / "child.py", Path(folder) / "go"
        script.write_text(CHILD)
        os.mkfifo(fifo)
        yield from trio.run(measure, script, fifo)
