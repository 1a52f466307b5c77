"""What each command loads. Starting fast is a promise, and an import breaks it quietly."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.heddle.cli.conftest import WriteFlow, WriteTool, surroundings, tool_node

# Slow ones, each wanted by something that these commands do not do.
RUNNING = {"trio", "heddle.engine.run"}
NEVER = {
    "asyncio",
    "httptools",
    "jsonschema",
    "prompt_toolkit",
    "rich",
    "trio_websocket",
    "yaml",
    "heddle.server",
    "heddle.cli.live.reader",
}
TOOLS = {"heddle.tools"}


def loaded(folder: Path, *arguments: str) -> set[str]:
    """The modules that a command has loaded when it is done."""
    code = (
        "import sys\n"
        "from heddle.__main__ import main\n"
        "try: status = main()\n"
        "except SystemExit as e: status = e.code\n"
        "import json\n"
        "print(json.dumps(list(sys.modules)), file=sys.stderr)\n"
        "sys.exit(status)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        cwd=folder,
        env=surroundings(folder),
        check=True,
    )
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["run", "--help"], ["completion", "zsh"], ["init", "demo"]],
)
def test_commands_that_read_no_flow_load_next_to_nothing(
    tmp_path: Path, arguments: list[str]
) -> None:
    modules = loaded(tmp_path, *arguments)
    assert not modules & (RUNNING | NEVER | TOOLS | {"heddle.spec", "heddle.launch"})
    assert "click" in modules


def test_validating_json_loads_nothing_that_runs(tmp_path: Path, flow: WriteFlow) -> None:
    modules = loaded(tmp_path, "validate", flow())
    assert not modules & (RUNNING | NEVER | TOOLS)
    assert "heddle.spec" in modules


def test_only_yaml_needs_yaml(tmp_path: Path, flow: WriteFlow) -> None:
    modules = loaded(tmp_path, "validate", flow(name="flow.yaml"))
    assert not modules & ((RUNNING | NEVER | TOOLS) - {"yaml"})
    assert "yaml" in modules


def test_running_start_to_end_loads_no_tool_and_no_model(
    tmp_path: Path, flow: WriteFlow
) -> None:
    modules = loaded(tmp_path, "run", flow())
    assert not modules & (NEVER | TOOLS | {"heddle.models.client", "jsonschema"})
    assert modules >= RUNNING


def test_running_a_tool_loads_no_model(
    tmp_path: Path, flow: WriteFlow, tool: WriteTool
) -> None:
    tool("t", "echo '{}'")
    modules = loaded(tmp_path, "run", flow(tool_node("t")), "--tools-dir", "tools")
    assert not modules & (NEVER | {"heddle.models.client"})
    assert modules >= TOOLS


def test_a_chat_in_a_pipe_loads_nothing_of_one_on_a_terminal(
    tmp_path: Path, flow: WriteFlow
) -> None:
    modules = loaded(tmp_path, "run", "-i", flow())
    assert not modules & NEVER
    assert "heddle.cli.chat.plain" in modules
