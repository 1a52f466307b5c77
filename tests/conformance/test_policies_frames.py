"""How many frames policies cost, counted where they leave heddle: in the plugin's stdin.

Consecutive policies of one process are asked in one frame, if their runtime can do it.
Halves that nobody declared cost nothing at all.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from heddle.engine.gate import Policies
from heddle.engine.testing import FakeModels, run_document
from heddle.events import Event, NodeCompleted
from tests.conformance.policies.sequential import Member
from tests.conformance.policies.staging import (
    LANGUAGES,
    Installation,
    Plugin,
    asked_in,
    installed,
    nothing_left,
)
from tests.conformance.policies.ten_nodes import EVERYWHERE, MET, TenNodes
from tests.support.flows import document, end, flow, llm, model, start

FOUR: Final = ("A", "P", "B", "Q")
RETRY: Final = {"nodeError.after": {"verdict": {"action": "retry"}}}


async def run_ten(policies: Policies, *, fails: bool = True) -> None:
    """Run the flow of ten nodes; each half is met as often as `MET` says."""
    run = TenNodes(policies, fails=fails)
    await run.execute()
    assert sum(isinstance(each, NodeCompleted) for each in run.events) == 10


class Frame:
    """One question that heddle asked: its verb, where, and of whom."""

    def __init__(self, line: str) -> None:
        whole = json.loads(line)
        self.verb: str = whole["method"]
        params = whole.get("params", {})
        half = params.get("half", self.verb)
        self.place = f"{params.get('seam')}.{half}"
        asked = params.get("ask", [params])
        self.asked = [each.get("componentType") for each in asked]


def questions(file: Path) -> list[Frame]:
    """What heddle wrote, without what begins and ends a process and answers a plugin.

    To be looked at when the process has ended: what copies it here need not hurry.
    """
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    frames = [Frame(line) for line in lines if "method" in json.loads(line)]
    assert [each.verb for each in frames].count("init") == bool(frames)
    return [each for each in frames if each.verb not in {"init", "shutdown"}]


def members(
    *names: str, at: frozenset[str] = EVERYWHERE, plugin: str = "four"
) -> list[Member]:
    """Members of one plugin at the same halves."""
    return [Member(name, plugin, at) for name in names]


@pytest.mark.parametrize("language", LANGUAGES)
async def test_four_policies_of_one_process_cost_one_frame_at_each_half(
    language: str, tmp_path: Path
) -> None:
    file = tmp_path / "frames"
    plugin = Plugin("four", members(*FOUR), language, frames=file)
    with nothing_left():
        async with installed(tmp_path, [plugin], {"Q": RETRY}) as company:
            await run_ten(company.policies)
    asked = questions(file)
    assert Counter(each.place for each in asked) == MET
    assert {each.verb for each in asked} == {"consult"}
    assert all(each.asked == list(FOUR) for each in asked)
    assert len(asked) == 44


async def test_a_runtime_without_the_feature_gets_a_frame_for_each_policy(
    tmp_path: Path,
) -> None:
    file = tmp_path / "frames"
    plugin = Plugin("four", members(*FOUR), one_by_one=True, frames=file)
    with nothing_left():
        async with installed(tmp_path, [plugin], {"Q": RETRY}) as company:
            await run_ten(company.policies)
    asked = questions(file)
    assert Counter(each.place for each in asked) == {
        place: 4 * times for place, times in MET.items()
    }
    assert [each.asked for each in asked] == [[name] for name in FOUR] * 44
    assert {each.verb for each in asked} == {"before", "after"}


async def test_each_process_of_a_chain_gets_its_own_frame(tmp_path: Path) -> None:
    plugins = [
        Plugin(name, members(*names, plugin=name), frames=tmp_path / name)
        for name, names in (("one", "AP"), ("two", "BQ"), ("three", "C"))
    ]
    with nothing_left():
        async with installed(tmp_path, plugins, {"C": RETRY}) as company:
            await run_ten(company.policies)
    asked = {each.name: questions(tmp_path / each.name) for each in plugins}
    for name, verbs in (
        ("one", {"consult"}),
        ("two", {"consult"}),
        ("three", {"before", "after"}),  # there is nothing to gather for one policy
    ):
        assert Counter(each.place for each in asked[name]) == MET
        assert {each.verb for each in asked[name]} == verbs


async def test_halves_that_were_not_declared_cost_no_frame(tmp_path: Path) -> None:
    file = tmp_path / "frames"
    casting = [
        *members("A", at=frozenset({"node.before", "toolCall.after"})),
        *members("P", at=frozenset({"node.before"})),
        *members("B", at=frozenset({"agentRound.after", "nodeError.after"})),
    ]
    plugin = Plugin("four", casting, frames=file)
    with nothing_left():
        async with installed(tmp_path, [plugin], {"B": RETRY}) as company:
            await run_ten(company.policies)
    asked = questions(file)
    assert Counter((each.verb, each.place, *each.asked) for each in asked) == {
        ("consult", "node.before", "A", "P"): 11,
        ("after", "toolCall.after", "A"): 2,
        ("after", "nodeError.after", "B"): 1,
        ("after", "agentRound.after", "B"): 2,
    }


@pytest.mark.parametrize("language", LANGUAGES)
async def test_what_settles_a_question_ends_its_frame_and_a_refused_retry_does_not(
    language: str, tmp_path: Path
) -> None:
    """A refused retry ends the walk in the process: the rest is asked in a second frame."""
    file = tmp_path / "frames"
    casting = members(*FOUR, at=frozenset({"modelCall.after"}))
    retry = {"modelCall.after": {"on": "ask1", "verdict": {"action": "retry"}}}
    value = {"content": "mine"}
    mine = {"on": "ask1", "verdict": {"action": "replace", "value": value}}
    script = {"P": retry, "B": {"modelCall.after": mine}}
    with nothing_left():
        plugin = Plugin("four", casting, language, frames=file)
        async with installed(tmp_path, [plugin], script) as company:
            events = await ask_once(company)
    asked = questions(file)
    assert [each.asked for each in asked] == [[*FOUR], [*FOUR], [*FOUR], ["B", "Q"]]
    told = [(each["who"], each["attempt"]) for each in asked_in(events)]
    assert told == [
        *(("A", 1), ("P", 1)),
        *(("A", 2), ("P", 2)),
        *(("A", 3), ("P", 3), ("B", 3)),
    ]


async def ask_once(company: Installation) -> list[Event]:
    _, events = await run_document(
        document(
            flow(
                [start(), llm("ask1", "hi"), end()],
                ["start", "ask1", "end"],
                shared=[model()],
            )
        ),
        models=FakeModels(["done"] * 3),
        installed=company.policies,
    )
    return events


async def test_a_process_starts_with_the_first_question_to_it(tmp_path: Path) -> None:
    """Neither its installation nor a run that asks it nothing starts it."""
    tools = members("A", at=frozenset({"toolCall.before"}), plugin="tools")
    models = members("P", at=frozenset({"modelCall.before"}), plugin="models")
    plugins = [Plugin("tools", tools), Plugin("models", models)]
    with nothing_left():
        async with installed(tmp_path, plugins, {}) as company:
            await run_document(
                document(flow([start(), end()], ["start", "end"])),
                installed=company.policies,
            )
            assert company.started == [0, 0]
            await ask_once(company)
            assert company.started == [0, 1]
            await run_ten(company.policies, fails=False)
            assert company.started == [1, 1]
