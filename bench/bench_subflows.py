"""What flows inside flows cost beside the nodes that they are made of.

Question: is a flow as a step nearly as cheap as its nodes written out?
Workload: 1,000 items through a ParallelMapNode over a flow of a start and an end, beside
          1,000 executions of a node that passes the state on; a FlowNode over a flow of a
          start, eight such nodes and an end, beside the same nodes in one flow.
Answer:   µs an item, with a plain node as its floor; µs that a flow adds to its nodes.
"""

import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import msgspec
import trio

from bench.bench_engine import CHAIN, chain, services
from bench.harness import Answer, median
from heddle.engine.plan import Plan, make_plan
from heddle.engine.run import Run
from heddle.engine.walk import Limits
from heddle.events import Event
from heddle.spec import read_document

ITEMS = 1_000
INSIDE = 10
ROUNDS = 15
LIMITS = Limits(max_iterations=1_000_000)


def in_a_node(kind: str, subflow: dict[str, Any], **fields: Any) -> Plan:
    """start, a node of this kind around the flow, end."""
    nodes = [
        {"component_type": "StartNode", "id": "outer-start", "name": "start"},
        {"component_type": kind, "id": "n", "name": "n", "subflow": subflow, **fields},
        {"component_type": "EndNode", "id": "outer-end", "name": "end"},
    ]
    edges = [
        {
            "component_type": "ControlFlowEdge",
            "id": f"outer-e{number}",
            "name": f"e{number}",
            "from_node": {"$component_ref": a["id"]},
            "to_node": {"$component_ref": b["id"]},
        }
        for number, (a, b) in enumerate(pairwise(nodes))
    ]
    return make_plan(
        read_document(
            msgspec.json.encode(
                {
                    "component_type": "Flow",
                    "id": "outer",
                    "name": "outer",
                    "agentspec_version": "26.1.2",
                    "start_node": {"$component_ref": "outer-start"},
                    "nodes": [{"$component_ref": node["id"]} for node in nodes],
                    "control_flow_connections": edges,
                    "$referenced_components": {node["id"]: node for node in nodes},
                }
            )
        )
    )


def inner(length: int) -> dict[str, Any]:
    """A chain as a flow to stand inside."""
    found: dict[str, Any] = msgspec.json.decode(chain(length))
    found.pop("agentspec_version")
    return found


def pass_through() -> dict[str, Any]:
    """One declared value in, the same out."""
    item = [{"title": "x", "type": "integer"}]
    flow = inner(2)
    parts = flow["$referenced_components"]
    parts["start"]["inputs"] = item
    parts["end"]["outputs"] = item
    return {**flow, "inputs": item, "outputs": item}


async def timed(plan: Plan, inputs: dict[str, Any], check: int) -> float:
    """Seconds of one run that reports ``check`` events."""
    events: list[Event] = []
    run = Run(plan, services(events.append), LIMITS)
    begun = time.perf_counter()
    await run.execute(inputs)
    spent = time.perf_counter() - begun
    assert len(events) == check, len(events)
    return spent


def run() -> Iterator[Answer]:
    """All of it; floors are measured in turn with what they are floors of."""
    plain = make_plan(read_document(chain(CHAIN)))
    mapped = in_a_node("ParallelMapNode", pass_through())
    stepped = in_a_node("FlowNode", inner(INSIDE))
    straight = make_plan(read_document(chain(INSIDE)))
    given = {"topic": "x", "n": 1}
    xs = {"iterated_x": list(range(ITEMS))}

    async def measure() -> tuple[list[float], list[float], list[float]]:
        nodes, items, added = [], [], []
        for _ in range(ROUNDS):
            spent = [
                await timed(plain, given, 2 * CHAIN + 2) for _ in range(ITEMS // CHAIN)
            ]
            nodes.append(sum(spent) / ITEMS)
            items.append(await timed(mapped, xs, 4 * ITEMS + 8) / ITEMS)
            with_flow = [await timed(stepped, given, 2 * INSIDE + 8) for _ in range(100)]
            without = [await timed(straight, given, 2 * INSIDE + 2) for _ in range(100)]
            # The start and the end around it are nodes too.
            added.append(median(with_flow) - median(without) - 2 * nodes[-1])
        return nodes, items, added

    nodes, items, added = trio.run(measure)
    floor = median(nodes) * 1e6
    item = median(items) * 1e6
    yield Answer(
        "subflows.map_item",
        median([a / b for a, b in zip(items, nodes, strict=True)]),
        "plain nodes",
        limit=1.5,
        detail={"item µs": item, "plain node µs": floor, "items": ITEMS},
    )
    yield Answer(
        "subflows.step", median(added) * 1e6, "µs", limit=60, detail={"nodes": INSIDE}
    )
