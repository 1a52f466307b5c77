"""How long a plugin in Python takes from its start to its first answer.

Question: what does a plugin's process cost beyond an interpreter that imports msgspec?
Workload: start a policy of ten lines, send it `init`, read the answer, end it; against
          the same for ``python -c "import msgspec"`` read to its end.
Answer:   milliseconds, the median of 15 pairs that take turns. The interpreter's own
          caches of bytecode are warm, as they are after an installation.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.harness import Answer, against_floor, median, percentile

PAIRS = 15

POLICY = """
from heddle.plugin import proceed, serve

def before(event, ctx):
    return proceed()

serve({"Gate": {"toolCall": {"before": before}}})
"""
INIT = b'{"id":1,"method":"init","params":{"protocol":1,"seams":{},"features":[]}}\n'
MSGSPEC = ["-c", "import msgspec, os; os.write(1, b'.\\n')"]
EMPTY = ["-c", "import os; os.write(1, b'.\\n')"]


def started(arguments: list[str], environment: dict[str, str]) -> float:
    """Seconds from the start of a Python to its first line."""
    began = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(INIT)
        process.stdin.flush()
        line = process.stdout.readline()
        spent = time.perf_counter() - began
        assert line == b".\n" or b'"protocol":1' in line, line
        process.kill()
    return spent


def run() -> Iterator[Answer]:
    """Start all three by turns."""
    with tempfile.TemporaryDirectory() as folder:
        policy = Path(folder, "policy.py")
        policy.write_text(POLICY)
        # Bytecode is cached in a folder of the benchmark's own, whatever the caller set.
        environment = {"PATH": os.environ["PATH"], "PYTHONPYCACHEPREFIX": folder}
        kinds = {"plugin": [str(policy)], "msgspec": MSGSPEC, "python": EMPTY}
        for arguments in kinds.values():
            started(arguments, environment)
        samples: dict[str, list[float]] = {kind: [] for kind in kinds}
        for _ in range(PAIRS):
            for kind, arguments in kinds.items():
                samples[kind].append(started(arguments, environment) * 1000)
    plugin = samples["plugin"]
    yield against_floor(
        "plugin_start.first_answer",
        median(plugin),
        "ms",
        floor=median(samples["msgspec"]),
        limit=1.5,
        detail={"p99": percentile(plugin, 0.99), "bare_python": median(samples["python"])},
    )
    # What `import heddle.plugin` adds to an interpreter that has done nothing yet.
    yield Answer(
        "plugin_start.import",
        median(plugin) - median(samples["python"]),
        "ms",
        limit=60.0,
    )
