"""Runs over one policy process that all of them share: what one suffers, no other does."""

import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from heddle import installation, launch
from heddle.engine.faults import PolicyFailed, RunTimedOut
from heddle.engine.walk import Limits
from heddle.launch import Engine, RunOptions
from heddle.server.endings import Cancelled, Completed, Status, Stop
from heddle.server.following.log import Batch
from heddle.server.following.reader import Reader
from heddle.server.runs.handle import RunHandle
from heddle.server.runs.registry import Runs
from tests.heddle.server.works import PREPARED

POLICY = """
import asyncio, os
from heddle.plugin import proceed, serve

async def before(event, ctx):
    given = event.input
    ctx.emit_event("entered", {"pid": os.getpid()})
    while not os.path.exists(given["until"]):
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            pass  # it ignores being cancelled
    return proceed()

serve({"Gate": {"node": {"before": before}}})
"""


@pytest.fixture
def manifest(tmp_path: Path) -> str:
    """A policy that keeps each node waiting until the file that its input names exists."""
    (tmp_path / "gate.py").write_text(POLICY)
    gate = {"componentType": "Gate", "kind": "middleware", "seams": {"node": ["before"]}}
    whole = {
        "name": "gate",
        "version": "1",
        "capabilities": ["emitEvent"],
        "components": [gate],
    }
    path = tmp_path / "gate.json"
    path.write_text(json.dumps(whole))
    return str(path)


@asynccontextmanager
async def serving(manifest: str, **limits: Any) -> AsyncIterator[tuple[Runs, Engine]]:
    installed = installation.install((manifest,), shared=True)
    async with (
        launch.open_engine(RunOptions(), installed=installed) as engine,
        Runs(engine, **limits) as runs,
    ):
        yield runs, engine


def begin(runs: Runs, until: Path, engine: Engine | None = None) -> RunHandle:
    """A run that the policy keeps until this file is there."""
    inputs = {"until": str(until), "mine": until.name}
    return runs.start(
        PREPARED, inputs, stream=False, detached=False, flow="f", maker=engine
    )


async def entered(run: RunHandle) -> int:
    """Wait until the policy has been asked for this run; the policy's process."""
    with trio.fail_after(30), Reader(run.log) as reader:
        async for item in reader:
            assert isinstance(item, Batch), run.error
            for each in item.events:
                event = msgspec.json.decode(each)
                if event["type"] == "plugin:Gate:entered":
                    pid: int = event["data"]["pid"]
                    return pid
    raise AssertionError


def ended_well(run: RunHandle, until: Path) -> bool:
    """Whether it ended with its own state."""
    assert isinstance(run.ending, Completed), run.error
    own: bool = msgspec.json.decode(run.ending.state)["mine"] == until.name
    return own


async def test_a_run_whose_caller_left_ends_and_the_other_goes_on(
    manifest: str, tmp_path: Path
) -> None:
    async with serving(manifest) as (runs, _):
        a, b = begin(runs, tmp_path / "never"), begin(runs, tmp_path / "b")
        await entered(a)
        await entered(b)
        a.cancel(Stop.CALLER_LEFT)
        with trio.fail_after(10):
            assert isinstance(await a.wait_ended(), Cancelled)
        assert (b.status, runs.active) == (Status.RUNNING, 1)
        (tmp_path / "b").touch()
        with trio.fail_after(30):
            await b.wait_ended()
        assert ended_well(b, tmp_path / "b")


async def test_a_run_whose_time_is_up_ends_and_the_other_goes_on(
    manifest: str, tmp_path: Path
) -> None:
    async with serving(manifest) as (runs, engine):
        brief = Engine(engine._models, None, engine._plugins, Limits(timeout=1.0))
        b = begin(runs, tmp_path / "b")
        await entered(b)
        a = begin(runs, tmp_path / "never", brief)
        with trio.fail_after(30):
            await a.wait_ended()
        assert isinstance(a.error, RunTimedOut)
        (tmp_path / "b").touch()
        with trio.fail_after(30):
            await b.wait_ended()
        assert ended_well(b, tmp_path / "b")


async def test_a_drain_lets_the_other_end_before_it_cancels(
    manifest: str, tmp_path: Path
) -> None:
    async with serving(manifest) as (runs, _), trio.open_nursery() as nursery:
        a, b = begin(runs, tmp_path / "never"), begin(runs, tmp_path / "b")
        await entered(a)
        await entered(b)
        nursery.start_soon(runs.drain, 3600)
        (tmp_path / "b").touch()
        with trio.fail_after(30):
            await b.wait_ended()
        assert ended_well(b, tmp_path / "b")
        assert a.status is Status.RUNNING
        runs.hurry()
        with trio.fail_after(30):
            await a.wait_ended()
        assert a.status is Status.CANCELLED


async def test_a_policy_that_is_killed_fails_those_in_flight_alone(
    manifest: str, tmp_path: Path
) -> None:
    async with serving(manifest) as (runs, _):
        in_flight = [begin(runs, tmp_path / "never") for _ in range(50)]
        processes = {await entered(run) for run in in_flight}
        (process,) = processes
        os.kill(process, signal.SIGKILL)
        with trio.fail_after(30):
            for run in in_flight:
                await run.wait_ended()
        for run in in_flight:
            assert isinstance(run.error, PolicyFailed)
            assert "SIGKILL" in str(run.error)
        later = [tmp_path / f"later{number}" for number in range(5)]
        for until in later:
            until.touch()
        handles = [begin(runs, until) for until in later]
        with trio.fail_after(30):
            for run, until in zip(handles, later, strict=True):
                await run.wait_ended()
                assert ended_well(run, until)
