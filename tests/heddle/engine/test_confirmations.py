"""Tools that a person has to agree to: who is asked, in which order, what a no does."""

from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from heddle.engine.confirming import RefusedByPerson
from heddle.engine.faults import NodeFailed
from heddle.engine.questions import Confirmation, Decision, Question
from heddle.engine.testing import (
    FakeModels,
    FakePerson,
    FakeTools,
    policies,
    run_document,
)
from heddle.events import (
    ConfirmationAsked,
    ConfirmationGiven,
    Event,
    ToolCalled,
    ToolReturned,
)
from heddle.events import NodeFailed as NodeFailedEvent
from plugins_host import Fault
from plugins_host.conversation import ModelResponse
from tests.heddle.engine.nodes.test_agent import asks, one_agent, tool_messages
from tests.support.flows import (
    component,
    document,
    end,
    flow,
    inner,
    prop,
    server_tool,
    start,
    tool,
)

Plain = dict[str, Any]

YES = Decision(approved=True)
NO = Decision(approved=False)
WIPE = server_tool(
    "wipe",
    description="Deletes a folder.",
    inputs=[prop("path"), prop("deep", "boolean", default=False)],
    requires_confirmation=True,
)
LOOK = server_tool("look", inputs=[])


def wiping(*calls: tuple[str, str, str]) -> FakeModels:
    return FakeModels([asks(*calls), "done"])


def wipes(*paths: str) -> FakeModels:
    return wiping(*((path, "wipe", f'{{"path": "{path}"}}') for path in paths))


def of_type(events: list[Event], *kinds: type) -> list[Any]:
    return [each for each in events if isinstance(each, kinds)]


async def test_a_yes_runs_the_tool_with_what_was_shown() -> None:
    person, models = FakePerson(YES), wipes("/tmp/a")
    tools = FakeTools({"wipe": lambda **given: {"ok": True}})
    _, events = await run_document(
        one_agent(tools=[WIPE]), models=models, tools=tools, person=person
    )
    given = {"path": "/tmp/a", "deep": False}
    assert person.asked == [
        Confirmation("wipe", given, "Deletes a folder.", "a", None, "/tmp/a")
    ]
    assert tools.calls == [("wipe", given)]
    assert tool_messages(models.requests[1]) == [("/tmp/a", {"ok": True})]
    told = of_type(events, ToolCalled, ConfirmationAsked, ConfirmationGiven, ToolReturned)
    assert [type(each) for each in told] == [
        ToolCalled,
        ConfirmationAsked,
        ConfirmationGiven,
        ToolReturned,
    ]
    assert {each.tool_call_id for each in told} == {"/tmp/a"}
    assert told[1] == ConfirmationAsked("a", "wipe", given, "/tmp/a")
    assert told[2] == ConfirmationGiven("a", "wipe", True, None, "/tmp/a")


@pytest.mark.parametrize(
    ("decision", "error"),
    [
        (NO, "the person who was asked refused to let tool 'wipe' run"),
        (
            Decision(approved=False, reason="wrong folder"),
            "the person who was asked refused to let tool 'wipe' run: wrong folder",
        ),
    ],
)
async def test_a_no_is_what_the_model_reads(decision: Decision, error: str) -> None:
    models, tools = wipes("a"), FakeTools({})
    result, events = await run_document(
        one_agent(tools=[WIPE]), models=models, tools=tools, person=FakePerson(decision)
    )
    assert tools.calls == []
    assert tool_messages(models.requests[1]) == [("a", {"error": error})]
    assert result["result"] == "done"
    (given,) = of_type(events, ConfirmationGiven)
    assert (given.approved, given.reason) == (False, decision.reason or None)
    (returned,) = of_type(events, ToolReturned)
    assert (returned.error.name, returned.error.message) == ("RefusedByPerson", error)


async def test_a_tool_node_that_is_refused_fails_the_run_and_says_who_refused() -> None:
    ran: list[str] = []
    data = document(flow([start(), tool("t", uses=WIPE), end()], ["start", "t", "end"]))
    tools = {"wipe": lambda **given: ran.append(given["path"]) or {}}
    person = FakePerson(Decision(approved=False, reason="not on a Friday"), YES)
    with pytest.raises(NodeFailed) as caught:
        await run_document(data, {"path": "/a"}, tools=tools, person=person)
    assert str(caught.value) == (
        "node 't' (ToolNode): the person who was asked refused to let tool 'wipe' run: "
        "not on a Friday"
    )
    assert isinstance(caught.value.cause, RefusedByPerson)
    assert ran == []
    _, events = await run_document(data, {"path": "/a"}, tools=tools, person=person)
    assert ran == ["/a"]
    assert person.asked[1] == Confirmation(
        "wipe", {"path": "/a", "deep": False}, "Deletes a folder.", "t"
    )
    assert of_type(events, ConfirmationAsked)[0].tool_call_id is None


def gate(*, delays: dict[str, float] | None = None, **verdicts: Plain) -> Any:
    """Policies at toolCall.before, by the path that a call wipes."""

    async def before(event: Any, ctx: Any) -> Plain:
        path = event.input["path"]
        await trio.sleep((delays or {}).get(path, 0))
        return verdicts.get(path, {"action": "proceed"})

    return policies(("Gate", {"toolCall": {"before": before}}))


async def test_a_person_confirms_what_policies_have_made_of_a_call() -> None:
    modify = {"action": "modify", "input": {"path": "/tmp/safe", "deep": False}}
    tools = FakeTools({"wipe": lambda **given: {}})
    person = FakePerson(YES)
    await run_document(
        one_agent(tools=[WIPE]),
        models=wipes("a"),
        tools=tools,
        person=person,
        installed=gate(a=modify),
    )
    (asked,) = person.asked
    assert isinstance(asked, Confirmation)
    assert asked.arguments == {"path": "/tmp/safe", "deep": False}
    assert tools.calls == [("wipe", asked.arguments)]


@pytest.mark.parametrize(
    "verdict",
    [{"action": "reject", "reason": "no"}, {"action": "replace", "value": {"ok": 1}}],
)
async def test_nobody_is_asked_about_a_call_that_a_policy_has_answered(
    verdict: Plain,
) -> None:
    person = FakePerson()
    await run_document(
        one_agent(tools=[WIPE]), models=wipes("a"), person=person, installed=gate(a=verdict)
    )
    assert person.asked == []


async def test_policies_after_see_a_refusal_as_the_failure_of_the_call() -> None:
    seen: list[Any] = []

    def after(event: Any, ctx: Any) -> Plain:
        seen.append(event.outcome)
        return {"action": "pass"}

    await run_document(
        one_agent(tools=[WIPE]),
        models=wipes("a"),
        person=FakePerson(NO),
        installed=policies(("Audit", {"toolCall": {"after": after}})),
    )
    assert [each.error.name for each in seen] == ["RefusedByPerson"]


async def test_nobody_is_asked_about_a_call_that_can_not_be_carried_out() -> None:
    person, models = FakePerson(), wiping(("c", "wipe", '{"path": 7}'))
    await run_document(one_agent(tools=[WIPE]), models=models, person=person)
    assert person.asked == []
    assert "do not fit" in tool_messages(models.requests[1])[0][1]["error"]


async def test_calls_of_one_round_ask_one_after_another_in_call_order(
    autojump_clock: trio.testing.MockClock,
) -> None:
    ran: list[str] = []

    async def wipe(path: str, **given: Any) -> Plain:
        ran.append(path)
        await trio.sleep(1)
        return {"wiped": path}

    models = wipes("a", "b", "c", "d")
    person = FakePerson(YES, NO, YES)
    _, events = await run_document(
        one_agent(tools=[WIPE]),
        models=models,
        tools={"wipe": wipe},
        person=person,
        # The later a call the sooner its policy answers; and b is answered by it.
        installed=gate(
            delays={"a": 0.3, "b": 0.2, "c": 0.1}, b={"action": "reject", "reason": "b"}
        ),
    )
    asked = [each.arguments["path"] for each in person.asked if hasattr(each, "arguments")]
    assert asked == ["a", "c", "d"]
    assert ran == ["a", "d"]
    told = of_type(events, ConfirmationAsked, ConfirmationGiven)
    assert [type(each) for each in told] == [ConfirmationAsked, ConfirmationGiven] * 3
    answers = dict(tool_messages(models.requests[1]))
    assert list(answers) == ["a", "b", "c", "d"]
    assert answers["a"] == {"wiped": "a"}


async def test_a_tool_that_needs_no_confirmation_does_not_wait_for_one() -> None:
    order: list[str] = []

    def look() -> Plain:
        order.append("look")
        return {}

    class Slow(FakePerson):
        async def confirm(self, question: Confirmation, /) -> Decision:
            await wait_all_tasks_blocked()
            order.append("confirmed")
            return YES

    models = wiping(("1", "wipe", '{"path": "a"}'), ("2", "look", "{}"))
    await run_document(
        one_agent(tools=[WIPE, LOOK]),
        models=models,
        tools={"wipe": lambda **given: order.append("wipe") or {}, "look": look},
        person=Slow(),
    )
    assert order == ["look", "confirmed", "wipe"]


async def test_cancelling_while_a_person_is_asked_ends_every_call_once() -> None:
    events: list[Event] = []
    tools = FakeTools({"wipe": lambda **given: {}})

    class Silent(FakePerson):
        async def confirm(self, question: Confirmation, /) -> Decision:
            self.asked.append(question)
            await trio.sleep_forever()
            raise AssertionError

    person = Silent()
    async with trio.open_nursery() as nursery:

        async def run() -> None:
            await run_document(
                one_agent(tools=[WIPE]),
                models=wipes("a", "b"),
                tools=tools,
                person=person,
                events=events,
            )

        nursery.start_soon(run)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert len(person.asked) == 1
    assert tools.calls == []
    assert tools.open_workspaces == 0
    returned = of_type(events, ToolReturned)
    assert sorted(each.tool_call_id for each in returned) == ["a", "b"]
    assert {each.error.name for each in returned} == {"CallCancelled"}
    assert of_type(events, ConfirmationGiven) == []


async def test_a_person_who_can_not_be_asked_any_more_fails_the_node() -> None:
    events: list[Event] = []
    person = FakePerson(Fault("the input ended"))
    models = wipes("a", "b")
    with pytest.raises(NodeFailed, match="the input ended"):
        await run_document(
            one_agent(tools=[WIPE]), models=models, person=person, events=events
        )
    assert len(models.requests) == 1
    returned = {each.tool_call_id: each.error for each in of_type(events, ToolReturned)}
    assert returned["a"].message == "the input ended"
    assert returned["b"].name == "CallCancelled"
    assert len(of_type(events, NodeFailedEvent)) == 1


async def test_nodes_side_by_side_take_turns_with_the_person() -> None:
    asking = inner(
        "left",
        [start(), component("InputMessageNode", "who", message="Who?"), end()],
        ["start", "who", "end"],
    )
    wiper = inner("right", [start(), tool("t", uses=WIPE), end()], ["start", "t", "end"])
    both = component("ParallelFlowNode", "both", subflows=[asking, wiper])
    data = document(flow([start(), both, end()], ["start", "both", "end"]))

    class Both(FakePerson):
        busy = False

        async def _next(self, question: Question | Confirmation) -> str | Decision:
            assert not self.busy
            self.busy = True
            self.asked.append(question)
            await wait_all_tasks_blocked()
            self.busy = False
            return "Ann" if isinstance(question, Question) else YES

    person = Both()
    result, _ = await run_document(
        data, {"path": "/a"}, tools={"wipe": lambda **given: {"ok": True}}, person=person
    )
    assert result["user_input"] == "Ann"
    assert result["ok"] is True
    asked = {type(each): each.node_path for each in person.asked}
    assert asked == {Question: ("both", 0, "who"), Confirmation: ("both", 1, "t")}


async def test_who_of_a_team_wants_to_run_a_tool_is_said() -> None:
    worker = component(
        "Agent",
        "worker",
        system_prompt="worker",
        llm_config={"$component_ref": "model"},
        tools=[WIPE],
    )
    manager = component(
        "Agent", "boss", system_prompt="boss", llm_config={"$component_ref": "model"}
    )
    crew = component("ManagerWorkers", "crew", group_manager=manager, workers=[worker])

    def answer(request: Any) -> ModelResponse | str:
        said = [each.role for each in request.messages]
        if "tool" in said:
            return "done"
        if request.messages[0].content == "boss":
            return asks(("1", "worker", '{"task": "clean"}'))
        return asks(("2", "wipe", '{"path": "a"}'))

    person = FakePerson(YES)
    from tests.heddle.engine.nodes.test_team import around

    await run_document(
        around(crew),
        models=FakeModels(answer),
        tools={"wipe": lambda **given: {}},
        person=person,
    )
    (asked,) = person.asked
    assert isinstance(asked, Confirmation)
    assert (asked.node_name, asked.agent, asked.tool_call_id) == ("node", "worker", "2")
