"""How long the command line takes to run a flow that does nothing.

Question: what does ``heddle run`` add to the start of an interpreter with trio in it?
Workload: a flow of start and end, no input, output to pipes; the floor is
          ``python -c "import trio, msgspec"``. Also ``heddle --help`` and ``validate``
          against a bare interpreter, which are there to be read.
          All of them find their modules compiled, as an installed package has them.
Answer:   ms of wall time, medians of 15 rounds that take turns.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.harness import Answer, against_floor, alternate

ROUNDS = 15


def run() -> Iterator[Answer]:
    """The three commands."""
    with tempfile.TemporaryDirectory() as folder:
        flow = Path(folder, "flow.json")
        flow.write_text(json.dumps(start_to_end()))
        libraries = ["-c", "import trio, msgspec"]
        for name, arguments, floor, limit in (
            ("run", ["run", str(flow)], libraries, 1.4),
            ("validate", ["validate", str(flow)], ["-c", "import msgspec"], None),
            ("help", ["--help"], ["-c", "pass"], None),
        ):
            # One folder of compiled modules for both, filled by the first round, which
            # is not measured.
            environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
            environment.pop("PYTHONDONTWRITEBYTECODE", None)
            command = ["-c", "from heddle.__main__ import main; exit(main())", *arguments]
            mine, bare = alternate(
                partial(_timed, command, environment),
                partial(_timed, floor, environment),
                rounds=ROUNDS,
            )
            yield against_floor(
                f"cli.{name}", mine * 1e3, "ms", floor=bare * 1e3, limit=limit
            )


def start_to_end() -> dict[str, object]:
    """The shortest flow there is."""
    return {
        "component_type": "Flow",
        "id": "flow",
        "name": "flow",
        "agentspec_version": "25.4.1",
        "start_node": {"$component_ref": "start"},
        "nodes": [{"$component_ref": "start"}, {"$component_ref": "end"}],
        "control_flow_connections": [
            {
                "component_type": "ControlFlowEdge",
                "id": "edge",
                "name": "edge",
                "from_node": {"$component_ref": "start"},
                "to_node": {"$component_ref": "end"},
            }
        ],
        "$referenced_components": {
            "start": {"component_type": "StartNode", "id": "start", "name": "start"},
            "end": {"component_type": "EndNode", "id": "end", "name": "end"},
        },
    }


def _timed(arguments: list[str], environment: dict[str, str]) -> float:
    """Seconds of wall time of an interpreter with these arguments."""
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, *arguments], capture_output=True, check=True, env=environment
    )
    return time.perf_counter() - start
