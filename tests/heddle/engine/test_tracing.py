"""Traced runs: what they tell beyond the events of any run, and that others do not."""

from typing import Any, get_args

import pytest
from trio.testing import MockClock

from heddle.engine.faults import NodeFailed, RunTimedOut
from heddle.engine.questions import Decision
from heddle.engine.testing import FakeModels, FakePerson, policies, run_document
from heddle.engine.walk import Limits
from heddle.events import (
    AgentCompleted,
    AgentStarted,
    ConfirmationAsked,
    Event,
    InputAsked,
    InputGiven,
    ModelAnswered,
    ModelAsked,
    NodeCompleted,
    StateShown,
    SubflowCompleted,
    SubflowStarted,
    TokenDelta,
    ToolCalled,
    ToolReturned,
    Traced,
)
from plugins_host import ModelRequest, ModelResponse, Usage
from tests.heddle.engine.nodes.test_agent import one_agent
from tests.heddle.engine.nodes.test_team import (
    around,
    asks,
    by_agent,
    managed,
    member,
    swarm,
)
from tests.support.flows import (
    branching,
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

ASKS = document(
    flow(
        [start(), llm("ask", "Why {{what}}?"), end()],
        ["start", "ask", "end"],
        shared=[model(default_generation_parameters={"temperature": 0.5})],
    )
)


def only(events: list[Event], kind: type) -> Any:
    (found,) = (each for each in events if type(each) is kind)
    return found


def all_of(events: list[Event], kind: type) -> list[Any]:
    return [each for each in events if type(each) is kind]


async def test_a_run_that_is_not_traced_tells_of_none_of_it() -> None:
    walked = inner("in", [start(), llm("ask", "Why?"), end()], ["start", "ask", "end"])
    nodes = [
        start(),
        component("FlowNode", "sub", subflow=walked),
        component("AgentNode", "work", agent=member("worker")),
        component("InputMessageNode", "hear"),
        tool("look"),
        end(),
    ]
    data = document(flow(nodes, [each["id"] for each in nodes], shared=[model()]))
    told = {}
    for trace in (False, True):
        _, events = await run_document(
            data,
            models=FakeModels(["because", "done"]),
            tools={"look": lambda **_: {}},
            person=FakePerson("yes"),
            stream=True,
            trace=trace,
        )
        told[trace] = events
    traced = set(map(type, told[True])) & set(get_args(Traced))
    assert traced == set(get_args(Traced))
    assert not set(map(type, told[False])) & traced
    assert not all_of(told[False], ToolCalled)
    assert all(each.request_id is None for each in all_of(told[False], TokenDelta))


# --- model calls ------------------------------------------------------------------------


async def test_a_request_is_told_with_all_that_is_sent_and_its_answer_as_it_came() -> None:
    answer = ModelResponse("because", usage=Usage(7, 3))
    models = FakeModels([answer], defaults={"temperature": 0.5})
    _, events = await run_document(
        ASKS, {"what": "not"}, models=models, stream=True, trace=True
    )
    asked, answered = only(events, ModelAsked), only(events, ModelAnswered)
    assert asked.request == models.requests[0]
    assert asked.request.messages[0].content == "Why not?"
    assert (asked.llm, asked.request.temperature) == ("model", 0.5)
    assert answered.response == {
        "content": "because",
        "finish_reason": "stop",
        "usage": Usage(7, 3),
    }
    ids = {each.request_id for each in all_of(events, TokenDelta)}
    assert ids == {asked.request_id} == {answered.request_id}


async def test_each_attempt_is_a_request_of_its_own() -> None:
    def once_more(event: Any, ctx: Any) -> Plain:
        return {"action": "retry"} if ctx.attempt == 1 else {"action": "pass"}

    _, events = await run_document(
        ASKS,
        models=FakeModels([OSError("gone"), "because"]),
        installed=policies(("Again", {"modelCall": {"after": once_more}})),
        trace=True,
    )
    first, second = all_of(events, ModelAnswered)
    assert (first.request_id, second.request_id) == ("model-1", "model-2")
    assert first.response is None
    assert "gone" in first.error.message
    assert second.error is None


async def test_an_answer_of_a_policy_has_no_request_and_an_edit_is_in_it() -> None:
    def edit(event: Any, ctx: Any) -> Plain:
        (message,) = event.input["messages"]
        if message["content"] == "Why known?":
            return {"action": "replace", "value": {"content": "cached"}}
        return {"action": "modify", "input": {"temperature": 0.25}}

    edits = policies(("Edit", {"modelCall": {"before": edit}}))
    _, events = await run_document(ASKS, {"what": "known"}, installed=edits, trace=True)
    assert not all_of(events, ModelAsked)
    _, events = await run_document(
        ASKS, {"what": "not"}, models=FakeModels(["so"]), installed=edits, trace=True
    )
    assert only(events, ModelAsked).request.temperature == 0.25


async def test_a_request_that_is_stopped_is_told_to_its_end(
    autojump_clock: MockClock,
) -> None:
    async def never(_: ModelRequest) -> ModelResponse:
        import trio

        await trio.sleep_forever()
        raise AssertionError

    events: list[Event] = []
    with pytest.raises(RunTimedOut):
        await run_document(
            ASKS,
            models=FakeModels(never),
            limits=Limits(timeout=5),
            events=events,
            trace=True,
        )
    assert only(events, ModelAnswered).error.name == "NodeStopped"
    assert only(events, ModelAnswered).duration >= 0


# --- agents -----------------------------------------------------------------------------


async def test_an_agent_s_work_has_its_input_its_model_calls_and_its_output() -> None:
    models = FakeModels([asks(("1", "look", {})), "done"])
    data = one_agent(tools=[server_tool("look", inputs=[])])
    _, events = await run_document(
        data, {"n": 1}, models=models, tools={"look": lambda **_: {}}, trace=True
    )
    began, ended = only(events, AgentStarted), only(events, AgentCompleted)
    assert (began.agent_type, began.state, began.within) == ("Agent", {"n": 1}, None)
    assert ended.state == {"result": "done"}
    calls = all_of(events, ModelAsked)
    assert [each.agent_id for each in calls] == [began.agent_id] * 2
    assert [call["name"] for call in _tool_calls(events)] == ["look"]


def _tool_calls(events: list[Event]) -> list[Plain]:
    return [
        {"id": call.id, "name": call.name}
        for each in all_of(events, ModelAnswered)
        for call in (each.response or {}).get("tool_calls", ())
    ]


async def test_who_works_for_whom_in_a_team_is_told() -> None:
    manager = member("boss")
    models = by_agent(
        {
            "boss": [
                asks(("1", "left", {"task": "a"}), ("2", "right", {"task": "b"})),
                "both done",
            ],
            "left": ["a done"],
            "right": ["b done"],
        }
    )
    data = around(managed(manager, member("left"), member("right")))
    _, events = await run_document(data, {"n": 1}, models=models, trace=True)
    began = {each.agent: each for each in all_of(events, AgentStarted)}
    crew = began["crew"].agent_id
    assert began["crew"].agent_type == "ManagerWorkers"
    assert began["boss"].within == crew
    assert began["left"].within == began["right"].within == began["boss"].agent_id
    assert began["left"].state == {"task": "a"}
    ended = {each.agent: each.state for each in all_of(events, AgentCompleted)}
    assert ended["left"] == {"result": "a done"}
    assert ended["crew"] == ended["boss"] == {"result": "both done"}
    whose = {each.agent: each.agent_id for each in all_of(events, ModelAsked)}
    assert whose == {name: began[name].agent_id for name in ("boss", "left", "right")}


async def test_who_hands_over_has_an_heir_and_no_output() -> None:
    models = by_agent(
        {"a": [asks(("1", "handoff_conversation", {"recipient": "b"}))], "b": ["hi"]}
    )
    _, events = await run_document(swarm(("a", "b")), models=models, trace=True)
    ended = {each.agent: each for each in all_of(events, AgentCompleted)}
    assert (ended["a"].handed_to, ended["a"].state) == ("b", None)
    assert (ended["b"].handed_to, ended["b"].state) == (None, {"result": "hi"})
    assert ended["bees"].agent_type == "Swarm"


# --- tool nodes, people, flows inside -----------------------------------------------------


async def test_a_tool_node_s_use_of_its_tool_is_a_tool_call() -> None:
    data = document(
        flow(
            [start(), tool("half", inputs=[prop("n", "number")]), end()],
            ["start", "half", "end"],
        )
    )
    _, events = await run_document(
        data, {"n": 4}, tools={"half": lambda n: {"n": n / 2}}, trace=True
    )
    called, returned = only(events, ToolCalled), only(events, ToolReturned)
    assert (called.tool_name, called.tool_args) == ("half", {"n": 4})
    assert returned.tool_result == {"n": 2}
    assert called.tool_call_id == returned.tool_call_id

    def broken(n: float) -> Plain:
        raise ZeroDivisionError("by nothing")

    events = []
    with pytest.raises(NodeFailed):
        await run_document(
            data, {"n": 4}, tools={"half": broken}, events=events, trace=True
        )
    assert only(events, ToolReturned).error.message == "by nothing"


async def test_a_confirmation_in_a_tool_node_has_the_id_of_its_call() -> None:
    uses = server_tool("wipe", requires_confirmation=True)
    data = document(
        flow([start(), tool("wipe", uses=uses), end()], ["start", "wipe", "end"])
    )
    _, events = await run_document(
        data,
        tools={"wipe": lambda **_: {}},
        person=FakePerson(Decision(approved=True)),
        trace=True,
    )
    asked = only(events, ConfirmationAsked)
    assert asked.tool_call_id == only(events, ToolCalled).tool_call_id


async def test_a_tool_node_that_is_stopped_is_told_to_its_end(
    autojump_clock: MockClock,
) -> None:
    async def never() -> Plain:
        import trio

        await trio.sleep_forever()
        raise AssertionError

    data = document(flow([start(), tool("wait"), end()], ["start", "wait", "end"]))
    events: list[Event] = []
    with pytest.raises(RunTimedOut):
        await run_document(
            data, tools={"wait": never}, limits=Limits(timeout=5), events=events, trace=True
        )
    assert only(events, ToolReturned).error.name == "NodeStopped"


async def test_what_a_person_is_asked_and_answers_is_told_under_one_id() -> None:
    for message, asked in (("Your name?", "Your name?"), (None, None)):
        data = document(
            flow(
                [start(), component("InputMessageNode", "hear", message=message), end()],
                ["start", "hear", "end"],
            )
        )
        _, events = await run_document(data, person=FakePerson("Ann"), trace=True)
        question, answer = only(events, InputAsked), only(events, InputGiven)
        assert (question.message, answer.message) == (asked, "Ann")
        assert question.request_id == answer.request_id


async def test_a_flow_inside_is_told_with_its_place_and_its_branch() -> None:
    walked = inner(
        "in",
        [start(), branching("pick", {"a": "left"}, inputs=[prop("x")]), end("one"), end()],
        ["start", "pick"],
        [edge("pick", "one", "left"), edge("pick", "end", "default")],
        inputs=[prop("x")],
    )
    for node in walked["$referenced_components"].values():
        if node["name"] == "one":
            node["branch_name"] = "first"
    sub = component("FlowNode", "sub", subflow=walked)
    nodes = [start(), sub, end(), end("other")]
    edges = [edge("sub", "other", "first"), edge("sub", "end")]
    data = document(flow(nodes, ["start", "sub"], edges))
    _, events = await run_document(data, {"x": "a", "y": 1}, trace=True)
    began, ended = only(events, SubflowStarted), only(events, SubflowCompleted)
    assert (began.flow, began.state, began.node_path) == ("in", {"x": "a"}, ("sub",))
    assert (ended.branch, ended.node_path) == ("first", ("sub",))
    chosen = {each.node_name: each.branch for each in all_of(events, NodeCompleted)}
    assert chosen["pick"] == "left"
    assert chosen["sub"] == "first"
    assert chosen["start"] is None


async def test_walks_side_by_side_are_told_apart_by_their_places() -> None:
    walked = inner(
        "in", [start(), tool("half"), end()], ["start", "half", "end"], inputs=[prop("n")]
    )
    each = component("ParallelMapNode", "each", subflow=walked, reducers={"n": "append"})
    data = document(flow([start(), each, end()], ["start", "each", "end"]))
    _, events = await run_document(
        data, {"iterated_n": ["a", "b"]}, tools={"half": lambda **_: {"n": 1}}, trace=True
    )
    places = {event.node_path for event in all_of(events, SubflowStarted)}
    assert places == {("each", 0), ("each", 1)}
    assert len({event.tool_call_id for event in all_of(events, ToolCalled)}) == 2


async def test_a_snapshot_is_what_the_flow_carries_on_after_each_node() -> None:
    say = component("OutputMessageNode", "say", message="Hello")
    data = document(
        flow([start(), say, tool("two"), end()], ["start", "say", "two", "end"])
    )
    _, events = await run_document(
        data, {"x": 1}, tools={"two": lambda **_: {"y": 2}}, trace=True
    )
    shots = all_of(events, StateShown)
    assert [each.node_name for each in shots] == ["start", "say", "two", "end"]
    assert [each.state for each in shots] == [{"x": 1}] * 2 + [{"x": 1, "y": 2}] * 2
    assert [len(each.conversation) for each in shots] == [0, 1, 1, 1]
