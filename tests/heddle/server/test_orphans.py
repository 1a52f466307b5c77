"""A worker that is stuck, and whose parent is killed: nothing of Python's has to run."""

import subprocess
import sys

from tests.heddle.server.serving import PATIENCE

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


def test_the_system_ends_a_worker_that_a_killed_parent_leaves() -> None:
    assert outlived("now") == "to be killed\n"


def test_a_parent_that_died_before_it_could_be_watched_is_noticed() -> None:
    assert outlived("late") == "to be killed\n"
