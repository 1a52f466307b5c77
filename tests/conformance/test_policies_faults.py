"""What users of such systems report, through whole runs over real policy processes.

The cases are those of the shared list, by their numbers. What is about one process and no
run is held at the level of the process, in tests/plugins_host.
"""

import gc
import json
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import trio

from heddle import launch, preparing
from heddle.engine.faults import PolicyFailed, RefusedByPolicy, RunFailed, RunTimedOut
from heddle.engine.testing import FakeModels, FakeTools, run_document
from heddle.engine.walk import Limits
from heddle.events import (
    Event,
    NodeCompleted,
    NodeFailed,
    NodeStarted,
    PluginLogged,
    Warned,
)
from heddle.installation import install
from plugins_host import Fault, PluginLine, PluginLog
from plugins_host.conversation import ModelResponse, ToolCall
from plugins_host.processes.calls import Call
from tests.conformance.policies.sequential import ADMITS, Member, Plain
from tests.conformance.policies.staging import (
    LANGUAGES,
    Installation,
    Plugin,
    alive,
    asked_in,
    children,
    descriptors,
    installed,
    installing,
    log_nothing,
    nothing_left,
    program,
    tasks,
    until,
    write_manifest,
    write_plugin,
)
from tests.support.flows import (
    agent,
    branching,
    document,
    edge,
    end,
    flow,
    llm,
    model,
    prop,
    server_tool,
    start,
    tool,
)

EVERYWHERE: Final = frozenset(ADMITS)


def talking(name: str) -> bytes:
    """An agent of this name, which has a tool ``look``."""
    look = server_tool("look", inputs=[prop("where")])
    nodes = [start(), agent(name, tools=[look]), end()]
    return document(flow(nodes, ["start", name, "end"], shared=[model()]))


AGENT: Final = talking("talk")
ASK: Final = document(
    flow([start(), llm("ask", "hi"), end()], ["start", "ask", "end"], shared=[model()])
)

both = pytest.mark.parametrize("language", LANGUAGES)


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    with nothing_left():
        yield


def tiny(name: str) -> bytes:
    """A StartNode of this name, and an end."""
    return document(flow([start(name), end()], [name, "end"]))


def at(*places: str) -> frozenset[str]:
    return frozenset(places)


def one(language: str, *names: str, halves: frozenset[str] = EVERYWHERE) -> list[Plugin]:
    """One plugin of these policies."""
    return [Plugin("one", [Member(name, "one", halves) for name in names], language)]


def says(place: str, verdict: Any, **more: Any) -> Plain:
    """A script of one answer."""
    return {place: {"verdict": verdict, **more}}


def asking(arguments: str = '{"where": "here"}') -> ModelResponse:
    """An answer that asks for a tool."""
    return ModelResponse("", "tool_calls", (ToolCall("c1", "look", arguments),))


async def ended(
    company: Installation,
    data: bytes,
    inputs: Plain | None = None,
    events: list[Event] | None = None,
    **how: Any,
) -> tuple[Plain | RunFailed, list[Event]]:
    """What a run came to, and its events."""
    events = [] if events is None else events
    try:
        result, _ = await run_document(
            data, inputs, installed=company.policies, events=events, **how
        )
    except RunFailed as failure:
        return failure, events
    return result, events


def places(events: Sequence[Event]) -> list[tuple[str, str]]:
    """Who was asked, and where."""
    return [(each["who"], each["place"]) for each in asked_in(events)]


# --- composition ------------------------------------------------------------------------


@both
async def test_what_two_modify_depends_on_the_order_of_installation_alone(
    language: str, tmp_path: Path
) -> None:
    """Case 1, with both in one process and in two; 50 runs at once each time."""
    halves = at("toolCall.before")
    slow: Plain = {"toolCall.before": {"delay": 200, "set": {"where": "slow"}}}
    quick: Plain = {"toolCall.before": {"set": {"where": "quick"}}}
    together = one(language, "A", "B", halves=halves)
    apart = [
        Plugin("first", [Member("A", "first", halves)], language),
        Plugin("second", [Member("B", "second", halves)], "python"),
    ]
    for plugins in (together, apart):
        for script, last in (
            ({"A": slow, "B": quick}, "quick"),
            ({"A": quick, "B": slow}, "slow"),
        ):
            ran: list[Any] = []

            async def run(company: Installation, ran: list[Any]) -> None:
                tools = FakeTools({"look": lambda where: {}})
                models = FakeModels([asking(), "done"])
                await ended(company, AGENT, models=models, tools=tools)
                ran += tools.calls

            async with (
                installed(tmp_path, plugins, script) as company,
                trio.open_nursery() as nursery,
            ):
                for _ in range(50):
                    nursery.start_soon(run, company, ran)
            assert ran == [("look", {"where": last})] * 50


@both
async def test_a_refusal_names_the_one_that_refused_and_the_next_is_not_asked(
    language: str, tmp_path: Path
) -> None:
    """Case 2."""
    halves = at("node.before")
    script = {"B": says("node.before", {"action": "reject", "reason": "not today"})}
    plugins = one(language, "A", "B", "C", halves=halves)
    async with installed(tmp_path, plugins, script) as company:
        failure, events = await ended(company, tiny("start"))
    assert isinstance(failure, RefusedByPolicy)
    assert "middleware 'B' of plugin 'one'" in str(failure)
    assert failure.reason == "not today"
    assert places(events) == [("A", "node.before"), ("B", "node.before")]


@both
async def test_what_a_redactor_took_out_of_a_call_appears_nowhere_after_it(
    language: str, tmp_path: Path
) -> None:
    """Case 3: in no event, no later question, no request of the model and no error."""
    script = {
        "A": {"toolCall.before": {"set": {"where": "***"}}},
        "B": says("toolCall.before", {"action": "reject", "reason": "no such place"}),
    }
    models = FakeModels([asking('{"where": "the secret place"}'), "done"])
    plugins = one(language, "A", "B", "C", halves=at("toolCall.before", "modelCall.before"))
    async with installed(tmp_path, plugins, script) as company:
        result, events = await ended(company, AGENT, models=models)
    assert isinstance(result, dict)
    (redacted,) = [
        event
        for event in events
        if asked_in([event]) and "secret" in repr(event)  # the redactor itself saw it
    ]
    assert asked_in([redacted])[0]["who"] == "A"
    assert "secret" not in repr(models.requests[1])
    assert "no such place" in repr(models.requests[1])


@both
@pytest.mark.parametrize("data", [ASK, AGENT], ids=["LlmNode", "AgentNode"])
async def test_the_same_is_asked_streamed_and_buffered(
    language: str, data: bytes, tmp_path: Path
) -> None:
    """Case 4, through the engine alone and through all that the command line opens."""
    script = {"A": says("modelCall.after", {"action": "pass"})}
    answers: list[ModelResponse | str]
    answers = [asking(), "done"] if data is AGENT else ["done"]
    cells = []
    async with installed(tmp_path, one(language, "A", "P"), script) as company:
        for stream in (False, True):
            models, tools = FakeModels(answers), FakeTools({"look": lambda where: {}})
            result, events = await ended(
                company, data, models=models, tools=tools, stream=stream
            )
            assert isinstance(result, dict)
            cells.append([_question(each) for each in asked_in(events)])
    cells += [await _asked_by_launch(tmp_path, data, stream=each) for each in (False, True)]
    assert cells[1:] == cells[:-1]
    assert len(cells[0]) == {ASK: 2 * 8, AGENT: 2 * 15}[data]


def _question(asked: Plain) -> tuple[Any, ...]:
    return tuple(asked[key] for key in ("who", "place", "node", "attempt", "tool"))


async def _asked_by_launch(folder: Path, data: bytes, *, stream: bool) -> list[Any]:
    """The same run with the scripted model and a real tool."""
    plain = json.loads(data)
    call = {"tool_calls": [{"name": "look", "arguments": {"where": "here"}}]}
    steps = [call, {"content": "done"}] if data is AGENT else [{"content": "done"}]
    config = plain["$referenced_components"]["model"]
    config |= {"url": "scripted:", "metadata": {"script": steps}}
    (folder / "look").write_text("#!/bin/sh\ncat >/dev/null; echo '{}'\n")
    (folder / "look").chmod(0o755)
    options = launch.RunOptions(
        tools_dir=str(folder), stream=stream, plugins=(str(folder / "one.json"),)
    )
    events: list[Event] = []
    prepared = preparing.prepare(json.dumps(plain).encode(), name="flow.json")
    await launch.run(prepared, options, events.append)
    return [_question(each) for each in asked_in(events)]


@both
@pytest.mark.parametrize("action", ["replace", "reject"])
async def test_replace_and_reject_are_honoured_before_nodes_that_do_no_work(
    language: str, action: str, tmp_path: Path
) -> None:
    """Case 5: at a StartNode, a BranchingNode and an EndNode."""
    verdict = {"action": action, "value": {"by": "policy"}, "reason": "no"}
    halves, roles = at("node.before", "node.after"), ("start", "pick", "end")
    script = {
        who: {"node.before": {"on": f"{role}{who}", "verdict": verdict}}
        for who, role in zip("ABC", roles, strict=True)
    }
    async with installed(tmp_path, one(language, *"ABC", halves=halves), script) as company:
        for who, role in zip("ABC", roles, strict=True):
            node, inputs = f"{role}{who}", {"branching_mapping_key": "1"}
            result, events = await ended(company, branch(who), inputs)
            after = [each for each in asked_in(events) if each["place"] == "node.after"]
            told = [each["who"] for each in after if each["node"] == node]
            mine = [each for each in events if getattr(each, "node_name", "") == node]
            completed = [each for each in mine if isinstance(each, NodeCompleted)]
            assert not [each for each in mine if isinstance(each, NodeFailed)]
            if action == "reject":
                assert isinstance(result, RefusedByPolicy)
                assert (told, completed) == ([], [])
                continue
            assert told == ["A", "B", "C"]
            assert [each.state for each in completed] == [{"by": "policy"}]
            if role == "pick":
                assert "never a route" in str(result)
                assert f"middleware {who!r}" in str(result)
            else:
                kept = inputs if role == "start" else {}
                assert result == {"by": "policy", **kept}


def branch(tag: str) -> bytes:
    """A StartNode, a BranchingNode and an EndNode, whose names end with the tag."""
    first, pick, last = (f"{name}{tag}" for name in ("start", "pick", "end"))
    return document(
        flow(
            [start(first), branching(pick, {"1": "one"}), end(last)],
            [first, pick],
            [edge(pick, last, "one"), edge(pick, last, "default")],
        )
    )


# --- when the policy is at fault --------------------------------------------------------

AT_FAULT: Final[Mapping[str, tuple[Plain, str]]] = {
    "hangs": ({"does": "hang"}, "it did not answer 'before' within 0.5 s"),
    "exits": ({"does": "exit"}, "its process exited with status 7"),
    "is killed": ({"does": "die"}, "its process was killed by signal 9 (SIGKILL)"),
    "throws": ({"does": "throw"}, "Error: scripted trouble"),
    "says nothing": ({"verdict": {}}, "the verdict has no 'action'"),
    "says null": ({"verdict": None}, " returned "),
    "says a text": ({"verdict": "proceed"}, " returned "),
    "says what nobody knows": (
        {"verdict": {"action": "aprove"}},
        "'aprove' is not a verdict",
    ),
    "mistakes the half": (
        {"verdict": {"action": "pass"}},
        "action 'pass' is not admitted here. Answer with an action from: modify, proceed",
    ),
    "replaces by an array": (
        {"verdict": {"action": "replace", "value": []}},
        "'value' of action 'replace' is an array",
    ),
    "misspells": (
        {"verdict": {"action": "modify", "inputs": {}}},
        "has no 'input', and has 'inputs'. Did you mean 'input'?",
    ),
}


@both
@pytest.mark.parametrize("names", ["A", "AB"], ids=["alone", "of two"])
async def test_a_gate_at_fault_lets_nothing_through_and_says_what_it_did(
    language: str, names: str, tmp_path: Path
) -> None:
    """Cases 6 and 9: alone in its process, and asked with another in one frame."""
    plugins = one(language, *names, halves=at("toolCall.before"))
    entries = [{"on": how, **entry} for how, (entry, _) in AT_FAULT.items()]
    script = {"A": {"toolCall.before": entries}}
    async with installed(tmp_path, plugins, script, patience=0.5) as company:
        for how, (_, sentence) in AT_FAULT.items():
            tools = FakeTools({"look": lambda where: {}})
            models = FakeModels([asking(), "done"])
            failure, events = await ended(company, talking(how), models=models, tools=tools)
            assert isinstance(failure, PolicyFailed), how
            assert tools.calls == []
            verb = "'before'" if names == "A" else "'consult'"
            assert sentence.replace("'before'", verb) in str(failure)
            # A process that is gone cannot say at whom it stood.
            gone = how in {"exits", "is killed"} and names == "AB"
            who = "'A, B'" if gone else "'A'"
            assert str(failure).startswith(
                f"node {how!r} (AgentNode): middleware {who} of plugin 'one', "
                "toolCall.before: "
            )
            assert [each["who"] for each in asked_in(events)] in ([], ["A"])
            failed = [each for each in events if isinstance(each, NodeFailed)]
            assert [each.error.name for each in failed] == ["PolicyFailed"]


@both
@pytest.mark.parametrize("half", ["before", "after"])
@pytest.mark.parametrize("names", ["A", "AB"], ids=["alone", "of two"])
async def test_a_policy_at_fault_around_a_node_ends_the_run_there(
    language: str, names: str, half: str, tmp_path: Path
) -> None:
    """Where whoever reads consent goes on with the run: these are none."""
    place = f"node.{half}"
    faults = {how: AT_FAULT[how] for how in AT_FAULT if how not in FAULTS_OF_BEFORE}
    entries = [{"on": how, **entry} for how, (entry, _) in faults.items()]
    plugins = one(language, *names, halves=at(place))
    async with installed(
        tmp_path, plugins, {"A": {place: entries}}, patience=0.5
    ) as company:
        for how, (_, sentence) in faults.items():
            failure, events = await ended(company, tiny(how))
            assert isinstance(failure, PolicyFailed), how
            verb = f"'{half}'" if names == "A" else "'consult'"
            assert sentence.replace("'before'", verb) in str(failure)
            gone = how in {"exits", "is killed"} and names == "AB"
            who = "'A, B'" if gone else "'A'"
            assert str(failure).startswith(
                f"node {how!r} (StartNode): middleware {who} of plugin 'one', {place}: "
            )
            begun = [each.node_name for each in events if isinstance(each, NodeStarted)]
            assert begun == ([] if half == "before" else [how])
            assert not [each for each in events if isinstance(each, NodeCompleted)]


FAULTS_OF_BEFORE: Final = frozenset(
    ("mistakes the half", "replaces by an array", "misspells")
)
"""Those that are none behind a node, or other ones."""


@both
async def test_the_command_line_says_so_and_ends_with_status_one(
    language: str, tmp_path: Path
) -> None:
    """Case 7, with the result on stdout and with the stream of events."""
    command = program("scripted", language)
    manifest = write_manifest(tmp_path, "one", command, {"A": ["node.before"]})
    (tmp_path / "flow.json").write_bytes(tiny("start"))
    argv = [sys.executable, "-m", "heddle", "run", str(tmp_path / "flow.json")]
    argv += ["--plugin", manifest, "--plugin-timeout", "500"]

    async def run(how: str, *more: str) -> None:
        entry, sentence = AT_FAULT[how]
        script = {"script": {"node.before": entry}}
        done = await trio.run_process(
            [*argv, "--plugin-config", f"A={json.dumps(script)}", *more],
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )
        assert done.returncode == 1
        told = done.stderr.decode()
        assert told.count("Error: node 'start' (StartNode): middleware 'A'") == 1
        assert sentence in told
        frames = [json.loads(line) for line in done.stdout.splitlines()]
        if not more:
            assert frames == []
            return
        assert frames[-1]["type"] == "error"
        assert sentence in frames[-1]["error"]["message"]
        assert [each["type"] for each in frames].count("error") == 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, "hangs")
        nursery.start_soon(run, "says nothing")
        nursery.start_soon(run, "exits", "--protocol", "heddle")
        nursery.start_soon(run, "throws", "--protocol", "heddle")


HABITS: Final[Mapping[str, Mapping[str, str | None]]] = {
    "python": {
        "Async": None,
        "None": "returned None. ",
        "Coroutine": "coroutine",
        "Dataclass": "returned ",
        "Interrupt": "KeyboardInterrupt",
        "Exit": "SystemExit",
        "Prints": None,
    },
    "javascript": {
        "Async": None,
        "None": "returned undefined. ",
        "Promise": "returned undefined. ",
        "Interrupt": "threw undefined",
        "Prints": None,
    },
}


@both
async def test_only_a_verdict_is_a_verdict_and_prints_corrupt_nothing(
    language: str, tmp_path: Path
) -> None:
    """Case 8: the habits of people, one process for all of them, which none may end."""
    command = program("habits", language)
    lines: list[PluginLine] = []
    started = 0
    for habit, sentence in HABITS[language].items():
        manifest = write_manifest(tmp_path, "habits", command, {habit: ["node.before"]})
        async with installing([manifest], {}, log=lines.append) as company:
            for _ in range(2):
                result, _ = await ended(company, tiny("start"), {"x": 1})
                if sentence is None:
                    assert result == {"x": 1}
                else:
                    assert isinstance(result, PolicyFailed), habit
                    assert sentence in str(result)
            assert company.started == [1]
            started += 1
    assert started == len(HABITS[language])
    told = "\n".join(line.text for line in lines if line.source != "host")
    assert "printed" in told
    assert "forged" in told


@both
async def test_a_refusal_with_more_fields_than_anybody_knows_is_a_refusal(
    language: str, tmp_path: Path
) -> None:
    """Case 9."""
    verdict = {
        "action": "reject",
        "reason": "no",
        "input": {},
        "why": ["x"],
        "delayMs": "?",
    }
    plugins = one(language, "A", halves=at("node.before"))
    async with installed(tmp_path, plugins, {"A": says("node.before", verdict)}) as company:
        failure, _ = await ended(company, tiny("start"))
    assert isinstance(failure, RefusedByPolicy)


@both
async def test_two_hundred_questions_that_are_never_answered_leave_nothing_behind(
    language: str, tmp_path: Path
) -> None:
    """Case 10: each run ends at its own deadline."""
    plugins = one(language, "A", halves=at("node.before"))
    script = {"A": {"node.before": {"on": "bad", "does": "hang"}}}
    async with installed(tmp_path, plugins, script, patience=0.5) as company:
        assert (await ended(company, tiny("good")))[0] == {}
        before = tasks(), descriptors(), _calls()
        waits: list[float] = []

        async def run() -> None:
            began = trio.current_time()
            failure, _ = await ended(company, tiny("bad"))
            waits.append(trio.current_time() - began)
            assert isinstance(failure, PolicyFailed)
            assert "within 0.5 s" in str(failure)

        async with trio.open_nursery() as nursery:
            for _ in range(200):
                nursery.start_soon(run)
        await until(lambda: company.open_calls == 0)
        assert (tasks(), descriptors(), _calls()) == before
        assert min(waits) >= 0.5
        assert (await ended(company, tiny("good")))[0] == {}
        assert company.started == [1]


def _calls() -> int:
    """The calls that somebody still holds on to."""
    gc.collect()
    return sum(type(each) is Call for each in gc.get_objects())


@both
async def test_signs_of_life_extend_a_wait_but_not_for_ever(
    language: str, tmp_path: Path
) -> None:
    """Case 11: up to ten times the budget, and never beyond the run's own time."""
    beating = {"beat": 100, "verdict": {"action": "proceed"}}
    script = {
        "A": {"node.before": {"on": "long", "delay": 1500, **beating}},
        "B": {"node.before": {"on": "endless", "delay": 60_000, **beating}},
    }
    plugins = one(language, "A", "B", halves=at("node.before"))
    took: dict[str, float] = {}
    outcomes: dict[str, Any] = {}
    lines: list[PluginLogged] = []

    async def run(name: str, node: str, limits: Limits | None = None) -> None:
        began = trio.current_time()
        outcomes[name], events = await ended(company, tiny(node), limits=limits)
        took[name] = trio.current_time() - began
        lines.extend(each for each in events if isinstance(each, PluginLogged))

    async with installed(tmp_path, plugins, script, patience=0.5) as company:
        await ended(company, tiny("warm"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run, "long", "long")
            nursery.start_soon(run, "endless", "endless")
            nursery.start_soon(run, "short run", "endless", Limits(timeout=1.0))
    assert outcomes["long"] == {}
    assert took["long"] >= 1.5
    assert isinstance(outcomes["endless"], PolicyFailed)
    assert "reported progress, but it did not answer" in str(outcomes["endless"])
    assert took["endless"] >= 5.0
    assert isinstance(outcomes["short run"], RunTimedOut)
    assert 1.0 <= took["short run"] < took["endless"]
    assert len(lines) > 40


# --- processes --------------------------------------------------------------------------


@both
async def test_a_plugin_that_does_not_start_says_why_and_recovers_by_itself(
    language: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 12: it exits at once, it hangs before it greets; then the cause is gone."""
    monkeypatch.setattr("plugins_host.processes.process.START_TIMEOUT", 1.0)
    cause = tmp_path / "cause"
    starts = f'case "$(cat {cause})" in exit) exit 3;; hang) sleep 60;; esac; exec "$@"'
    command = ["sh", "-c", starts, "sh", *program("scripted", language)]
    manifest = write_manifest(tmp_path, "one", command, {"A": ["node.before"]})
    async with installing([manifest], {}) as company:
        for how, sentence in (
            ("exit", "it did not start: its process exited with status 3"),
            ("hang", "it did not answer 'init' within 1 s"),
        ):
            cause.write_text(how)
            failure, _ = await ended(company, tiny("start"))
            assert isinstance(failure, PolicyFailed)
            assert f"middleware 'A' of plugin 'one', node.before: {sentence}" in str(
                failure
            )
        monkeypatch.setattr("plugins_host.processes.process.START_TIMEOUT", 10.0)
        cause.write_text("gone")
        assert (await ended(company, tiny("start"), {"x": 1}))[0] == {"x": 1}
        assert company.started == [3]


def test_a_program_that_is_missing_or_cannot_be_run_is_refused_at_once(
    tmp_path: Path,
) -> None:
    """Case 12: before anything runs, with what to do about it."""
    (tmp_path / "text").write_text("no program")
    for command, sentence in (
        ("./text", "'./text' is not executable. Run chmod +x ./text."),
        ("./missing", "there is no file './missing'. Check the path."),
    ):
        manifest = write_manifest(tmp_path, "one", [command], {"A": ["node.before"]})
        with pytest.raises(Fault) as caught:
            install([manifest])
        assert str(caught.value) == f"{manifest} (plugin 'one') $.command[0]: {sentence}"


@asynccontextmanager
async def by_hand(
    folder: Path, told: Plain, log: PluginLog = log_nothing
) -> AsyncIterator[Installation]:
    """A plugin that writes what it is told, about the node "bad"; else it consents."""
    command = program("by_hand", "python")
    manifest = write_manifest(folder, "hand", command, {"A": ["node.before"]})
    settings = {"A": {"node.before": {"on": "bad", **told}}}
    async with installing([manifest], settings, log=log) as company:
        yield company


async def test_what_is_printed_beside_the_frames_goes_to_the_log(tmp_path: Path) -> None:
    """Case 13."""
    lines: list[PluginLine] = []
    writes = ["debug: before\n", "ANSWER", "\ndebug: after\n\n", "  indented\n"]
    async with by_hand(tmp_path, {"writes": writes}, lines.append) as company:
        for _ in range(3):
            assert (await ended(company, tiny("bad"), {"x": 1}))[0] == {"x": 1}
        assert company.started == [1]
        await until(lambda: len(lines) == 9)
    strays = ["debug: before", "debug: after", "  indented"] * 3
    assert lines == [PluginLine("hand", "stdout", text) for text in strays]


async def test_a_broken_frame_fails_who_was_asking_and_a_fresh_process_serves_the_next(
    tmp_path: Path,
) -> None:
    """Case 13: with the beginning of the line, and where logs belong."""
    async with by_hand(tmp_path, {"writes": ['{"id": oops\n']}) as company:
        failure, _ = await ended(company, tiny("bad"))
        assert isinstance(failure, PolicyFailed)
        for part in ("a frame is not valid JSON: '{\"id\": oops'", "stdout", "stderr"):
            assert part in str(failure)
        assert (await ended(company, tiny("good"), {"x": 1}))[0] == {"x": 1}
        assert company.started == [2]


NESTED: Final = '{"x":' + "[" * 100_000 + "]" * 100_000 + "}"
ODD: Final[Mapping[str, tuple[Plain, str | None]]] = {
    "a megabyte on stderr": ({"errors": 1_000_000}, None),
    "a frame cut at every byte": ({"slowly": True}, None),
    "10 MB before a line ends": (
        {
            "big": 10_000_000,
            "writes": ['{"id":ID,"result":{"action":"proceed","more":"BIG', '"}}\n'],
        },
        None,
    ),
    "half of a surrogate pair": (
        {"writes": ['{"id":ID,"result":{"action":"reject","reason":"no \\ud800"}}\n']},
        "no \ufffd",
    ),
    "100,000 brackets": (
        {
            "writes": [
                '{"id":ID,"result":{"action":"replace","value":{"x":' + NESTED + "}}}\n"
            ]
        },
        "nested too deeply",
    ),
    "NaN": (
        {"writes": ['{"id":ID,"result":{"action":"replace","value":{"x":NaN}}}\n']},
        "a frame is not valid JSON",
    ),
    "a number beyond all bounds": (
        {"writes": ['{"id":ID,"result":{"action":"replace","value":{"x":1e999}}}\n']},
        "middleware 'A' of plugin 'hand', node.before: ",
    ),
}


@pytest.mark.parametrize("how", ODD)
async def test_an_odd_frame_works_or_fails_its_run_alone(how: str, tmp_path: Path) -> None:
    """Case 14: the others, which ask the same process meanwhile, go on."""
    told, sentence = ODD[how]
    outcomes: dict[int, Any] = {}

    async def run(number: int, company: Installation) -> None:
        node = "bad" if number % 4 == 0 else "good"
        outcomes[number], _ = await ended(company, tiny(node), {"number": number})

    async with by_hand(tmp_path, told) as company:
        async with trio.open_nursery() as nursery:
            for number in range(12):
                nursery.start_soon(run, number, company)
        assert company.started == [1]
    for number, outcome in outcomes.items():
        if number % 4 or sentence is None:
            assert outcome == {"number": number}
        else:
            assert isinstance(outcome, RunFailed)
            assert sentence in str(outcome)


@both
@pytest.mark.parametrize("size", [200_000, 5_000_000])
async def test_large_states_pass_through_policies(
    language: str, size: int, tmp_path: Path
) -> None:
    """Case 14: two policies in one frame, one of which modifies, and one after the node."""
    script = {"A": {"node.before": {"on": "start", "set": {"mark": "seen"}}}}
    plugins = one(language, "A", "P", halves=at("node.before", "node.after"))
    inputs = {"text": "grüße" * (size // 6)}
    async with installed(tmp_path, plugins, script) as company:
        result, events = await ended(company, tiny("start"), inputs)
    assert result == {**inputs, "mark": "seen"}
    assert [each["shown"].get("input", {}).get("mark") for each in asked_in(events)] == [
        *(None, "seen", None, None),
        *("seen", "seen", None, None),
    ]


@both
async def test_a_policy_that_ignores_a_cancellation_costs_no_other_run(
    language: str, tmp_path: Path
) -> None:
    """Case 23: it is asked nothing any more, and ends when the others in it are done.

    It waits, and answers others meanwhile; or it blocks, and others wait for it.
    """
    async with trio.open_nursery() as nursery:
        for still in ({"does": "stubborn"}, {"block": 1500}):
            for times_out in (True, False):
                folder = tmp_path / f"{next(iter(still))}-{times_out}"
                folder.mkdir()
                nursery.start_soon(_ignored, folder, language, still, times_out)


async def _ignored(folder: Path, language: str, still: Plain, times_out: bool) -> None:
    script = {
        "A": {"node.before": {"on": "bad", **still}},
        "B": {"node.before": {"on": "good", "delay": 1500}},
    }
    plugins = one(language, "A", "B", halves=at("node.before"))
    outcomes: dict[str, Any] = {}

    async def run(name: str, company: Installation, limits: Limits | None = None) -> None:
        outcomes[name], _ = await ended(company, tiny(name), {"x": name}, limits=limits)

    async with installed(folder, plugins, script) as company:
        await run("warm", company)
        (stubborn,) = company.pids
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run, "good", company)
            limits = Limits(timeout=0.2 if times_out else 100)
            with trio.move_on_after(100 if times_out else 0.2):
                await run("bad", company, limits)
            await until(lambda: company.plugins[0].counts.retired == 1)
            await run("later", company)
        assert company.started == [2]
        await until(lambda: not alive(stubborn))
    if times_out:
        assert isinstance(outcomes.pop("bad"), RunTimedOut)
    assert outcomes == {name: {"x": name} for name in ("warm", "good", "later")}


@both
async def test_killing_the_process_under_fifty_runs_fails_those_and_no_later_one(
    language: str, tmp_path: Path
) -> None:
    """Case 24: kill -9 from outside, and no answer reaches the wrong run."""
    script = {"A": {"node.before": {"on": "bad", "delay": 60_000}}}
    plugins = one(language, "A", "P", halves=at("node.before"))
    outcomes: list[Any] = []
    told: list[list[Event]] = [[] for _ in range(51)]

    async def run(node: str, number: int, company: Installation) -> None:
        outcome, events = await ended(company, tiny(node), {"number": number}, told[number])
        seen = {each["shown"]["input"]["number"] for each in asked_in(events)}
        assert seen <= {number}
        outcomes.append(outcome)
        if node == "good":
            assert outcome == {"number": number}
            assert seen == {number}

    async with installed(tmp_path, plugins, script) as company:
        await run("good", -1, company)
        (pid,) = company.pids
        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(run, "bad", number, company)
            # What it had not read when it is killed would be asked again.
            await until(lambda: all(asked_in(events) for events in told[:50]))
            os.kill(pid, signal.SIGKILL)
        assert len(outcomes) == 51
        for outcome in outcomes[1:]:
            assert isinstance(outcome, PolicyFailed)
            assert "its process was killed by signal 9 (SIGKILL)" in str(outcome)
        async with trio.open_nursery() as nursery:
            told = [[] for _ in range(51)]
            for number in range(50):
                nursery.start_soon(run, "good", number, company)
        assert company.started == [2]


SLOW_TOOL: Final = """#!/bin/sh
cat >/dev/null
echo $$ >> {pids}
sleep 600 &
echo $! >> {pids}
wait
"""


def slow_tool(folder: Path) -> Path:
    """A tool that never ends, nor does what it starts; where it writes down their pids."""
    pids = folder / "pids"
    (folder / "tools").mkdir()
    (folder / "tools" / "slow").write_text(SLOW_TOOL.format(pids=pids))
    (folder / "tools" / "slow").chmod(0o755)
    return pids


def written(pids: Path) -> list[int]:
    """The processes of the slow tool."""
    return [int(pid) for pid in pids.read_text().split()] if pids.exists() else []


@both
async def test_a_policy_that_ends_takes_the_tool_that_it_asked_for_with_it(
    language: str, tmp_path: Path
) -> None:
    """Case 25."""
    pids = slow_tool(tmp_path)
    plugins = one(language, "A", halves=at("node.before"))
    write_plugin(tmp_path, plugins[0])
    script = {"script": {"node.before": {"tool": "slow", "exit": 700}}}
    options = launch.RunOptions(
        tools_dir=str(tmp_path / "tools"),
        plugins=(str(tmp_path / "one.json"),),
        plugin_config=(f"A={json.dumps(script)}",),
    )
    prepared = preparing.prepare(tiny("start"), name="flow.json")
    with pytest.raises(PolicyFailed, match="its process exited with status 7"):
        await launch.run(prepared, options, lambda _: None)
    assert len(written(pids)) == 2
    await until(lambda: not any(map(alive, written(pids))))


def using(name: str) -> bytes:
    """A ToolNode that runs this tool."""
    nodes = [start(), tool("it", uses=server_tool(name)), end()]
    return document(flow(nodes, ["start", "it", "end"]))


POINTS: Final[Mapping[str, tuple[bytes, Plain]]] = {
    "a consultation": (tiny("start"), {"node.before": {"does": "hang"}}),
    "one that does not stop": (tiny("start"), {"node.before": {"does": "stubborn"}}),
    "one that blocks": (tiny("start"), {"node.before": {"block": 60_000}}),
    "a tool of a policy": (tiny("start"), {"node.before": {"tool": "slow"}}),
    "a tool of the flow": (
        document(
            flow(
                [start(), tool("it", uses=server_tool("slow")), end()],
                ["start", "it", "end"],
            )
        ),
        {},
    ),
    "the delay of a retry": (
        document(
            flow(
                [start(), tool("it", uses=server_tool("bad")), end()],
                ["start", "it", "end"],
            )
        ),
        {"nodeError.after": {"verdict": {"action": "retry", "delayMs": 30_000}}},
    ),
}


@both
@pytest.mark.parametrize("point", POINTS)
async def test_a_run_that_is_cancelled_leaves_nothing_wherever_it_was(
    language: str, point: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 26: no process, no task, no file and no folder, within a second."""
    data, script = POINTS[point]
    pids = slow_tool(tmp_path)
    (tmp_path / "tools" / "bad").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "tools" / "bad").chmod(0o755)
    (tmp_path / "temp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temp"))
    plugins = one(language, "A", halves=at("node.before", "nodeError.after"))
    write_plugin(tmp_path, plugins[0])
    options = launch.RunOptions(
        tools_dir=str(tmp_path / "tools"),
        plugins=(str(tmp_path / "one.json"),),
        plugin_config=(f"A={json.dumps({'script': script})}",),
    )
    events: list[Event] = []
    before = children(), descriptors(), tasks()

    def is_there() -> bool:
        if "tool" in point:
            return len(written(pids)) == 2
        if "retry" in point:
            return any(isinstance(each, Warned) for each in events)
        return bool(asked_in(events))

    prepared = preparing.prepare(data, name="flow.json")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(launch.run, prepared, options, events.append)
        await until(is_there)
        began = trio.current_time()
        nursery.cancel_scope.cancel()
    # A second on a machine that has nothing else to do.
    assert trio.current_time() - began < 4
    assert (children(), descriptors(), tasks()) == before
    assert list((tmp_path / "temp").iterdir()) == []
    assert not any(map(alive, written(pids)))


@both
async def test_no_process_is_ever_handed_the_settings_of_another_installation(
    language: str, tmp_path: Path
) -> None:
    """Case 30: not when it was started again either, after it died of a question."""
    plugins = one(language, "A", "P", halves=at("node.before"))
    folders = [tmp_path / "one", tmp_path / "other"]
    dies = {"node.before": {"on": "bad", "does": "exit"}}
    seen: dict[int, list[Plain]] = {0: [], 1: []}

    async def run(which: int, node: str, company: Installation) -> None:
        _, events = await ended(company, tiny(node))
        seen[which] += [each["settings"] for each in asked_in(events)]

    async with AsyncExitStack() as stack:
        companies = []
        for which, folder in enumerate(folders):
            folder.mkdir()
            script = {name: {**dies, "owner": f"{which} {name}"} for name in "AP"}
            opened = installed(folder, plugins, script)
            companies.append(await stack.enter_async_context(opened))
        for node in ("good", "bad", "good", "bad", "good"):
            async with trio.open_nursery() as nursery:
                for which, company in enumerate(companies):
                    nursery.start_soon(run, which, node, company)
                    nursery.start_soon(run, which, "good", company)
        assert all(company.started >= [3] for company in companies)
    for which, settings in seen.items():
        owners = {each["script"]["owner"] for each in settings}
        assert owners == {f"{which} A", f"{which} P"}
        assert len(settings) > 20
