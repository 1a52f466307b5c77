"""The MCP proxy example against real servers: a published one and one of our own."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from heddle import launch, preparing
from heddle.engine.faults import RunFailed
from heddle.launch import RunOptions
from tests.heddle.cli.conftest import agent_node, document, tool_node

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugins" / "mcp-proxy"
PLUGIN = str(EXAMPLE / "mcp_proxy.json")

OURS = """
import os
import sys
from mcp.server import MCPServer

server = MCPServer("ours")

@server.tool()
def add(a: int, b: int) -> dict[str, int]:
    "Adds."
    return {"sum": a + b, "pid": os.getpid()}

@server.tool()
def fail(why: str) -> str:
    "Fails."
    raise ValueError(why)

@server.tool()
def say(text: str):
    "Says it."
    return text

if sys.argv[1] == "stdio":
    server.run("stdio")
else:
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Our own server, over HTTP."""
    folder = tmp_path_factory.mktemp("ours")
    (folder / "ours.py").write_text(OURS)
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "ours.py", str(port)],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert time.monotonic() < until
                assert process.poll() is None
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


async def test_tools_of_a_published_server_and_of_our_own_are_used_by_flows(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ours.py").write_text(OURS)
    servers = {
        "time": {"command": sys.executable, "args": ["-m", "mcp_server_time"]},
        "http": {"url": url},
        "stdio": {
            "command": sys.executable,
            "args": [str(tmp_path / "ours.py"), "stdio"],
            "prefix": "local_",
        },
        "gone": {"url": "http://127.0.0.1:9/mcp"},
    }
    listed = tmp_path / "servers.json"
    listed.write_text(json.dumps({"mcpServers": servers}))
    monkeypatch.setenv("MCP_SERVERS", str(listed))
    # What is named as plain python3 must be the one that has the SDK.
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    options = RunOptions(
        plugins=(PLUGIN,), plugin_env=("MCP_SERVERS",), discover_tools=True
    )
    said: list[str] = []

    async with launch.open_engine(
        options, plugin_log=lambda line: said.append(line.text)
    ) as engine:

        async def run(inputs: Any, *nodes: dict[str, Any]) -> dict[str, Any]:
            prepared = preparing.prepare(json.dumps(document(*nodes)).encode(), name="f")
            return await engine.run(prepared, inputs, lambda _: None, stream=False)

        own = ["add", "fail", "say"]
        assert engine.tool_names() == sorted(
            ["convert_time", "get_current_time", *own, *(f"local_{n}" for n in own)]
        )
        now = await run({"timezone": "UTC"}, tool_node("get_current_time"))
        assert "UTC" in json.dumps(now)
        readme = preparing.load(str(EXAMPLE / "flow.json"))
        told = await engine.run(readme, {"timezone": "UTC"}, lambda _: None, stream=False)
        assert str(told["datetime"]).endswith("+00:00")

        script = [
            {"tool_calls": [{"name": "add", "arguments": {"a": 2, "b": 3}}]},
            {"content": "It is {{sum}}."},
        ]
        assert (await run({}, agent_node("ask", script, "add")))["result"] == "It is 5."

        given = {"a": 1, "b": 1}
        first = await run(given, tool_node("local_add"))
        assert (await run(given, tool_node("local_add")))["pid"] == first["pid"]
        assert (await run({"text": "hi"}, tool_node("say")))["text"] == "hi"

        with pytest.raises(RunFailed, match="RuntimeError: Error executing tool fail"):
            await run({"why": "cannot be"}, tool_node("fail"))
        with pytest.raises(RunFailed, match="its input does not fit: .*integer"):
            await run({"a": "x", "b": 1}, tool_node("add"))

        # The local server dies: the call that meets it fails, and the next one does not.
        os.kill(first["pid"], signal.SIGKILL)
        for attempt in range(3):
            try:
                again = await run(given, tool_node("local_add"))
                break
            except RunFailed:
                assert attempt < 2
        assert again["pid"] != first["pid"]

    assert any("MCP server 'gone'" in line for line in said)
