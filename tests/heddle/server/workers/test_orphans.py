"""What is left when a process of the server is killed, and who ends it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.heddle.server.serving import (
    PATIENCE,
    STRAIGHT,
    WAITING,
    Served,
    server,
    write_tools,
)
from tests.heddle.server.submitted.code.test_tools import lives
from tests.pressure.stage import children

WORKER = """
import os, signal, sys, time
from heddle.server.workers.orphans import PATIENCE, end_with

ready, told = os.pipe()
parent = os.getpid()
late = sys.argv[1] == "late"
if os.fork():
    # Late: it is gone before the worker asks.
    if not late:
        os.read(ready, 1)
    os.kill(parent, signal.SIGKILL)
os.read(0, 1) if late else None
end_with(parent)
os.write(told, b".")
while not signal.getitimer(signal.ITIMER_REAL)[0]:
    time.sleep(0.01)
assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= PATIENCE
print("to be killed")
"""


def outlived(how: str) -> str:
    """What a worker says whose parent is killed."""
    with subprocess.Popen(
        [sys.executable, "-c", WORKER, how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        process.wait(PATIENCE)
        said, _ = process.communicate(".", PATIENCE)
    return said


# A worker that is stuck, and whose parent is killed: nothing of Python's has to run.


def test_the_system_ends_a_worker_that_a_killed_parent_leaves() -> None:
    assert outlived("now") == "to be killed\n"


def test_a_parent_that_died_before_it_could_be_watched_is_noticed() -> None:
    assert outlived("late") == "to be killed\n"


def kill_with_a_tool(served: Served, folder: Path, pid: int) -> int:
    """Kill a process of a server whose tool runs; the tool's process."""
    with served.opened("POST", "/v1/runs?detach=true", {"flow": WAITING}):
        served.until((folder / "begun").exists)
    tool = int(served.until((folder / "begun").read_text))
    [workspace] = (folder / "tmp").glob("heddle-runs-*/heddle-*")
    (workspace / "half.csv").write_text("a,b")
    os.kill(pid, signal.SIGKILL)
    return tool


def test_tools_of_a_killed_server_end_by_themselves(tmp_path: Path) -> None:
    with server(tmp_path, "--tools-dir", write_tools(tmp_path)) as served:
        tool = kill_with_a_tool(served, tmp_path, served.process.pid)
        served.ended()
        served.until(lambda: not lives(tool))


def test_tools_of_a_killed_worker_end_when_another_takes_its_place(tmp_path: Path) -> None:
    with server(tmp_path, "--tools-dir", write_tools(tmp_path), "--workers", "1") as served:
        (worker,) = children(served.process.pid)
        tool = kill_with_a_tool(served, tmp_path, worker)
        served.line("worker replaced")
        served.until(lambda: not lives(tool))
        assert served.ask("POST", "/v1/runs", {"flow": STRAIGHT}).status == 200
        assert not list((tmp_path / "tmp").glob("*/*"))
    assert not list((tmp_path / "tmp").iterdir())


def test_tools_of_a_killed_server_end_when_another_starts(tmp_path: Path) -> None:
    tools = write_tools(tmp_path)
    with server(tmp_path, "--tools-dir", tools) as served:
        tool = kill_with_a_tool(served, tmp_path, served.process.pid)
        served.ended()
    with server(tmp_path, "--tools-dir", tools) as served:
        served.until(lambda: not lives(tool))
        assert not list((tmp_path / "tmp").glob("*/*"))
    assert not list((tmp_path / "tmp").iterdir())


STUCK = """
from pathlib import Path

from heddle.plugin import serve

def before(event, ctx):
    Path("begun").write_text("x")
    while True:
        pass

serve({"Stuck": {"node": {"before": before}}})
"""


def test_a_plugin_that_is_stuck_ends_when_its_server_is_killed(tmp_path: Path) -> None:
    (tmp_path / "stuck.py").write_text(STUCK)
    part = {
        "componentType": "Stuck",
        "kind": "middleware",
        "seams": {"node": ["before"]},
    }
    manifest = {"name": "stuck", "version": "1", "components": [part]}
    (tmp_path / "stuck.json").write_text(json.dumps(manifest))
    with server(tmp_path, "--plugin", "stuck.json") as served:
        (plugin,) = children(served.process.pid)
        with served.opened("POST", "/v1/runs?detach=true", {"flow": STRAIGHT}):
            served.until((tmp_path / "begun").exists)
        os.kill(served.process.pid, signal.SIGKILL)
        served.ended()
        served.until(lambda: not lives(plugin))
