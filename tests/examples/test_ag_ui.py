"""The AG-UI example: what it makes of runs is what that protocol's own models take."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import Event
from pydantic import TypeAdapter

from plugins_host.checking.examples import EVENTS as EVENTS_OF_HEDDLE
from tests.heddle.cli.conftest import agent_node, document, surroundings, tool_node

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugins" / "ag-ui"
ENCODER = str(EXAMPLE / "agui_encoder.json")
FLAGS = ("--tools-dir", "tools", "--plugin", ENCODER, "--protocol", "ag-ui")
EVENTS: TypeAdapter[Any] = TypeAdapter(Event)


@pytest.fixture(autouse=True, scope="module")
def importable() -> Iterator[None]:
    sys.path.insert(0, str(EXAMPLE))
    yield
    sys.path.remove(str(EXAMPLE))


def read(frames: Sequence[dict[str, Any]]) -> list[Any]:
    """Frames as events of the protocol; its own models refuse what is none."""
    return [EVENTS.validate_json(json.dumps(each["data"])) for each in frames]


def ran(folder: Path, *nodes: dict[str, Any]) -> tuple[int, list[Any]]:
    """A run from the command line, in events of the protocol."""
    (folder / "flow.json").write_text(json.dumps(document(*nodes)))
    done = subprocess.run(
        [sys.executable, "-m", "heddle", "run", "flow.json", *FLAGS],
        capture_output=True,
        cwd=folder,
        env=surroundings(folder),
        timeout=100,
        check=False,
    )
    assert b"Traceback" not in done.stderr
    return done.returncode, read([json.loads(line) for line in done.stdout.splitlines()])


def tool(folder: Path, name: str, shell: str) -> None:
    (folder / "tools").mkdir(exist_ok=True)
    (folder / "tools" / name).write_text(f"#!/bin/sh\n{shell}\n")
    (folder / "tools" / name).chmod(0o755)


def test_a_run_with_text_and_tools_is_a_well_formed_stream(tmp_path: Path) -> None:
    tool(tmp_path, "look", "echo '{\"seen\": 3}'")
    script = [
        {"content": "Let me look.", "tool_calls": [{"name": "look", "arguments": {}}]},
        {"content": "There are three."},
    ]
    status, events = ran(tmp_path, agent_node("ask", script, "look"))

    assert status == 0
    kinds = [each.type.value for each in events]
    assert kinds[0] == "RUN_STARTED"
    assert kinds[-1] == "RUN_FINISHED"
    assert events[-1].result["result"] == "There are three."
    assert events[0].run_id == events[-1].run_id
    texts: dict[str, str] = {}
    for each in events:
        if each.type.value == "TEXT_MESSAGE_CONTENT":
            texts[each.message_id] = texts.get(each.message_id, "") + each.delta
    assert list(texts.values()) == ["Let me look.", "There are three."]
    begun = [e.message_id for e in events if e.type.value == "TEXT_MESSAGE_START"]
    ended = [e.message_id for e in events if e.type.value == "TEXT_MESSAGE_END"]
    assert begun == ended == list(texts)
    (result,) = [each for each in events if each.type.value == "TOOL_CALL_RESULT"]
    assert json.loads(result.content) == {"seen": 3}
    started = [each.step_name for each in events if each.type.value == "STEP_STARTED"]
    finished = [each.step_name for each in events if each.type.value == "STEP_FINISHED"]
    assert started == finished == ["start", "ask", "end"]


def test_a_run_that_fails_ends_with_its_error(tmp_path: Path) -> None:
    tool(tmp_path, "look", "echo no >&2; exit 3")
    status, events = ran(tmp_path, tool_node("look"))

    assert status == 1
    assert events[-1].type.value == "RUN_ERROR"
    assert events[-1].code == "NodeFailed"
    assert "look" in events[-1].message


def test_every_event_of_heddle_becomes_events_of_the_protocol() -> None:
    import typing

    import msgspec
    from agui_encoder import AgUi  # type: ignore[import-not-found]

    import heddle.events

    class Asked:
        run_id = "r"

    state = {"a": 1}
    error = {"name": "E", "message": "no"}
    told: list[dict[str, Any]] = [
        {"type": "flow_start"},
        {"type": "node_start", "nodeName": "n", "nodeType": "T", "state": state,
         "attempt": 1},
        {"type": "token_delta", "nodeName": "n", "delta": ""},
        {"type": "token_delta", "nodeName": "n", "delta": "Hi"},
        {"type": "token_discard", "nodeName": "n", "characters": 2},
        {"type": "token_delta", "nodeName": "n", "delta": "Ho"},
        {"type": "token_delta", "nodeName": "m", "delta": "from another node"},
        {"type": "tool_call", "nodeName": "n", "toolName": "t", "toolArgs": {"x": 1},
         "toolCallId": "c", "startedAt": 1.0},
        {"type": "tool_result", "nodeName": "n", "toolName": "t", "toolCallId": "c",
         "duration": 1.0, "error": error},
        {"type": "warning", "message": "odd"},
        {"type": "message", "nodeName": "n", "sender": "agent", "message": "Well?"},
        {"type": "message", "nodeName": "n", "sender": "user", "message": ""},
        {"type": "plugin_log", "nodeName": "n", "nodeType": "T", "level": "info",
         "message": "m"},
        {"type": "plugin:Gate:seen", "nodeName": "n", "nodeType": "T", "data": None},
        {"type": "node_error", "nodeName": "n", "nodeType": "T", "error": error,
         "attempt": 1},
        {"type": "node_start", "nodeName": "n", "nodeType": "T", "state": state,
         "attempt": 2},
        {"type": "node_complete", "nodeName": "n", "nodeType": "T", "state": state,
         "attempt": 2},
        {"type": "flow_complete", "state": state},
    ]  # fmt: skip
    shown = {each["type"] for each in told}
    told[-1:-1] = [each for each in EVENTS_OF_HEDDLE if each["type"] not in shown]
    tags = {
        each.__struct_config__.tag
        for each in typing.get_args(heddle.events.Event)
        if msgspec.inspect.is_struct_type(each)
    }
    assert {each["type"] for each in told} >= {tag for tag in tags if tag}
    encoder = AgUi()
    made = [frame for each in told for frame in encoder.encode(each, Asked())]

    assert read([*made, *encoder.finish(Asked())])
    assert encoder.runs == {}


def test_a_run_that_breaks_off_is_ended_all_the_same() -> None:
    from agui_encoder import AgUi

    class Asked:
        run_id = "r"

    encoder = AgUi()
    encoder.encode({"type": "flow_start"}, Asked())
    encoder.encode({"type": "node_start", "nodeName": "n", "attempt": 1}, Asked())
    encoder.encode({"type": "token_delta", "nodeName": "n", "delta": "Hi"}, Asked())
    kinds = [each.type.value for each in read(encoder.finish(Asked()))]

    assert kinds == ["TEXT_MESSAGE_END", "STEP_FINISHED", "RUN_ERROR"]
