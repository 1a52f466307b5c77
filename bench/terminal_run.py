"""A program whose stderr is a terminal, for `bench.bench_terminal`: what it draws costs.

    python -m bench.terminal_run run ROUNDS ITEMS URL [PLUGIN]   drawn and not, in turns
    python -m bench.terminal_run flood SECONDS                   events at a pace

Tells what it measured as one JSON object on stdout.
"""

import gc
import resource
import sys
import time
from collections.abc import Callable

import msgspec
import trio
from msgspec import Struct

from heddle import launch, preparing
from heddle.cli.live.reader import Live
from heddle.cli.reporting.readers import Reader, Silent
from heddle.cli.session import Session
from heddle.events import (
    Event,
    FlowCompleted,
    FlowStarted,
    NodeCompleted,
    NodeStarted,
    TokenDelta,
    ToolCalled,
    ToolReturned,
    Warned,
)
from heddle.policy_counts import PolicyCounts
from tests.support.flows import component, document, end, flow, inner, llm, model, start

PACE = 10_000
"""Events a second."""
STEP = 0.01
"""Seconds between two handfuls of events."""


class Drawn(Struct):
    """Seconds of each round, by the wall and by the processor."""

    drawn: list[float]
    bare: list[float]
    drawn_cpu: list[float]
    bare_cpu: list[float]
    events: int


class Flooded(Struct):
    """What a flood came to; memory in bytes, ``busy`` in seconds of the processor."""

    events: int
    seconds: float
    busy: float
    bare: float
    grown: int


class Counting(Silent):
    """Counts events and shows nothing."""

    def __init__(self) -> None:
        self.seen = 0

    def see(self, event: Event, /) -> None:  # noqa: ARG002
        """One more."""
        self.seen += 1


def answers(url: str) -> bytes:
    """A flow that asks a model for each of many items."""
    script = [{"content": " ".join(["word"] * 27)}]
    ask = inner(
        "one",
        [
            start(inputs=[{"title": "x", "type": "integer"}]),
            llm("ask", "{{x}}"),
            end(outputs=[{"title": "x", "type": "integer"}]),
        ],
        ["start", "ask", "end"],
    )
    each = component("MapNode", "each", subflow=ask)
    shared = [model(url, metadata={"script": script})]
    return document(flow([start(), each, end()], ["start", "each", "end"], shared=shared))


def timed(
    reader: Reader, prepared: preparing.Prepared, items: int, plugins: tuple[str, ...]
) -> tuple[float, float]:
    """Seconds that a run takes with this reader, by the wall and by the processor."""
    options = launch.RunOptions(
        inputs={"iterated_x": list(range(items))},
        max_iterations=10 * items,
        plugins=plugins,
    )
    session: Session[object] = Session(
        reader.outlets, animate=reader.animate, ended=reader.ended
    )

    async def execute() -> object:
        async with launch.open_engine(options, start_plugins=True) as engine:
            return await engine.run(prepared, options.inputs, reader.see, stream=True)

    gc.collect()
    gc.disable()
    wall, cpu = time.perf_counter(), time.process_time()
    trio.run(session.execute, execute)
    spent = time.perf_counter() - wall, time.process_time() - cpu
    gc.enable()
    return spent


def run(rounds: int, items: int, url: str, *plugins: str) -> Drawn:
    """So many rounds of the run with and without a picture, in turns."""
    prepared = preparing.prepare(answers(url), name="flow.json")
    counting = Counting()
    timed(counting, prepared, items, plugins)
    found = Drawn([], [], [], [], counting.seen)
    for number in range(rounds + 1):
        drawn = timed(Live("flow.json", PolicyCounts()), prepared, items, plugins)
        bare = timed(Silent(), prepared, items, plugins)
        if number:
            found.drawn.append(drawn[0])
            found.drawn_cpu.append(drawn[1])
            found.bare.append(bare[0])
            found.bare_cpu.append(bare[1])
    return found


def handful(number: int) -> list[Event]:
    """Ten events of one node: an answer, a tool call, sometimes a warning."""
    name = f"node-{number}"
    key = f"call-{number}"
    return [
        NodeStarted(name, "AgentNode", {}, 1),
        TokenDelta(name, "Once upon a time there was "),
        TokenDelta(name, "a weaver who 織 had a loom. "),
        TokenDelta(name, "It never stood still.\n" * 3),
        ToolCalled(name, "weave", {"thread": number}, key, 0.0, round=1),
        Warned(f"thread {number} is thin", name)
        if number % 100 == 0
        else TokenDelta(name, "."),
        ToolReturned(name, "weave", key, 0.001, tool_result={"cloth": 1}),
        TokenDelta(name, "Done. "),
        TokenDelta(name, "The end."),
        NodeCompleted(name, "AgentNode", {}, 1),
    ]


async def flooding(see: Callable[[Event], None], lasts: int) -> tuple[float, int]:
    """Events at `PACE`; how long it took, and how much memory the second half cost."""
    see(FlowStarted())
    began = trio.current_time()
    number = half = 0
    each = int(PACE * STEP) // 10
    for step in range(int(lasts / STEP)):
        for _ in range(each):
            number += 1
            for event in handful(number):
                see(event)
        if step == int(lasts / STEP) // 2:
            half = peak()
        await trio.sleep_until(began + (step + 1) * STEP)
    see(FlowCompleted({}))
    return trio.current_time() - began, peak() - half


def peak() -> int:
    """The most memory that the process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def flood(lasts: int) -> Flooded:
    """A flood of so many seconds drawn, and one that nobody looks at."""

    def through(reader: Reader) -> tuple[float, float, int]:
        session: Session[tuple[float, int]] = Session(
            reader.outlets, animate=reader.animate, ended=reader.ended
        )

        async def execute() -> tuple[float, int]:
            return await flooding(reader.see, lasts)

        cpu = time.process_time()
        seconds, grown = trio.run(session.execute, execute)
        return seconds, time.process_time() - cpu, grown

    _, bare, _ = through(Silent())
    seconds, busy, grown = through(Live("flow.json", PolicyCounts()))
    return Flooded(PACE * lasts, seconds, busy, bare, grown)


if __name__ == "__main__":
    what, size, *others = sys.argv[1:]
    if what == "flood":
        told: Struct = flood(int(size))
    else:
        items, *asked = others
        told = run(int(size), int(items), *asked)
    sys.stdout.buffer.write(msgspec.json.encode(told))
