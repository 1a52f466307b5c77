"""A whole run, in which models, tools and policies answer what the input has.

One answer a line: ``m`` and a model's response, ``t`` and a tool's object, a letter of
`PLACES` and a policy's verdict there. Each is taken by the next who asks; when there is
none left, a model is done, a tool has nothing to tell, and a policy lets everything go on.
"""

import json
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import trio
from trio.testing import MockClock

from heddle.engine.faults import RunFailed
from heddle.engine.testing import FakeModels, FakeTools, policies, run_document
from heddle.engine.walk import Limits
from heddle.events import Event
from plugins_host import ModelRequest, ModelResponse
from plugins_host.seams import SEAMS, Half, Seam
from tests.fuzz.target import Target
from tests.support import flows

LIMITS = Limits(max_iterations=12, max_node_attempts=2, timeout=1000.0)
BUG = b"heddle itself failed here"
"""What is told of an error that nobody thought of."""

PROCEED, PASS = {"action": "proceed"}, {"action": "pass"}
PLACES = dict(
    zip(
        "ABCDEFGHIJ",
        [(seam, half) for seam, row in SEAMS.items() for half in row.halves],
        strict=False,
    )
)
"""Where a policy is asked, by a letter."""


class Answers:
    """What is left of the input, for each kind of who asks."""

    def __init__(self, data: bytes) -> None:
        self._left: dict[str, deque[Any]] = {kind: deque() for kind in ("m", "t", *PLACES)}
        for line in data.split(b"\n"):
            left = self._left.get(line[:1].decode("latin-1"))
            if left is not None:
                with suppress(msgspec.DecodeError, RecursionError):
                    left.append(msgspec.json.decode(line[1:]))

    def model(self, _: ModelRequest) -> ModelResponse:
        """The next response that is one."""
        while self._left["m"]:
            with suppress(msgspec.ValidationError):
                return msgspec.convert(self._left["m"].popleft(), ModelResponse)
        return ModelResponse("done")

    def tool(self, **_: Any) -> dict[str, Any]:
        """The next object."""
        while self._left["t"]:
            answer = self._left["t"].popleft()
            if isinstance(answer, dict):
                return answer
        return {}

    def policy(self) -> dict[str, dict[str, Callable[[Any, Any], Any]]]:
        """The handlers of a policy that is asked everywhere."""
        asked: dict[str, dict[str, Callable[[Any, Any], Any]]] = {}
        for letter, (seam, half) in PLACES.items():
            asked.setdefault(seam.value, {})[half.value] = self._say(letter, half)
        return asked

    def _say(self, letter: str, half: Half) -> Callable[[Any, Any], Any]:
        left, usual = self._left[letter], PROCEED if half is Half.BEFORE else PASS
        return lambda event, ctx: left.popleft() if left else usual


async def go(data: bytes) -> None:
    """Run the flow to whichever end."""
    answers = Answers(data)
    tools = FakeTools({"look": answers.tool, "count": answers.tool})
    events: list[Event] = []
    with suppress(RunFailed):
        result, _ = await run_document(
            FLOW,
            {"text": "a", "iterated_many": [1, 2]},
            models=FakeModels(answers.model),
            tools=tools,
            limits=LIMITS,
            stream=True,
            installed=policies(("One", answers.policy()), ("Two", answers.policy())),
            events=events,
            trace=True,
        )
        msgspec.json.encode(result)
    told = msgspec.json.encode(events)
    assert BUG not in told, told[told.index(BUG) :][:300]
    assert tools.open_workspaces == 0


def read(data: bytes) -> None:
    """Whatever is answered, a run completes or fails with a fault, and tells which."""
    trio.run(go, data, clock=MockClock(autojump_threshold=0))


def _flow() -> bytes:
    text, count = flows.prop("text"), flows.prop("count", "integer", default=0)
    numbers = {"items": {"type": "integer"}}
    many = flows.prop("iterated_many", "array", **numbers)
    shape = {"x": {"type": "integer"}, "y": {"type": "array", "items": {"type": "string"}}}
    answer = flows.prop("answer", "object", properties=shape, required=["x"])
    look = flows.server_tool(
        "look", inputs=[text, flows.prop("deep", "boolean", default=False)], outputs=[text]
    )
    inner = flows.inner(
        "inner",
        [
            flows.start("in", inputs=[flows.prop("many", "integer", default=1)]),
            flows.tool("count", outputs=[count]),
            flows.end("out", outputs=[count]),
        ],
        ["inner.in", "inner.count", "inner.out"],
    )
    return flows.document(
        flows.flow(
            [
                flows.start(inputs=[text, many]),
                flows.agent("help", tools=[look], outputs=[answer, text]),
                flows.llm("ask", "Say {{text}}", inputs=[text], outputs=[text]),
                flows.branching("which", {"a": "left", "b": "right"}, inputs=[text]),
                flows.component(
                    "MapNode",
                    "each",
                    subflow=flows.ref("inner"),
                    inputs=[
                        flows.prop("iterated_many", "array", items={"type": "integer"})
                    ],
                    outputs=[flows.prop("collected_count", "array", **numbers)],
                ),
                flows.component("CatchExceptionNode", "catch", subflow=flows.ref("inner")),
                flows.end(outputs=[text]),
            ],
            ["start", "help", "ask", "which"],
            [
                flows.edge("which", "each", "left"),
                flows.edge("which", "catch", "right"),
                flows.edge("which", "end", "default"),
                flows.edge("each", "end"),
                flows.edge("catch", "end"),
                flows.edge("catch", "end", "caught_exception_branch"),
            ],
            shared=[flows.model(), inner],
            inputs=[text, many],
            outputs=[text],
        )
    )


FLOW = _flow()


def _lines(**answers: list[Any]) -> bytes:
    return b"\n".join(
        kind.encode() + json.dumps(each, separators=(",", ":")).encode()
        for kind, all_of_it in answers.items()
        for each in all_of_it
    )


def _verdict(action: str) -> dict[str, Any]:
    """Some verdict of this kind, with what fits where it is taken, or does not."""
    value = {"text": "b", "content": "c", "messages": [], "arguments": {}, "count": 3}
    more = {
        "modify": {"input": value},
        "replace": {"value": value},
        "reject": {"reason": "no"},
        "fail": {"reason": "no"},
        "retry": {"delayMs": 5},
    }
    return {"action": str(action), **more.get(action, {})}


CALL = {"id": "c", "name": "look", "arguments": '{"text":"b"}'}
SAID = {"content": '{"answer":{"x":1,"y":["z"]},"text":"b"}'}

RUNS = Target(
    read,
    seeds=(
        b"",
        _lines(m=[{"content": "x", "tool_calls": [CALL]}, SAID], t=[{"text": "y"}]),
        _lines(m=[SAID, {"content": "a"}], t=[{"count": 1}, {"count": 2}]),
        _lines(m=[SAID, {"content": "b"}], t=[{"count": "no"}]),
        *(
            _lines(m=[SAID, {"content": "b"}], t=[{"count": "no"}], A=[_verdict(action)])
            for action in SEAMS[Seam.NODE_ERROR].halves[Half.AFTER].admits
        ),
        *(
            _lines(
                m=[{"content": "x", "tool_calls": [CALL, {**CALL, "id": "d"}]}, SAID],
                t=[{"text": "y"}, {"text": "z"}],
                **{letter: [verdict, verdict]},
            )
            for letter, (seam, half) in PLACES.items()
            for verdict in map(_verdict, SEAMS[seam].halves[half].admits)
        ),
    ),
    words=(
        *(b'"action":"proceed"', b'"action":"pass"', b'"action":"modify"', b"\n"),
        *(b'"action":"replace"', b'"value":{}', b'"input":{}', b'"tool_calls":[', b"null"),
        *(
            b'"messages":[]',
            b'"content":',
            b'"arguments":',
            b'"arguments":"[1]"',
            b'"text":',
        ),
        *(b'"finish_reason":"length"', b'"id":""', b'"name":"nobody"', b"m{}\n", b"t{}\n"),
    ),
)
