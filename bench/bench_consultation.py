"""What a consultation costs beyond a bare line that goes to the same process and back.

Question: how long does a policy in a process of its own make a run wait, alone and with a
          hundred runs at once, with large states, and when there are several policies?
Workload: policies that let everything be, in a child that reads lines, writes lines and
          does nothing else; the same child answers the floor's bare echoes. Inputs of 200
          bytes and of 500 KB, 1 and 100 callers, and four policies at the eight halves
          that ten nodes meet, asked in one frame each or one by one.
Answer:   p50 of one consultation, consultations/s, p99 over p50, and the time of a whole
          flow's consultations over that of as many bare round trips. The floor uses raw
          pipes, one reader, coalesced writes and parked tasks, as heddle does, and has no
          protocol, deadlines, cancellation or chain. The children have a core of their own.
"""

import gc
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
import outcome
import trio
from msgspec import Raw, Struct

from bench.harness import Answer, median, percentile
from bench.placement import on_cores
from plugins_host import (
    SEAMS,
    Asking,
    Chain,
    Fleet,
    Half,
    Link,
    NodeSubject,
    Payload,
    PipeInlet,
    PipeOutlet,
    PluginProgram,
    Seam,
    Subject,
    Succeeded,
    ToolSubject,
    open_pipe,
)

# Looks at a line's beginning and answers; reads all there is and writes all it has. Reads
# of a pipe's usual 64 KiB: a buffer of 1 MiB comes fresh from the system each time, which
# made this child, and with it the floor, cost almost twice as much for small lines.
CHILD: Final = r"""
import os, re, sys
features = b'["consult"]' if "consult" in sys.argv else b"[]"
find = re.compile(rb'\{"id":(\d+),"method":"([a-z]+)"').match
names = re.compile(rb'"componentType":"(\w+)"').findall
consent = lambda line: b'pass' if b'"outcome":' in line else b'proceed'
one = b'{"componentType":"%b","verdict":{"action":"%b"}}'
known = {}
pieces = []
while True:
    data = os.read(0, 1 << 16)
    if not data:
        break
    end = data.rfind(b"\n")
    if end < 0:
        pieces.append(data)
        continue
    lines = (b"".join(pieces) + data[:end]).split(b"\n")
    pieces = [data[end + 1:]]
    out = []
    for line in lines:
        found = find(line)
        if found[2] == b"init":
            answer = b'{"id":%b,"result":{"protocol":1,"features":%b}}\n'
            out.append(answer % (found[1], features))
        elif found[2] == b"consult":
            asked = line[found.end():line.find(b',"subject"')]
            said = known.get(asked)
            if said is None:
                each = (one % (name, consent(line)) for name in names(asked))
                said = known[asked] = b",".join(each)
            out.append(b'{"id":%b,"result":{"verdicts":[%b]}}\n' % (found[1], said))
        else:
            action = consent(line[:400] if len(line) > 1000 else line)
            out.append(b'{"id":%b,"result":{"action":"%b"}}\n' % (found[1], action))
    view = memoryview(b"".join(out))
    while view:
        view = view[os.write(1, view):]
"""

Call = Callable[[], Awaitable[object]]

ENCODE: Final = msgspec.json.Encoder().encode


class Echo(Struct):
    """A bare request: an id and what is to be echoed."""

    id: int
    method: str
    params: Raw


class Echoed(Struct):
    """Its answer."""

    id: int
    result: Raw


ECHOES: Final = msgspec.json.Decoder(Echoed).decode_lines


class Floor:
    """A bare JSON-line echo: a request out, and the answer of the same id in."""

    def __init__(self, argv: Sequence[str]) -> None:
        stdin, to_stdin = open_pipe()
        from_stdout, stdout = open_pipe()
        self.child = subprocess.Popen(argv, stdin=stdin, stdout=stdout)
        os.close(stdin)
        os.close(stdout)
        self._to, self._from = PipeOutlet(to_stdin), PipeInlet(from_stdout)
        self._ids = itertools.count(1)
        self._out: list[bytes] = []
        self._waiting: dict[int, trio.lowlevel.Task] = {}
        self._writer: trio.lowlevel.Task | None = None

    async def call(self, value: object, method: str = "echo") -> Raw:
        """Send an object and wait for its echo, or for what a plugin answers to it."""
        id_ = next(self._ids)
        line = ENCODE(Echo(id_, method, Raw(ENCODE(value)))) + b"\n"
        if self._writer is not None and not self._waiting:
            line = line[self._to.write_nowait(line) :]
        if line:
            self._out.append(line)
        if self._out and self._writer is not None:
            writer, self._writer = self._writer, None
            trio.lowlevel.reschedule(writer)
        self._waiting[id_] = trio.lowlevel.current_task()
        echo: Raw = await trio.lowlevel.wait_task_rescheduled(_stay)
        return echo

    async def write(self) -> None:
        """Write all that waits at once."""
        while True:
            while self._out:
                data = memoryview(b"".join(self._out))
                self._out.clear()
                data = data[self._to.write_nowait(data) :]
                while data:
                    await self._to.wait_writable()
                    data = data[self._to.write_nowait(data) :]
            self._writer = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._stop)

    def _stop(self, _: object) -> trio.lowlevel.Abort:
        self._writer = None
        return trio.lowlevel.Abort.SUCCEEDED

    async def read(self) -> None:
        """Wake those whose echoes have come."""
        rest = b""
        while True:
            await self._from.wait_readable()
            data = rest + (self._from.read_nowait() or b"")
            end = data.rfind(b"\n") + 1
            rest = data[end:]
            for echo in ECHOES(data[:end]):
                task = self._waiting.pop(echo.id)
                trio.lowlevel.reschedule(task, outcome.Value(echo.result))

    def close(self) -> None:
        """End the child."""
        self._to.close()
        self._from.close()
        self.child.wait()


def _stay(_: object) -> trio.lowlevel.Abort:
    return trio.lowlevel.Abort.FAILED


async def one_caller(call: Call, count: int) -> list[float]:
    """Seconds of each of ``count`` calls, one after the other."""
    samples = []
    for _ in range(count):
        began = time.perf_counter()
        await call()
        samples.append(time.perf_counter() - began)
    return samples


async def many_callers(call: Call, callers: int, each: int) -> tuple[float, list[float]]:
    """Calls a second of this many callers at once, and the seconds of each call."""
    samples: list[float] = []

    async def caller() -> None:
        samples.extend(await one_caller(call, each))

    began = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for _ in range(callers):
            nursery.start_soon(caller)
    return callers * each / (time.perf_counter() - began), samples


EVERYWHERE: Final = {seam: frozenset(row.halves) for seam, row in SEAMS.items()}
NODE: Final = NodeSubject("ask", "AgentNode")
TOOL: Final = ToolSubject("ask", "AgentNode", "shell", "call_1")
SMALL: Final = Payload.of({"text": "x" * 189})
LARGE: Final = Payload.of({"text": "x" * 500_000})

# What a node with one model call and one tool call meets, without a failure.
MET: Final = [
    (seam, half)
    for seam in (Seam.NODE, Seam.MODEL_CALL, Seam.TOOL_CALL, Seam.AGENT_ROUND)
    for half in Half
]
NODES: Final = 10


async def measure(script: Path) -> list[Answer]:
    """All measurements, ours and the floor's taking turns."""
    python = (sys.executable, str(script))
    programs = [
        PluginProgram("alone", python, str(script.parent)),
        PluginProgram("together", (*python, "consult"), str(script.parent)),
    ]
    floor = Floor(python)
    answers: list[Answer] = []
    async with Fleet(programs, log=print) as fleet, trio.open_nursery() as nursery:
        nursery.start_soon(floor.write)
        nursery.start_soon(floor.read)
        await fleet.start()
        asking = Asking(None, print)
        gc.collect()
        gc.freeze()  # as heddle does once it has started

        def chain(plugin: str, policies: int) -> Chain:
            names = [f"P{number}" for number in range(policies)]
            asker = fleet[plugin]
            return Chain([Link(n, plugin, b"{}", EVERYWHERE, asker) for n in names])

        single = chain("alone", 1)

        def consult(payload: Payload) -> Call:
            # A payload of its own each time: to encode the state is part of the work.
            value = payload.value
            return lambda: single.before(Seam.NODE, NODE, Payload.of(value), asking)

        def bare(payload: Payload) -> Call:
            value = payload.value
            return lambda: floor.call(value)

        with on_cores(0, 1):
            small, large = (consult(SMALL), bare(SMALL)), (consult(LARGE), bare(LARGE))
            answers += await latencies("small", 2.5, *(alone(call, 200) for call in small))
            answers += await throughput(*(crowd(call) for call in small))
            answers += await latencies("500 KB", 1.5, *(alone(call, 10) for call in large))
            for plugin, frames in (("together", 1), ("alone", 4)):
                answers.append(
                    await whole_flow(chain(plugin, 4), asking, bare(SMALL), frames)
                )
        nursery.cancel_scope.cancel()
    floor.close()
    return answers


# Short turns, many of them: a busy machine then slows both sides of a pair alike, and the
# median of the pairs' ratios says what the sides have to do with each other.
PAIRS: Final = 25

Turn = Callable[[], Awaitable[tuple[float, list[float]]]]


def alone(call: Call, count: int) -> Turn:
    """A turn of one caller: the median of its calls in seconds, and all of them."""

    async def turn() -> tuple[float, list[float]]:
        samples = await one_caller(call, count)
        return median(samples), samples

    return turn


def crowd(call: Call) -> Turn:
    """A turn of a hundred callers: calls a second, and the seconds of each."""
    return lambda: many_callers(call, 100, 30)


async def take_turns(
    name: str,
    unit: str,
    ours: Turn,
    floor: Turn,
    *,
    scale: float = 1.0,
    limit: float | None,
    better: str = "lower",
) -> tuple[Answer, list[list[float]]]:
    """Both sides in turn; the answer, and the samples of each of our turns."""
    mine, theirs, samples = [], [], []
    for number in range(PAIRS + 1):
        gc.collect()
        (a, each), (b, _) = await ours(), await floor()
        if number:  # the first warms up
            mine.append(a)
            theirs.append(b)
            samples.append(each)
    value, bare = median(mine) * scale, median(theirs) * scale
    ratio = median([a / b for a, b in zip(mine, theirs, strict=True)])
    return Answer(f"consultation.{name}", value, unit, bare, ratio, limit, better), samples


async def latencies(name: str, limit: float, ours: Turn, floor: Turn) -> list[Answer]:
    """One caller."""
    answer, samples = await take_turns(
        f"{name}.p50", "µs", ours, floor, scale=1e6, limit=limit
    )
    p99 = median([percentile(turn, 0.99) for turn in samples]) * 1e6
    return [msgspec.structs.replace(answer, detail={"p99": p99})]


async def throughput(ours: Turn, floor: Turn) -> list[Answer]:
    """A hundred callers."""
    answer, samples = await take_turns(
        "100 callers", "/s", ours, floor, limit=0.6, better="higher"
    )
    tails = [percentile(turn, 0.99) / median(turn) for turn in samples]
    tail = Answer("consultation.100 callers.p99 over p50", median(tails), "x", limit=5.0)
    return [answer, tail]


async def whole_flow(chain: Chain, asking: Asking, floor: Call, frames: int) -> Answer:
    """Four policies at every half of ten nodes against as many bare round trips."""
    subjects: dict[Seam, Subject] = dict.fromkeys(Seam, NODE)
    subjects[Seam.TOOL_CALL] = TOOL
    given = Payload.of({"messages": [], "model": "m", "text": "x" * 150})
    outcome_ = Succeeded(given)

    async def flow() -> None:
        for _ in range(NODES):
            for seam, half in MET:
                if half is Half.BEFORE:
                    await chain.before(seam, subjects[seam], given, asking)
                else:
                    await chain.after(seam, subjects[seam], outcome_, asking, given=given)

    async def bare() -> None:
        for _ in range(NODES * len(MET) * frames):
            await floor()

    answer, _ = await take_turns(
        f"four policies, ten nodes, {'one frame' if frames == 1 else 'one by one'}",
        "ms",
        alone(flow, 1),
        alone(bare, 1),
        scale=1e3,
        limit=1.5 if frames == 1 else None,
    )
    trips = NODES * len(MET) * frames
    return msgspec.structs.replace(answer, detail={"frames": trips})


def run() -> Iterator[Answer]:
    """Measure, in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "child.py"
        script.write_text(CHILD)
        yield from trio.run(measure, script)
