"""A call of an MCP tool that is cancelled: its server is told, and others go on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from heddle.engine.faults import NodeFault
from heddle.engine.plan import make_plan
from heddle.engine.run import Run
from heddle.engine.testing import FakeModels, FakeTools
from heddle.engine.walk import Limits
from heddle.engine.work import Services
from heddle.remote import RemoteService
from heddle.spec import read_document
from tests.heddle.remote.test_tool_servers import http, mcp, served, stdio
from tests.support.flows import (
    component,
    document,
    edge,
    end,
    flow,
    inner,
    prop,
    ref,
    start,
    tool,
)

Plain = dict[str, Any]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with served() as port:
        yield port


async def told(note: Path, *words: str) -> None:
    """Wait until the server, which is another process, has written these words."""
    with trio.fail_after(30):
        while not note.exists() or note.read_text().split() != list(words):  # noqa: ASYNC110
            await trio.sleep(0.02)


def hanging(transport: Plain) -> Plain:
    """A flow with one call that goes on for ever, and two flows after it."""
    hang = mcp("hang", ref("things"), inputs=[prop("note")])
    calling = inner(
        "calling",
        [start(inputs=[prop("note")]), tool("call", uses=hang), end()],
        ["start", "call", "end"],
        inputs=[prop("note")],
    )
    failing = inner("failing", [start(), tool("boom"), end()], ["start", "boom", "end"])
    both = component("ParallelFlowNode", "both", subflows=[calling, failing])
    risky = inner(
        "risky",
        [start(inputs=[prop("note")]), both, end()],
        ["start", "both", "end"],
        inputs=[prop("note")],
    )
    caught = component("CatchExceptionNode", "caught", subflow=risky)
    after = tool(
        "after",
        uses=mcp("shout", ref("things"), inputs=[prop("text")]),
        inputs=[prop("text", default="still here")],
        outputs=[prop("said")],
    )
    return flow(
        [start(), caught, after, end()],
        ["start", "caught", "after", "end"],
        [edge("caught", "after", "caught_exception_branch")],
        shared=[transport],
    )


async def run(plain: Plain, note: Path, **tools: Any) -> Plain:
    remote = RemoteService({})
    services = Services(FakeModels(), FakeTools(tools), lambda event: None, remote=remote)
    try:
        plan = make_plan(read_document(document(plain)))
        return await Run(plan, services, Limits()).execute({"note": str(note)})
    finally:
        await remote.aclose()


@pytest.mark.parametrize("over", ["stdio", "http"])
async def test_the_server_is_told_and_answers_the_next_call(
    over: str, port: int, tmp_path: Path
) -> None:
    note = tmp_path / "note"

    async def boom(**_: Any) -> Plain:
        await told(note, "began")
        raise NodeFault("enough")

    transport = stdio() if over == "stdio" else http(port)
    found = await run(hanging(transport), note, boom=boom)
    assert found["said"] == "STILL HERE"
    await told(note, "began", "cancelled")


@pytest.mark.parametrize("over", ["stdio", "http"])
async def test_the_server_is_told_when_the_run_is_cancelled(
    over: str, port: int, tmp_path: Path
) -> None:
    note = tmp_path / "note"

    async def wait(**_: Any) -> Plain:
        await trio.sleep_forever()
        return {}

    transport = stdio() if over == "stdio" else http(port)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: run(hanging(transport), note, boom=wait))
        await told(note, "began")
        nursery.cancel_scope.cancel()
    await told(note, "began", "cancelled")
