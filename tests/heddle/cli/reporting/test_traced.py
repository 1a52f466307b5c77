"""The events of traced runs as plain lines, and `heddle run --trace`."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from heddle.cli.reporting.plain import PlainLines
from heddle.cli.reporting.traced import traced
from heddle.events import (
    AgentCompleted,
    AgentStarted,
    ErrorInfo,
    InputAsked,
    InputGiven,
    ModelAnswered,
    ModelAsked,
    StateShown,
    SubflowCompleted,
    SubflowStarted,
    Traced,
)
from plugins_host import Message, ModelRequest
from tests.support.flows import component, end, flow, inner, start

HELLO: Final = (Message("user", "Hello"),)
BUSY: Final = ErrorInfo("ModelServerError", "status 500\x1b[31m")
SAID: Final[tuple[tuple[Traced, str], ...]] = (
    (ModelAsked("ask", "m", "llm", ModelRequest("small", HELLO)), "asks small, 1 message"),
    (
        ModelAsked("ask", "m", "llm", ModelRequest("", HELLO * 3)),
        "asks a model, 3 messages",
    ),
    (ModelAnswered("ask", "m", "llm", 400, {"content": "x"}), "llm answered (0.4 s)"),
    (
        ModelAnswered("ask", "m", "llm", 400, error=BUSY),
        "llm failed: status 500\\x1b[31m (0.4 s)",
    ),
    (AgentStarted("ask", "ann", "Agent", "a", {}), "ann begins"),
    (AgentCompleted("ask", "ann", "Agent", "a", {"r": 1}), "ann is done"),
    (AgentCompleted("ask", "ann", "Agent", "a", None, "bob"), "ann hands over to bob"),
    (SubflowStarted("ask", "inner", {}, ("ask", 0)), "flow inner begins"),
    (SubflowCompleted("ask", "inner", {}, ("ask", 0)), "flow inner is done"),
)
SILENT: Final[tuple[Traced, ...]] = (
    InputAsked("ask", "i", "Well?"),
    InputGiven("ask", "i", "Yes"),
    StateShown("ask", {"x": 1}),
)


@pytest.mark.parametrize(("event", "said"), SAID)
def test_an_event_of_a_traced_run_is_a_line(event: Traced, said: str) -> None:
    (text,) = traced(event, lambda _: "")
    assert text.endswith(f": {said}")
    assert list(PlainLines().lines(event)) == [text]


def test_what_others_tell_or_nobody_asked_to_see_is_no_line() -> None:
    assert [text for each in SILENT for text in PlainLines().lines(each)] == []
    (text,) = PlainLines(verbose=True).lines(SILENT[-1])
    assert text == '  ask: goes on with {"x":1}'


def heddle(folder: Path, plain: dict[str, Any], *flags: str) -> Any:
    (folder / "flow.json").write_text(json.dumps(plain))
    return subprocess.run(
        [sys.executable, "-m", "heddle", "run", "flow.json", *flags],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_trace_adds_events_to_those_of_any_run(tmp_path: Path) -> None:
    walked = inner("in", [start(), end()], ["start", "end"])
    nodes = [start(), component("FlowNode", "sub", subflow=walked), end()]
    plain = flow(nodes, ["start", "sub", "end"])

    def told(*flags: str) -> list[str]:
        done = heddle(tmp_path, plain, "--protocol", "heddle", *flags)
        assert done.returncode == 0, done.stderr
        return [json.loads(each)["type"] for each in done.stdout.splitlines()]

    kinds = told("--trace")
    assert kinds.count("subflow_start") == kinds.count("subflow_complete") == 1
    more = {"subflow_start", "subflow_complete", "state_snapshot"}
    assert [each for each in kinds if each not in more] == told()


def test_a_chat_shows_no_traces(tmp_path: Path) -> None:
    done = heddle(tmp_path, flow([start(), end()], ["start", "end"]), "-i", "--trace")
    assert done.returncode == 2
    assert "--trace: a chat shows no traces. Leave out -i, or --trace." in done.stderr
