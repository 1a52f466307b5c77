"""What it costs to draw a run on a terminal, and whether a flood of events does harm.

Question: does a picture slow the run that it is of, and is it right after a flood?
Workload: a run of 10,000 events: a map over 720 items, each of which asks a model over
          HTTP that answers at once, in five pieces, with a policy in a process of its own
          around every node; drawn on a pseudo-terminal of 100 columns and 40 rows whose
          reader keeps up, and not drawn, in turns and in one process. The same without a
          policy, and with a model inside heddle, where all that an event costs heddle are
          some microseconds.
          Then 10,000 events a second for four seconds: nodes, text, tool calls, warnings.
Answer:   how much more processor time the drawn run takes, by the least of each, as what
          runs beside the benchmark moves clocks on the wall; the share of a processor that
          drawing the flood takes, and MiB that its second half adds to the process. The
          screen that is left has to be the summary of the flood, or there is no answer.
"""

import os
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec
import pyte

from bench.harness import Answer, against_floor
from bench.processes import process
from bench.terminal_run import PACE, Drawn, Flooded

AUDIT = Path(__file__).parents[1] / "examples" / "policies" / "node_audit.json"
COLUMNS, ROWS = 100, 40
TERMINAL = {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}

ROUNDS = 9
ASKED, UNASKED, SCRIPTED = 720, 900, 300
"""Items, each of which is some events: 10,000 in all, and fewer of the cheapest."""
SECONDS = 4
"""How long the flood lasts."""

Told = TypeVar("Told", Drawn, Flooded)


def run() -> Iterator[Answer]:
    """Drawing a run, then a flood."""
    with process("bench.model_stub") as stub:
        url = f"http://127.0.0.1:{int(stub.line())}/v1"
        yield picture("terminal.run", ASKED, url, str(AUDIT))
        yield picture("terminal.run_unasked", UNASKED, url)
    yield picture("terminal.run_scripted", SCRIPTED, "scripted:")
    flooded, written = on_a_terminal(Flooded, "flood", str(SECONDS))
    assert_is_whole(written)
    yield Answer(
        "terminal.flood",
        (flooded.busy - flooded.bare) / flooded.seconds,
        "of a processor",
        limit=0.25,
        detail={
            "events/s": flooded.events / flooded.seconds,
            "written/s": len(written) / flooded.seconds,
        },
    )
    yield Answer("terminal.flood_memory", flooded.grown / 2**20, "MiB", limit=8)


def picture(name: str, items: int, url: str, *plugins: str) -> Answer:
    """A run drawn, against the same one not drawn."""
    drawn, _ = on_a_terminal(Drawn, "run", str(ROUNDS), str(items), url, *plugins)
    return against_floor(
        name,
        min(drawn.drawn_cpu) * 1e3,
        "ms",
        floor=min(drawn.bare_cpu) * 1e3,
        limit=1.10,
        detail={
            "events": drawn.events,
            "wall": min(drawn.drawn) / min(drawn.bare),
        },
    )


def on_a_terminal(kind: type[Told], *arguments: str) -> tuple[Told, bytes]:
    """What the program measured, and what it wrote to its terminal."""
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, (ROWS, COLUMNS))
    written = bytearray()

    def read() -> None:
        while True:
            try:
                data = os.read(master, 65536)
            except OSError:  # the last one who had it open is gone
                return
            written.extend(data)

    with subprocess.Popen(
        [sys.executable, "-m", "bench.terminal_run", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=slave,
        env={**os.environ, **TERMINAL},
    ) as program:
        os.close(slave)
        reader = threading.Thread(target=read)
        reader.start()
        told, _ = program.communicate()
        reader.join()
    os.close(master)
    if program.returncode:
        raise RuntimeError(written.decode(errors="replace"))
    return msgspec.json.decode(told, type=kind), bytes(written)


def assert_is_whole(written: bytes) -> None:
    """See that the screen is what a summary of the flood looks like."""
    screen = pyte.HistoryScreen(COLUMNS, ROWS, history=100, ratio=0.5)
    # pyte is slow: what is left is decided by the end, from where it draws anew.
    pyte.ByteStream(screen).feed(written[-200_000:])
    text = "\n".join(line.rstrip() for line in screen.display).rstrip()
    calls = PACE * SECONDS // 10
    assert f"{calls:,} tool calls" in text, text
    assert "weave" in text, text
    assert "more" in text, text
    assert text.count("✓ flow.json") == 1, text
