"""An agent node: rounds, tool calls, outputs."""

from typing import Any

import msgspec
import pytest
import trio
from trio.testing import MockClock, Sequencer

from heddle.engine.faults import NodeFailed
from heddle.engine.testing import FakeModels, FakeTools, run_document
from heddle.events import Event, ToolCalled, ToolReturned, Warned
from heddle.gentle_json import AT_ONCE
from plugins_host.conversation import Message, ModelRequest, ModelResponse, ToolCall
from plugins_host.faults import Fault
from plugins_host.shortages import Shortage
from tests.support.flows import agent, document, end, flow, model, prop, server_tool, start

Plain = dict[str, Any]


def one_agent(**fields: Any) -> bytes:
    """start -> a (an agent) -> end."""
    return document(
        flow(
            [start(), agent("a", **fields), end()], ["start", "a", "end"], shared=[model()]
        )
    )


def asks(*calls: tuple[str, str, str], content: str = "") -> ModelResponse:
    """An answer that asks for tools: (id, name, arguments)."""
    return ModelResponse(content, "tool_calls", tuple(ToolCall(*call) for call in calls))


def tool_messages(request: ModelRequest) -> list[tuple[str | None, Any]]:
    return [
        (message.tool_call_id, msgspec.json.decode(message.content))
        for message in request.messages
        if message.role == "tool"
    ]


async def test_an_agent_is_told_its_prompt_and_the_state_as_json() -> None:
    models = FakeModels(["done"])
    result, _ = await run_document(
        one_agent(system_prompt="You help {{who}}."), {"who": "Ann", "n": 1}, models=models
    )
    assert models.requests[0].messages == (
        Message("system", "You help Ann."),
        Message("user", '{"who":"Ann","n":1}'),
    )
    assert result == {"who": "Ann", "n": 1, "result": "done"}


async def test_a_long_state_is_told_like_a_short_one() -> None:
    many = [{"n": number} for number in range(AT_ONCE)]
    given = {"many": many, "who": "Ann", "n": [1, 2]}
    models = FakeModels(["done"])
    result, events = await run_document(
        one_agent(system_prompt="{{who}} of {{many}} and {{n}} {{gone}}"),
        given,
        models=models,
    )
    told = msgspec.json.encode(many).decode()
    assert models.requests[0].messages == (
        Message("system", f"Ann of {told} and [1,2] {{{{gone}}}}"),
        Message("user", msgspec.json.encode(given).decode()),
    )
    assert result == {**given, "result": "done"}
    (warning,) = (each for each in events if isinstance(each, Warned))
    assert "{{gone}}" in warning.message


async def test_tools_are_offered_with_the_schema_of_their_inputs() -> None:
    models = FakeModels(["done"])
    uses = server_tool(
        "look",
        description="Looks.",
        inputs=[prop("where"), prop("deep", "boolean", default=False)],
    )
    await run_document(one_agent(tools=[uses]), models=models)
    (definition,) = models.requests[0].tools
    assert (definition.name, definition.description) == ("look", "Looks.")
    assert definition.parameters == {
        "type": "object",
        "properties": {
            "where": {"type": "string"},
            "deep": {"type": "boolean", "default": False},
        },
        "required": ["where"],
    }


async def test_a_call_is_run_with_its_defaults_and_answered_under_its_id() -> None:
    models = FakeModels([asks(("c1", "look", '{"where": "here"}')), "done"])
    tools = FakeTools({"look": lambda **given: {"saw": given}})
    uses = server_tool(
        "look", inputs=[prop("where"), prop("deep", "boolean", default=False)]
    )
    _, events = await run_document(one_agent(tools=[uses]), models=models, tools=tools)
    assert tools.calls == [("look", {"where": "here", "deep": False})]
    assert tool_messages(models.requests[1]) == [
        ("c1", {"saw": {"where": "here", "deep": False}})
    ]
    called = [event for event in events if isinstance(event, ToolCalled)]
    returned = [event for event in events if isinstance(event, ToolReturned)]
    assert [(c.tool_call_id, c.tool_args, c.round) for c in called] == [
        ("c1", {"where": "here", "deep": False}, 1)
    ]
    assert [r.tool_call_id for r in returned] == ["c1"]
    assert tools.open_workspaces == 0


async def test_calls_of_one_round_run_side_by_side_and_are_answered_in_call_order() -> None:
    order = Sequencer()

    async def slow() -> Plain:
        async with order(1):
            return {"who": "slow"}

    async def quick() -> Plain:
        async with order(0):
            return {"who": "quick"}

    models = FakeModels([asks(("1", "slow", "{}"), ("2", "quick", "{}")), "done"])
    await run_document(
        one_agent(tools=[server_tool("slow"), server_tool("quick")]),
        models=models,
        tools={"slow": slow, "quick": quick},
    )
    assert tool_messages(models.requests[1]) == [
        ("1", {"who": "slow"}),
        ("2", {"who": "quick"}),
    ]


BAD_CALLS = [
    (("c1", "nowhere", "{}"), "there is no tool 'nowhere'"),
    (("c1", "lok", "{}"), "there is no tool 'lok'. Did you mean 'look'?"),
    (("c1", "look", "{broken"), "the arguments are not JSON"),
    (("c1", "look", "[1]"), "the arguments are [1], which is no JSON object"),
    (("", "look", '{"where": "x"}'), "the call came without an id"),
    (("c1", "look", '{"where": 5}'), "the arguments do not fit tool 'look': 'where'"),
    (("c1", "look", "{}"), "'where' is missing"),
]


@pytest.mark.parametrize(("call", "sentence"), BAD_CALLS)
async def test_a_bad_call_is_answered_with_what_is_wrong(
    call: tuple[str, str, str], sentence: str
) -> None:
    models = FakeModels([asks(call), "done"])
    tools = FakeTools({"look": lambda **given: {}})
    uses = server_tool("look", inputs=[prop("where")])
    result, events = await run_document(one_agent(tools=[uses]), models=models, tools=tools)
    ((answered, content),) = tool_messages(models.requests[1])
    assert sentence in content["error"]
    assert tools.calls == []
    asked = models.requests[1].messages[-2]
    assert [c.id for c in asked.tool_calls] == [answered]
    assert answered
    assert len([e for e in events if isinstance(e, ToolReturned)]) == 1
    assert result["result"] == "done"


async def test_an_id_that_was_used_before_is_answered_under_one_of_its_own() -> None:
    models = FakeModels(
        [asks(("c", "look", "{}"), ("c", "look", "{}")), asks(("c", "look", "{}")), "done"]
    )
    tools = FakeTools({"look": lambda **given: {"ok": True}})
    await run_document(one_agent(tools=[server_tool("look")]), models=models, tools=tools)
    ids = [identity for identity, _ in tool_messages(models.requests[2])]
    assert len(ids) == len(set(ids)) == 3
    assert len(tools.calls) == 1


async def test_a_failing_tool_is_an_answer_and_not_the_end() -> None:
    def broken() -> Plain:
        raise Fault("no such file")

    models = FakeModels([asks(("c", "look", "")), "sorry"])
    result, events = await run_document(
        one_agent(tools=[server_tool("look")]), models=models, tools={"look": broken}
    )
    assert tool_messages(models.requests[1]) == [("c", {"error": "no such file"})]
    assert result["result"] == "sorry"
    (returned,) = [e for e in events if isinstance(e, ToolReturned)]
    assert returned.error is not None


async def test_a_tool_that_needs_confirmation_is_refused_with_a_reason() -> None:
    models = FakeModels([asks(("c", "look", "{}")), "done"])
    tools = FakeTools({"look": dict})
    uses = server_tool("look", requires_confirmation=True)
    await run_document(one_agent(tools=[uses]), models=models, tools=tools)
    assert tools.calls == []
    assert (
        "needs a person's confirmation" in tool_messages(models.requests[1])[0][1]["error"]
    )


async def test_ten_rounds_are_the_ceiling() -> None:
    models = FakeModels(lambda request: asks((f"c{len(request.messages)}", "look", "{}")))
    with pytest.raises(NodeFailed, match="used its 10 rounds"):
        await run_document(
            one_agent(tools=[server_tool("look")]), models=models, tools={"look": dict}
        )
    assert len(models.requests) == 10


async def test_cancelling_ends_every_started_call_once(autojump_clock: MockClock) -> None:
    models = FakeModels([asks(("1", "hang", "{}"), ("2", "hang", "{}"))])
    tools = FakeTools({"hang": trio.sleep_forever})  # type: ignore[dict-item]
    events: list[Event] = []
    with trio.move_on_after(1):
        await run_document(
            one_agent(tools=[server_tool("hang")]),
            models=models,
            tools=tools,
            events=events,
        )
    returned = [e for e in events if isinstance(e, ToolReturned)]
    assert sorted(e.tool_call_id for e in returned) == ["1", "2"]
    assert all(e.error and e.error.name == "CallCancelled" for e in returned)
    assert tools.open_workspaces == 0


OUTPUTS = [
    (None, "text", {"result": "text"}),
    (None, '{"a": 1}', {"result": '{"a": 1}', "a": 1}),
    (None, '{"_a": 1}', {"result": '{"_a": 1}'}),
    ([prop("summary")], '{"a": 1}', {"summary": '{"a": 1}'}),
    ([prop("result")], '{"a": 1}', {"result": '{"a": 1}', "a": 1}),
    ([prop("n", "integer")], '{"n": 3}', {"n": 3}),
    (
        [prop("n", "integer"), prop("t")],
        '{"n": 3, "t": "x", "more": 1}',
        {"n": 3, "t": "x"},
    ),
]


@pytest.mark.parametrize(("outputs", "answer", "merged"), OUTPUTS)
async def test_the_answer_becomes_the_declared_outputs(
    outputs: list[Plain] | None, answer: str, merged: Plain
) -> None:
    result, _ = await run_document(one_agent(outputs=outputs), models=FakeModels([answer]))
    assert result == merged


async def test_an_answer_that_does_not_fit_is_repaired_once() -> None:
    models = FakeModels(["seven", '{"n": 7}'])
    result, _ = await run_document(one_agent(outputs=[prop("n", "integer")]), models=models)
    assert result == {"n": 7}
    assert "That answer does not fit" in models.requests[1].messages[-1].content


async def test_an_answer_of_the_last_round_that_does_not_fit_is_told_as_that() -> None:
    rounds = [asks((f"c{number}", "look", "{}")) for number in range(9)]
    with pytest.raises(NodeFailed, match="answered 'seven'"):
        await run_document(
            one_agent(tools=[server_tool("look")], outputs=[prop("n", "integer")]),
            models=FakeModels([*rounds, "seven"]),
            tools={"look": dict},
        )


async def test_outputs_with_a_default_are_asked_for_and_not_required() -> None:
    models = FakeModels(['{"n": 1}'])
    outputs = [prop("n", "integer"), prop("note", default="none")]
    result, _ = await run_document(one_agent(outputs=outputs), models=models)
    assert result == {"n": 1, "note": "none"}
    schema = models.requests[0].response_schema
    assert schema is not None
    assert list(schema["properties"]) == ["n", "note"]
    assert schema["required"] == ["n"]


@pytest.mark.parametrize("calls", [1, 2])
async def test_what_the_machine_lacks_is_no_matter_for_the_model(calls: int) -> None:
    """It would answer without the tool, as if nothing had been."""

    def lacking() -> Plain:
        raise Shortage("there may be no more processes", fix="Raise the limit.")

    asked = [(f"c{number}", "look", "{}") for number in range(calls)]
    models = FakeModels([asks(*asked), "done"])
    events: list[Event] = []
    with pytest.raises(NodeFailed, match="no more processes. Raise the limit") as caught:
        await run_document(
            one_agent(tools=[server_tool("look")]),
            models=models,
            tools={"look": lacking},
            events=events,
        )
    assert isinstance(caught.value.cause, Shortage)
    assert len(models.requests) == 1
    returned = [each for each in events if isinstance(each, ToolReturned)]
    assert returned[0].error is not None
    assert "no more processes" in returned[0].error.message


async def test_a_second_answer_that_does_not_fit_is_an_error() -> None:
    models = FakeModels(["seven", "eight"])
    with pytest.raises(NodeFailed, match="answered 'eight'"):
        await run_document(one_agent(outputs=[prop("n", "integer")]), models=models)
