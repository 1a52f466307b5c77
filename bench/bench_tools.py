"""What heddle adds to running a program.

Question: what does a tool call cost beside the process that it starts?
Workload: /bin/cat as a tool, an input of 200 bytes; alone, and 16 callers at a time over
          8 slots. The floor is ``trio.run_process`` with the same bytes in and out, which
          has no group to end, no workspace and no time-out. Workspaces are in memory where
          there is /dev/shm: making and removing a folder on a busy disk takes as long
          as the process does, and is the disk's affair.
Answer:   ms a call and calls/s, medians of 5 rounds that take turns.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec
import trio

from bench.harness import Answer, against_floor, alternate
from heddle.tools import Slots, Tools, open_workspace

CALLS = 100
GIVEN = {"text": "x" * 188}
QUESTION = msgspec.json.encode(GIVEN)
SLOTS = 8
CALLERS = 16


def run() -> Iterator[Answer]:
    """Alone, then many at once."""
    in_memory = "/dev/shm" if os.path.isdir("/dev/shm") else None  # noqa: PTH112
    with tempfile.TemporaryDirectory(dir=in_memory) as folder:
        tempfile.tempdir, usual = folder, tempfile.tempdir
        tools = Path(folder, "tools")
        tools.mkdir()
        program = tools / "echo"
        program.symlink_to(shutil.which("cat") or "/bin/cat")
        try:
            yield from _run(program)
        finally:
            tempfile.tempdir = usual


def _run(program: Path) -> Iterator[Answer]:
    tools = Tools.in_folder(program.parent, slots=Slots(SLOTS))
    limiter = trio.CapacityLimiter(SLOTS)

    async def ours() -> None:
        async with open_workspace() as workspace:
            answer = await tools.run("echo", GIVEN, workspace=workspace, run_key=0)
        assert answer == GIVEN

    async def floor() -> None:
        async with limiter:
            done = await trio.run_process(
                [str(program)], stdin=QUESTION, capture_stdout=True, capture_stderr=True
            )
        assert msgspec.json.decode(done.stdout) == GIVEN

    for name, callers in (("alone", 1), ("many", CALLERS)):
        mine, bare = alternate(
            partial(_seconds, ours, callers),
            partial(_seconds, floor, callers),
            rounds=5,
        )
        yield against_floor(
            f"tools.call.{name}",
            mine * 1e3,
            "ms",
            floor=bare * 1e3,
            limit=1.5,
            detail={"calls/s": round(1 / mine), "callers": callers},
        )


def _seconds(call: Callable[[], Awaitable[None]], callers: int) -> float:
    return trio.run(_timed, call, callers)


async def _timed(call: Callable[[], Awaitable[None]], callers: int) -> float:
    """Seconds a call."""

    async def caller() -> None:
        for _ in range(CALLS // callers):
            await call()

    start = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for _ in range(callers):
            nursery.start_soon(caller)
    return (time.perf_counter() - start) / (CALLS // callers * callers)
