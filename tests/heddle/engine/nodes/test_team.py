"""Agents made from others and agents that work with others, in one AgentNode."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from heddle.engine.faults import NodeFailed, RefusedByPolicy
from heddle.engine.plan import make_plan
from heddle.engine.testing import FakeModels, policies, run_document
from heddle.events import NodeCompleted, TokenDelta, ToolCalled, ToolReturned
from heddle.spec import DocumentError, read_document
from plugins_host import Message, ModelRequest, ModelResponse, ToolCall, Usage
from tests.support.flows import (
    component,
    document,
    end,
    flow,
    model,
    prop,
    ref,
    server_tool,
    start,
)

Plain = dict[str, Any]


def member(name: str, **fields: Any) -> Plain:
    """An Agent whose instructions are its name."""
    filled = {"system_prompt": name, "llm_config": {"$component_ref": "model"}, **fields}
    return component("Agent", name, **filled)


def specialized(name: str, base: Plain, **more: Any) -> Plain:
    parameters = component("AgentSpecializationParameters", f"{name}-more", **more)
    return component(
        "SpecializedAgent", name, agent=base, agent_specialization_parameters=parameters
    )


def managed(manager: Plain, *workers: Plain, **fields: Any) -> Plain:
    return component(
        "ManagerWorkers", "crew", group_manager=manager, workers=list(workers), **fields
    )


def swarm(*pairs: tuple[str, str], **fields: Any) -> bytes:
    """A swarm of agents with these relationships; a is the first."""
    names = sorted({"a", *(name for pair in pairs for name in pair)})
    bees = component(
        "Swarm",
        "bees",
        first_agent=ref("a"),
        relationships=[[ref(one), ref(other)] for one, other in pairs],
        **fields,
    )
    return around(bees, *map(member, names))


def around(agent: Plain, *shared: Plain) -> bytes:
    node = component("AgentNode", "node", agent=agent)
    return document(
        flow([start(), node, end()], ["start", "node", "end"], shared=[model(), *shared])
    )


def asks(*calls: tuple[str, str, Plain]) -> ModelResponse:
    """An answer that asks for tools: (id, name, arguments)."""
    made = (
        ToolCall(identity, name, msgspec.json.encode(given).decode())
        for identity, name, given in calls
    )
    return ModelResponse("", "tool_calls", tuple(made), Usage(1, 1))


def by_agent(answers: dict[str, list[ModelResponse | str]]) -> FakeModels:
    """Each agent's answers in turn; who asks is told by its instructions."""
    left = {name: iter(each) for name, each in answers.items()}

    def answer(request: ModelRequest) -> ModelResponse | str:
        return next(left[request.messages[0].content])

    return FakeModels(answer)


def asked(models: FakeModels, name: str) -> list[ModelRequest]:
    return [each for each in models.requests if each.messages[0].content == name]


def tool_names(request: ModelRequest) -> list[str]:
    return [tool.name for tool in request.tools]


def results(request: ModelRequest) -> list[Any]:
    return [
        msgspec.json.decode(message.content)
        for message in request.messages
        if message.role == "tool"
    ]


# --- SpecializedAgent ---------------------------------------------------------------


BASE = member(
    "base",
    system_prompt="You help {{who}}.",
    tools=[server_tool("look")],
    inputs=[prop("who")],
    outputs=[prop("answer")],
)


@pytest.mark.parametrize("whole", [around, document], ids=["in a node", "alone"])
async def test_a_specialized_agent_is_its_base_and_more(
    whole: Callable[[Plain], bytes],
) -> None:
    more = specialized(
        "expert",
        BASE,
        additional_instructions="Answer in {{tongue}}.",
        additional_tools=[server_tool("search")],
        inputs=[prop("tongue", default="English")],
    )
    data = whole(more)
    if whole is document:
        data = document({**more, "$referenced_components": {"model": model()}})
    models = FakeModels(["fine"])
    result, _ = await run_document(data, {"who": "Ann"}, models=models)
    (request,) = models.requests
    assert request.messages[0].content.startswith("You help Ann.\n\nAnswer in ")
    assert tool_names(request) == ["look", "search"]
    assert result["answer"] == "fine"


def test_an_input_of_two_types_of_a_specialized_agent_is_refused() -> None:
    more = specialized("expert", BASE, inputs=[prop("who", "integer")])
    with pytest.raises(DocumentError, match="'who' is of another type"):
        make_plan(read_document(around(more)))


def test_a_tool_that_base_and_specialization_both_have_is_refused() -> None:
    twice = {**server_tool("look"), "id": "another"}
    with pytest.raises(DocumentError, match="2 tools named 'look'"):
        make_plan(read_document(around(specialized("e", BASE, additional_tools=[twice]))))


# --- ManagerWorkers -----------------------------------------------------------------


async def test_a_manager_gives_tasks_and_is_reported_to() -> None:
    worker = member("the digger", description="Digs.", tools=[server_tool("dig")])
    models = by_agent(
        {
            "boss": [asks(("1", "the_digger", {"task": "a hole"})), "all done"],
            "the digger": [asks(("1", "dig", {})), "a deep hole"],
        }
    )
    result, events = await run_document(
        around(managed(member("boss"), worker)),
        models=models,
        tools={"dig": lambda: {"depth": 3}},
        stream=True,
    )
    assert result["result"] == "all done"
    first, second = asked(models, "boss")
    (definition,) = first.tools
    assert definition.name == "the_digger"
    assert definition.description.startswith("Digs.")
    assert definition.parameters["required"] == ["task"]
    assert results(second) == [{"report": "a deep hole"}]
    begun, _ = asked(models, "the digger")
    assert begun.messages == (
        Message("system", "the digger"),
        Message("user", "a hole"),
    )
    calls = [each for each in events if isinstance(each, ToolCalled)]
    assert [(each.agent, each.tool_name) for each in calls] == [
        ("boss", "the_digger"),
        ("the digger", "dig"),
    ]
    # Models number calls anew in each conversation; readers of the run are not confused.
    assert len({each.tool_call_id for each in calls}) == 2
    returned = [each.tool_call_id for each in events if isinstance(each, ToolReturned)]
    assert sorted(returned) == sorted(each.tool_call_id for each in calls)
    # Workers never reach the user.
    assert {each.agent for each in events if isinstance(each, TokenDelta)} == {"boss"}
    done = [each for each in events if isinstance(each, NodeCompleted)]
    assert [each.usage for each in done if each.node_name == "node"] == [Usage(2, 2)]


async def test_a_worker_reports_its_outputs_and_failures_are_answers() -> None:
    good = member("good", outputs=[prop("size", "integer")])
    models = by_agent(
        {
            "boss": [
                asks(("1", "good", {"task": "t"}), ("2", "bad", {"task": "t"})),
                "done",
            ],
            "good": ['{"size": 3}'],
            "bad": [asks((str(n), "nothing", {})) for n in range(10)],
        }
    )
    await run_document(around(managed(member("boss"), good, member("bad"))), models=models)
    well, badly = results(asked(models, "boss")[1])
    assert well == {"size": 3}
    assert "used its 10 rounds" in badly["error"]


async def test_policies_are_asked_about_calls_and_rounds_of_all_agents() -> None:
    seen: list[Any] = []
    rounds: list[tuple[str, int]] = []

    def before(event: Any, ctx: Any) -> Plain:
        seen.append((event.subject.agent_name, event.subject.tool_name))
        if event.subject.tool_name == "lazy":
            return {"action": "reject", "reason": "it is on holiday"}
        return {"action": "modify", "input": {"task": "another"}}

    def model_before(event: Any, ctx: Any) -> Plain:
        assert event.subject.agent_name == event.input["messages"][0]["content"]
        seen.append(event.subject.agent_name)
        return {"action": "proceed"}

    def round_before(event: Any, ctx: Any) -> Plain:
        rounds.append((event.subject.agent_name, event.input["round"]))
        return {"action": "proceed"}

    def node_before(event: Any, ctx: Any) -> Plain:
        assert event.subject.agent_name == ""
        return {"action": "proceed"}

    models = by_agent(
        {
            "boss": [
                asks(("1", "lazy", {"task": "t"})),
                asks(("2", "busy", {"task": "t"})),
                "done",
            ],
            "busy": ["ok"],
        }
    )
    await run_document(
        around(managed(member("boss"), member("lazy"), member("busy"))),
        models=models,
        installed=policies(
            (
                "Gate",
                {
                    "toolCall": {"before": before},
                    "modelCall": {"before": model_before},
                    "agentRound": {"before": round_before},
                    "node": {"before": node_before},
                },
            )
        ),
    )
    calls = [("boss", "lazy"), ("boss", "busy")]
    assert seen == ["boss", calls[0], "boss", calls[1], "busy", "boss"]
    assert rounds == [("boss", 1), ("boss", 2), ("busy", 1), ("boss", 3)]
    assert asked(models, "busy")[0].messages[-1].content == "another"
    assert "it is on holiday" in str(results(asked(models, "boss")[1]))


@pytest.mark.parametrize(
    ("seams", "expected"),
    [
        (
            {"agentRound": {"before": lambda e, c: _stop_second(c, e)}},
            NodeFailed,
        ),
        (
            {
                "toolCall": {
                    "after": lambda e, c: (
                        {"action": "fail", "reason": "enough"}
                        if e.subject.tool_name == "dig"
                        else {"action": "pass"}
                    )
                }
            },
            RefusedByPolicy,
        ),
    ],
    ids=["a round", "a tool call"],
)
async def test_what_a_policy_ends_in_a_worker_ends_the_node(
    seams: Any, expected: type[Exception]
) -> None:
    models = by_agent(
        {
            "boss": [asks(("1", "w", {"task": "t"})), "never"],
            "w": [asks(("1", "dig", {})), "never"],
        }
    )
    with pytest.raises(expected, match="enough"):
        await run_document(
            around(managed(member("boss"), member("w", tools=[server_tool("dig")]))),
            models=models,
            tools={"dig": dict},
            installed=policies(("Gate", seams)),
        )
    assert len(asked(models, "boss")) == 1


def _stop_second(ctx: Any, event: Any) -> Plain:
    if event.input["round"] == 2:
        return {"action": "reject", "reason": "enough"}
    return {"action": "proceed"}


# --- Swarm --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("handoff", "offered"),
    [
        ("never", ["send_message"]),
        ("optional", ["send_message", "handoff_conversation"]),
        ("always", ["handoff_conversation"]),
        (False, ["send_message"]),
        (True, ["send_message", "handoff_conversation"]),
    ],
)
async def test_agents_of_a_swarm_reach_each_other_one_way(
    handoff: Any, offered: list[str]
) -> None:
    models = FakeModels(["hello"])
    bees = swarm(("b", "a"), ("a", "c"), handoff=handoff)
    result, _ = await run_document(bees, models=models)
    assert result["result"] == "hello"
    (request,) = models.requests
    assert tool_names(request) == offered
    recipients = {str(each.parameters["properties"]["recipient"]) for each in request.tools}
    assert recipients == {str({"type": "string", "enum": ["c"]})}


async def test_a_message_is_answered_and_the_sender_goes_on() -> None:
    models = by_agent(
        {
            "a": [asks(("1", "send_message", {"recipient": "b", "message": "?"})), "end"],
            "b": [asks(("1", "send_message", {"recipient": "a", "message": "??"})), "yes"],
        }
    )
    bees = swarm(("a", "b"), ("b", "a"))
    result, _ = await run_document(bees, models=models)
    assert result["result"] == "end"
    assert results(asked(models, "a")[1]) == [{"report": "yes"}]
    # Who is asked owes an answer: it can't hand over, nor ask who waits for it.
    first, second = asked(models, "b")
    assert tool_names(first) == ["send_message"]
    assert "'a' waits for an answer itself" in results(second)[0]["error"]


async def test_a_conversation_handed_over_goes_on_with_the_receiver() -> None:
    models = by_agent(
        {
            "a": [
                asks(
                    ("1", "handoff_conversation", {"recipient": "b"}),
                    ("2", "handoff_conversation", {"recipient": "c"}),
                )
            ],
            "b": ["I am b"],
        }
    )
    bees = swarm(("a", "b"), ("a", "c"))
    result, events = await run_document(bees, {"q": 1}, models=models, stream=True)
    assert result["result"] == "I am b"
    (request,) = asked(models, "b")
    assert [each.role for each in request.messages] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
    ]
    assert results(request)[0] == {"handed_over_to": "b"}
    assert "already" in results(request)[1]["error"]
    assert {each.agent for each in events if isinstance(each, TokenDelta)} == {"b"}


async def test_a_recipient_out_of_reach_is_an_error_that_the_model_reads() -> None:
    call = asks(("1", "handoff_conversation", {"recipient": "z"}))
    models = by_agent({"a": [call, "end"]})
    await run_document(swarm(("a", "b")), models=models)
    assert "'z'" in results(models.requests[1])[0]["error"]


async def test_agents_that_hand_over_without_end_are_stopped() -> None:
    def answer(request: ModelRequest) -> ModelResponse:
        other = "b" if request.messages[0].content == "a" else "a"
        return asks(
            (str(len(models.requests)), "handoff_conversation", {"recipient": other})
        )

    models = FakeModels(answer)
    bees = swarm(("a", "b"), ("b", "a"))
    with pytest.raises(NodeFailed, match="used the 100 rounds that they have together"):
        await run_document(bees, models=models)
    assert len(models.requests) == 100


async def test_the_bound_ends_the_node_from_inside_an_agent_that_is_asked() -> None:
    def answer(request: ModelRequest) -> ModelResponse:
        tool = "w" if request.messages[0].content == "boss" else "nothing"
        return asks((str(len(models.requests)), tool, {"task": "t"}))

    models = FakeModels(answer)
    with pytest.raises(NodeFailed, match="rounds that they have together"):
        await run_document(around(managed(member("boss"), member("w"))), models=models)


# --- refused ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("agent", "what"),
    [
        (managed(member("m"), managed(member("n"))), "'crew' is of type ManagerWorkers"),
        (
            managed(member("m"), {**member("m"), "id": "other"}),
            "agents of 'crew' are named",
        ),
        (managed(member("m"), member("a b"), member("a.b")), "both be the tool 'a_b'"),
        (
            managed(member("m", tools=[server_tool("w")]), member("w")),
            "tool 'w' of agent 'm' has the name",
        ),
    ],
)
def test_teams_that_cannot_work_are_refused(agent: Plain, what: str) -> None:
    if "workers" in agent["workers"][0]:
        agent["workers"][0]["id"] = "inner"
    with pytest.raises(DocumentError, match=what):
        make_plan(read_document(around(agent)))
