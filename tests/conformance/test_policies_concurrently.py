"""Many runs over the same few policy processes: each sees its own, as if it were alone.

Each run has a story, which is the seam contract read by a program that does one thing
after the other (`policies.sequential`): what policies, model and tools say is random, and
what must come of it follows. First the engine is held to it without processes, where
hypothesis can look for the smallest story that it gets wrong; then hundreds of runs at
once, over real processes of both runtimes.

``HEDDLE_SEED`` chooses other stories. A failure names the seed and the run.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from heddle.engine.gate import Policies
from heddle.engine.testing import policies as policies_of_functions
from tests.conformance.policies import scripted
from tests.conformance.policies.sequential import (
    ADMITS,
    FAULTS,
    Bounds,
    Member,
    Plain,
    Story,
)
from tests.conformance.policies.staging import (
    LANGUAGES,
    Installation,
    Plugin,
    Seen,
    check_beginning,
    check_whole,
    installed,
    nothing_left,
    until,
    watched,
)

SEED: Final = int(os.environ.get("HEDDLE_SEED", "20261202"))

# Every way of being at fault but the one that hurts others.
OWN_FAULTS: Final = tuple(sorted(set(FAULTS) - {"dies"}))


def cast(rng: Random, plugins: Sequence[tuple[str, str]]) -> list[Member]:
    """Members by plugin, each at some halves, so that there is somebody at all of them."""
    members = [
        (name, plugin, {place for place in ADMITS if rng.random() < 0.4})
        for plugin, names in plugins
        for name in names
    ]
    for place in ADMITS:
        rng.choice(members)[2].add(place)
    return [
        Member(name, plugin, frozenset(halves), plain=name in scripted.PLAIN)
        for name, plugin, halves in members
        if halves
    ]


def in_this_process(story: Story) -> Policies:
    """The members of a story as functions of this process, which do as the story says."""
    return policies_of_functions(
        *(
            (member.name, _only(member, scripted.everywhere(scripted.plain(member.name))))
            for member in story.members
        ),
        settings={member.name: {"script": story.tag} for member in story.members},
    )


def _only(member: Member, handlers: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    places = [place.split(".") for place in sorted(member.halves)]
    return {
        seam: {half: handlers[seam][half] for of, half in places if of == seam}
        for seam, _ in places
    }


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.randoms(use_true_random=False),
    st.integers(1, 25),
    st.integers(1, 3),
    st.sampled_from([0, 0.3, 3]),
    st.booleans(),
)
def test_a_run_comes_to_what_the_contract_says(
    rng: Random, iterations: int, attempts: int, trouble: float, stream: bool
) -> None:
    members = cast(rng, [(f"{name.lower()}-plugin", name) for name in "PQRS"])
    bounds = Bounds(iterations, attempts)
    story = Story("one", members, rng, bounds, trouble=trouble, faults=OWN_FAULTS)
    scripted.SCRIPTS["one"] = story.script

    async def run() -> Seen:
        return await watched(story, in_this_process(story), stream=stream)

    check_whole(story, trio.run(run), "alone")


# --- over processes -----------------------------------------------------------------------

# Two plugins of several policies each, one of them asked in one frame and one by one, and
# one with a single policy: all that a chain can be made of.
COMPANY: Final = [("first", "APBC"), ("second", "DQE"), ("third", "F")]


class Stage:
    """A seeded set of stories, and the plugins that act in them."""

    def __init__(
        self,
        folder: Path,
        seed: int,
        languages: Sequence[str],
        runs: int,
        *,
        faults: Sequence[str] = (),
        trouble: Sequence[float] = (0, 0.3, 2),
    ) -> None:
        self.seed = seed
        self.rng = Random(seed)
        members = cast(self.rng, COMPANY)
        self.plugins = [
            Plugin(
                name,
                [each for each in members if each.plugin == name],
                language,
                one_by_one=name == "second",
            )
            for (name, _), language in zip(COMPANY, languages, strict=True)
        ]
        self.stories = [
            Story(
                str(number),
                members,
                self.rng,
                Bounds(self.rng.randrange(8, 25), self.rng.randrange(1, 4)),
                trouble=self.rng.choice(trouble),
                faults=faults,
            )
            for number in range(runs)
        ]
        script = {key: entry for each in self.stories for key, entry in each.script.items()}
        self.script = folder / "script.json"
        self.script.write_text(json.dumps(script), encoding="utf-8")
        self.folder = folder

    def where(self, story: Story) -> str:
        """How to find a failure again."""
        return f"HEDDLE_SEED={self.seed}, run {story.tag}"


async def all_at_once(
    stage: Stage, company: Installation, *, at_a_time: int = 1000, disturb: bool = False
) -> dict[str, Seen]:
    """Run all stories, so many at a time; what was seen of each.

    ``disturb``: some are cancelled in the middle, some run out of time.
    """
    rng, seen = stage.rng, {}
    places = trio.CapacityLimiter(at_a_time)

    async def one(story: Story, how: Plain) -> None:
        async with places:
            seen[story.tag] = await watched(story, company.policies, **how)

    async with trio.open_nursery() as nursery:
        for story in stage.stories:
            how: Plain = {"stream": rng.random() < 0.5}
            if disturb and rng.random() < 0.4:
                how["cancel_at"] = rng.randrange(1, 40)
            elif disturb and rng.random() < 0.2:
                how["timeout"] = rng.random() * 0.3
            nursery.start_soon(one, story, how)
    await until(lambda: company.open_calls == 0)
    return seen


@pytest.mark.parametrize("language", LANGUAGES)
async def test_hundreds_of_runs_at_once_each_see_their_own_and_in_order(
    language: str, tmp_path: Path
) -> None:
    languages = ["python", language, "python"]
    stage = Stage(tmp_path, SEED, languages, 200, faults=OWN_FAULTS)
    with nothing_left():
        async with installed(tmp_path, stage.plugins, str(stage.script)) as company:
            seen = await all_at_once(stage, company)
            assert company.started == [1, 1, 1]
    for story in stage.stories:
        check_whole(story, seen[story.tag], stage.where(story))
    # A set of stories in which little happens would prove little.
    endings = {each.ending[0] for each in seen.values()}
    assert endings > {"completed", "NodeFailed", "RefusedByPolicy", "PolicyFailed"}
    assert sum(item[0] == "asked" for each in seen.values() for item in each.trace) > 5_000


@pytest.mark.parametrize("language", LANGUAGES)
async def test_runs_that_are_broken_off_disturb_no_other(
    language: str, tmp_path: Path
) -> None:
    stage = Stage(tmp_path, SEED + 1, [language, language, "python"], 100)
    with nothing_left():
        async with installed(tmp_path, stage.plugins, str(stage.script)) as company:
            seen = await all_at_once(stage, company, disturb=True)
    broken_off = 0
    for story in stage.stories:
        was = seen[story.tag]
        if was.ending[0] in {"cancelled", "RunTimedOut"}:
            broken_off += 1
            check_beginning(story, was, stage.where(story))
        else:
            check_whole(story, was, stage.where(story))
    assert 20 < broken_off < 80


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_policy_process_that_dies_fails_who_was_asking_and_nobody_later(
    language: str, tmp_path: Path
) -> None:
    languages = [language, "python", language]
    stage = Stage(tmp_path, SEED + 2, languages, 100, faults=["dies"], trouble=[0, 0, 0, 2])
    with nothing_left():
        async with installed(tmp_path, stage.plugins, str(stage.script)) as company:
            seen = await all_at_once(stage, company, at_a_time=8)
            started = sum(company.started)
    killers = victims = 0
    for story in stage.stories:
        kind, said = (was := seen[story.tag]).ending
        if kind == "PolicyFailed" and "SIGKILL" in said:
            # It stood at one of its own questions, and had got there in its own order.
            check_beginning(story, was, stage.where(story))
            if story.ending == was.ending:
                killers += 1
            else:
                victims += 1
        else:
            check_whole(story, was, stage.where(story))
    assert killers >= 1
    assert killers + victims < len(stage.stories) - 10
    assert 3 < started <= 3 + killers + victims
