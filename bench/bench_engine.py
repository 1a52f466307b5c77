"""What the engine itself costs: compiling a flow, walking its nodes, holding a waiting run.

Question: what do users multiply by their traffic, no model and no network in the way?
Workload: a flow of 2.4 KB compiled cold and from the cache; a chain of 50 nodes that pass
          the state on, events reported; 10,000 runs that wait on a model at once.
Answer:   ms cold and µs cached; µs a node; KiB a waiting run.
"""

import gc
import os
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import trio
from trio.testing import wait_all_tasks_blocked

from bench.harness import Answer, median, time_calls
from heddle import preparing
from heddle.engine.plan import Plan, make_plan
from heddle.engine.run import Run
from heddle.engine.testing import FakeModels, FakeTools
from heddle.engine.walk import Limits
from heddle.engine.work import Services
from heddle.events import Event
from heddle.spec import read_document

CHAIN = 50
WAITING = 10_000


def sample() -> bytes:
    """A flow of about 2.4 KB as people write them: an agent with two tools."""
    text = (Path(__file__).parent / "flows" / "agent.json").read_bytes()
    return msgspec.json.encode(msgspec.json.decode(text))


def chain(length: int) -> bytes:
    """start, pass-through nodes, end: BranchingNodes only look at the state."""
    names = [f"n{number}" for number in range(length - 2)]
    nodes: list[dict[str, Any]] = [
        {"component_type": "StartNode", "id": "start", "name": "start"},
        *(
            {
                "component_type": "BranchingNode",
                "id": name,
                "name": name,
                "mapping": {"x": "on"},
                "inputs": [{"title": "topic", "type": "string"}],
            }
            for name in names
        ),
        {"component_type": "EndNode", "id": "end", "name": "end"},
    ]
    edges = [
        {
            "component_type": "ControlFlowEdge",
            "id": f"e{number}{branch}",
            "name": f"e{number}{branch}",
            "from_node": {"$component_ref": a["id"]},
            "from_branch": branch,
            "to_node": {"$component_ref": b["id"]},
        }
        for number, (a, b) in enumerate(pairwise(nodes))
        for branch in ((None,) if a["name"] == "start" else ("on", "default"))
    ]
    return msgspec.json.encode(
        {
            "component_type": "Flow",
            "id": "chain",
            "name": "chain",
            "agentspec_version": "26.1.2",
            "start_node": {"$component_ref": "start"},
            "nodes": [{"$component_ref": node["id"]} for node in nodes],
            "control_flow_connections": edges,
            "$referenced_components": {node["id"]: node for node in nodes},
        }
    )


def ask() -> bytes:
    """start, one model call, end."""
    plain = msgspec.json.decode(chain(3))
    parts = plain["$referenced_components"]
    parts["n0"] = {
        "component_type": "LlmNode",
        "id": "n0",
        "name": "n0",
        "prompt_template": "{{question}}",
        "llm_config": {
            "component_type": "OpenAiCompatibleConfig",
            "id": "model",
            "name": "model",
            "model_id": "stub",
            "url": "http://127.0.0.1:9/v1",
        },
    }
    edges = plain["control_flow_connections"]
    plain["control_flow_connections"] = [
        {**edge, "from_branch": None} for edge in edges if edge["from_branch"] != "on"
    ]
    return msgspec.json.encode(plain)


def services(report: Any, models: Any = None) -> Services:
    """Stand-ins around a run."""
    return Services(
        models=models or FakeModels(),
        tools=FakeTools({}),
        report=report,
        stream=False,
    )


def compile_times() -> Iterator[Answer]:
    """Cold: bytes to plan. Cached: bytes to the plan that is kept."""
    data = sample()
    cold = time_calls(lambda: make_plan(read_document(data)), calls=50, rounds=15)
    warm = time_calls(lambda: preparing.prepare(data, name="flow.json"), calls=500)
    size = {"bytes": len(data)}
    yield Answer("engine.compile.cold", median(cold) * 1e3, "ms", limit=0.4, detail=size)
    yield Answer("engine.compile.cached", median(warm) * 1e6, "µs", limit=20, detail=size)


def node_cost() -> Iterator[Answer]:
    """A whole run of the chain, by the node; a bare loop of checkpoints is its floor."""
    plan = make_plan(read_document(chain(CHAIN)))
    limits = Limits(max_iterations=CHAIN)
    events: list[Event] = []

    async def once() -> None:
        events.clear()
        await Run(plan, services(events.append), limits).execute({"topic": "x", "n": 1})
        assert len(events) == 2 * CHAIN + 2

    async def measure() -> tuple[float, float]:
        walks, floors = [], []
        for _ in range(30):
            start = time.perf_counter()
            for _ in range(10):
                await once()
            walks.append((time.perf_counter() - start) / (10 * CHAIN))
            start = time.perf_counter()
            for _ in range(10 * CHAIN):
                await trio.lowlevel.checkpoint()
            floors.append((time.perf_counter() - start) / (10 * CHAIN))
        return median(walks) * 1e6, median(floors) * 1e6

    walk, floor = trio.run(measure)
    yield Answer(
        "engine.node", walk, "µs", limit=40, detail={"checkpoint": floor, "nodes": CHAIN}
    )


def run_cost() -> Iterator[Answer]:
    """A whole run of start, LlmNode and end, whose model answers at once.

    The floor is the same work awaited: what a call of the model stand-in costs.
    """
    plan = make_plan(read_document(ask()))
    models = FakeModels(lambda _request: "done")
    given = services(lambda _event: None, models)

    async def measure() -> float:
        samples = []
        for _ in range(30):
            models.requests.clear()
            start = time.perf_counter()
            for _ in range(100):
                await Run(plan, given, Limits()).execute({"question": "why"})
            samples.append((time.perf_counter() - start) / 100)
        return median(samples) * 1e6

    yield Answer("engine.run", trio.run(measure), "µs", detail={"nodes": 3})


class NeverAnswers(FakeModels):
    """A model that keeps everyone waiting."""

    async def chat(self, *_: object, **__: object) -> Any:
        """Wait for ever."""
        await trio.sleep_forever()


def resident() -> int:
    """Bytes of memory that the process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def waiting_runs() -> Iterator[Answer]:
    """Resident memory of 10,000 runs whose agent waits on its model."""
    plan: Plan = make_plan(read_document(sample()))

    async def measure() -> float:
        async with trio.open_nursery() as nursery:
            gc.collect()
            before = resident()
            for number in range(WAITING):
                run = Run(plan, services(lambda _event: None, NeverAnswers()), Limits())
                nursery.start_soon(run.execute, {"question": f"number {number}"})
            await wait_all_tasks_blocked()
            grown = resident() - before
            nursery.cancel_scope.cancel()
        return grown / WAITING / 1024

    yield Answer("engine.waiting_run", trio.run(measure), "KiB", limit=60)


def run() -> Iterator[Answer]:
    """All of it."""
    yield from compile_times()
    yield from node_cost()
    yield from run_cost()
    yield from waiting_runs()
