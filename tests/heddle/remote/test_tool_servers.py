"""Tools of MCP servers in runs: real servers, as processes and over HTTP."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trio

from heddle.engine.faults import NodeFailed
from heddle.engine.plan import make_plan
from heddle.engine.run import Run
from heddle.engine.testing import FakeModels, FakeTools
from heddle.engine.walk import Limits
from heddle.engine.work import Services
from heddle.remote import RemoteService
from heddle.remote import servers as module
from heddle.remote.servers import McpMissing
from heddle.spec import DocumentError, read_document
from heddle.tools.group import lives_in
from plugins_host import ModelResponse, ToolCall
from tests.support.flows import (
    agent,
    component,
    document,
    end,
    flow,
    model,
    prop,
    start,
    tool,
)
from tests.support.http_stub import Answer, Asked, http_stub

Plain = dict[str, Any]
SERVER = str(Path(__file__).parent / "mcp_server.py")


def stdio(**fields: Any) -> Plain:
    return component(
        "StdioTransport",
        "things",
        **{"command": sys.executable, "args": [SERVER], **fields},
    )


def http(port: int, **fields: Any) -> Plain:
    url = f"http://127.0.0.1:{port}/mcp"
    return component("StreamableHTTPTransport", "things", **{"url": url, **fields})


def mcp(name: str, transport: Plain, **fields: Any) -> Plain:
    return component("MCPTool", name, client_transport=transport, **fields)


def box(transport: Plain, **fields: Any) -> Plain:
    return component("MCPToolBox", "box", client_transport=transport, **fields)


async def ran(
    *nodes: Plain,
    inputs: Plain | None = None,
    models: FakeModels | None = None,
    remote: RemoteService | None = None,
) -> Plain:
    names = ["start", *(node["name"] for node in nodes), "end"]
    plain = flow([start(), *nodes, end()], names, shared=[model()])
    plan = make_plan(read_document(document(plain)))
    remote = remote or RemoteService({})
    services = Services(
        models=models or FakeModels(),
        tools=FakeTools({}),
        report=lambda event: None,
        remote=remote,
    )
    try:
        return await Run(plan, services, Limits()).execute(inputs or {})
    finally:
        await remote.aclose()


@contextmanager
def served(*more: str) -> Iterator[int]:
    """The server over HTTP, in a process of its own."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, SERVER, str(port), *more], stderr=subprocess.DEVNULL, cwd="/"
    )
    try:
        until = time.monotonic() + 30
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            assert time.monotonic() < until
            time.sleep(0.05)
        yield port
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with served() as port:
        yield port


ADD = [prop("a", "integer"), prop("b", "integer", default=10)]


async def test_tools_of_a_process_are_used_by_tool_nodes_in_one_session() -> None:
    found = await in_one_session(stdio(), [prop("who")])
    assert found["who"] == found["again"]
    assert found["sum"] == 11
    with pytest.raises(ProcessLookupError):
        os.kill(int(found["who"]), 0)


async def in_one_session(transport: Plain, who: list[Plain]) -> Plain:
    shared = {"$component_ref": "things"}
    plain = flow(
        [
            start(),
            tool("one", uses={**mcp("whoami", shared), "id": "m1"}, outputs=who),
            tool(
                "two", uses={**mcp("whoami", shared), "id": "m2"}, outputs=[prop("again")]
            ),
            tool(
                "three",
                uses=mcp("add", shared, inputs=ADD),
                outputs=[prop("sum", "integer")],
            ),
            end(),
        ],
        ["start", "one", "two", "three", "end"],
        shared=[transport],
    )
    plan = make_plan(read_document(document(plain)))
    remote = RemoteService({})
    services = Services(FakeModels(), FakeTools({}), lambda event: None, remote=remote)
    found = await Run(plan, services, Limits()).execute({"a": 1})
    await remote.aclose()
    return found


async def test_a_toolbox_gives_an_agent_what_its_server_offers(port: int) -> None:
    calls = ModelResponse("", tool_calls=(ToolCall("c1", "add", '{"a": 2, "b": 3}'),))
    models = FakeModels([calls, "five"])
    remote = RemoteService({})
    boxed = agent("ask", tools=[])
    boxed["agent"]["toolboxes"] = [box(http(port))]
    found = await ran(boxed, models=models, remote=remote)
    assert found["result"] == "five"
    offered = {each.name: each for each in models.requests[0].tools}
    assert set(offered) == {"add", "shout", "boom", "die", "whoami", "hang"}
    assert offered["add"].description == "Add two numbers."
    assert offered["add"].parameters["required"] == ["a"]
    assert json.loads(models.requests[1].messages[-1].content) == {"result": 5}
    assert remote.client.open_connections == 0


async def test_a_filter_chooses_describes_and_asks_for_confirmation(port: int) -> None:
    spec = component(
        "MCPToolSpec",
        "shout",
        description="LOUD",
        inputs=[prop("text")],
        requires_confirmation=True,
    )
    calls = ModelResponse("", tool_calls=(ToolCall("c1", "shout", '{"text": "x"}'),))
    models = FakeModels([calls, "ok"])
    boxed = agent("ask", tools=[])
    boxed["agent"]["toolboxes"] = [box(http(port), tool_filter=["add", spec])]
    await ran(boxed, models=models)
    names = [(each.name, each.description) for each in models.requests[0].tools]
    assert names == [("add", "Add two numbers."), ("shout", "LOUD")]
    assert "needs a person's confirmation" in models.requests[1].messages[-1].content


@pytest.mark.parametrize(
    ("filter_", "own", "words"),
    [
        (["ad"], [], "has no tool 'ad', which its 'tool_filter' names"),
        (
            [component("MCPToolSpec", "shout", inputs=[prop("words")])],
            [],
            "has the inputs 'text', and its MCPToolSpec says 'words'",
        ),
        (
            [component("MCPToolSpec", "shout", inputs=[prop("text", "integer")])],
            [],
            "takes 'text' as string",
        ),
        (
            None,
            [component("ServerTool", "shout")],
            "has more than one tool named 'shout'",
        ),
    ],
)
async def test_a_toolbox_that_does_not_fit_its_server_fails_the_agent(
    filter_: Any, own: list[Plain], words: str, port: int
) -> None:
    boxed = agent("ask", tools=own)
    boxed["agent"]["toolboxes"] = [box(http(port), tool_filter=filter_)]
    with pytest.raises(NodeFailed) as caught:
        await ran(boxed)
    assert words in str(caught.value)


async def test_a_tool_that_fails_fails_its_node_with_what_is_said(port: int) -> None:
    with pytest.raises(NodeFailed, match="failed: Error executing tool boom"):
        await ran(tool("ask", uses=mcp("boom", http(port))))


async def test_what_a_server_says_is_told_without_the_secrets_of_its_transport() -> None:
    def answer(asked: Asked) -> Answer:
        message = json.loads(asked.body or b"{}")
        told = f"no {asked.headers['x-key']} here"
        error = {"code": -1, "message": told}
        error = {"jsonrpc": "2.0", "id": message.get("id"), "error": error}
        return Answer(error, headers={"content-type": "application/json"})

    async with http_stub(answer) as stub:
        transport = http(stub.port, sensitive_headers={"X-Key": "hush-hush"})
        with pytest.raises(NodeFailed) as caught:
            await ran(tool("ask", uses=mcp("add", transport)))
    assert "no *** here" in str(caught.value)


async def test_a_server_over_server_sent_events_is_used() -> None:
    with served("sse") as port:
        transport = component("SSETransport", "things", url=f"http://127.0.0.1:{port}/sse")
        remote = RemoteService({})
        uses = mcp("add", transport, inputs=ADD)
        found = await ran(tool("ask", uses=uses), inputs={"a": 1}, remote=remote)
        assert found["result"] == 11
        assert remote.client.open_connections == 0


async def test_after_a_server_died_the_next_use_starts_it_again() -> None:
    models = FakeModels(
        [
            ModelResponse("", tool_calls=(ToolCall("c1", "die", "{}"),)),
            ModelResponse("", tool_calls=(ToolCall("c2", "add", '{"a": 1}'),)),
            "two",
        ]
    )
    boxed = agent("ask", tools=[])
    boxed["agent"]["toolboxes"] = [box(stdio(), tool_filter=["die", "add"])]
    await ran(boxed, models=models)
    answers = [json.loads(models.requests[n].messages[-1].content) for n in (1, 2)]
    assert "gave no answer" in answers[0]["error"]
    assert answers[1] == {"result": 2}


async def test_a_server_that_dies_in_a_call_is_told_of() -> None:
    with pytest.raises(NodeFailed) as caught:
        await ran(tool("ask", uses=mcp("die", stdio())))
    assert "its tool server 'things' gave no answer" in str(caught.value)


@pytest.mark.parametrize(
    ("transport", "words"),
    [
        (stdio(command="/no/such/program"), "its command is not there"),
        (http(9), "can't be used"),
    ],
)
async def test_a_server_that_is_not_there_fails_the_node(
    transport: Plain, words: str
) -> None:
    with pytest.raises(NodeFailed) as caught:
        await ran(tool("ask", uses=mcp("add", transport)))
    assert words in str(caught.value)
    assert "tool server 'things'" in str(caught.value)


async def test_servers_are_held_to_where_a_flow_may_go(port: int) -> None:
    remote = RemoteService({}, permit=lambda host, address: False)
    with pytest.raises(NodeFailed, match="not to be reached"):
        await ran(tool("ask", uses=mcp("add", http(port))), remote=remote)


async def test_a_cancelled_run_ends_the_server_and_what_it_started(tmp_path: Path) -> None:
    noted = tmp_path / "pid"
    slow = tmp_path / "slow.py"
    slow.write_text(
        "import os, sys\n"
        "import subprocess\n"
        "child = subprocess.Popen(['sleep', '300'])\n"
        f"file = open({str(noted)!r}, 'w')\n"
        "print(os.getpid(), child.pid, file=file, flush=True)\n"
        "sys.stdin.read()\n"
    )
    async with trio.open_nursery() as nursery:
        node = tool("ask", uses=mcp("add", stdio(args=[str(slow)])))

        async def run() -> None:
            await ran(node)

        nursery.start_soon(run)
        with trio.fail_after(30):
            # Another process writes it.
            while not (noted.exists() and noted.read_text().endswith("\n")):  # noqa: ASYNC110
                await trio.sleep(0.02)
        nursery.cancel_scope.cancel()
    server, child = map(int, noted.read_text().split())
    assert not lives_in(server, server)
    assert not lives_in(child, server)


async def test_without_the_sdk_it_is_said_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(McpMissing, match=r"pip install 'heddle\[mcp\]'"):
        async with module.open_sessions(RemoteService({}).client):
            pytest.fail("there is no SDK")


@pytest.mark.parametrize(
    ("transport", "words"),
    [
        (
            http(9, url="things/mcp"),
            "this is no HTTP URL: it has no scheme",
        ),
        (http(9, headers={"x": "a\r\nb: c"}), "has characters that no header has"),
        (
            http(9, sensitive_headers={"Host": "x"}),
            "the header 'Host' is written by heddle",
        ),
        (
            http(
                9,
                auth=component(
                    "OAuthConfig",
                    "login",
                    redirect_uri="http://x",
                    client=component("OAuthClientConfig", "c", type="dynamic_registration"),
                ),
            ),
            "is of type OAuthConfig, and heddle does not log in to tool servers",
        ),
    ],
)
def test_a_transport_that_can_not_be_used_is_refused_with_the_document(
    transport: Plain, words: str
) -> None:
    boxed = agent("two", tools=[])
    boxed["agent"]["toolboxes"] = [box(transport)]
    for node in (tool("two", uses=mcp("add", transport)), boxed):
        plain = flow([start(), node, end()], ["start", "two", "end"], shared=[model()])
        with pytest.raises(DocumentError) as caught:
            make_plan(read_document(document(plain)))
        assert words in str(caught.value)


KILLED = """
import os, signal, sys
import trio
from heddle.remote.client import RemoteClient
from heddle.remote.mcp_transports import open_transport
from heddle.spec import StdioTransport

STUCK = "echo $$ > pid.new; mv pid.new pid; while :; do :; done"

async def main():
    transport = StdioTransport(
        id="t", name="t", command="/bin/sh", args=("-c", STUCK), cwd=os.getcwd()
    )
    async with open_transport(transport, RemoteClient(environ={})):
        while not os.path.exists("pid"):
            await trio.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)

trio.run(main)
"""


def test_a_tool_server_that_is_stuck_ends_when_heddle_is_killed(tmp_path: Path) -> None:
    killed = subprocess.run(
        [sys.executable, "-c", KILLED], check=False, cwd=tmp_path, timeout=60
    )
    assert killed.returncode == -signal.SIGKILL
    server = int((tmp_path / "pid").read_text())
    until = time.monotonic() + 30
    while lives_in(server, server):
        assert time.monotonic() < until
        time.sleep(0.01)
