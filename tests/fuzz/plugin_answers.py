"""What a plugin writes while it is asked: answers to each verb, progress, calls of its own.

Lines as on its stdout, in which ``@1`` to ``@6`` are the ids of what it was asked, in the
order of `QUESTIONS`. Between two lines heddle gets as far as it can.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from plugins_host import ModelResponse, Served, chat
from plugins_host.conversation import Message, ModelRequest
from plugins_host.plugin_faults import PluginFault
from plugins_host.testing import MemoryPipe, RecordedServices, Stage, plugin_pair
from plugins_host.verbs.rows import APPLY, APPLY_POST, CALL_TOOL, EXECUTE, LIST_TOOLS, Verb
from tests.fuzz.target import Target

LIMIT = 4096
"""Bytes of a line."""


async def _chat(served: Served, services: RecordedServices) -> object:
    said: list[str] = []
    request = ModelRequest("m", (Message("user", "?"),))
    answer = await chat(
        served, {}, request, stream=True, on_text=said.append, services=services
    )
    assert "".join(said) == answer.content
    return answer


def _asks(verb: Verb[Any]) -> Callable[[Served, RecordedServices], Any]:
    return lambda served, services: served.ask(verb, {}, services=services)


QUESTIONS = (
    _asks(EXECUTE),
    _chat,
    _asks(APPLY),
    _asks(APPLY_POST),
    _asks(CALL_TOOL),
    _asks(LIST_TOOLS),
)


async def answer(data: bytes) -> None:
    """Ask everything at once, and have the plugin write this."""
    services = RecordedServices({"t": lambda given: given}, ModelResponse("x"))
    settled = 0
    async with plugin_pair(max_line=LIMIT) as (plugin, troupe):
        served = Served("Thing", "pair", plugin, patience=60.0)

        async def ask(question: Callable[..., Any]) -> None:
            nonlocal settled
            with suppress(PluginFault):
                msgspec.json.encode(await question(served, services))
            settled += 1

        async with trio.open_nursery() as nursery:
            for question in QUESTIONS:
                nursery.start_soon(ask, question)
                await wait_all_tasks_blocked()
            stage = await troupe.on_stage()
            await _write(stage, data)
            stage.exits(0)
        assert settled == len(QUESTIONS)


async def _write(stage: Stage, data: bytes) -> None:
    ids: list[object] = []
    while len(ids) < len(QUESTIONS):
        ids.append((await stage.asked()).id)
    for number, each in enumerate(ids, 1):
        data = data.replace(b"@%d" % number, b"%d" % each)
    for line in data.split(b"\n"):
        await _drain(stage.stdin)
        stage.writes(line + b"\n")
        await wait_all_tasks_blocked()


async def _drain(pipe: MemoryPipe) -> None:
    """Read what heddle wrote, which may be whatever the plugin asked for."""
    pipe.read_nowait()


def read(data: bytes) -> None:
    """Every question is answered, or ends with a fault of the plugin's."""
    trio.run(partial(answer, data), clock=MockClock(autojump_threshold=0))


def _lines(*frames: Any) -> bytes:
    text = b"\n".join(json.dumps(each, separators=(",", ":")).encode() for each in frames)
    # Ids stand there as they are, not as texts.
    for number in range(1, 7):
        text = text.replace(b'"@%d"' % number, b"@%d" % number)
    return text


MESSAGE = {"role": "assistant", "content": "x"}
CALL = {"index": 0, "id": "c", "name": "t", "arguments": "{"}

PLUGIN_ANSWERS = Target(
    read,
    seeds=(
        _lines(
            {"id": "@1", "result": {"output": {"a": 1}, "branch": "next"}},
            {"id": "@5", "result": {"output": {}, "stderr": "x"}},
            {"id": "@6", "result": {"tools": [{"name": "t", "inputSchema": {}}]}},
        ),
        _lines(
            {"id": "@2", "partial": {"content": "a"}},
            {"id": "@2", "partial": {"tool_calls": [CALL, {"index": 0, "arguments": "}"}]}},
            {
                "id": "@2",
                "result": {
                    "content": "b",
                    "finish_reason": "stop",
                    "usage": {"inputTokens": 1, "outputTokens": 2},
                },
            },
        ),
        _lines(
            {"id": "@3", "result": {"action": "modify", "messages": [MESSAGE]}},
            {"id": "@4", "result": {"action": "reject", "reason": "no"}},
        ),
        _lines(
            {"id": 1, "method": "runTool", "params": {"call": "@1", "name": "t"}},
            {
                "id": 2,
                "method": "callModel",
                "params": {"call": "@2", "messages": [MESSAGE]},
            },
            {"id": 3, "method": "emitEvent", "params": {"call": "@1", "name": "e"}},
            {
                "id": 4,
                "method": "log",
                "params": {"call": "@1", "level": "info", "message": "m"},
            },
        ),
        _lines(
            {"id": "@1", "error": {"name": "X", "message": "m", "status": 429}},
            {"id": "@1", "result": {}},
            {"id": 99, "result": {}},
        ),
    ),
    words=(
        *(
            b"@1",
            b"@2",
            b"@3",
            b"@4",
            b"@5",
            b"@6",
            b'"result":',
            b'"partial":',
            b'"error":',
        ),
        *(
            b'"method":',
            b'"call":',
            b'"content":',
            b'"index":-1',
            b'"action":"modify"',
            b"\n",
        ),
        *(
            b"NaN",
            b"1e999",
            b"\\ud800",
            b"[[[[[[",
            b"null",
            b"printed\n",
            b'"componentType":',
        ),
    ),
    longest=3000,
)
