"""Flows inside flows: what they are given and give, who sees them and what ends them."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from heddle.engine.faults import (
    LimitReached,
    NodeFailed,
    NodeFault,
    NoWayOn,
    RefusedByPolicy,
    RunFailed,
    RunTimedOut,
)
from heddle.engine.plan import make_plan
from heddle.engine.questions import Question
from heddle.engine.testing import FakeModels, FakePerson, FakeTools, policies, run_document
from heddle.engine.walk import Limits
from heddle.events import (
    Event,
    MessageSaid,
    NodeCompleted,
    NodeStarted,
    TokensDiscarded,
    ToolCalled,
    Warned,
)
from heddle.events import NodeFailed as NodeFailedEvent
from heddle.spec import DocumentError, read_document
from plugins_host.conversation import ModelResponse, ToolCall
from tests.support.flows import (
    agent,
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
    ref,
    server_tool,
    start,
    tool,
)

Plain = dict[str, Any]
PASS = {"action": "pass"}
PROCEED = {"action": "proceed"}

INT = "integer"
X = [prop("x", INT)]
Y = [prop("y", INT)]
NEXT_OF = inner(
    "sub",
    [start(inputs=X), tool("inc", inputs=X, outputs=Y), end(outputs=Y)],
    ["start", "inc", "end"],
    inputs=X,
    outputs=Y,
)
"""x → y, by the tool ``inc``."""


def chain(*nodes: Plain, **fields: Any) -> bytes:
    return document(flow(nodes, [node["id"] for node in nodes], **fields))


def flow_node(name: str, subflow: Plain, **fields: Any) -> Plain:
    return component("FlowNode", name, subflow=subflow, **fields)


def catch(name: str, subflow: Plain, **fields: Any) -> Plain:
    return component("CatchExceptionNode", name, subflow=subflow, **fields)


def inc(x: int) -> Mapping[str, Any]:
    return {"y": x + 1}


def boom(**_: Any) -> Mapping[str, Any]:
    raise NodeFault("it broke at /etc/secret on db.internal with key sk-123")


def paths(events: list[Any], kind: type) -> list[Any]:
    return [each.node_path for each in events if isinstance(each, kind)]


async def failure(data: bytes, given: Mapping[str, Any] | None = None, **more: Any) -> Any:
    with pytest.raises(RunFailed) as caught:
        await run_document(data, given or {}, **more)
    return caught.value


def problems(data: bytes) -> list[str]:
    with pytest.raises(DocumentError) as caught:
        make_plan(read_document(data))
    return [f"{each.path}: {each.what}" for each in caught.value.problems]


# -- FlowNode ------------------------------------------------------------------------------


async def test_a_flow_is_a_step_of_another_and_its_nodes_say_where_they_are() -> None:
    data = chain(start(), flow_node("step", NEXT_OF), end())
    result, events = await run_document(data, {"x": 1, "other": "o"}, tools={"inc": inc})
    assert result == {"x": 1, "other": "o", "y": 2}
    assert paths(events, NodeStarted) == [
        None,
        None,
        ("step", "start"),
        ("step", "inc"),
        ("step", "end"),
        None,
    ]
    assert paths(events, NodeCompleted) == [
        None,
        ("step", "start"),
        ("step", "inc"),
        ("step", "end"),
        None,
        None,
    ]


async def test_a_flow_with_declared_inputs_is_given_those_and_no_others() -> None:
    data = chain(start(), flow_node("step", NEXT_OF), end())
    _, events = await run_document(data, {"x": 1, "other": "o"}, tools={"inc": inc})
    began = [each for each in events if isinstance(each, NodeStarted) and each.node_path]
    assert began[0].state == {"x": 1}
    step = next(e for e in events if isinstance(e, NodeCompleted) and e.node_name == "step")
    assert step.state == {"y": 2}


async def test_a_flow_that_declares_nothing_is_given_the_state_and_gives_its_own() -> None:
    sub = inner("sub", [start(), tool("inc", inputs=X), end()], ["start", "inc", "end"])
    data = chain(start(), flow_node("step", sub), end())
    result, _ = await run_document(data, {"x": 1, "o": 0}, tools={"inc": inc})
    assert result == {"x": 1, "o": 0, "y": 2}


async def test_the_end_of_the_flow_chooses_the_branch() -> None:
    sub = inner(
        "sub",
        [start(), branching("b", {"1": "one"}), end("e1", branch_name="yes"), end("e2")],
        ["start", "b"],
        [edge("b", "e1", "one"), edge("b", "e2", "default")],
    )
    data = document(
        flow(
            [
                start(),
                flow_node("step", sub),
                tool("left", outputs=[prop("o")]),
                tool("right", outputs=[prop("o")]),
                end(),
            ],
            ["start", "step"],
            [
                edge("step", "left", "yes"),
                edge("step", "right"),
                edge("left", "end"),
                edge("right", "end"),
            ],
        )
    )
    functions = {"left": lambda **_: {"o": "left"}, "right": lambda **_: {"o": "right"}}
    for key, way in (("1", "left"), ("2", "right")):
        result, _ = await run_document(
            data, {"branching_mapping_key": key}, tools=functions
        )
        assert result["o"] == way


async def test_values_are_converted_on_the_way_in_and_out() -> None:
    data = chain(
        start(inputs=[prop("x", "number")]),
        flow_node("step", NEXT_OF, outputs=[prop("y", "string")]),
        end(outputs=[prop("y", "string")]),
        outputs=[prop("y", "string")],
    )
    result, _ = await run_document(data, {"x": 2.7}, tools={"inc": inc})
    assert result == {"y": "3"}


async def test_a_default_is_the_node_s_then_the_flow_s() -> None:
    sub = inner(
        "sub",
        [start(inputs=[prop("x", INT, default=1)]), end(outputs=X)],
        ["start", "end"],
        inputs=[prop("x", INT, default=1)],
        outputs=X,
    )
    assert (await run_document(chain(start(), flow_node("a", sub), end())))[0]["x"] == 1
    own = flow_node("a", sub, inputs=[prop("x", INT, default=5)])
    assert (await run_document(chain(start(), own, end())))[0]["x"] == 5


async def test_a_missing_input_fails_the_node_and_not_the_start_of_the_run() -> None:
    failed = await failure(chain(start(), flow_node("step", NEXT_OF), end()))
    assert type(failed) is NodeFailed
    assert failed.node_name == "step"
    assert "node 'start' (StartNode): the flow needs input 'x'" in str(failed)


async def test_a_flow_referred_to_twice_is_compiled_once() -> None:
    data = chain(
        start(),
        flow_node("a", ref("sub")),
        flow_node("b", ref("sub")),
        end(),
        shared=[NEXT_OF],
    )
    plan = make_plan(read_document(data))
    assert plan.tools == {"inc": ("inc",)}
    result, _ = await run_document(data, {"x": 1}, tools={"inc": inc})
    assert result["y"] == 2


def test_a_flow_that_contains_itself_is_refused() -> None:
    sub = inner("sub", [start(), flow_node("again", ref("sub")), end()], ["start", "end"])
    data = chain(start(), flow_node("step", ref("sub")), end(), shared=[sub])
    with pytest.raises(DocumentError, match="sub"):
        read_document(data)


DEEP = 20


async def test_flows_may_be_deep_inside_one_another() -> None:
    flows = [inner("f0", [start(), tool("inc"), end()], ["start", "inc", "end"])]
    flows += [
        inner(
            f"f{n}",
            [start(), flow_node(f"n{n}", ref(f"f{n - 1}")), end()],
            ["start", f"n{n}", "end"],
        )
        for n in range(1, DEEP)
    ]
    data = chain(start(), flow_node("step", ref(f"f{DEEP - 1}")), end(), shared=flows)
    result, events = await run_document(
        data, {"x": 1}, tools={"inc": inc}, limits=Limits(max_iterations=1000)
    )
    assert result["y"] == 2
    assert max(len(each) for each in paths(events, NodeStarted) if each) == DEEP + 1


def test_problems_of_inner_flows_come_with_their_paths() -> None:
    bad = inner("sub", [start(), tool("lost"), end()], ["start", "end"])
    found = problems(chain(start(), flow_node("step", bad), end()))
    assert found == [
        "$.$referenced_components.step.subflow.$referenced_components['sub.lost']: "
        "no path leads from the start to 'lost'"
    ]


@given(st.lists(st.sampled_from(["inc", "twice", "text"]), max_size=6), st.data())
@settings(max_examples=30, deadline=None)
def test_a_flow_with_flows_is_the_same_flow_inlined(steps: list[str], data: Any) -> None:
    functions = {
        "inc": lambda n, **_: {"n": n + 1},
        "twice": lambda n, **_: {"n": n * 2, "t": n},
        "text": lambda n, **_: {"said": f"{n}"},
    }
    nodes = [
        tool(f"{kind}{i}", uses={**server_tool(kind), "id": f"tool{i}"})
        for i, kind in enumerate(steps)
    ]
    straight = chain(start(), *nodes, end())
    cut = data.draw(st.integers(0, len(nodes)))
    within = [start(), *nodes[:cut], end()]
    sub = inner("sub", within, [each["id"] for each in within])
    nested = chain(start(), flow_node("step", sub), *nodes[cut:], end())

    async def both() -> None:
        one, _ = await run_document(straight, {"n": 1}, tools=functions)
        other, _ = await run_document(nested, {"n": 1}, tools=functions)
        assert one == other

    trio.run(both)


# -- limits, ends --------------------------------------------------------------------------


async def test_executions_inside_count_for_the_run() -> None:
    data = chain(start(), flow_node("step", NEXT_OF), end())
    limits = Limits(max_iterations=6)
    await run_document(data, {"x": 1}, tools={"inc": inc}, limits=limits)
    failed = await failure(
        data, {"x": 1}, tools={"inc": inc}, limits=Limits(max_iterations=5)
    )
    assert isinstance(failed, LimitReached)
    failed = await failure(
        data, {"x": 1}, tools={"inc": inc}, limits=Limits(max_iterations=3)
    )
    assert isinstance(failed, LimitReached)


async def test_the_deadline_is_the_run_s(autojump_clock: MockClock) -> None:
    async def slow(**_: Any) -> Mapping[str, Any]:
        await trio.sleep(100)
        return {}

    sub = inner("sub", [start(), tool("slow"), end()], ["start", "slow", "end"])
    guarded = document(
        flow(
            [start(), catch("guard", sub), end()],
            ["start", "guard", "end"],
            [edge("guard", "end", "caught_exception_branch")],
        )
    )
    events: list[Event] = []
    failed = await failure(
        guarded, tools={"slow": slow}, limits=Limits(timeout=3), events=events
    )
    assert isinstance(failed, RunTimedOut)
    assert "'slow'" in failed.where
    assert trio.current_time() == 3
    assert isinstance(events[-1], NodeFailedEvent)
    assert events[-1].error.name == "NodeStopped"


async def test_nothing_inside_is_left_when_the_run_is_cancelled() -> None:
    tools = FakeTools({"inc": lambda **_: trio.sleep_forever()})
    data = chain(start(), component("ParallelMapNode", "each", subflow=NEXT_OF), end())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            lambda: run_document(data, {"iterated_x": [1, 2, 3]}, tools=tools)
        )
        await wait_all_tasks_blocked()
        assert tools.open_workspaces == 3
        nursery.cancel_scope.cancel()
    assert tools.open_workspaces == 0


# -- CatchExceptionNode --------------------------------------------------------------------

FRAGILE = inner(
    "sub",
    [start(), tool("boom", outputs=[prop("r")]), end(outputs=[prop("r")])],
    ["start", "boom", "end"],
    outputs=[prop("r")],
)
GUARDED = document(
    flow(
        [
            start(),
            catch("guard", FRAGILE, outputs=[prop("r", default="none")]),
            tool("after"),
            end(),
        ],
        ["start", "guard", "end"],
        [edge("guard", "after", "caught_exception_branch"), edge("after", "end")],
    )
)


async def test_a_failure_is_caught_with_defaults_and_a_branch() -> None:
    result, events = await run_document(
        GUARDED, tools={"boom": boom, "after": lambda **_: {"o": "went on"}}
    )
    assert result == {
        "r": "none",
        "caught_exception_info": "NodeFault in node 'boom' (ToolNode)",
        "o": "went on",
    }
    (told,) = [each for each in events if isinstance(each, NodeFailedEvent)]
    assert "sk-123" in told.error.message  # whoever runs it sees the whole of it


async def test_without_a_failure_it_is_a_flow_node() -> None:
    result, _ = await run_document(GUARDED, tools={"boom": lambda **_: {"r": "fine"}})
    assert result == {"r": "fine", "caught_exception_info": None}


@pytest.mark.parametrize("seam", ["node", "nodeError"])
async def test_what_a_policy_ends_is_not_caught(seam: str) -> None:
    def judge(event: Any, _: Any) -> Any:
        if event.subject.node_name != "boom":
            return PROCEED if seam == "node" else PASS
        action = "reject" if seam == "node" else "fail"
        return {"action": action, "reason": "not here"}

    half = "before" if seam == "node" else "after"
    failed = await failure(
        GUARDED, tools={"boom": boom}, installed=policies(("P", {seam: {half: judge}}))
    )
    assert isinstance(failed, RefusedByPolicy)


async def test_a_limit_and_a_bug_are_not_caught() -> None:
    failed = await failure(GUARDED, tools={"boom": boom}, limits=Limits(max_iterations=3))
    assert isinstance(failed, LimitReached)

    def bug(**_: Any) -> Mapping[str, Any]:
        raise ZeroDivisionError

    failed = await failure(GUARDED, tools={"boom": bug})
    assert "heddle itself failed" in str(failed)


async def test_text_of_a_caught_failure_is_taken_back() -> None:
    sub = inner(
        "sub",
        [
            start(),
            llm("ask", "hi", outputs=[prop("r")]),
            tool("boom"),
            end(outputs=[prop("r")]),
        ],
        ["start", "ask", "boom", "end"],
        outputs=[prop("r", default="")],
        shared=[model()],
    )
    data = document(
        flow(
            [start(), catch("guard", sub), end()],
            ["start", "guard", "end"],
            [edge("guard", "end", "caught_exception_branch")],
        )
    )
    _, events = await run_document(
        data, tools={"boom": boom}, models=FakeModels(["hello"]), stream=True
    )
    (taken,) = [each for each in events if isinstance(each, TokensDiscarded)]
    assert (taken.node_path, taken.characters) == (("guard", "ask"), 5)


# -- policies ------------------------------------------------------------------------------


async def test_policies_are_asked_inside_as_outside_and_told_where() -> None:
    asked: list[Any] = []

    def before(event: Any, _: Any) -> Any:
        asked.append(event.subject.node_path or event.subject.node_name)
        return PROCEED

    def after(event: Any, _: Any) -> Any:
        asked.append((event.subject.node_name, event.outcome.ok))
        return PASS

    await run_document(
        chain(start(), flow_node("step", NEXT_OF), end()),
        {"x": 1},
        tools={"inc": inc},
        installed=policies(("P", {"node": {"before": before, "after": after}})),
    )
    assert asked == [
        "start",
        ("start", True),
        "step",
        ("step", "start"),
        ("start", True),
        ("step", "inc"),
        ("inc", True),
        ("step", "end"),
        ("end", True),
        ("step", True),
        "end",
        ("end", True),
    ]


async def test_a_failure_inside_is_asked_about_there_and_then_at_the_node_around() -> None:
    asked: list[str] = []
    calls: list[int] = []

    def judge(event: Any, ctx: Any) -> Any:
        asked.append(event.subject.node_name)
        retry = event.subject.node_name == "step" and ctx.attempt == 1
        return {"action": "retry"} if retry else PASS

    def once(x: int) -> Mapping[str, Any]:
        calls.append(x)
        if len(calls) == 1:
            raise NodeFault("once")
        return {"y": 7}

    result, events = await run_document(
        chain(start(), flow_node("step", NEXT_OF), end()),
        {"x": 1},
        tools={"inc": once},
        installed=policies(("P", {"nodeError": {"after": judge}})),
    )
    assert asked == ["inc", "step"]
    assert result["y"] == 7
    attempts = [
        (each.node_name, each.attempt) for each in events if isinstance(each, NodeStarted)
    ]
    assert ("step", 2) in attempts
    assert attempts.count(("inc", 1)) == 2


async def test_tool_calls_of_an_agent_inside_say_where_they_are() -> None:
    sub = inner(
        "sub",
        [start(), agent("a", tools=[server_tool("look")]), end()],
        ["start", "a", "end"],
        shared=[model()],
    )
    told: list[Any] = []

    def before(event: Any, _: Any) -> Any:
        told.append((event.subject.tool_name, event.subject.node_path))
        return PROCEED

    _, events = await run_document(
        chain(start(), flow_node("step", sub), end()),
        tools={"look": lambda **_: {}},
        models=FakeModels(
            [ModelResponse("", tool_calls=(ToolCall("1", "look", "{}"),)), "done"]
        ),
        installed=policies(("P", {"toolCall": {"before": before}})),
    )
    assert told == [("look", ("step", "a"))]
    assert paths(events, ToolCalled) == [("step", "a")]


async def test_a_warning_inside_says_where() -> None:
    sub = inner(
        "sub",
        [start(), llm("ask", "{{what}}"), end()],
        ["start", "ask", "end"],
        shared=[model()],
    )
    _, events = await run_document(
        chain(start(), flow_node("step", sub), end()), models=FakeModels(["ok"])
    )
    assert paths(events, Warned) == [("step", "ask")]


# -- agents and people ---------------------------------------------------------------------

LONE = msgspec.json.encode(
    {
        **component(
            "Agent",
            "helper",
            llm_config=model(),
            system_prompt="Help {{who}}.",
            inputs=[prop("who")],
            outputs=[prop("answer")],
            tools=[server_tool("look")],
        ),
        "agentspec_version": "26.1.2",
    }
)


async def test_an_agent_alone_runs_as_start_agent_end_would() -> None:
    plan = make_plan(read_document(LONE))
    assert plan.tools == {"helper": ("look",)}
    models = FakeModels(["hello"])
    result, events = await run_document(LONE, {"who": "Ada"}, models=models)
    assert result == {"answer": "hello"}
    assert models.requests[0].messages[0].content == "Help Ada."
    assert [each.node_name for each in events if isinstance(each, NodeStarted)] == [
        "start",
        "helper",
        "end",
    ]


async def test_an_agent_alone_needs_its_inputs() -> None:
    assert "needs input 'who'" in str(await failure(LONE, models=FakeModels(["x"])))


def test_problems_of_an_agent_alone_lead_into_the_document() -> None:
    plain = msgspec.json.decode(LONE)
    plain["tools"] = [component("ClientTool", "mine")]
    assert problems(document(plain))[0].startswith("$.tools[0].component_type: 'mine'")


async def test_a_flow_may_be_the_agent_of_a_node() -> None:
    data = chain(start(), component("AgentNode", "a", agent=NEXT_OF), end())
    result, events = await run_document(data, {"x": 1}, tools={"inc": inc})
    assert result["y"] == 2
    assert ("a", "inc") in paths(events, NodeStarted)


async def test_a_message_is_told_and_the_flow_goes_on() -> None:
    say = component("OutputMessageNode", "say", message="Hello {{who}}!")
    sub = inner("sub", [start(), say, end()], ["start", "say", "end"])
    _, events = await run_document(chain(start(), flow_node("f", sub), end()), {"who": "A"})
    (said,) = [each for each in events if isinstance(each, MessageSaid)]
    assert said == MessageSaid("say", "agent", "Hello A!", ("f", "say"))


async def test_agents_are_sent_what_was_said_before_by_flows_inside_too() -> None:
    say = component("OutputMessageNode", "say", message="Welcome.")
    shared = inner("sub", [start(), say, end()], ["start", "say", "end"])
    answers = agent("a", system_prompt="Be kind.")
    models = FakeModels(["hi"])
    data = chain(start(), flow_node("f", shared), answers, end(), shared=[model()])
    await run_document(data, {"q": 1}, models=models)
    sent = models.requests[0].messages
    assert [(each.role, each.content) for each in sent] == [
        ("system", "Be kind."),
        ("assistant", "Welcome."),
        ("user", '{"q":1}'),
    ]


async def test_a_flow_as_an_agent_has_a_conversation_of_its_own() -> None:
    say = component("OutputMessageNode", "say", message="Among us.")
    own = inner("sub", [start(), say, end()], ["start", "say", "end"])
    models = FakeModels(["hi"])
    node = component("AgentNode", "own", agent=own)
    data = chain(start(), node, agent("a"), end(), shared=[model()])
    _, events = await run_document(data, models=models)
    assert [each.role for each in models.requests[0].messages] == ["user"]
    assert paths(events, MessageSaid) == [("own", "say")]


ASKING = chain(
    start(), component("InputMessageNode", "who", message="Who are you, {{title}}?"), end()
)


async def test_asking_without_anybody_there_says_what_to_do() -> None:
    failed = await failure(ASKING, {"title": "Dr"})
    assert "there is nobody to ask in this run" in str(failed)
    assert "heddle run -i" in str(failed)


async def test_a_person_is_asked_and_both_messages_are_told() -> None:
    ada = FakePerson("Ada")
    result, events = await run_document(ASKING, {"title": "Dr"}, person=ada)
    assert result == {"title": "Dr", "user_input": "Ada"}
    assert ada.asked == [Question("Who are you, Dr?", "who")]
    assert [
        (each.sender, each.message) for each in events if isinstance(each, MessageSaid)
    ] == [("agent", "Who are you, Dr?"), ("user", "Ada")]


# -- no way on -----------------------------------------------------------------------------

FORKED = inner(
    "sub",
    [start(), branching("fork", {"1": "one"}), end()],
    ["start", "fork"],
    [edge("fork", "end", "one")],
)


def guarded(subflow: Plain) -> bytes:
    return document(
        flow(
            [start(), catch("guard", subflow), end()],
            ["start", "guard", "end"],
            [edge("guard", "end", "caught_exception_branch")],
        )
    )


async def test_a_branch_that_leads_nowhere_inside_is_a_failure_that_is_caught() -> None:
    result, _ = await run_document(guarded(FORKED), {"branching_mapping_key": "2"})
    assert result["caught_exception_info"] == "NoWayOn in the flow"


async def test_a_replaced_fork_inside_ends_the_run() -> None:
    def before(event: Any, _: Any) -> Any:
        if event.subject.node_name == "fork":
            return {"action": "replace", "value": {}}
        return PROCEED

    failed = await failure(
        guarded(FORKED),
        {"branching_mapping_key": "1"},
        installed=policies(("P", {"node": {"before": before}})),
    )
    assert isinstance(failed, NoWayOn)
    assert failed.by is not None
