"""How long a document takes from bytes to linked components, and values at its edges.

Question: does reading a flow cost a run less than the quarter of a millisecond that the
          engine's own work may take, and does it stay linear?
Workload: a flow of 2.4 KB as JSON and as YAML; flows of 1,000 and 10,000 nodes; one value
          converted, checked and filled into a prompt.
Answer:   microseconds a document beside the bare parser on the same bytes, microseconds a
          node and their growth, microseconds a value beside msgspec's own conversion.
"""

import json
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import msgspec
import yaml

from bench.harness import Answer, against_floor, alternate, median, time_calls
from heddle.spec import Flow, check, convert, read_document, render

MICROSECONDS = 1e6
CALLS = 2_000
"""Of what takes a microsecond or so; the others are called less often, and as long."""
LARGE = (1_000, 10_000)
ROUNDS = 5


def ref(identity: str) -> dict[str, str]:
    return {"$component_ref": identity}


def text(title: str) -> dict[str, str]:
    return {"title": title, "type": "string"}


def flow(steps: int) -> dict[str, Any]:
    """A start, ``steps`` prompts one after the other, an end, and edges between them."""
    llm = {
        "component_type": "OpenAiCompatibleConfig",
        "id": "llm",
        "name": "model",
        "model_id": "small-1",
        "url": "http://127.0.0.1:8000/v1",
        "default_generation_parameters": {"temperature": 0.2, "max_tokens": 512},
    }
    names = ["start", *(f"step{index}" for index in range(steps)), "end"]
    nodes: dict[str, Any] = {
        name: {
            "component_type": "LlmNode",
            "id": name,
            "name": name,
            "llm_config": ref("llm"),
            "prompt_template": "Say it again in other words, in one sentence: {{text}}",
            "inputs": [text("text")],
            "outputs": [text("text")],
        }
        for name in names[1:-1]
    }
    pairs = list(pairwise(names))
    return {
        "component_type": "Flow",
        "name": "again",
        "agentspec_version": "26.1.2",
        "start_node": ref("start"),
        "nodes": [ref(name) for name in names],
        "control_flow_connections": [
            {
                "component_type": "ControlFlowEdge",
                "name": f"{source} to {target}",
                "from_node": ref(source),
                "to_node": ref(target),
            }
            for source, target in pairs
        ],
        "data_flow_connections": [
            {
                "component_type": "DataFlowEdge",
                "name": f"text of {source} to {target}",
                "source_node": ref(source),
                "source_output": "text",
                "destination_node": ref(target),
                "destination_input": "text",
            }
            for source, target in pairs
        ],
        "$referenced_components": {
            "start": {"component_type": "StartNode", "id": "start", "name": "start",
                      "inputs": [text("text")]},
            "end": {"component_type": "EndNode", "id": "end", "name": "end",
                    "outputs": [text("text")]},
            "llm": llm,
            **nodes,
        },
    }  # fmt: skip


def seconds(call: Callable[[], object], calls: int) -> Callable[[], float]:
    return lambda: median(time_calls(call, calls=calls, rounds=1))


def small() -> Iterator[Answer]:
    written = flow(2)
    as_json = json.dumps(written).encode()
    as_yaml = yaml.safe_dump(written, sort_keys=False).encode()
    root = read_document(as_json).root
    assert isinstance(root, Flow)
    assert len(root.nodes) == 4
    ours, floor = alternate(
        seconds(lambda: read_document(as_json), CALLS // 7),
        seconds(lambda: msgspec.json.decode(as_json), CALLS // 7),
    )
    # Where these numbers come from, decoding takes 7 µs: 25 times that is well inside the
    # quarter of a millisecond.
    yield against_floor(
        "documents.json",
        ours * MICROSECONDS,
        "µs",
        floor=floor * MICROSECONDS,
        limit=25,
        detail={"bytes": len(as_json)},
    )
    ours, floor = alternate(
        seconds(lambda: read_document(as_yaml, format="yaml"), CALLS // 100),
        seconds(lambda: yaml.load(as_yaml, Loader=yaml.CSafeLoader), CALLS // 100),
    )
    yield against_floor(
        "documents.yaml",
        ours * MICROSECONDS,
        "µs",
        floor=floor * MICROSECONDS,
        limit=1.0,
        detail={"bytes": len(as_yaml)},
    )


def large() -> Iterator[Answer]:
    def a_node(steps: int) -> float:
        data = json.dumps(flow(steps)).encode()
        start = time.perf_counter()
        root = read_document(data).root
        spent = time.perf_counter() - start
        assert isinstance(root, Flow)
        return spent / len(root.nodes) * MICROSECONDS

    fewer, more = LARGE
    few = median([a_node(fewer) for _ in range(ROUNDS)])
    many = median([a_node(more) for _ in range(max(1, ROUNDS - 2))])
    yield against_floor(
        "documents.large",
        many,
        "µs a node",
        floor=few,
        limit=2.0,
        detail={"seconds": many * more / MICROSECONDS, "nodes": more},
    )


def values() -> Iterator[Answer]:
    items = {"type": "array", "items": {"type": "string"}}
    prompt = "Dear {{name}}, " + "all is well. " * 20 + "Yours, {{sender}}"
    filled = {"name": "Ada", "sender": "Bob"}
    assert convert([1, 2], items) == ["1", "2"]
    assert check(["a", 5], items) == [("$[1]", "5 is not text")]
    for name, call in (
        ("documents.convert", lambda: convert(2, {"type": "number"})),
        ("documents.convert_list", lambda: convert([1, 2], items)),
        ("documents.check", lambda: check(["a", "b"], items)),
        ("documents.render", lambda: render(prompt, filled)),
    ):
        ours, floor = alternate(
            seconds(call, CALLS), seconds(lambda: msgspec.convert([1, 2], list[int]), CALLS)
        )
        yield against_floor(name, ours * MICROSECONDS, "µs", floor=floor * MICROSECONDS)


def run() -> Iterator[Answer]:
    """All answers."""
    yield from small()
    yield from large()
    yield from values()
