"""Flows inside flows by the command line: real policies, messages, lines and frames."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.flows import component, end, flow, inner, start

MANIFEST = {
    "name": "where",
    "version": "1.0.0",
    "components": [
        {"componentType": "Where", "kind": "middleware", "seams": {"node": ["before"]}}
    ],
    "capabilities": ["emitEvent"],
}
PROGRAM = """
from heddle.plugin import proceed, reject, serve

def before(event, ctx):
    ctx.emit_event("at", list(event.subject.node_path or [event.subject.node_name]))
    if event.input.get("stop") == event.subject.node_name:
        return reject("not in there")
    return proceed()

serve({"Where": {"node": {"before": before}}})
"""
SAY = inner(
    "sub",
    [
        start(inputs=[{"title": "who", "type": "string"}]),
        component("OutputMessageNode", "say", message="Hello {{who}}!"),
        end(outputs=[{"title": "who", "type": "string"}]),
    ],
    ["start", "say", "end"],
)
EACH = component("ParallelMapNode", "each", subflow=SAY)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "where.json").write_text(json.dumps(MANIFEST))
    (tmp_path / "where.py").write_text(PROGRAM)
    document = flow([start(), EACH, end()], ["start", "each", "end"])
    (tmp_path / "flow.json").write_text(json.dumps(document))
    return tmp_path


def heddle(folder: Path, *flags: str, **given: Any) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "heddle",
            "run",
            "flow.json",
            *flags,
            "--input",
            json.dumps(given),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=folder,
    )


def test_lines_say_which_item_a_node_and_a_message_belong_to(folder: Path) -> None:
    done = heddle(folder, iterated_who=["Ada", "Bo"])
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["collected_who"] == ["Ada", "Bo"]
    assert "> each[1] / say (OutputMessageNode)" in done.stderr
    assert "  each[1] / say >> Hello Bo!" in done.stderr


def test_a_policy_in_a_process_is_told_where_and_its_events_say_it_too(
    folder: Path,
) -> None:
    done = heddle(
        folder, "--protocol", "heddle", "--plugin", "where.json", iterated_who=["Ada"]
    )
    assert done.returncode == 0, done.stderr
    frames = [json.loads(line) for line in done.stdout.splitlines()]
    said = [each for each in frames if each.get("type") == "plugin:Where:at"]
    assert [each["data"] for each in said] == [
        ["start"],
        ["each"],
        ["each", 0, "start"],
        ["each", 0, "say"],
        ["each", 0, "end"],
        ["end"],
    ]
    assert [each.get("nodePath") for each in said] == [
        None,
        None,
        ["each", 0, "start"],
        ["each", 0, "say"],
        ["each", 0, "end"],
        None,
    ]
    (message,) = [each for each in frames if each.get("type") == "message"]
    assert message == {
        "type": "message",
        "nodeName": "say",
        "nodePath": ["each", 0, "say"],
        "sender": "agent",
        "message": "Hello Ada!",
    }
