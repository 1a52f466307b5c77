"""What heddle-server takes for a run, and what it stays within, over real sockets.

Question: how much of the speed of a bare relay from request to model is left when a run of
          start, agent and end stands between them, read from a document, with its events
          kept? And do many runs at once change that?
Workload: 32 connections, each posting the flow and its inputs over and over; 128 that ask
          for an SSE stream, whose model sends five pieces, one in a millisecond, for with
          32 the floor would be idle more than half of the time; the 32 with four policies
          of one process at both halves of `node` and `modelCall`; from 10 to 1,000
          connections. Load, model and server are processes of their own; the floor is
          `bench.relay`.
Answer:   requests/s, alternating with the floor; p99 over p50; µs of processor time a run
          and how it changes with the number of runs at once.
"""

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from bench.bench_policies import NAMES, PYTHON
from bench.harness import Answer, against_floor, median
from bench.processes import (
    Process,
    Served,
    heddle_server,
    process,
    processor_seconds,
)
from tests.support.flows import agent, end, flow, model, prop, start

CONNECTIONS: Final = 32
STREAMS: Final = 128
CADENCE: Final = "0.001"
"""Seconds between two pieces of a stream: a very fast model's. Sent without a pause they
would be one piece by the time that they are read."""
SECONDS: Final = 0.8
ROUNDS: Final = 5
CROWD_SECONDS: Final = 2.5
"""Each of a thousand connections is opened first, and is to run more than a few flows."""
CROWD_ROUNDS: Final = 3
WIDE: Final = (10, 1_000)
QUESTION: Final = "What did the fox do, in one sentence?"
SEAMS: Final = {seam: ["before", "after"] for seam in ("node", "modelCall")}


def body(model_port: int, question: str = QUESTION, *, host: str = "127.0.0.1") -> str:
    """A request for a run of start, agent and end; ``host`` is where its model is."""
    asked, answer = prop("question"), prop("answer")
    document = flow(
        [
            start(inputs=[asked]),
            agent(
                "ask",
                inputs=[asked],
                system_prompt="Answer briefly: {{question}}",
                outputs=[answer],
            ),
            end(outputs=[answer]),
        ],
        ["start", "ask", "end"],
        shared=[model(f"http://{host}:{model_port}/v1")],
    )
    return json.dumps({"flow": document, "inputs": {"question": question}})


@contextmanager
def server(*flags: str, most: int = 2_000, before: str = "") -> Iterator[Served]:
    """A heddle-server that lets submitted flows reach the stub."""
    own = ("--allow-net", "127.0.0.1", "--max-concurrent", str(most))
    with heddle_server(*own, *flags, before=before) as served:
        yield served


@contextmanager
def policies() -> Iterator[tuple[str, str]]:
    """The flags that install four policies of one process."""
    with tempfile.TemporaryDirectory() as folder:
        parts = [
            {"componentType": name, "kind": "middleware", "seams": SEAMS} for name in NAMES
        ]
        (Path(folder) / "four.py").write_text(PYTHON)
        manifest = Path(folder) / "four.json"
        manifest.write_text(
            json.dumps(
                {
                    "name": "four",
                    "version": "1",
                    "command": [sys.executable, str(Path(folder) / "four.py")],
                    "components": parts,
                }
            )
        )
        yield "--plugin", str(manifest)


def asked(
    client: Process, pid: int, port: int, path: str, body: str, **how: Any
) -> dict[str, float]:
    """One round of load, with the processor time of the server a run."""
    before = processor_seconds(pid)
    answer: dict[str, float] = client.ask(
        {"place": {"port": port}, "path": path, "body": body, **how}
    )
    spent = processor_seconds(pid) - before
    return {**answer, "cpu": spent / answer["count"] * 1e6}


def medians(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Of each number on its own."""
    return {key: median([each[key] for each in rounds]) for key in rounds[0]}


def side_by_side(
    client: Process,
    sides: Sequence[tuple[int, int]],
    path: str,
    body: str,
    **how: Any,
) -> list[dict[str, float]]:
    """The medians of each side of (pid, port); they take turns, after one to warm up."""
    rounds: list[list[dict[str, float]]] = [[] for _ in sides]
    for number in range(ROUNDS + 1):
        for (pid, port), kept in zip(sides, rounds, strict=True):
            answer = asked(client, pid, port, path, body, **how)
            if number:
                kept.append(answer)
    return [medians(kept) for kept in rounds]


def _detail(ours: Mapping[str, float], floor: Mapping[str, float]) -> dict[str, float]:
    return {
        "p50_ms": round(ours["p50"], 2),
        "p99_ms": round(ours["p99"], 2),
        "cpu_us": round(ours["cpu"], 1),
        "floor_p99_ms": round(floor["p99"], 2),
        "floor_cpu_us": round(floor["cpu"], 1),
    }


def run() -> Iterator[Answer]:
    """The answers."""
    with ExitStack() as stack:
        pacing = process("bench.model_stub", "127.0.0.1", CADENCE)
        stub = int(stack.enter_context(pacing).line())
        client = stack.enter_context(process("bench.http_load"))
        bare = stack.enter_context(process("bench.relay", str(stub)))
        relay = (bare.pid, int(bare.line()))
        served = stack.enter_context(server())
        ours = (served.pid, served.port)
        sent = body(stub)
        yield from _against_relay(client, ours, relay, sent)
        guarded = stack.enter_context(server(*stack.enter_context(policies())))
        yield _with_policies(client, (guarded.pid, guarded.port), ours, sent)
        yield _crowded(client, ours, sent)


def _against_relay(
    client: Process, ours: tuple[int, int], relay: tuple[int, int], sent: str
) -> Iterator[Answer]:
    for path, name, wide in (
        ("/v1/runs", "buffered", CONNECTIONS),
        ("/v1/runs?stream=true", "streamed", STREAMS),
    ):
        run, floor = side_by_side(
            client, (ours, relay), path, sent, connections=wide, seconds=SECONDS
        )
        yield against_floor(
            f"server.{name}",
            run["rate"],
            "runs/s",
            floor=floor["rate"],
            limit=1 / 3,
            better="higher",
            detail=_detail(run, floor),
        )
        yield against_floor(
            f"server.{name}, p99 over p50",
            run["p99"],
            "ms",
            floor=run["p50"],
            limit=4,
        )


def _with_policies(
    client: Process, guarded: tuple[int, int], ours: tuple[int, int], sent: str
) -> Answer:
    how = {"connections": CONNECTIONS, "seconds": SECONDS}
    with_policies, without = side_by_side(client, (guarded, ours), "/v1/runs", sent, **how)
    return against_floor(
        "server.four policies",
        with_policies["rate"],
        "runs/s",
        floor=without["rate"],
        limit=0.4,
        better="higher",
        detail=_detail(with_policies, without),
    )


def _crowded(client: Process, ours: tuple[int, int], sent: str) -> Answer:
    rounds = [
        [
            asked(client, *ours, "/v1/runs", sent, connections=wide, seconds=CROWD_SECONDS)
            for wide in WIDE
        ]
        for _ in range(CROWD_ROUNDS)
    ]
    few, many = (medians(each) for each in zip(*rounds, strict=True))
    return against_floor(
        "server.processor time, 1,000 at once",
        many["cpu"],
        "µs/run",
        floor=few["cpu"],
        limit=1.2,
        detail={"runs/s": round(many["rate"]), "runs/s of 10": round(few["rate"])},
    )
