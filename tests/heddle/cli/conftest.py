"""The command line as a black box: arguments in, status and two streams out."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

COMMAND = [sys.executable, "-m", "heddle"]


class Done(NamedTuple):
    status: int
    stdout: str
    stderr: str


Heddle = Callable[..., Done]
WriteFlow = Callable[..., str]
WriteTool = Callable[[str, str], None]
Script = Sequence[Mapping[str, Any]]


@pytest.fixture
def heddle(tmp_path: Path) -> Heddle:
    """Run a command to its end, in a folder of the test's own."""

    def run(
        *arguments: str, stdin: str = "", environment: Mapping[str, str] | None = None
    ) -> Done:
        done = subprocess.run(
            [*COMMAND, *arguments],
            input=stdin.encode(),
            capture_output=True,
            cwd=tmp_path,
            env=surroundings(tmp_path, environment),
            timeout=100,
            check=False,
        )
        assert "Traceback" not in done.stderr.decode() or "--debug" in arguments
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


def surroundings(folder: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a command: temporary folders where the test can count them."""
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    kept = {k: v for k, v in os.environ.items() if not k.startswith("HEDDLE_")}
    return {**kept, "TMPDIR": str(temporary), "PYTHONWARNINGS": "error", **(more or {})}


@pytest.fixture
def flow(tmp_path: Path) -> WriteFlow:
    """Write a flow of nodes in a row, from a start to an end; its file name."""

    def write(*nodes: dict[str, Any], name: str = "flow.json", **fields: Any) -> str:
        (tmp_path / name).write_text(json.dumps(document(*nodes, **fields)))
        return name

    return write


@pytest.fixture
def tool(tmp_path: Path) -> WriteTool:
    """Write a shell tool into the folder ``tools``."""

    def write(name: str, shell: str) -> None:
        folder = tmp_path / "tools"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(f"#!/bin/sh\n{shell}\n")
        (folder / name).chmod(0o755)

    return write


def document(*nodes: dict[str, Any], **fields: Any) -> dict[str, Any]:
    row = [
        {"component_type": "StartNode", "id": "start", "name": "start"},
        *nodes,
        {"component_type": "EndNode", "id": "end", "name": "end"},
    ]
    names = [node["name"] for node in row]
    return {
        "component_type": "Flow",
        "id": "flow",
        "name": "flow",
        "agentspec_version": "25.4.1",
        "start_node": {"$component_ref": "start"},
        "nodes": [{"$component_ref": name} for name in names],
        "control_flow_connections": [
            {
                "component_type": "ControlFlowEdge",
                "id": f"{one}-{other}",
                "name": f"{one}-{other}",
                "from_node": {"$component_ref": one},
                "to_node": {"$component_ref": other},
            }
            for one, other in pairwise(names)
        ],
        "$referenced_components": {node["id"]: node for node in row},
        **fields,
    }


def tool_node(name: str, tool_name: str | None = None) -> dict[str, Any]:
    tool_name = name if tool_name is None else tool_name
    return {
        "component_type": "ToolNode",
        "id": name,
        "name": name,
        "tool": server_tool(tool_name),
    }


def server_tool(name: str) -> dict[str, Any]:
    return {"component_type": "ServerTool", "id": f"tool-{name}", "name": name}


def agent_node(name: str, script: Script, *tools: str) -> dict[str, Any]:
    """An agent whose model is a script."""
    return {
        "component_type": "AgentNode",
        "id": name,
        "name": name,
        "agent": {
            "component_type": "Agent",
            "id": f"agent-{name}",
            "name": name,
            "system_prompt": "Do it.",
            "llm_config": {
                "component_type": "OpenAiCompatibleConfig",
                "id": f"llm-{name}",
                "name": "model",
                "model_id": "script",
                "url": "scripted:",
                "metadata": {"script": script},
            },
            "tools": [server_tool(tool) for tool in tools],
        },
    }
