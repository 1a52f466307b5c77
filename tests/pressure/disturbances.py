"""What is done to a server: one function for each kind of step, and who carries them out.

Each takes the stage and a step, does it for as long as the step says, and tells what it
has hit. Whatever it does is undone when it ends, however that is: but for the clock, which
stays wrong until the next step.
"""

import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from math import inf
from typing import Final, TypeAlias

import trio
from msgspec import Struct

from tests.pressure.plan import LENGTHS, Step
from tests.pressure.rude import be_rude
from tests.pressure.stage import WORKERS, Stage, children


class Done(Struct):
    """A step that was carried out, in trio's seconds; ``over`` is inf meanwhile."""

    step: Step
    began: float
    over: float = inf
    hit: str = ""


Disturb: TypeAlias = Callable[[Stage, Step], Awaitable[str]]

CLOCKS: Final = (-86_400.0, -3600.0, -5.0, 0.0, 5.0, 3600.0, 30 * 86_400.0)
"""Seconds by which the wall clock is wrong: an hour's summer time, a lost battery."""


def chosen(step: Step, among: Sequence[tuple[str, int]]) -> tuple[str, int] | None:
    """One of several by the choice of a step; None of none."""
    return among[int(step.choice * len(among))] if among else None


def send(pid: int, number: int) -> None:
    """Send a signal to a process that may be gone."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


async def kill_policy(stage: Stage, step: Step) -> str:
    """A policy's process is killed."""
    await trio.lowlevel.checkpoint()
    found = chosen(step, stage.policies())
    if found is None:
        return "nobody: none was there"
    send(found[1], signal.SIGKILL)
    return f"the policy in {found[0]}, pid {found[1]}"


async def stop_policy(stage: Stage, step: Step) -> str:
    """A policy's process does not move for a while."""
    found = chosen(step, stage.policies())
    if found is None:
        return "nobody: none was there"
    await _stop(found[1], step.seconds)
    return f"the policy in {found[0]}, pid {found[1]}"


async def kill_worker(stage: Stage, step: Step) -> str:
    """A worker is killed, unless there is but one: then nobody could answer."""
    await trio.lowlevel.checkpoint()
    workers = serving(stage)
    if len(workers) < WORKERS:
        return "nobody: the last one that was killed is not back"
    _, pid = workers[int(step.choice * len(workers))]
    send(pid, signal.SIGKILL)
    return f"pid {pid}"


async def stop_worker(stage: Stage, step: Step) -> str:
    """A worker does not move for a while."""
    found = chosen(step, serving(stage))
    if found is None:
        return "nobody: none was there"
    await _stop(found[1], step.seconds)
    return f"pid {found[1]}"


def serving(stage: Stage) -> list[tuple[str, int]]:
    """The workers that have come as far as having plugins."""
    return [("worker", pid) for pid in stage.workers() if children(pid)]


async def _stop(pid: int, seconds: float) -> None:
    send(pid, signal.SIGSTOP)
    try:
        await trio.sleep(seconds)
    finally:
        send(pid, signal.SIGCONT)


async def cut_sockets(stage: Stage, _: Step) -> str:
    """All connections over the relay are reset."""
    await trio.lowlevel.checkpoint()
    return f"{stage.relay.cut()} connections"


async def fill_disk(stage: Stage, step: Step) -> str:
    """The disk for temporary files is full for a while."""
    stage.fill()
    try:
        await trio.sleep(step.seconds)
    finally:
        stage.empty()
    return "a disk of the server's own" if stage.disk else "the size of all files was 0"


async def step_clock(stage: Stage, step: Step) -> str:
    """The wall clock is another from now on."""
    await trio.lowlevel.checkpoint()
    offset = CLOCKS[int(step.choice * len(CLOCKS))]
    stage.set_clock(offset)
    return f"{offset:+g} s from now on"


def _moody(mood: str) -> Disturb:
    async def disturb(stage: Stage, step: Step) -> str:
        stage.models.mood = mood
        before = stage.models.asked
        try:
            await trio.sleep(step.seconds)
        finally:
            stage.models.mood = ""
        return f"{stage.models.asked - before} calls"

    return disturb


DISTURBANCES: Final[Mapping[str, Disturb]] = {
    "kill a policy": kill_policy,
    "stop a policy": stop_policy,
    "kill a worker": kill_worker,
    "stop a worker": stop_worker,
    "cut the sockets": cut_sockets,
    "fill the disk": fill_disk,
    "step the clock": step_clock,
    "slow the models": _moody("slow"),
    "break the models": _moody("wrong"),
    "silence the models": _moody("silent"),
    "send rude clients": be_rude,
}

assert set(DISTURBANCES) == set(LENGTHS)


async def disturb(stage: Stage, schedule: Sequence[Step], done: list[Done]) -> None:
    """Carry out a schedule; what was done is in ``done`` as soon as it begins."""
    start = trio.current_time()
    async with trio.open_nursery() as nursery:
        for step in schedule:
            await trio.sleep_until(start + step.at)
            nursery.start_soon(_carry_out, stage, step, done)


async def _carry_out(stage: Stage, step: Step, done: list[Done]) -> None:
    record = Done(step, trio.current_time())
    done.append(record)
    try:
        record.hit = await DISTURBANCES[step.kind](stage, step)
    finally:
        record.over = trio.current_time()
