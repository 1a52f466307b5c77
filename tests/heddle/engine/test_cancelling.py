"""Runs that are cancelled in the middle, wherever they are: nothing of them goes on.

Each place is a flow whose work never ends. A run of it is cancelled, or comes to its
time-out, when everything in it waits. It then ends once, every event that something began
has one that it ended, no workspace and no task is left, and nothing is told any more.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import pytest
import trio
from msgspec import Struct
from trio.testing import MockClock, wait_all_tasks_blocked

from heddle.engine.faults import RunTimedOut
from heddle.engine.testing import FakeModels, FakeTools, run_document
from heddle.engine.together import MOST
from heddle.engine.walk import Limits
from heddle.events import (
    Event,
    FlowCompleted,
    FlowStarted,
    ModelAnswered,
    ModelAsked,
    NodeCompleted,
    NodeFailed,
    NodeStarted,
    ToolCalled,
    ToolReturned,
)
from plugins_host import ModelRequest, ModelResponse
from tests.heddle.engine.nodes.test_team import (
    around,
    asks,
    managed,
    member,
    specialized,
    swarm,
)
from tests.support.flows import (
    agent,
    component,
    document,
    edge,
    end,
    flow,
    inner,
    llm,
    model,
    prop,
    server_tool,
    start,
    tool,
)

Plain = dict[str, Any]


class Place(Struct, frozen=True):
    """Where a run is when it is cancelled.

    ``answers`` are those of the models by the instructions of who asks; an agent without
    one waits for ever, and so does every tool. ``waiting`` is what has begun by then: the
    tools and the models that never answer.
    """

    data: bytes
    waiting: int
    answers: dict[str, ModelResponse] = {}
    inputs: Plain = {}
    most: int = 1000


def alone(*nodes: Plain) -> bytes:
    names = ["start", *(node["name"] for node in nodes), "end"]
    return document(flow([start(), *nodes, end()], names, shared=[model()]))


def hanging(name: str, *takes: Plain) -> Plain:
    """A flow with a tool that never returns."""
    return inner(
        name,
        [start(inputs=list(takes)), tool("hang", inputs=list(takes)), end()],
        ["start", "hang", "end"],
        inputs=list(takes),
        outputs=[prop("done", default="no")],
    )


def mapped(kind: str, count: int) -> Place:
    node = component(kind, "each", subflow=hanging("sub", prop("x", "integer")))
    inputs = {"iterated_x": list(range(count))}
    waiting = min(count, MOST) if kind == "ParallelMapNode" else 1
    return Place(alone(node), waiting, inputs=inputs)


def caught() -> Place:
    guard = component("CatchExceptionNode", "guard", subflow=hanging("sub"))
    plain = flow(
        [start(), guard, tool("after"), end()],
        ["start", "guard", "after", "end"],
        [edge("guard", "after", "caught_exception_branch")],
    )
    return Place(document(plain), 1)


def deep(levels: int) -> Place:
    sub = hanging("sub0")
    for level in range(1, levels):
        step = component("FlowNode", "step", subflow=sub)
        sub = inner(f"sub{level}", [start(), step, end()], ["start", "step", "end"])
    return Place(alone(component("FlowNode", "step", subflow=sub)), 1)


TASK = {"task": "dig"}
LOOK = [server_tool("look")]


def sends(to: str) -> ModelResponse:
    return asks(("1", "send_message", {"to": to, "message": "dig"}))


def hands(to: str) -> ModelResponse:
    return asks(("1", "handoff_conversation", {"to": to}))


PLACES: dict[str, Callable[[], Place]] = {
    "a tool": lambda: Place(alone(tool("hang")), 1),
    "a model": lambda: Place(alone(llm("ask", "Go.")), 1),
    "an agent's model": lambda: Place(alone(agent("work", system_prompt="a")), 1),
    "an agent's tools": lambda: Place(
        alone(agent("work", system_prompt="a", tools=LOOK)),
        2,
        {"a": asks(("1", "look", {}), ("2", "look", {}))},
    ),
    "a specialized agent": lambda: Place(around(specialized("s", member("a"))), 1),
    "who is asked in a swarm": lambda: Place(swarm(("a", "b")), 1, {"a": sends("b")}),
    "who is asked by who is asked": lambda: Place(
        swarm(("a", "b"), ("b", "c")), 1, {"a": sends("b"), "b": sends("c")}
    ),
    "who was handed the conversation": lambda: Place(
        swarm(("a", "b"), handoff="always"), 1, {"a": hands("b")}
    ),
    "who was handed it, and asks": lambda: Place(
        swarm(("a", "b"), ("b", "c")), 1, {"a": hands("b"), "b": sends("c")}
    ),
    "a manager": lambda: Place(around(managed(member("m"), member("w"))), 1),
    "a worker": lambda: Place(
        around(managed(member("m"), member("w"))), 1, {"m": asks(("1", "w", TASK))}
    ),
    "a worker's tool": lambda: Place(
        around(managed(member("m"), member("w", tools=LOOK))),
        1,
        {"m": asks(("1", "w", TASK)), "w": asks(("2", "look", {}))},
    ),
    "two workers at once": lambda: Place(
        around(managed(member("m"), member("v"), member("w", tools=LOOK))),
        2,
        {"m": asks(("1", "v", TASK), ("2", "w", TASK)), "w": asks(("3", "look", {}))},
    ),
    "a flow in a flow": lambda: deep(1),
    "a flow ten levels deep": lambda: deep(10),
    "a flow as an agent": lambda: Place(
        alone(component("AgentNode", "work", agent=hanging("sub"))), 1
    ),
    "a map": lambda: mapped("MapNode", 3),
    "a parallel map": lambda: mapped("ParallelMapNode", 3),
    "a parallel map with more items than run at once": lambda: mapped(
        "ParallelMapNode", 3 * MOST
    ),
    "flows side by side": lambda: Place(
        alone(
            component(
                "ParallelFlowNode",
                "both",
                subflows=[
                    hanging("one"),
                    inner(
                        "two",
                        [start(), agent("work", system_prompt="a"), end()],
                        ["start", "work", "end"],
                        outputs=[prop("said", default="")],
                    ),
                ],
            )
        ),
        2,
    ),
    "a flow whose failures are caught": caught,
}


class Stage:
    """What a run is given: models and tools that count who waits for them."""

    def __init__(self, place: Place) -> None:
        self.waiting = 0
        self.tools = FakeTools(dict.fromkeys(("hang", "look", "after"), self._tool))
        self.models = FakeModels(self._model)
        self._answers = dict(place.answers)

    async def _for_ever(self) -> NoReturn:
        self.waiting += 1
        try:
            await trio.sleep_forever()
        finally:
            self.waiting -= 1
        raise AssertionError

    async def _tool(self, **_: Any) -> Plain:
        await self._for_ever()

    def _model(self, request: ModelRequest) -> Any:
        answer = self._answers.pop(request.messages[0].content, None)
        return answer or self._for_ever()


def node_of(event: NodeStarted | NodeCompleted | NodeFailed) -> tuple[Any, ...]:
    return (event.node_name, event.node_path, event.attempt)


def unpaired(events: list[Event]) -> Iterator[object]:
    """What began and did not end, or ended more often than it began."""
    nodes: Counter[object] = Counter()
    calls: Counter[object] = Counter()
    requests: Counter[object] = Counter()
    for event in events:
        match event:
            case NodeStarted():
                nodes[node_of(event)] += 1
            case NodeCompleted() | NodeFailed():
                nodes[node_of(event)] -= 1
            case ToolCalled(tool_call_id=call):
                calls[call] += 1
            case ToolReturned(tool_call_id=call):
                calls[call] -= 1
            case ModelAsked(request_id=request):
                requests[request] += 1
            case ModelAnswered(request_id=request):
                requests[request] -= 1
            case _:
                pass
    for counted in (nodes, calls, requests):
        yield from (each for each in counted if counted[each])


def check_end(events: list[Event], stage: Stage) -> None:
    """The run has left nothing behind, and told its end."""
    assert isinstance(events[0], FlowStarted)
    assert not any(isinstance(each, FlowCompleted) for each in events)
    assert list(unpaired(events)) == []
    stopped = [each for each in events if isinstance(each, NodeFailed)]
    assert stopped
    assert {each.error.name for each in stopped} == {"NodeStopped"}
    assert stage.waiting == 0
    assert stage.tools.open_workspaces == 0
    assert "after" not in dict(stage.tools.calls)


def tasks() -> int:
    return trio.lowlevel.current_statistics().tasks_living


@pytest.mark.parametrize("traced", [False, True], ids=["plain", "traced"])
@pytest.mark.parametrize("where", PLACES)
async def test_a_cancelled_run_ends_once_and_whole(where: str, traced: bool) -> None:
    place = PLACES[where]()
    stage = Stage(place)
    events: list[Event] = []
    ends: list[str] = []

    async def run() -> None:
        try:
            await run_document(
                place.data,
                place.inputs,
                models=stage.models,
                tools=stage.tools,
                events=events,
                trace=traced,
            )
        except (trio.Cancelled, BaseExceptionGroup):
            ends.append("cancelled")
            raise
        finally:
            ends.append("over")

    before = tasks()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await wait_all_tasks_blocked()
        assert stage.waiting == place.waiting
        nursery.cancel_scope.cancel()
    assert ends == ["cancelled", "over"]
    check_end(events, stage)
    assert tasks() == before
    told = len(events)
    await wait_all_tasks_blocked()
    assert len(events) == told


@pytest.mark.parametrize("where", PLACES)
async def test_a_run_that_takes_too_long_ends_once_and_whole(
    where: str, autojump_clock: MockClock
) -> None:
    place = PLACES[where]()
    stage = Stage(place)
    events: list[Event] = []
    before = tasks()
    with pytest.raises(RunTimedOut):
        await run_document(
            place.data,
            place.inputs,
            models=stage.models,
            tools=stage.tools,
            events=events,
            limits=Limits(timeout=5),
        )
    assert trio.current_time() == 5
    check_end(events, stage)
    assert tasks() == before


async def test_no_item_begins_after_the_cancellation() -> None:
    place = mapped("ParallelMapNode", 3 * MOST)
    stage = Stage(place)
    events: list[Event] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            lambda: run_document(
                place.data,
                place.inputs,
                tools=stage.tools,
                events=events,
            )
        )
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert [given["x"] for _, given in stage.tools.calls] == list(range(MOST))
    begun = [
        each
        for each in events
        if isinstance(each, NodeStarted) and each.node_name == "start" and each.node_path
    ]
    assert len(begun) == MOST
