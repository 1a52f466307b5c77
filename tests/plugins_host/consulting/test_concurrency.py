"""Hundreds of runs on shared processes, against a plain sequential model of the chain.

Each run carries its own script in its input: what every policy will say about every step,
and after how long. The model says what must come of it when the run is alone. Whatever the
others do, wait, cancel or break, a run must see its own consultations, in order, with its
own data, and nothing else.
"""

from collections import defaultdict
from contextlib import suppress
from random import Random
from typing import Any

import msgspec
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from actors import Supervisor
from plugins_host.consulting.chain import Chain
from plugins_host.consulting.links import Asking, Link
from plugins_host.consulting.outcomes import (
    Failed,
    MiddlewareFailure,
    Passed,
    Proceeded,
    Rejected,
    Replaced,
    RetryGranted,
    Succeeded,
)
from plugins_host.frames import Request
from plugins_host.payload import Payload
from plugins_host.processes.process import PluginProcess
from plugins_host.program import CAPABILITIES, PluginProgram
from plugins_host.seams import SEAMS, Half, NodeSubject, Seam
from plugins_host.testing import RecordedServices, Stage, Troupe

# Three plugins, five policies; B and C share a process, as A and E do, which are not next
# to each other.
HOMES = {"A": "one", "B": "two", "C": "two", "D": "three", "E": "one"}
EVERYWHERE = {seam: frozenset(row.halves) for seam, row in SEAMS.items()}
STEPS = [(Seam.NODE, Half.BEFORE), (Seam.NODE, Half.AFTER), (Seam.AGENT_ROUND, Half.BEFORE)]

Script = list[dict[str, tuple[str, float]]]
Seen = list[tuple[str, int, Any]]


def make_script(rng: Random) -> Script:
    """What each policy says at each step, and after how many seconds."""
    words = ["let"] * 12 + ["modify", "modify", "settle", "replace", "throw", "nonsense"]
    return [
        {
            policy: (rng.choice(words), rng.choice([0.0, 0.0, rng.uniform(0, 5)]))
            for policy in HOMES
        }
        for _ in STEPS
    ]


def verdict(policy: str, word: str, seam: Seam, half: Half, shown: Any) -> Any:
    """What a policy answers: a verdict, or None for an error."""
    before = half is Half.BEFORE
    if word == "throw":
        return None
    if word == "nonsense":
        return {"action": "perhaps"}
    if word == "settle":
        return {"action": "reject" if before else "fail", "reason": f"{policy} says so"}
    if seam is Seam.NODE and word == "replace":
        return {"action": "replace", "value": {"by": policy}}
    if seam is Seam.NODE and before and word == "modify":
        return {"action": "modify", "input": {**shown, "path": [*shown["path"], policy]}}
    return {"action": "proceed" if before else "pass"}


def model(run: int, script: Script) -> tuple[Seen, list[Any]]:
    """A run alone: what each policy is shown, in order, and what comes of each step."""
    seen: Seen = []
    results: list[Any] = []
    for number, (seam, half) in enumerate(STEPS):
        shown: Any = {"run": run, "step": number, "path": []}
        result: Any = ("on", shown["path"]) if half is Half.BEFORE else ("on", None)
        for policy in HOMES:
            word, _ = script[number][policy]
            seen.append((policy, number, shown["path"]))
            said = verdict(policy, word, seam, half, shown)
            if said is None or said["action"] == "perhaps":
                results.append(("failure", policy))
                return seen, results
            if said["action"] in {"reject", "fail"}:
                result = ("stopped", said["reason"])
            elif said["action"] == "replace":
                result = ("replaced", policy)
            elif said["action"] == "modify":
                shown = said["input"]
                result = ("on", shown["path"])
                continue
            else:
                continue
            break
        results.append(result)
        if result[0] == "stopped":
            break
    return seen, results


class World:
    """The plugins of test code, and what each run's policies were shown."""

    def __init__(self, scripts: list[Script]) -> None:
        self.scripts = scripts
        self.seen: dict[int, Seen] = defaultdict(list)
        self.answered_for: dict[Any, int] = {}

    async def play(self, troupe: Troupe, nursery: trio.Nursery) -> None:
        """Be every process that is ever started."""
        number = 0
        while True:
            number += 1
            stage = await troupe.on_stage(number)
            nursery.start_soon(self._be, stage, nursery)

    async def _be(self, stage: Stage, nursery: trio.Nursery) -> None:
        scopes: dict[Any, trio.CancelScope] = {}
        with suppress(AssertionError):  # heddle closed its stdin
            while True:
                request = await stage.asked()
                if request.method == "cancel":
                    call = msgspec.json.decode(request.params)["call"]
                    if call in scopes:
                        scopes[call].cancel()
                    stage.answers(request, {})
                elif request.method in {"before", "after"}:
                    scopes[request.id] = trio.CancelScope()
                    nursery.start_soon(self._answer, stage, request, scopes[request.id])
                else:
                    stage.answers(request, {})

    async def _answer(
        self, stage: Stage, request: Request, scope: trio.CancelScope
    ) -> None:
        question = msgspec.json.decode(request.params)
        policy, seam = question["componentType"], Seam(question["seam"])
        half = Half(request.method)
        shown = question["input"] if "input" in question else question["outcome"]["value"]
        run, number = shown["run"], shown["step"]
        self.seen[run].append((policy, number, shown["path"]))
        stage.asks("emitEvent", request, name="seen", data={"run": run})
        word, delay = self.scripts[run][number][policy]
        with scope:
            await trio.sleep(delay)
            said = verdict(policy, word, seam, half, shown)
            if said is None:
                stage.refuses(request, "Error", f"thrown by {policy}")
            else:
                stage.answers(request, said)


async def go(chain: Chain, run: int, services: RecordedServices) -> list[Any]:
    """One run: its steps one after the other, and what came of each."""
    results: list[Any] = []
    asking = Asking(services, lambda _: None)
    subject = NodeSubject(f"node of {run}", "LlmNode")
    for number, (seam, half) in enumerate(STEPS):
        payload = Payload.of({"run": run, "step": number, "path": []})
        try:
            if half is Half.BEFORE:
                outcome: Any = await chain.before(seam, subject, payload, asking)
            else:
                outcome = await chain.after(seam, subject, Succeeded(payload), asking)
        except MiddlewareFailure as failure:
            results.append(("failure", failure.middleware, str(failure)))
            return results
        match outcome:
            case Proceeded(input=given):
                results.append(("on", given.value["path"]))
            case Passed():
                results.append(("on", None))
            case Replaced(value=value):
                results.append(("replaced", value.value["by"]))
            case Rejected(reason=reason) | Failed(reason=reason):
                results.append(("stopped", reason))
                return results
            case RetryGranted():
                raise AssertionError(outcome)
    return results


def is_prefix(part: list[Any], whole: list[Any]) -> bool:
    return part == whole[: len(part)]


class Played(msgspec.Struct):
    """What was seen of one world."""

    world: World
    results: dict[int, list[Any]]
    services: list[RecordedServices]
    plugins: list[PluginProcess]


def play(seed: int, count: int, *, cancel: bool, kill: bool) -> Played:
    """Let ``count`` runs go at once; some are cancelled, some processes die."""
    rng = Random(seed)
    scripts = [make_script(rng) for _ in range(count)]
    world = World(scripts)
    results: dict[int, list[Any]] = {}
    services = [RecordedServices() for _ in range(count)]
    plugins: list[PluginProcess] = []

    async def one(chain: Chain, run: int, start: float, patience: float) -> None:
        await trio.sleep(start)
        with trio.move_on_after(patience):
            results[run] = await go(chain, run, services[run])

    async def main() -> None:
        troupes = {name: Troupe() for name in ("one", "two", "three")}
        async with Supervisor("plugins") as supervisor, trio.open_nursery() as nursery:
            askers = {}
            for name, troupe in troupes.items():
                program = PluginProgram(name, (name,), "/", {}, frozenset(CAPABILITIES))
                plugin = PluginProcess(
                    program, supervisor, log=lambda _: None, spawn=troupe.spawn
                )
                plugins.append(plugin)
                askers[name] = plugin
                nursery.start_soon(world.play, troupe, nursery)
            chain = Chain(
                [
                    Link(p, home, b"{}", EVERYWHERE, askers[home])
                    for p, home in HOMES.items()
                ]
            )

            async def reaper() -> None:
                for _ in range(5):
                    await trio.sleep(rng.uniform(0, 8))
                    stage = rng.choice(list(troupes.values())).stages[-1]
                    stage.exits(-9)

            async with trio.open_nursery() as runs:
                for run in range(count):
                    patience = rng.uniform(0, 10) if cancel and rng.random() < 0.3 else 1000
                    runs.start_soon(one, chain, run, rng.uniform(0, 3), patience)
                if kill:
                    for troupe in troupes.values():
                        await troupe.on_stage()
                    runs.start_soon(reaper)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))
    return Played(world, results, services, plugins)


def check_own_events(played: Played) -> None:
    """The events of a run are those of its own consultations, one for each."""
    for run, services in enumerate(played.services):
        owners = [data["run"] for _, _, _, data in services.events]
        assert set(owners) <= {run}


seeds = st.integers(0, 2**32)


@settings(max_examples=10)
@given(seeds)
def test_each_run_sees_what_it_would_see_alone(seed: int) -> None:
    played = play(seed, 200, cancel=False, kill=False)
    assert len(played.results) == 200
    for run, script in enumerate(played.world.scripts):
        seen, results = model(run, script)
        assert played.world.seen[run] == seen
        assert [result[:2] for result in played.results[run]] == results
        assert len(played.services[run].events) == len(seen)
    check_own_events(played)
    assert all(plugin.counts.late == 0 for plugin in played.plugins)
    assert all(plugin.counts.started == 1 for plugin in played.plugins)


@settings(max_examples=10)
@given(seeds)
def test_runs_that_are_cancelled_hurt_no_others(seed: int) -> None:
    played = play(seed, 200, cancel=True, kill=False)
    assert 100 < len(played.results) < 200
    for run, script in enumerate(played.world.scripts):
        seen, results = model(run, script)
        if run in played.results:
            assert played.world.seen[run] == seen
            assert [result[:2] for result in played.results[run]] == results
        else:
            assert is_prefix(played.world.seen[run], seen)
    check_own_events(played)
    assert all(plugin.counts.retired == 0 for plugin in played.plugins)


@settings(max_examples=4)
@given(st.lists(seeds, min_size=4, max_size=4))
def test_processes_that_die_fail_the_runs_that_are_in_them_and_no_others(
    worlds: list[int],
) -> None:
    assert sum(check_deaths(play(seed, 150, cancel=True, kill=True)) for seed in worlds) > 0


def check_deaths(played: Played) -> int:
    """Check the runs of a world in which processes died; how many died with one."""
    gone = 0
    for run, script in enumerate(played.world.scripts):
        seen, results = model(run, script)
        asked = played.world.seen[run]
        assert is_prefix(asked, seen)
        if run not in played.results:
            continue
        found = played.results[run]
        if "killed by signal 9" in str(found[-1]):
            gone += 1
            assert is_prefix([result[:2] for result in found[:-1]], results)
            # The policy that was being asked is named; it need not have read the question.
            last = len(asked)
            assert found[-1][1] in {
                policy for policy, *_ in seen[max(0, last - 1) : last + 1]
            }
        else:
            assert asked == seen
            assert [result[:2] for result in found] == results
    check_own_events(played)
    assert sum(plugin.counts.started for plugin in played.plugins) > 3
    return gone
