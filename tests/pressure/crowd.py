"""Runs on two policies, one in Python and one in JavaScript, that all of them share.

Each run says in its inputs what the policies do when they are asked about it: go on, take
a while, hang, throw, or answer garbage. Beside that, runs are cancelled and timed out, and
the processes of the policies are killed. What may come of a run follows from what it asked
for and from what was done to it, and from nothing else: `verdict` is the whole list. Both
policies write the run's number into its state and tell it as an event, so that anything of
another run is seen.
"""

import gc
import json
import os
import shutil
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
import trio
from msgspec import Struct

from heddle import installation
from heddle.engine.faults import PolicyFailed, RunTimedOut
from heddle.engine.walk import Limits
from heddle.launch import Engine
from heddle.server.endings import Completed, RunCancelled
from heddle.server.following.log import Batch
from heddle.server.following.reader import Reader
from heddle.server.runs.handle import RunHandle
from heddle.server.runs.history import HistoryLimits
from heddle.server.runs.registry import Runs
from heddle.services import ModelService
from plugins_host import PluginLine
from plugins_host.processes.process import PluginProcess
from tests.conformance.policies.staging import (
    Installation,
    children,
    nothing_left,
    plugins_behind,
    until,
)
from tests.heddle.server.works import PREPARED

SLACK: Final = 8.0
"""Seconds that a run may take beside what it asked for, on a machine that is busy with
hundreds of others. A run that waited for another's hanging policy, or for a deadline of its
own, would take longer by the patience of each call before it."""

KEPT: Final = 64
"""Ended runs that are kept, so that what else is kept of them can be seen."""

GROWTH: Final = 32 * 2**20
"""Bytes that a process may grow by after a third of the time: far less than tens of
thousands of runs would take if anything of them stayed."""

PYTHON: Final = """
import asyncio
from heddle.plugin import modify, serve

async def before(event, ctx):
    given = event.input
    number, does = given["number"], given["does"]
    ctx.emit_event("met", {"number": number})
    if given["who"] == "py":
        if does == "slow":
            await asyncio.sleep(given["seconds"])
        elif does == "hang":
            while True:
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    pass
        elif does == "throw":
            raise RuntimeError(f"number {number} throws")
        elif does == "garbage":
            return {"action": f"garbage-{number}"}
    return modify({**given, "py": number})

serve({"Py": {"node": {"before": before}}})
"""

JAVASCRIPT: Final = """
serve({ Js: { node: { async before(event, ctx) {
  const given = event.input;
  const { number, does } = given;
  ctx.emitEvent("met", { number });
  if (given.who === "js") {
    if (does === "slow") await new Promise((on) => setTimeout(on, given.seconds * 1000));
    if (does === "hang") await new Promise(() => setInterval(() => {}, 60000));
    if (does === "throw") throw new Error(`number ${number} throws`);
    if (does === "garbage") return { action: `garbage-${number}` };
  }
  return { action: "modify", input: { ...given, js: number } };
} } } });
"""

DOES: Final = {"go on": 60, "slow": 25, "throw": 4, "garbage": 4, "hang": 2}
DONE: Final = {"nothing": 80, "cancel": 12, "time out": 8}
"""How often in a hundred a run asks for each, and each is done to one."""


class Plan(Struct, frozen=True):
    """How long, how many, and which of all courses.

    ``patience`` is how long a policy may be without a sign of life, in seconds.
    """

    seed: int
    seconds: float
    at_once: int = 500
    kill_every: float = 3.0
    patience: float = 4.0


class Kill(Struct, frozen=True):
    """A process of the policies was killed."""

    plugin: str
    at: float


class Fate(Struct):
    """A run, and what is known of it."""

    number: int
    who: str
    does: str
    done: str
    seconds: float
    began: float
    ended: float = 0.0
    cancelled: bool = False

    @property
    def inputs(self) -> Mapping[str, Any]:
        """What it says to the policies."""
        return {
            "number": self.number,
            "who": self.who,
            "does": self.does,
            "seconds": self.seconds,
        }


def verdict(
    fate: Fate, run: RunHandle, kills: list[Kill], limit: float, patience: float
) -> str:
    """What has become of a run, in a word; raises when it is no consequence of its own.

    Raises:
        AssertionError: It is another run's, or nobody's.
    """
    error = run.error
    told = f"{fate} came to {run.status}: {error}"
    match error:
        case None:
            assert isinstance(run.ending, Completed), told
            assert fate.does in ("go on", "slow"), told
            state = msgspec.json.decode(run.ending.state)
            assert state == {**fate.inputs, "py": fate.number, "js": fate.number}, told
            # Both of its nodes ask, and each question may wait as long as it says.
            assert fate.ended - fate.began < 2 * fate.seconds + SLACK, told
            return "completed"
        case RunCancelled():
            assert fate.cancelled, told
            return "cancelled"
        case RunTimedOut():
            assert fate.done == "time out", told
            assert fate.ended - fate.began >= limit, told
            return "timed out"
        case PolicyFailed():
            return _failure(fate, str(error), kills, patience, told)
        case _:
            raise AssertionError(told)


def _failure(fate: Fate, error: str, kills: list[Kill], patience: float, told: str) -> str:
    if "SIGKILL" in error:
        names = {each.plugin for each in kills if fate.began <= each.at <= fate.ended}
        assert any(f"plugin {name!r}" in error for name in names), f"{told}; {kills[-3:]}"
        return "killed with its policy"
    assert f"'{fate.who.capitalize()}'" in error, told
    match fate.does:
        case "throw":
            assert f"number {fate.number} throws" in error, told
        case "garbage":
            assert f"garbage-{fate.number}" in error, told
        case "hang":
            assert fate.ended - fate.began >= patience, told
        case _:
            raise AssertionError(told)
    return f"its policy failed ({fate.does})"


def write_policies(folder: Path) -> list[str]:
    """The manifests of both, the one in JavaScript where there is Node.js."""
    made = []
    for name, suffix, source in (("py", "py", PYTHON), ("js", "mjs", JAVASCRIPT)):
        (folder / f"{name}.{suffix}").write_text(source)
        part = {
            "componentType": name.capitalize(),
            "kind": "middleware",
            "seams": {"node": ["before"]},
        }
        whole = {
            "name": name,
            "version": "1",
            "capabilities": ["emitEvent"],
            "components": [part],
        }
        (folder / f"{name}.json").write_text(json.dumps(whole))
        made.append(str(folder / f"{name}.json"))
    assert shutil.which("node"), "one of the policies is in JavaScript"
    return made


class Crowd:
    """All runs of one plan."""

    def __init__(
        self, plan: Plan, runs: Runs, engine: Engine, plugins: Mapping[str, PluginProcess]
    ) -> None:
        self.plan = plan
        self.random = Random(plan.seed)
        self.runs = runs
        self.engine = engine
        self.plugins = plugins
        self.kills: list[Kill] = []
        self.tally: Counter[str] = Counter()
        self.until = trio.current_time() + plan.seconds
        self.numbers: Iterator[int] = count(1)

    async def go_on(self) -> None:
        """One run after the other, until the time is up."""
        while trio.current_time() < self.until:
            await self._one()

    async def _one(self) -> None:
        chosen = self.random
        fate = Fate(
            number=next(self.numbers),
            who=chosen.choice(("py", "js")),
            does=_of(DOES, chosen),
            done=_of(DONE, chosen),
            seconds=chosen.random() * 0.2,
            began=trio.current_time(),
        )
        limit = chosen.random() * 0.4
        engine = self.engine
        if fate.done == "time out":
            engine = Engine(engine._models, None, engine._plugins, Limits(timeout=limit))
        run = self.runs.start(
            PREPARED, fate.inputs, stream=False, detached=False, flow="f", maker=engine
        )
        async with trio.open_nursery() as nursery:
            if fate.done == "cancel":
                nursery.start_soon(self._cancel, fate, run, limit)
            with trio.fail_after(self.plan.seconds + 60):
                await run.wait_ended()
            fate.ended = trio.current_time()
            nursery.cancel_scope.cancel()
        await self._check_events(fate, run)
        self.tally[verdict(fate, run, self.kills, limit, self.plan.patience)] += 1

    async def _cancel(self, fate: Fate, run: RunHandle, after: float) -> None:
        await trio.sleep(after)
        fate.cancelled = True
        run.cancel()

    async def _check_events(self, fate: Fate, run: RunHandle) -> None:
        """None of its events is another's."""
        with Reader(run.log) as reader:
            async for item in reader:
                if isinstance(item, Batch):
                    for each in item.events:
                        event = msgspec.json.decode(each)
                        if event["type"].startswith("plugin:"):
                            assert event["data"] == {"number": fate.number}, fate

    async def kill(self) -> None:
        """Kill a process of the policies now and then."""
        while True:
            await trio.sleep(self.plan.kill_every * (0.5 + self.random.random()))
            name = self.random.choice(sorted(self.plugins))
            channel = self.plugins[name]._channel
            if channel is not None:
                self.kills.append(Kill(name, trio.current_time()))
                with suppress(ProcessLookupError):
                    os.kill(channel._child.pid, signal.SIGKILL)

    async def undisturbed(self) -> None:
        """When all is over the policies answer as at first."""
        for who in ("py", "js"):
            fate = Fate(next(self.numbers), who, "go on", "nothing", 0.0, 0.0)
            run = self.runs.start(
                PREPARED, fate.inputs, stream=False, detached=False, flow="f"
            )
            with trio.fail_after(30):
                await run.wait_ended()
            assert verdict(fate, run, [], 0.0, self.plan.patience) == "completed"


def _of(weights: Mapping[str, int], chosen: Random) -> str:
    return chosen.choices([*weights], [*weights.values()])[0]


def resident() -> int:
    """Bytes of memory that this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


async def press(plan: Plan, folder: Path) -> Counter[str]:
    """Carry a plan out; what has become of its runs, counted.

    Raises:
        AssertionError: A run suffered by another, or something was left.
    """
    sources = write_policies(folder)
    lines: list[PluginLine] = []
    with nothing_left():
        loaded = installation.install(sources, shared=True)
        async with installation.open_plugins(
            loaded, log=lines.append, patience=plan.patience
        ) as opened:
            assert opened.policies is not None
            plugins = {each.name: each for each in plugins_behind(opened.policies.chain)}
            engine = Engine(ModelService({}), None, opened, Limits())
            company = Installation(opened.policies, [*plugins.values()])
            limits = HistoryLimits(runs=KEPT)
            async with Runs(
                engine, max_concurrent=plan.at_once + 2, history_limits=limits
            ) as runs:
                crowd = Crowd(plan, runs, engine, plugins)
                await crowd.undisturbed()
                with nothing_of_runs_left(company, runs):
                    await _disturb(crowd)
                    # Who ignores being cancelled is retired in the end, and all that were
                    # retired end with the last call that they were asked.
                    await until(lambda: company.open_calls == 0)
                    await until(lambda: len(children()) <= len(plugins))
                    await crowd.undisturbed()
                    await until(lambda: len(children()) == len(plugins))
        assert not lines or all(line.source in ("host", "stderr") for line in lines)
    return crowd.tally


async def _disturb(crowd: Crowd) -> None:
    sizes: list[int] = []

    async def weigh() -> None:
        await trio.sleep(crowd.plan.seconds / 3)
        gc.collect()
        sizes.append(resident())

    async with trio.open_nursery() as around:
        around.start_soon(crowd.kill)
        around.start_soon(weigh)
        async with trio.open_nursery() as nursery:
            for _ in range(crowd.plan.at_once):
                nursery.start_soon(crowd.go_on)
        around.cancel_scope.cancel()
    gc.collect()
    assert resident() - sizes[0] < GROWTH, f"{sizes[0]} bytes grew to {resident()}"


class nothing_of_runs_left:  # noqa: N801  read as a verb, like contextlib's
    """What the runs inside had is gone afterwards: slots, tasks, open files."""

    def __init__(self, company: Installation, runs: Runs) -> None:
        self._company = company
        self._runs = runs

    def __enter__(self) -> None:
        self._before = self._now()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            assert self._now() == self._before

    def _now(self) -> tuple[int, ...]:
        tasks = trio.lowlevel.current_statistics().tasks_living
        files = len(list(Path("/proc/self/fd").iterdir()))
        tasks -= self._runs.resting
        return self._runs.active, self._company.open_calls, tasks, files
