"""What policies add to a whole run, and what those cost it that nobody asks.

Question: four policies of one process at every seam of a flow of ten nodes: how much longer
          does the run take? And what does a run pay for policies that it never meets?
Workload: the flow of `tests.conformance.policies.ten_nodes` with a model and tools that
          answer at once: 42 questions, one frame each. The policies consent, in plain
          functions over our Python and JavaScript runtimes, both warm as on a server. Then
          ten nodes with two model calls and no agent, beside policies of agents' rounds,
          tool calls and failures.
Answer:   the milliseconds that the policies add to a run, over 42 round trips of a bare
          JSON-line echo of 300 bytes to a child of the same runtime, the plugin on a core
          of its own; beside it the 42 questions asked bare, which tells the plugin's part
          of it from heddle's. The same with both on one core, where waking each other costs
          next to nothing and all work adds up. Then the time of a run with policies that
          nobody asks over that of the same run without, by pairs.
"""

import gc
import json
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import trio
from msgspec import Struct

from bench.bench_consultation import CHILD, Floor
from bench.harness import Answer, against_floor, median
from bench.placement import on_cores
from heddle.engine.gate import Policies
from heddle.engine.plan import Plan, make_plan
from heddle.engine.run import Run
from heddle.engine.testing import FakeModels, FakeTools
from heddle.engine.walk import Limits
from heddle.engine.work import Services
from heddle.installation import install, open_plugins
from heddle.spec import read_document
from plugins_host.loading.entry_point import RUNTIME
from tests.conformance.policies.ten_nodes import MET, TenNodes
from tests.support.flows import document, end, flow, llm, model, start, tool

NAMES: Final = ("Audit", "Budget", "Gate", "Limit")

PYTHON: Final = """
from heddle.plugin import pass_, proceed, serve

half = {"before": lambda event, ctx: proceed(), "after": lambda event, ctx: pass_()}
seams = dict.fromkeys(("nodeError", "node", "toolCall", "modelCall", "agentRound"), half)
serve(dict.fromkeys(("Audit", "Budget", "Gate", "Limit"), seams))
"""

JAVASCRIPT: Final = """
const half = { before: () => ({ action: 'proceed' }), after: () => ({ action: 'pass' }) };
const every = (names, value) => Object.fromEntries(names.map((name) => [name, value]));
const seams = every(['nodeError', 'node', 'toolCall', 'modelCall', 'agentRound'], half);
serve(every(['Audit', 'Budget', 'Gate', 'Limit'], seams));
"""

# The bare echo in JavaScript, with reads and writes that no stream is between; `CHILD` is
# the one in Python.
ECHO: Final = r"""
import { writeSync } from 'node:fs';
import { Socket } from 'node:net';

let cut = '';
const buffer = Buffer.alloc(65536);
const callback = (length) => {
  const lines = (cut + buffer.toString('latin1', 0, length)).split('\n');
  cut = lines.pop();
  let out = '';
  for (const line of lines) {
    const at = line.indexOf(',"method"');
    out += `${line.slice(0, at)},"result":${line.slice(line.indexOf('"params":') + 9)}\n`;
  }
  writeSync(1, out, null, 'latin1');
  return true;
};
new Socket({ fd: 0, writable: false, onread: { buffer, callback } });
"""

# Every half of the flow is met as often as `MET` says when nothing in it fails.
FRAMES: Final = sum(MET.values()) - 2  # neither a nodeError nor the attempt after it
ROUNDS: Final = 40

# Node.js compiles what has run for a while: after this many rounds of five runs it is done.
WARM: Final = 50
SAMPLE: Final = {"text": "x" * 289}

# A question to all four, as long as those of the flow are on average.
QUESTION: Final = {
    "seam": "node",
    "half": "before",
    "ask": [{"componentType": name, "component": {}} for name in NAMES],
    "subject": {"nodeName": "ask", "nodeType": "AgentNode"},
    "input": {"text": "x" * 72},
    "attempt": 1,
    "maxAttempts": 3,
}


@asynccontextmanager
async def installed(
    folder: Path, name: str, command: Sequence[str], seams: dict[str, list[str]]
) -> AsyncIterator[Policies]:
    """Four policies of one plugin."""
    parts = [
        {"componentType": each, "kind": "middleware", "seams": seams} for each in NAMES
    ]
    manifest = folder / f"{name}.json"
    whole = {"name": name, "version": "1", "command": list(command), "components": parts}
    manifest.write_text(json.dumps(whole), encoding="utf-8")
    loaded = install((str(manifest),), shared=True)
    async with open_plugins(loaded, log=print, patience=30) as plugins:
        policies = plugins.policies
        assert policies is not None
        yield policies


EVERYWHERE: Final = {
    "nodeError": ["after"],
    **{
        seam: ["before", "after"]
        for seam in ("node", "toolCall", "modelCall", "agentRound")
    },
}
UNMET: Final = {at: EVERYWHERE[at] for at in ("nodeError", "toolCall", "agentRound")}


async def timed(call: Callable[[], Awaitable[object]], times: int = 1) -> float:
    """Seconds of one call, of so many in a row."""
    began = time.perf_counter()
    for _ in range(times):
        await call()
    return (time.perf_counter() - began) / times


class Added(Struct):
    """Seconds of each: a run with policies and without, bare trips, bare questions."""

    asked: list[float] = []
    alone: list[float] = []
    bare: list[float] = []
    asked_bare: list[float] = []


async def added(
    folder: Path, language: str, plugin: list[str], echo: list[str]
) -> list[Answer]:
    """What four policies add to a run, and as many bare round trips; by placement."""
    floor, bare_plugin = Floor(echo), Floor(plugin)
    apart, together = Added(), Added()
    async with (
        installed(folder, language, plugin, EVERYWHERE) as policies,
        trio.open_nursery() as nursery,
    ):
        for end in (floor, bare_plugin):
            nursery.start_soon(end.write)
            nursery.start_soon(end.read)

        async def asked() -> None:
            await TenNodes(policies, fails=False).execute()

        async def alone() -> None:
            await TenNodes(None, fails=False).execute()

        async def bare() -> None:
            for _ in range(FRAMES):
                await floor.call(SAMPLE)

        async def asked_bare() -> None:
            for _ in range(FRAMES):
                await bare_plugin.call(QUESTION, "consult")

        calls = (asked, alone, bare, asked_bare)
        for round_ in range(WARM + ROUNDS):
            for theirs, added in ((1, apart), (0, together)):
                gc.collect()
                sides = (added.asked, added.alone, added.bare, added.asked_bare)
                with on_cores(0, theirs):
                    for call, samples in zip(calls, sides, strict=True):
                        sample = await timed(call, 5)
                        if round_ >= WARM:
                            samples.append(sample)
        nursery.cancel_scope.cancel()
    floor.close()
    bare_plugin.close()
    name = f"four at every seam, {language}"
    # On one core nothing hides the work of either side, and it is told without a limit:
    # the policies' own part alone takes most of it, as the questions asked bare show.
    return [told(name, apart, 1.5), told(f"{name}, one core", together, None)]


def told(name: str, added: Added, limit: float | None) -> Answer:
    """The time that the policies add, over that of as many round trips."""
    more = median([a - b for a, b in zip(added.asked, added.alone, strict=True)])
    return against_floor(
        f"policies.{name}",
        more * 1e3,
        "ms",
        floor=median(added.bare) * 1e3,
        limit=limit,
        detail={
            "frames": FRAMES,
            "asked bare, ms": median(added.asked_bare) * 1e3,
            "run alone, ms": median(added.alone) * 1e3,
        },
    )


def no_agent() -> Plan:
    """Ten nodes, of which two ask a model and six run a tool."""
    middle = [
        llm(f"n{number}", "hi") if number in {2, 5} else tool(f"n{number}")
        for number in range(1, 9)
    ]
    nodes = [start(), *middle, end()]
    names = [node["id"] for node in nodes]
    return make_plan(read_document(document(flow(nodes, names, shared=[model()]))))


async def unasked(folder: Path) -> Answer:
    """A run beside policies that it never meets, over the same run without any."""
    plan = no_agent()
    models = FakeModels(lambda _request: "done")
    tools = FakeTools({f"n{number}": lambda **_: {} for number in range(1, 9)})

    def run_with(policies: Policies | None) -> Callable[[], Awaitable[object]]:
        services = Services(models, tools, lambda _event: None, policies=policies)

        async def run() -> None:
            await Run(plan, services, Limits()).execute({"topic": "x"})

        return run

    ratios, bare = [], []
    command = [sys.executable, "-c", "raise SystemExit('nobody asks it')"]
    async with installed(folder, "unasked", command, UNMET) as policies:
        beside, alone = run_with(policies), run_with(None)
        gc.collect()
        gc.disable()
        for round_ in range(200):
            # The second of a pair finds warmer caches: they take turns at that too.
            pair = [(beside, True), (alone, False)][:: 1 if round_ % 2 else -1]
            samples = {asked: await timed(call, 10) for call, asked in pair}
            models.requests.clear()
            tools.calls.clear()
            if round_ >= 20:
                ratios.append(samples[True] / samples[False])
                bare.append(samples[False])
        gc.enable()
    alone_us = median(bare) * 1e6
    return against_floor(
        "policies.installed and never asked",
        median(ratios) * alone_us,
        "µs",
        floor=alone_us,
        limit=1.03,
        detail={"nodes": 10, "pairs": len(ratios)},
    )


def run() -> Iterator[Answer]:
    """Both runtimes, if both are there, and the policies that nobody asks."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in (
            ("policies.py", PYTHON),
            ("policies.mjs", JAVASCRIPT),
            ("echo.py", CHILD),
            ("echo.mjs", ECHO),
        ):
            (folder / file).write_text(text)
        python = [sys.executable]
        plugin, echo = str(folder / "policies.py"), str(folder / "echo.py")
        yield from trio.run(added, folder, "python", [*python, plugin], [*python, echo])
        if shutil.which("node"):
            plugin, echo = str(folder / "policies.mjs"), str(folder / "echo.mjs")
            command = ["node", "--import", RUNTIME.as_uri(), plugin]
            yield from trio.run(added, folder, "javascript", command, ["node", echo])
        yield trio.run(unasked, folder)
