import json
from pathlib import Path

import pytest

from tests.heddle.cli.conftest import Heddle, WriteFlow

MANIFEST = {
    "name": "gate",
    "version": "1.0.0",
    "capabilities": [],
    "components": [
        {
            "componentType": "Gate",
            "kind": "middleware",
            "seams": {"node": ["before"]},
            "schema": {"type": "object", "properties": {"deny": {"type": "array"}}},
        }
    ],
}
PROGRAM = """
import os
from heddle.plugin import proceed, reject, serve

def before(event, ctx):
    print("asked about\\x1b[31m", event.subject.node_name, os.environ.get("SEEN"))
    if event.subject.node_name in ctx.component.get("deny", []):
        return reject("not today")
    return proceed()

serve({"Gate": {"node": {"before": before}}})
"""


@pytest.fixture
def gate(tmp_path: Path) -> str:
    """A policy that refuses the nodes that its settings name."""
    (tmp_path / "gate.json").write_text(json.dumps(MANIFEST))
    (tmp_path / "gate.py").write_text(PROGRAM)
    return "gate.json"


def test_a_policy_that_is_installed_is_asked(
    heddle: Heddle, flow: WriteFlow, gate: str
) -> None:
    done = heddle("run", flow(), "--plugin", gate)
    assert (done.status, done.stdout) == (0, "{}\n")
    assert "  [gate] asked about\\x1b[31m start None\n" in done.stderr


@pytest.mark.parametrize("protocol", [(), ("--protocol", "heddle")])
def test_what_a_policy_inside_heddle_prints_is_not_in_the_result(
    heddle: Heddle, flow: WriteFlow, tmp_path: Path, protocol: tuple[str, ...]
) -> None:
    text = PROGRAM.replace("serve({", "handlers = ({").replace(
        "def before(event, ctx):",
        "print('imported')\n\ndef before(event, ctx):\n    os.write(1, b'written\\n')",
    )
    (tmp_path / "inside.py").write_text(f"manifest = {MANIFEST!r}\n{text}")
    done = heddle("run", flow(), "--plugin", "inside.py", *protocol)
    assert done.status == 0
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[-1] == ({} if not protocol else {"type": "flow_complete", "state": {}})
    assert all(isinstance(each, dict) for each in lines)
    assert done.stderr.startswith("imported\nwritten\nasked about")


def test_a_policy_gets_its_settings_and_ends_the_run(
    heddle: Heddle, flow: WriteFlow, gate: str, tmp_path: Path
) -> None:
    (tmp_path / "settings.json").write_text('{"deny": ["end"]}')
    for settings in ('Gate={"deny": ["end"]}', "Gate=@settings.json"):
        done = heddle("run", flow(), "--plugin", gate, "--plugin-config", settings)
        assert done.status == 1
        assert "middleware 'Gate' of plugin 'gate'" in done.stderr
        assert "not today" in done.stderr


def test_what_a_policy_prints_stays_off_stdout(
    heddle: Heddle, flow: WriteFlow, gate: str
) -> None:
    done = heddle("run", flow(), "--plugin", gate, "--protocol", "heddle")
    assert all(json.loads(line)["type"] for line in done.stdout.splitlines())
    assert "[gate] asked about" in done.stderr
    assert heddle("run", flow(), "--plugin", gate, "-q").stderr == ""


def test_a_policy_sees_the_variables_it_was_given(
    heddle: Heddle, flow: WriteFlow, gate: str
) -> None:
    arguments = ["run", flow(), "--plugin", gate]
    seen = {"SEEN": "yes"}
    assert "start None" in heddle(*arguments, environment=seen).stderr
    done = heddle(*arguments, "--plugin-env", "SEEN", environment=seen)
    assert "start yes" in done.stderr


@pytest.mark.parametrize("command", [["run"], ["validate"]])
def test_a_plugin_that_cannot_be_loaded_is_told_before_anything_runs(
    heddle: Heddle, flow: WriteFlow, command: list[str]
) -> None:
    done = heddle(*command, flow(), "--plugin", "absent.json")
    assert done.status == 1
    assert done.stderr.startswith("Error: absent.json: cannot read it")
    assert done.stdout == ""


def test_a_document_may_not_name_a_middleware(
    heddle: Heddle, flow: WriteFlow, gate: str
) -> None:
    name = flow({"component_type": "Gate", "id": "g", "name": "g"})
    done = heddle("validate", name, "--plugin", gate)
    assert done.status == 1
    assert "middleware of plugin 'gate'" in done.stderr


def test_a_plugin_is_checked_without_a_flow(heddle: Heddle, gate: str) -> None:
    done = heddle("plugin", "check", gate)
    assert done.status == 0
    assert done.stdout.startswith("ok    start: ")
    assert "Gate node.before" in done.stdout


def test_a_plugin_that_breaks_its_promise_is_status_1(
    heddle: Heddle, gate: str, tmp_path: Path
) -> None:
    (tmp_path / "gate.py").write_text(PROGRAM.replace("return proceed()", "pass"))
    done = heddle("plugin", "check", gate)
    assert done.status == 1
    assert "fault Gate node.before" in done.stdout


def test_plugin_alone_shows_what_can_follow(heddle: Heddle) -> None:
    done = heddle("plugin")
    assert done.status == 2
    assert "check" in done.stderr
    assert done.stderr.startswith("Usage: heddle plugin")
