"""The turns before a run: who is given them, and that nobody is given one twice."""

from typing import Any

import msgspec
import pytest

from heddle.engine.faults import NodeFailed
from heddle.engine.plan import make_plan
from heddle.engine.testing import FakeModels, FakePerson, policies, run_document
from heddle.events import NodeStarted
from heddle.spec import DocumentError, read_document
from plugins_host import Message, ModelResponse, ToolCall
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

BEFORE = [Message("user", "Who?"), Message("assistant", "Ann.")]
IN_STATE = [
    {"role": "user", "content": "Who?"},
    {"role": "assistant", "content": "Ann."},
]
NOW = Message("user", '{"message":"Why?"}')


def chain(*nodes: dict[str, Any], **fields: Any) -> bytes:
    """A flow of nodes in a row."""
    names = [node["name"] for node in nodes]
    return document(flow(list(nodes), names, shared=[model()], **fields))


def within(*nodes: dict[str, Any]) -> dict[str, Any]:
    """The same as a flow inside."""
    return inner("within", list(nodes), [node["name"] for node in nodes])


async def sent(given: bytes, **more: Any) -> list[list[Message]]:
    """What the models of a flow are sent, without system prompts."""
    models = FakeModels(lambda _: "Because.")
    await run_document(given, {"message": "Why?"}, models=models, history=BEFORE, **more)
    return [
        [each for each in request.messages if each.role != "system"]
        for request in models.requests
    ]


async def test_an_agent_is_sent_them_before_its_input() -> None:
    given = chain(start(), agent("a", system_prompt="Be brief."), end())
    assert await sent(given) == [[*BEFORE, NOW]]


@pytest.mark.parametrize(
    "starting",
    [
        start(),
        start(inputs=[prop("message")]),
        start(inputs=[prop("message"), prop("_chat_history", "array")]),
        start(outputs=[prop("_chat_history", "array")]),
    ],
)
async def test_it_does_not_matter_what_the_start_declares(starting: dict[str, Any]) -> None:
    assert await sent(chain(starting, agent("a"), end())) == [[*BEFORE, NOW]]


async def test_each_of_several_agents_is_sent_them_once() -> None:
    one, other = await sent(chain(start(), agent("a"), agent("b"), end()))
    assert one == [*BEFORE, NOW]
    assert other[:2] == BEFORE
    assert msgspec.json.decode(other[2].content) == {
        "message": "Why?",
        "result": "Because.",
    }
    assert len(other) == 3


async def test_rounds_go_on_from_them() -> None:
    call = ModelResponse(tool_calls=(ToolCall("c", "look", "{}"),))
    models = FakeModels([call, "Because."])
    given = chain(start(), agent("a", tools=[server_tool("look")]), end())
    tools = {"look": lambda: {"seen": 1}}
    inputs = {"message": "Why?"}
    await run_document(given, inputs, models=models, tools=tools, history=BEFORE)
    roles = [each.role for each in models.requests[1].messages]
    assert roles == ["user", "assistant", "user", "assistant", "tool"]


async def test_what_the_run_says_itself_comes_after_them() -> None:
    asking = component("InputMessageNode", "who", message="Whose?")
    (messages,) = await sent(
        chain(start(), asking, agent("a"), end()), person=FakePerson("Bob")
    )
    said = [Message("assistant", "Whose?"), Message("user", "Bob")]
    assert messages[:4] == [*BEFORE, *said]
    assert len(messages) == 5


KINDS = [
    lambda it: component("FlowNode", "n", subflow=it),
    lambda it: component("CatchExceptionNode", "n", subflow=it),
    lambda it: component("ParallelFlowNode", "n", subflows=[it]),
    lambda it: component(
        "MapNode", "n", subflow=it, inputs=[prop("iterated_message", "array")]
    ),
]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_flow_inside_shares_them(kind: Any) -> None:
    inside = within(
        start("s", inputs=[prop("message")]),
        agent("a"),
        end("e", outputs=[prop("result", default="")]),
    )
    node = kind(inside)
    models = FakeModels(lambda _: "Because.")
    said: object = ["Why?"] if node["component_type"] == "MapNode" else "Why?"
    inputs = {"message": said, "iterated_message": said}
    caught = [edge("n", "end", "caught_exception_branch")]
    edges = caught if node["component_type"] == "CatchExceptionNode" else []
    around = flow([start(), node, end()], ["start", "n", "end"], edges, shared=[model()])
    result, _ = await run_document(document(around), inputs, models=models, history=BEFORE)
    assert [each.messages for each in models.requests] == [(*BEFORE, NOW)]
    assert "_chat_history" not in msgspec.json.encode(result).decode()


async def test_a_flow_in_the_place_of_an_agent_begins_anew() -> None:
    inside = within(start("s", inputs=[prop("message")]), agent("a"), end("e"))
    given = chain(start(), component("AgentNode", "n", agent=inside), end())
    assert await sent(given) == [[NOW]]


async def test_a_prompt_may_quote_them() -> None:
    given = chain(start(), llm("l", "{{_chat_history}} {{message}}"), end())
    ((message,),) = await sent(given)
    assert message.content.endswith(" Why?")
    assert msgspec.json.decode(message.content.removesuffix(" Why?")) == IN_STATE


async def test_they_are_no_result_and_no_argument_of_a_tool() -> None:
    given: list[dict[str, Any]] = []

    def look(**arguments: Any) -> dict[str, Any]:
        given.append(arguments)
        return {}

    result, events = await run_document(
        chain(start(), tool("look"), end()),
        {"message": "Why?"},
        tools={"look": look},
        history=BEFORE,
    )
    assert result == {"message": "Why?"}
    assert given == [{"message": "Why?"}]
    started = next(each for each in events if isinstance(each, NodeStarted))
    assert started.state["_chat_history"] == IN_STATE


async def test_a_run_that_is_no_turn_has_none() -> None:
    given = chain(
        start(inputs=[prop("_chat_history", "array")]), llm("l", "{{_chat_history}}"), end()
    )
    models = FakeModels(["x"])
    await run_document(given, models=models)
    assert models.requests[0].messages == (Message("user", "[]"),)


def _with_history(value: object) -> Any:
    def before(event: Any, ctx: Any) -> dict[str, Any]:
        return {"action": "modify", "input": {**event.input, "_chat_history": value}}

    return policies(("Redact", {"node": {"before": before}}))


async def test_a_policy_may_change_what_is_sent_of_them() -> None:
    less = [{"role": "user", "content": "…"}]
    given = chain(start(), agent("a"), end())
    assert await sent(given, installed=_with_history(less)) == [[Message("user", "…"), NOW]]


async def test_a_policy_that_makes_something_else_of_them_fails_the_node() -> None:
    given = chain(start(), agent("a"), end())
    with pytest.raises(NodeFailed, match="input '_chat_history' is no list of messages"):
        await sent(given, installed=_with_history([{"role": "tool", "content": "x"}]))


@pytest.mark.parametrize(
    ("node", "sentence"),
    [
        (
            agent("a", system_prompt="{{_chat_history}}"),
            "node 'a' names '_chat_history', and an agent is sent the turns before as "
            "messages. Leave it out of the prompt and the inputs.",
        ),
        (
            llm("l", "x", outputs=[prop("_chat_history")]),
            "node 'l' declares '_chat_history', and names that begin with '_' are reserved",
        ),
    ],
)
def test_nobody_may_write_them_and_no_prompt_of_an_agent_quote_them(
    node: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(DocumentError) as caught:
        make_plan(read_document(chain(start(), node, end())))
    assert sentence in str(caught.value)
