"""ApiNodes and RemoteTools in runs: outputs, errors, seams, agents."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import trio

from heddle.engine.faults import NodeFailed
from heddle.engine.plan import make_plan
from heddle.engine.run import Run
from heddle.engine.testing import FakeModels, FakeTools, policies
from heddle.engine.walk import Limits
from heddle.engine.work import Services
from heddle.events import Event, ToolReturned, Warned
from heddle.events import NodeFailed as NodeErrored
from heddle.remote import RemoteService
from heddle.spec import DocumentError, read_document
from plugins_host import ModelResponse, ToolCall
from tests.heddle.engine.test_cancelling import unpaired
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


def api(url: str, **fields: Any) -> Plain:
    return component("ApiNode", "ask", **{"url": url, "http_method": "GET", **fields})


def remote_tool(url: str, **fields: Any) -> Plain:
    return component("RemoteTool", "look", **{"url": url, "http_method": "GET", **fields})


async def ran(
    node: Plain,
    inputs: Plain | None = None,
    *,
    models: FakeModels | None = None,
    installed: Any = None,
    events: list[Event] | None = None,
) -> Plain:
    plan = make_plan(
        read_document(
            document(
                flow([start(), node, end()], ["start", "ask", "end"], shared=[model()])
            )
        )
    )
    remote = RemoteService({})
    seen: list[Event] = [] if events is None else events
    services = Services(
        models=models or FakeModels(),
        tools=FakeTools({}),
        report=seen.append,
        policies=installed,
        remote=remote,
    )
    try:
        return await Run(plan, services, Limits()).execute(inputs or {})
    finally:
        await remote.aclose()


def echo(asked: Asked) -> Answer:
    return Answer({"path": asked.path, "n": len(asked.body)})


@pytest.mark.parametrize(
    ("outputs", "body", "found"),
    [
        (None, {"a": 1}, {"response": {"a": 1}}),
        (None, b"plain text", {"response": "plain text"}),
        (None, b"", {"response": None}),
        ([prop("a", "integer")], {"a": 1, "b": 2}, {"a": 1}),
        ([prop("a", "string")], {"a": 1}, {"a": "1"}),
        ([prop("list", "array")], [1, 2], {"list": [1, 2]}),
        ([prop("text", "string")], b"plain", {"text": "plain"}),
        ([prop("all", "object")], {"a": 1}, {"all": {"a": 1}}),
        ([prop("response", None)], {"a": 1}, {"response": {"a": 1}}),
        ([prop("http_response", "string")], b'{"a":1}', {"http_response": '{"a":1}'}),
        (
            [prop("http_response", "string"), prop("a", "integer")],
            b'{"a":1}',
            {"http_response": '{"a":1}', "a": 1},
        ),
        (
            [prop("a", "integer", default=7), prop("b", "integer")],
            {"b": 2},
            {"a": 7, "b": 2},
        ),
        ([prop("a", "integer", default=7)], b"", {"a": 7}),
    ],
)
async def test_outputs_are_read_from_the_answer(
    outputs: list[Plain] | None, body: Any, found: Plain
) -> None:
    fields = {} if outputs is None else {"outputs": outputs}
    async with http_stub(lambda asked: Answer(body)) as stub:
        assert await ran(api(f"{stub.url}/x", **fields)) == found


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"a": 1}, "gave no 'b', which the outputs declare"),
        (b"plain", "was answered with text that is no JSON"),
        (b"", "was answered with nothing"),
        ({"a": "x", "b": 1}, "gave 'a' as something else than declared"),
    ],
)
async def test_an_answer_without_the_outputs_fails_the_node(body: Any, words: str) -> None:
    outputs = [prop("a", "integer"), prop("b", "integer")]
    async with http_stub(lambda asked: Answer(body)) as stub:
        with pytest.raises(NodeFailed) as caught:
            await ran(api(f"{stub.url}/x", outputs=outputs))
    assert words in str(caught.value)
    assert str(caught.value).startswith("node 'ask' (ApiNode): the request ")
    assert str(caught.value).count("'ask'") == 1


async def test_what_fails_names_the_node_once_and_the_address() -> None:
    async with http_stub(lambda asked: Answer(b"no", status=404)) as stub:
        with pytest.raises(NodeFailed) as caught:
            await ran(api(f"{stub.url}/x"))
    said = f"node 'ask' (ApiNode): GET {stub.url}: answered 404"
    assert str(caught.value).startswith(said)
    assert str(caught.value).count("'ask'") == 1


async def test_an_error_answer_is_the_nodes_failure_and_policies_see_it() -> None:
    seen: list[Any] = []

    def after(event: Any, context: Any) -> Plain:
        seen.append(
            event.outcome["error"]["message"]
            if isinstance(event.outcome, dict)
            else event.outcome
        )
        return {"action": "replace", "value": {"stood": "in"}}

    async with http_stub(lambda asked: Answer(b"gone", 410)) as stub:
        installed = policies(("Fix", {"nodeError": {"after": after}}))
        found = await ran(api(f"{stub.url}/x"), installed=installed)
    assert found["stood"] == "in"
    assert "answered 410 Gone" in str(seen)


async def test_a_retry_by_the_document_is_a_warning_of_the_run() -> None:
    answers = iter([Answer(b"busy", 503), Answer({"a": 1})])
    events: list[Event] = []
    policy = {"initial_retry_delay": 0}
    async with http_stub(lambda asked: next(answers)) as stub:
        found = await ran(api(f"{stub.url}/x", retry_policy=policy), events=events)
    assert found == {"response": {"a": 1}}
    (warning,) = [each for each in events if isinstance(each, Warned)]
    assert (warning.node_name, "trying again in 0.0 s" in warning.message) == ("ask", True)


async def test_a_remote_tool_is_used_by_a_tool_node() -> None:
    uses = remote_tool(
        "http://h/", inputs=[prop("id")], outputs=[prop("path"), prop("n", "integer")]
    )
    async with http_stub(echo) as stub:
        uses["url"] = f"{stub.url}/items/{{{{id}}}}"
        found = await ran(tool("ask", uses=uses), {"id": "a/b"})
    assert found == {"id": "a/b", "path": "/items/a%2Fb", "n": 0}


async def test_an_agents_remote_tool_passes_the_seams_of_its_call() -> None:
    asked: list[Any] = []

    def before(event: Any, context: Any) -> Plain:
        asked.append(
            event.subject["toolName"] if isinstance(event.subject, dict) else event.subject
        )
        return {"action": "modify", "input": {"id": "changed"}}

    calls = ModelResponse("", tool_calls=(ToolCall("c1", "look", '{"id": "x"}'),))
    models = FakeModels([calls, "done"])
    events: list[Event] = []
    async with http_stub(echo) as stub:
        uses = remote_tool(f"{stub.url}/items/{{{{id}}}}", inputs=[prop("id")])
        found = await ran(
            agent("ask", tools=[uses]),
            models=models,
            installed=policies(("Gate", {"toolCall": {"before": before}})),
            events=events,
        )
    assert found["result"] == "done"
    assert len(asked) == 1
    message = models.requests[1].messages[-1]
    assert json.loads(message.content) == {"response": {"path": "/items/changed", "n": 0}}
    assert [type(each) for each in events].count(ToolReturned) == 1


async def test_what_went_wrong_with_a_remote_tool_is_told_to_the_model() -> None:
    calls = ModelResponse("", tool_calls=(ToolCall("c1", "look", "{}"),))
    models = FakeModels([calls, "sorry"])
    async with http_stub(lambda asked: Answer(b"no", 404)) as stub:
        found = await ran(agent("ask", tools=[remote_tool(f"{stub.url}/x")]), models=models)
    assert found["result"] == "sorry"
    assert "answered 404" in json.loads(models.requests[1].messages[-1].content)["error"]


@pytest.mark.parametrize(
    ("uses", "words"),
    [
        (
            component("ClientTool", "ring"),
            "'ring' is a ClientTool, which the caller of a run",
        ),
        (
            component("BuiltinTool", "search", tool_type="web_search"),
            "'search' is a BuiltinTool of type 'web_search', and heddle has none built in",
        ),
        (remote_tool("http://h/", http_method="TRACE"), "TRACE is not sent"),
    ],
)
def test_tools_that_can_not_be_used_are_refused_with_the_document(
    uses: Plain, words: str
) -> None:
    for node in (tool("ask", uses=uses), agent("ask", tools=[uses])):
        plain = flow([start(), node, end()], ["start", "ask", "end"], shared=[model()])
        with pytest.raises(DocumentError) as caught:
            make_plan(read_document(document(plain)))
        assert words in str(caught.value)


def test_a_host_that_anybody_may_choose_is_a_warning() -> None:
    plain = flow(
        [start(), api("{{url}}"), end()], ["start", "ask", "end"], shared=[model()]
    )
    plan = make_plan(read_document(document(plain)))
    assert any(
        "which host this request goes to" in each.what for each in plan.graph.warnings
    )


# -- cancellation ----------------------------------------------------------------------


def by_an_agent(url: str) -> tuple[Plain, FakeModels]:
    asked = ModelResponse("", "tool_calls", (ToolCall("1", "look", "{}"),))
    return agent("ask", tools=[remote_tool(url)]), FakeModels([asked])


BUSY = {"initial_retry_delay": 1000, "max_retry_delay": 1000}
WAITING: dict[str, tuple[Callable[[str], tuple[Plain, FakeModels | None]], Answer]] = {
    "an ApiNode": (lambda url: (api(url), None), Answer(hang=True)),
    "a RemoteTool": (
        lambda url: (tool("ask", uses=remote_tool(url)), None),
        Answer(hang=True),
    ),
    "a RemoteTool of an agent": (by_an_agent, Answer(hang=True)),
    "an ApiNode between two attempts": (
        lambda url: (api(url, retry_policy=BUSY), None),
        Answer(b"busy", 503),
    ),
}


@pytest.mark.parametrize("where", WAITING)
async def test_a_cancelled_run_ends_once_and_leaves_no_connection(where: str) -> None:
    place, answer = WAITING[where]
    events: list[Event] = []
    async with http_stub(lambda asked: answer) as stub:
        node, models = place(f"{stub.url}/x")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: ran(node, models=models, events=events))
            await stub.arrived.wait()
            with trio.fail_after(30):
                # What comes over the wire comes when it does.
                while not answer.hang and not isinstance(events[-1], Warned):  # noqa: ASYNC110
                    await trio.sleep(0.001)
            nursery.cancel_scope.cancel()
        with trio.fail_after(30):
            while stub.open:  # noqa: ASYNC110
                await trio.sleep(0.001)
        assert len(stub.asked) == 1
    assert list(unpaired(events)) == []
    stopped = events[-1]
    assert isinstance(stopped, NodeErrored)
    assert stopped.error.name == "NodeStopped"
