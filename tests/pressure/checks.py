"""What must hold of a server when all is over: `Checks` asks it, and reads its log.

Each check adds a sentence to what was found, or nothing.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import trio
from msgspec import Struct

from tests.pressure.cast import NONCE, languages
from tests.pressure.disturbances import Done
from tests.pressure.load import Company, Fate, live
from tests.pressure.stage import (
    WORKERS,
    Stage,
    children,
    open_files,
    resident,
    until,
)

PATIENCE: Final = 20.0
"""Seconds for everything to be as at first."""

GROWTH: Final = 80 * 2**20
"""Bytes that a worker may have grown by: a history of ended runs, which may weigh 64 MiB,
and what the allocator keeps. In campaigns of one and two minutes the one that lived longest
grew by 26 to 48 MiB, and the length made no difference. What a request leaves that ends
badly is looked at one by one, in ``tests/heddle/server/test_faults.py``."""

SPARE_FILES: Final = 6
"""Files that a worker may have open beyond those of another: what it opens when it first
needs it."""


class Holdings(Struct, frozen=True):
    """What a server holds on to when nothing goes on.

    Attributes:
        files: The open files of each worker, by what they are.
        below: The processes below each worker.
        strays: Processes of it that it has lost.
        temporary: What is in its temporary folder.
        memory: Bytes of the largest worker.
    """

    files: tuple[Mapping[str, int], ...]
    below: tuple[int, ...]
    strays: Mapping[int, str]
    temporary: tuple[str, ...]
    memory: int


def holdings(stage: Stage) -> Holdings:
    """What a server holds on to now."""
    workers = stage.workers()
    return Holdings(
        tuple(Counter(open_files(pid)) for pid in workers),
        tuple(len(children(pid)) for pid in workers),
        stage.strays(),
        # Folders of the workers' own are there, with nothing in them.
        tuple(
            sorted(
                str(each.relative_to(stage.temporary))
                for each in stage.temporary.glob("*/*")
            )
        ),
        max((resident(pid) for pid in workers), default=0),
    )


def leftovers(before: Holdings, now: Holdings) -> list[str]:
    """In which way there is more now."""
    found = []
    if len(now.below) != WORKERS:
        found.append(f"{len(now.below)} workers are there instead of {WORKERS}")
    # One that was killed is back when it is next asked.
    elif max(now.below) > len(languages()):
        found.append(f"workers have {now.below} processes, not {len(languages())} each")
    most = max(sum(each.values()) for each in before.files)
    for each in now.files:
        if sum(each.values()) > most + SPARE_FILES:
            more = Counter(each) - Counter(before.files[0])
            found.append(
                f"open files grew from {most} to {sum(each.values())}: {dict(more)}"
            )
    found += [f"process {pid} is left: {line}" for pid, line in now.strays.items()]
    if now.temporary:
        found.append(f"temporary files are left: {now.temporary[:5]}")
    if now.memory > before.memory + GROWTH:
        found.append(f"memory grew from {before.memory} to {now.memory} bytes")
    return found


async def settled(stage: Stage, before: Holdings) -> list[str]:
    """What is left over still, once it has had time to go."""
    with trio.move_on_after(PATIENCE):
        await until(lambda: not leftovers(before, holdings(stage)), every=0.1)
    return leftovers(before, holdings(stage))


async def no_run_is_left(company: Company) -> list[str]:
    """The runs that go on though nobody waits for them, once they had time to end."""
    tries = int(PATIENCE / 0.1)
    for _ in range(tries):
        running = await company.straight.runs(status="running")
        if not running:
            return []
        await trio.sleep(0.1)
    return [f"run {each.run} goes on at {each.node!r}" for each in running]


async def answers(company: Company, fates: Iterable[Fate]) -> list[str]:
    """Whether the server does its work as at first, with nothing to disturb it."""
    found = []
    for fate in fates:
        await live(company, fate)
        if fate.ending != "completed":
            error = ": ".join(fate.error)
            found.append(f"{fate.nonce}, {fate.way}, undisturbed: {fate.ending}: {error}")
    counted = (await company.straight.capabilities())["runsInFlight"]
    if counted:
        found.append(f"{counted} runs are still counted")
    return found


def check_log(
    stage: Stage, fates: Iterable[Fate], done: Iterable[Done]
) -> tuple[Counter[str], list[str]]:
    """The endings that the log tells, counted, and what is wrong with it.

    Each run has one line about its end, and that agrees with what its client was told; runs
    whose worker was killed may have none.
    """
    found = []
    lines = [each for each in stage.log if each.get("event") == "run"]
    told: dict[str, list[str]] = {}
    for each in lines:
        told.setdefault(each["run"], []).append(each["status"])
    found += [f"run {run} ended {len(ends)} times: {ends}"
              for run, ends in told.items() if len(ends) > 1]  # fmt: skip
    killed = any(each.step.kind == "kill a worker" for each in done)
    for fate in fates:
        if not fate.run:
            continue
        ends = told.get(fate.run, [])
        if not ends and not killed:
            found.append(f"run {fate.run} ({fate.nonce}) has no end in the log")
        if ends and fate.ending in _LOGGED and ends[0] != fate.ending:
            shown = f"{fate.ending} to its client and {ends[0]} in the log"
            found.append(f"run {fate.run} ({fate.nonce}) is {shown}")
    for each in stage.log:
        text = str(each)
        if each.get("event") == "answering failed" or "heddle itself failed" in text:
            found.append(f"the log has a failure of heddle's own: {text[:2000]}")
        elif "plugin" not in each and NONCE.search(text.encode()):
            found.append(f"the log has a run's data: {text[:300]}")
        elif "event" not in each:
            found.append(f"the log has a line that is none: {text[:300]}")
    return Counter(each["status"] for each in lines), found


_LOGGED: Final = frozenset({"completed", "failed", "cancelled"})


async def ends(stage: Stage) -> list[str]:
    """Whether the server ends as it should: in time, with nothing of it left."""
    stage.process.terminate()
    status: int | None = None
    with trio.move_on_after(PATIENCE):
        status = await stage.process.wait()
    found = []
    if status != 0:
        found.append(f"the server ended with status {status}, not 0")
    strays = stage.strays()
    return found + [f"process {pid} is left: {line}" for pid, line in strays.items()]
