"""The five seams, as a run meets them: who is asked when, and what becomes of the answer.

Reads as `docs/seams.md` in motion. Policies here are functions in this process; that
processes answer alike is the business of the plugin host's tests.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from heddle.engine.decisions import Asked
from heddle.engine.faults import (
    LimitReached,
    NodeFailed,
    NoWayOn,
    PolicyFailed,
    RefusedByPolicy,
    RunFailed,
)
from heddle.engine.gate import PLACES
from heddle.engine.testing import FakeModels, FakeTools, policies, run_document
from heddle.engine.walk import Limits
from heddle.events import (
    Event,
    FlowCompleted,
    NodeCompleted,
    NodeStarted,
    PluginEmitted,
    PluginLogged,
    TokenDelta,
    TokensDiscarded,
    ToolCalled,
    ToolReturned,
    Warned,
)
from heddle.events import NodeFailed as NodeFailedEvent
from heddle.spec import OpenAiCompatibleConfig
from plugins_host import Fault
from plugins_host.conversation import Message, ModelRequest, ModelResponse, ToolCall, Usage
from plugins_host.seams import SEAMS
from tests.support.flows import (
    agent,
    branching,
    document,
    edge,
    end,
    flow,
    llm,
    model,
    prop,
    server_tool,
    start,
    tool,
)

Plain = dict[str, Any]
Verdict = Mapping[str, Any]
PASS: Verdict = {"action": "pass"}
PROCEED: Verdict = {"action": "proceed"}


def chain(*nodes: Plain, **fields: Any) -> bytes:
    return document(flow(nodes, [node["id"] for node in nodes], **fields))


WORK = chain(start(), tool("work"), end())
ASK = chain(start(), llm("ask", "{{q}}"), end(), shared=[model()])
AGENT = chain(
    start(),
    agent("a", tools=[server_tool("look", inputs=[prop("where", default="here")])]),
    end(),
    shared=[model()],
)
BRANCH = document(
    flow(
        [start(), branching("pick", {"1": "one"}), end("a"), end("b")],
        ["start", "pick"],
        [edge("pick", "a", "one"), edge("pick", "b", "default")],
    )
)


def asks_for(*calls: tuple[str, str]) -> ModelResponse:
    """An answer with tool calls: (id, arguments of ``look``)."""
    wanted = tuple(ToolCall(identity, "look", text) for identity, text in calls)
    return ModelResponse("", "tool_calls", wanted)


class Recorder:
    """A policy at every half of every seam that consents and remembers."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, int]] = []

    def __call__(self) -> tuple[str, dict[str, dict[str, Any]]]:
        def handler(seam: str, half: str) -> Callable[[Any, Any], Verdict]:
            def answer(event: Any, ctx: Any) -> Verdict:
                self.seen.append((f"{seam}.{half}", event.subject.node_name, ctx.attempt))
                return PROCEED if half == "before" else PASS

            return answer

        return "Recorder", {
            seam.value: {half.value: handler(seam.value, half.value) for half in row.halves}
            for seam, row in SEAMS.items()
        }

    @property
    def places(self) -> list[tuple[str, str]]:
        return [(place, node) for place, node, _ in self.seen]


def at(seam: str, half: str, verdict: Any, name: str = "Policy") -> Any:
    """A policy that always answers the same; a function is asked."""
    function = verdict if callable(verdict) else lambda event, ctx: verdict
    return name, {seam: {half: function}}


def on(node: str, verdict: Verdict, otherwise: Verdict) -> Callable[[Any, Any], Verdict]:
    return lambda event, ctx: verdict if event.subject.node_name == node else otherwise


def warnings(events: list[Event]) -> list[str]:
    return [event.message for event in events if isinstance(event, Warned)]


def raises(fault: Exception) -> Callable[..., Any]:
    def function(**_: object) -> Any:
        raise fault

    return function


def test_every_half_of_every_seam_has_a_place_in_the_engine() -> None:
    assert set(PLACES) == set(Asked.__struct_fields__)
    halves = {(seam, half) for seam, row in SEAMS.items() for half in row.halves}
    assert set(PLACES.values()) == halves


# -- order and nesting -------------------------------------------------------------


async def test_node_wraps_every_execution_of_every_type() -> None:
    seen = Recorder()
    await run_document(WORK, tools={"work": lambda **s: {}}, installed=policies(seen()))
    assert seen.places == [
        (f"node.{half}", node)
        for node in ("start", "work", "end")
        for half in ("before", "after")
    ]


async def test_an_agents_round_wraps_its_model_call_and_its_tools() -> None:
    seen = Recorder()
    await run_document(
        AGENT,
        models=FakeModels([asks_for(("1", "{}")), "done"]),
        tools={"look": lambda **s: {}},
        installed=policies(seen()),
    )
    assert [place for place, node in seen.places if node == "a"] == [
        "node.before",
        "agentRound.before",
        "modelCall.before",
        "modelCall.after",
        "toolCall.before",
        "toolCall.after",
        "agentRound.after",
        "agentRound.before",
        "modelCall.before",
        "modelCall.after",
        "node.after",
    ]


@pytest.mark.parametrize("document_", [ASK, AGENT], ids=["LlmNode", "AgentNode"])
async def test_streamed_or_buffered_the_same_is_asked(document_: bytes) -> None:
    lists = []
    for stream in (False, True):
        seen = Recorder()
        answers = [asks_for(("1", "{}")), "done"] if document_ is AGENT else ["done"]
        await run_document(
            document_,
            models=FakeModels(answers),
            tools={"look": lambda **s: {}},
            installed=policies(seen()),
            stream=stream,
        )
        lists.append(seen.seen)
    assert lists[0] == lists[1]
    assert len(lists[0]) > 4


async def test_a_retried_execution_reaches_no_after_and_begins_again_at_before() -> None:
    seen = Recorder()
    fails = iter([Fault("timed out"), Fault("timed out"), None])

    def work(**_: object) -> Plain:
        fault = next(fails)
        if fault is not None:
            raise fault
        return {}

    _, events = await run_document(
        WORK,
        tools={"work": work},
        installed=policies(seen(), at("nodeError", "after", {"action": "retry"})),
    )
    assert [each for each in seen.seen if each[1] == "work"] == [
        ("node.before", "work", 1),
        ("nodeError.after", "work", 1),
        ("node.before", "work", 2),
        ("nodeError.after", "work", 2),
        ("node.before", "work", 3),
        ("node.after", "work", 3),
    ]
    kinds = [type(e) for e in events if getattr(e, "node_name", "") == "work"]
    assert kinds == [
        NodeStarted,
        NodeFailedEvent,
        Warned,
        NodeStarted,
        NodeFailedEvent,
        Warned,
        NodeStarted,
        NodeCompleted,
    ]


async def test_half_that_was_not_declared_is_not_asked() -> None:
    asked: list[str] = []

    def after(event: Any, ctx: Any) -> Verdict:
        asked.append(event.subject.node_name)
        return PASS

    await run_document(
        WORK, tools={"work": lambda **s: {}}, installed=policies(at("node", "after", after))
    )
    assert asked == ["start", "work", "end"]


# -- node -----------------------------------------------------------------------------


async def test_before_may_change_what_a_node_is_given_and_the_next_one_sees_it() -> None:
    def first(event: Any, ctx: Any) -> Verdict:
        if event.subject.node_name != "work":
            return PROCEED
        return {"action": "modify", "input": {**event.input, "n": event.input["n"] + 1}}

    tools = FakeTools({"work": lambda **s: {}})
    _, events = await run_document(
        WORK,
        {"n": 1},
        tools=tools,
        installed=policies(
            at("node", "before", first, "One"), at("node", "before", first, "Two")
        ),
    )
    assert tools.calls == [("work", {"n": 3})]
    (started,) = [e for e in events if isinstance(e, NodeStarted) and e.node_name == "work"]
    assert started.state == {"n": 3}
    assert warnings(events) == []


@pytest.mark.parametrize("node", ["start", "work", "end"])
async def test_before_may_supply_a_result_and_after_still_sees_it_once(node: str) -> None:
    seen = Recorder()
    tools = FakeTools({"work": lambda **s: {"ran": True}})
    verdict = on(node, {"action": "replace", "value": {"stub": 1}}, PROCEED)
    result, events = await run_document(
        WORK, tools=tools, installed=policies(seen(), at("node", "before", verdict))
    )
    assert result["stub"] == 1
    assert (tools.calls == []) == (node == "work")
    assert seen.places.count(("node.after", node)) == 1
    completed = [e for e in events if isinstance(e, NodeCompleted) and e.node_name == node]
    assert [e.state for e in completed] == [{"stub": 1}]
    (warned,) = [each for each in events if isinstance(each, Warned)]
    warning = warned.message
    assert "middleware 'Policy' of plugin 'policy-plugin', node.before: replaces" in warning
    assert f"node {node!r}" in warning
    said_by = (warned.node_name, warned.policy, warned.plugin, warned.seam)
    assert said_by == (node, "Policy", "policy-plugin", "node.before")


async def test_what_was_modified_before_a_result_was_supplied_shows_nothing_else() -> None:
    modify = {"action": "modify", "input": {"key": "***"}}
    _, events = await run_document(
        WORK,
        {"key": "secret"},
        installed=policies(
            at("node", "before", on("work", modify, PROCEED), "Redactor"),
            at("node", "before", on("work", {"action": "replace", "value": {}}, PROCEED)),
        ),
    )
    (started,) = [e for e in events if isinstance(e, NodeStarted) and e.node_name == "work"]
    assert started.state == {"key": "***"}


@pytest.mark.parametrize("node", ["start", "pick", "a"])
async def test_before_may_end_the_run(node: str) -> None:
    verdict = on(node, {"action": "reject", "reason": "not today"}, PROCEED)
    events: list[Event] = []
    with pytest.raises(RefusedByPolicy) as caught:
        await run_document(
            BRANCH,
            {"branching_mapping_key": "1"},
            installed=policies(at("node", "before", verdict)),
            events=events,
        )
    text = str(caught.value)
    assert text.startswith(f"node {node!r} (")
    assert (
        "middleware 'Policy' of plugin 'policy-plugin' does not let this node run" in text
    )
    assert "(node.before): not today. The flow is not at fault" in text
    assert not [e for e in events if getattr(e, "node_name", "") == node]


async def test_a_replaced_branch_has_no_way_on_where_every_edge_is_labelled() -> None:
    verdict = on("pick", {"action": "replace", "value": {}}, PROCEED)
    with pytest.raises(
        NoWayOn, match="middleware 'Policy' of plugin 'policy-plugin' supplied"
    ):
        await run_document(
            BRANCH,
            {"branching_mapping_key": "1"},
            installed=policies(at("node", "before", verdict)),
        )


async def test_after_may_replace_a_result_and_an_error() -> None:
    verdict = on("work", {"action": "replace", "value": {"w": 2}}, PASS)
    for function in (lambda **s: {"w": 1}, raises(Fault("broken"))):
        result, events = await run_document(
            WORK,
            tools={"work": function},
            installed=policies(at("node", "after", verdict)),
        )
        assert result == {"w": 2}
        assert len(warnings(events)) == 1


async def test_after_may_end_the_run_and_tells_the_nodes_own_error_too() -> None:
    verdict = on("work", {"action": "fail", "reason": "enough"}, PASS)
    with pytest.raises(RefusedByPolicy) as caught:
        await run_document(
            WORK,
            tools={"work": raises(Fault("disk full"))},
            installed=policies(at("node", "after", verdict)),
        )
    assert "disk full" in str(caught.value)
    assert "enough" in str(caught.value)


async def test_a_failing_end_is_told_once() -> None:
    verdict = on("work", {"action": "fail", "reason": "enough"}, PASS)
    events: list[Event] = []
    with pytest.raises(RefusedByPolicy):
        await run_document(
            WORK,
            tools={"work": lambda **s: {}},
            installed=policies(at("node", "after", verdict)),
            events=events,
        )
    ended = [e for e in events if isinstance(e, NodeCompleted | NodeFailedEvent)]
    assert [type(e) for e in ended if e.node_name == "work"] == [NodeFailedEvent]


async def test_policies_are_shown_the_state_and_the_outcome() -> None:
    seen: list[Any] = []

    def before(event: Any, ctx: Any) -> Verdict:
        seen.append((event.input, ctx.attempt, ctx.max_attempts, ctx.component))
        return PROCEED

    def after(event: Any, ctx: Any) -> Verdict:
        seen.append((event.outcome.ok, event.outcome.value))
        return PASS

    await run_document(
        chain(start(), end()),
        {"x": 1},
        installed=policies(
            ("P", {"node": {"before": before, "after": after}}),
            settings={"P": {"limit": 3}},
        ),
    )
    assert seen == [({"x": 1}, 1, 3, {"limit": 3}), (True, {"x": 1})] * 2


# -- nodeError ------------------------------------------------------------------------


async def test_a_node_that_fails_is_replaced_and_goes_on() -> None:
    verdict = {"action": "replace", "value": {"w": "spare"}}
    seen = Recorder()
    result, events = await run_document(
        WORK,
        tools={"work": raises(Fault("broken"))},
        installed=policies(seen(), at("nodeError", "after", verdict)),
    )
    assert result == {"w": "spare"}
    assert seen.places.count(("node.after", "work")) == 1
    assert any(isinstance(e, NodeFailedEvent) for e in events)
    assert "replaces the error of node 'work'" in warnings(events)[0]


async def test_fail_tells_both_reasons() -> None:
    with pytest.raises(RefusedByPolicy) as caught:
        await run_document(
            WORK,
            tools={"work": raises(Fault("broken"))},
            installed=policies(
                at("nodeError", "after", {"action": "fail", "reason": "stop"})
            ),
        )
    assert "broken" in str(caught.value)
    assert "stop" in str(caught.value)


async def test_pass_lets_the_error_stand() -> None:
    with pytest.raises(NodeFailed, match="broken"):
        await run_document(
            WORK,
            tools={"work": raises(Fault("broken"))},
            installed=policies(at("nodeError", "after", PASS)),
        )


async def test_the_attempts_of_one_arrival_are_bounded_and_the_rest_is_still_asked() -> (
    None
):
    asked: list[int] = []

    def second(event: Any, ctx: Any) -> Verdict:
        asked.append(ctx.attempt)
        return PASS

    events: list[Event] = []
    tools = FakeTools({"work": raises(Fault("broken"))})
    with pytest.raises(NodeFailed):
        await run_document(
            WORK,
            tools=tools,
            installed=policies(
                at("nodeError", "after", {"action": "retry"}, "Retry"),
                at("nodeError", "after", second, "Second"),
            ),
            events=events,
        )
    assert len(tools.calls) == 3
    assert asked == [3]
    assert "which is refused: this was attempt 3 of 3" in warnings(events)[-1]


async def test_who_is_asked_about_failures_alone_is_asked_when_a_pure_node_fails() -> None:
    needs = chain(start(inputs=[prop("topic")]), end())
    result, events = await run_document(
        needs,
        installed=policies(
            at("nodeError", "after", {"action": "replace", "value": {"topic": "any"}})
        ),
    )
    assert result == {"topic": "any"}
    told = [type(each) for each in events if getattr(each, "node_name", "") == "start"]
    assert told == [NodeStarted, NodeFailedEvent, Warned, NodeCompleted]


async def test_a_retry_spends_an_iteration_of_the_run() -> None:
    tools = FakeTools({"work": raises(Fault("broken"))})
    events: list[Event] = []
    with pytest.raises(NodeFailed):
        await run_document(
            WORK,
            tools=tools,
            installed=policies(at("nodeError", "after", {"action": "retry"})),
            limits=Limits(max_iterations=3, max_node_attempts=10),
            events=events,
        )
    assert len(tools.calls) == 2
    assert "--max-iterations" in warnings(events)[-1]


async def test_a_node_in_a_loop_gets_fresh_attempts_at_each_visit() -> None:
    plain = document(
        flow(
            [
                start(),
                tool("work", outputs=[prop("again", "boolean")]),
                branching("pick", {"true": "again"}, inputs=[prop("again", "boolean")]),
                end(),
            ],
            ["start", "work", "pick"],
            [edge("pick", "work", "again"), edge("pick", "end", "default")],
        )
    )
    script = iter([None, None, {"again": True}, None, None, {"again": False}])

    def work(**_: object) -> Plain:
        answer = next(script)
        if answer is None:
            raise Fault("broken")
        return answer

    result, _ = await run_document(
        plain,
        tools={"work": work},
        installed=policies(at("nodeError", "after", {"action": "retry"})),
    )
    assert result == {"again": False}


async def test_the_delay_is_waited_and_clamped(autojump_clock: MockClock) -> None:
    tools = FakeTools({"work": raises(Fault("broken"))})
    events: list[Event] = []
    with pytest.raises(NodeFailed):
        await run_document(
            WORK,
            tools=tools,
            installed=policies(
                at("nodeError", "after", {"action": "retry", "delayMs": 90_000})
            ),
            events=events,
        )
    assert trio.current_time() == pytest.approx(60)
    assert "clamped to 30000 ms" in warnings(events)[0]


async def test_a_cancelled_run_does_not_wait_for_the_delay(
    autojump_clock: MockClock,
) -> None:
    with trio.move_on_after(1) as scope:
        await run_document(
            WORK,
            tools={"work": raises(Fault("broken"))},
            installed=policies(
                at("nodeError", "after", {"action": "retry", "delayMs": 9_000})
            ),
        )
    assert scope.cancelled_caught
    assert trio.current_time() == 1


# -- toolCall --------------------------------------------------------------------------


async def one_call(
    *installed: Any, arguments: str = "{}", function: Any = None, events: Any = None
) -> tuple[FakeTools, FakeModels, list[Event]]:
    """An agent that calls ``look`` once."""
    tools = FakeTools({"look": function or (lambda **s: {"saw": s})})
    models = FakeModels([asks_for(("c1", arguments)), "done"])
    _, seen = await run_document(
        AGENT, models=models, tools=tools, installed=policies(*installed), events=events
    )
    return tools, models, seen


def answer_of(models: FakeModels) -> str:
    (message,) = [m for m in models.requests[1].messages if m.role == "tool"]
    assert message.tool_call_id == "c1"
    return message.content


async def test_a_gate_sees_the_arguments_that_would_run_defaults_filled_in() -> None:
    seen: list[Any] = []

    def before(event: Any, ctx: Any) -> Verdict:
        subject = event.subject
        seen.append(
            (subject.node_name, subject.tool_name, subject.tool_call_id, event.input)
        )
        return PROCEED

    await one_call(at("toolCall", "before", before))
    assert seen == [("a", "look", "c1", {"where": "here"})]


async def test_a_refused_call_is_answered_with_the_reason_and_never_runs() -> None:
    tools, models, events = await one_call(
        at("toolCall", "before", {"action": "reject", "reason": "destructive"})
    )
    assert tools.calls == []
    assert answer_of(models) == '{"error":"this call was refused: destructive"}'
    assert "refuses the call of tool 'look' in node 'a': destructive" in warnings(events)[0]
    assert len([e for e in events if isinstance(e, ToolReturned)]) == 1


async def test_a_modified_call_runs_with_the_new_arguments_and_shows_no_others() -> None:
    tools, models, events = await one_call(
        at("toolCall", "before", {"action": "modify", "input": {"where": "***"}}),
        at(
            "toolCall",
            "before",
            lambda e, c: {"action": "reject", "reason": e.input["where"]},
        ),
        arguments='{"where": "secret"}',
    )
    assert tools.calls == []
    assert answer_of(models) == '{"error":"this call was refused: ***"}'
    assert "secret" not in repr(events)
    assert "secret" not in repr(models.requests[1])


async def test_a_call_may_be_answered_without_being_run() -> None:
    asked: list[str] = []

    def after(event: Any, ctx: Any) -> Verdict:
        asked.append(event.subject.tool_name)
        return PASS

    tools, models, events = await one_call(
        at("toolCall", "before", {"action": "replace", "value": {"cached": True}}),
        at("toolCall", "after", after),
    )
    assert tools.calls == []
    assert answer_of(models) == '{"cached":true}'
    assert asked == []
    assert len(warnings(events)) == 1


async def test_after_sees_the_arguments_and_the_result_or_the_error() -> None:
    seen: list[Any] = []

    def after(event: Any, ctx: Any) -> Verdict:
        error = event.outcome.error
        seen.append((event.input, event.outcome.ok, error.name if error else None))
        return PASS

    await one_call(at("toolCall", "after", after))
    await one_call(at("toolCall", "after", after), function=raises(Fault("no")))
    await one_call(at("toolCall", "after", after), arguments="{broken")
    assert seen == [
        ({"where": "here"}, True, None),
        ({"where": "here"}, False, "Fault"),
        ({}, False, "ToolCallRefused"),
    ]


async def test_after_may_replace_the_result() -> None:
    _, models, events = await one_call(
        at("toolCall", "after", {"action": "replace", "value": {"note": "omitted"}})
    )
    assert answer_of(models) == '{"note":"omitted"}'
    (returned,) = [e for e in events if isinstance(e, ToolReturned)]
    assert returned.tool_result == {"note": "omitted"}


async def test_after_may_end_the_run() -> None:
    events: list[Event] = []
    with pytest.raises(RefusedByPolicy, match="ends the run at tool 'look'"):
        await one_call(
            at("toolCall", "after", {"action": "fail", "reason": "leak"}), events=events
        )
    assert len([e for e in events if isinstance(e, ToolCalled)]) == 1
    assert len([e for e in events if isinstance(e, ToolReturned)]) == 1


async def test_a_call_that_ends_the_run_ends_the_calls_beside_it(
    autojump_clock: MockClock,
) -> None:
    async def look(where: str) -> Plain:
        if where == "hang":
            await trio.sleep(3600)
        return {}

    events: list[Event] = []
    with pytest.raises(RefusedByPolicy, match="ends the run at tool 'look'"):
        await run_document(
            AGENT,
            models=FakeModels([asks_for(("1", '{"where": "hang"}'), ("2", "{}"))]),
            tools={"look": look},
            installed=policies(at("toolCall", "after", {"action": "fail", "reason": "no"})),
            events=events,
        )
    assert trio.current_time() == 0
    ended = {e.tool_call_id: e.error for e in events if isinstance(e, ToolReturned)}
    assert {number: error and error.name for number, error in ended.items()} == {
        "1": "CallCancelled",
        "2": "RefusedByPolicy",
    }


async def test_of_calls_that_fail_together_the_first_in_call_order_is_told() -> None:
    """Both policies have been asked before either verdict can end the other's call."""
    together = trio.Event()
    asked: list[str] = []

    async def after(event: Any, ctx: Any) -> Verdict:
        asked.append(event.subject.tool_call_id)
        if len(asked) == 2:
            together.set()
        with trio.CancelScope(shield=True):
            await together.wait()
        return {"action": "fail", "reason": f"call {event.subject.tool_call_id}"}

    for _ in range(20):
        asked.clear()
        together = trio.Event()
        with pytest.raises(RefusedByPolicy, match="call 1"):
            await run_document(
                AGENT,
                models=FakeModels([asks_for(("1", "{}"), ("2", "{}"))]),
                tools={"look": lambda **s: {}},
                installed=policies(at("toolCall", "after", after)),
            )


async def test_names_that_are_heddles_own_are_not_shown_to_the_model() -> None:
    def before(event: Any, ctx: Any) -> Verdict:
        if event.subject.node_name != "a":
            return PROCEED
        return {"action": "modify", "input": {**event.input, "_secret": 1, "x": 2}}

    models = FakeModels(["done"])
    await run_document(
        AGENT, models=models, installed=policies(at("node", "before", before))
    )
    assert models.requests[0].messages == (Message("user", '{"x":2}'),)


async def test_a_modification_that_the_tool_cannot_take_is_the_policys_fault() -> None:
    with pytest.raises(PolicyFailed) as caught:
        await one_call(
            at("toolCall", "before", {"action": "modify", "input": {"where": 5}})
        )
    assert "middleware 'Policy' of plugin 'policy-plugin', toolCall.before" in str(
        caught.value
    )
    assert "'where'" in str(caught.value)


async def test_each_of_two_calls_is_answered_once_when_the_first_is_refused() -> None:
    def before(event: Any, ctx: Any) -> Verdict:
        first = event.subject.tool_call_id == "1"
        return {"action": "reject", "reason": "no"} if first else PROCEED

    tools = FakeTools({"look": lambda **s: {"ok": True}})
    models = FakeModels([asks_for(("1", "{}"), ("2", "{}")), "done"])
    await run_document(
        AGENT,
        models=models,
        tools=tools,
        installed=policies(at("toolCall", "before", before)),
    )
    answers = [
        (m.tool_call_id, m.content) for m in models.requests[1].messages if m.role == "tool"
    ]
    assert answers == [
        ("1", '{"error":"this call was refused: no"}'),
        ("2", '{"ok":true}'),
    ]
    assert len(tools.calls) == 1


async def test_composition_follows_the_order_of_installation_and_never_the_clock(
    autojump_clock: MockClock,
) -> None:
    async def slow(event: Any, ctx: Any) -> Verdict:
        await trio.sleep(0.2)
        return {"action": "modify", "input": {"where": event.input["where"] + "1"}}

    def quick(event: Any, ctx: Any) -> Verdict:
        return {"action": "modify", "input": {"where": event.input["where"] + "2"}}

    for _ in range(50):
        tools, _, _ = await one_call(
            at("toolCall", "before", slow, "Slow"), at("toolCall", "before", quick, "Quick")
        )
        assert tools.calls == [("look", {"where": "here12"})]


# -- modelCall ---------------------------------------------------------------------------


async def test_a_policy_sees_the_request_and_edits_a_part_of_it() -> None:
    seen: list[Any] = []

    def before(event: Any, ctx: Any) -> Verdict:
        seen.append(event.input)
        return {"action": "modify", "input": {"temperature": 0.5}}

    models = FakeModels(["hi"])
    await run_document(
        ASK,
        {"q": "why"},
        models=models,
        installed=policies(at("modelCall", "before", before)),
    )
    assert seen == [{"model": "stub", "messages": [{"role": "user", "content": "why"}]}]
    assert models.requests == [
        ModelRequest("stub", (Message("user", "why"),), temperature=0.5)
    ]


async def test_a_cached_answer_sends_nothing_and_is_streamed_all_the_same() -> None:
    models = FakeModels([])
    verdict = {"action": "replace", "value": {"content": "from the cache"}}
    result, events = await run_document(
        ASK,
        {"q": "why"},
        models=models,
        installed=policies(at("modelCall", "before", verdict)),
        stream=True,
    )
    assert result["generated_text"] == "from the cache"
    assert models.requests == []
    assert [e.delta for e in events if isinstance(e, TokenDelta)] == ["from the cache"]
    assert len(warnings(events)) == 1


async def test_a_replaced_answer_that_asks_for_tools_gets_them() -> None:
    def before(event: Any, ctx: Any) -> Verdict:
        if event.input["messages"][-1]["role"] == "tool":
            return PROCEED
        calls = [{"id": "c9", "name": "look", "arguments": "{}"}]
        return {"action": "replace", "value": {"content": "", "tool_calls": calls}}

    tools = FakeTools({"look": lambda **s: {}})
    await run_document(
        AGENT,
        models=FakeModels(["done"]),
        tools=tools,
        installed=policies(at("modelCall", "before", before)),
    )
    assert tools.calls == [("look", {"where": "here"})]


@pytest.mark.parametrize(
    ("half", "action"), [("before", "reject"), ("after", "fail")], ids=["reject", "fail"]
)
async def test_a_refused_model_call_fails_the_node_and_node_error_sees_it(
    half: str, action: str
) -> None:
    seen: list[str] = []

    def error(event: Any, ctx: Any) -> Verdict:
        seen.append(event.outcome.error.message)
        return PASS

    with pytest.raises(NodeFailed, match="over budget"):
        await run_document(
            ASK,
            models=FakeModels(["hi"]),
            installed=policies(
                at(
                    "modelCall", half, {"action": action, "reason": "over budget"}, "Budget"
                ),
                at("nodeError", "after", error, "Watch"),
            ),
        )
    assert len(seen) == 1
    assert "middleware 'Budget'" in seen[0]
    assert "over budget" in seen[0]


class Busy(Fault):
    """A provider's refusal, with what it says about trying again."""

    status = 429
    retry_after_ms = 7000
    retryable = True


async def test_a_rate_limit_is_retried_and_its_errors_say_when(
    autojump_clock: MockClock,
) -> None:
    seen: list[Any] = []

    def after(event: Any, ctx: Any) -> Verdict:
        seen.append((ctx.attempt, ctx.max_attempts, event.outcome.ok))
        if event.outcome.ok:
            return PASS
        error = event.outcome.error
        assert (error.status, error.retry_after_ms) == (429, 7000)
        return {"action": "retry", "delayMs": error.retry_after_ms}

    models = FakeModels([Busy("429"), "hi"])
    result, _ = await run_document(
        ASK, models=models, installed=policies(at("modelCall", "after", after))
    )
    assert result == {"generated_text": "hi"}
    assert seen == [(1, 3, False), (2, 3, True)]
    assert trio.current_time() == 7
    assert models.requests[0] is models.requests[1]


async def test_three_attempts_are_the_ceiling_of_a_model_call() -> None:
    models = FakeModels([Busy("429")] * 5)
    events: list[Event] = []
    with pytest.raises(NodeFailed, match="429"):
        await run_document(
            ASK,
            models=models,
            installed=policies(at("modelCall", "after", {"action": "retry"})),
            events=events,
        )
    assert len(models.requests) == 3
    assert "which is refused: this was attempt 3 of 3" in warnings(events)[-1]


async def test_before_is_asked_once_for_all_attempts() -> None:
    seen = Recorder()
    await run_document(
        ASK,
        models=FakeModels([Busy("429"), "hi"]),
        installed=policies(
            seen(),
            at(
                "modelCall",
                "after",
                lambda e, c: PASS if e.outcome.ok else {"action": "retry"},
            ),
        ),
    )
    assert [p for p, _ in seen.places if p.startswith("modelCall")] == [
        "modelCall.before",
        "modelCall.after",
        "modelCall.after",
    ]


async def test_abandoned_text_is_taken_back_before_the_next_attempt_begins() -> None:
    _, events = await run_document(
        ASK,
        models=Breaking(),
        installed=policies(
            at(
                "modelCall",
                "after",
                lambda e, c: PASS if e.outcome.ok else {"action": "retry"},
            )
        ),
        stream=True,
    )
    assert shown_text(events) == "Hello"
    assert TokensDiscarded("ask", 3) in events


class Breaking(FakeModels):
    """Streams "Hel" and breaks off, then streams "Hello"."""

    async def chat(self, llm: Any, request: Any, *, on_text: Any) -> ModelResponse:
        self.requests.append(request)
        if len(self.requests) == 1:
            on_text("Hel")
            raise Busy("the stream broke")
        on_text("Hello")
        return ModelResponse("Hello")


def shown_text(events: list[Event]) -> str:
    """What a client shows that takes back what it is told to take back."""
    shown = ""
    for event in events:
        match event:
            case TokenDelta(delta=delta):
                shown += delta
            case TokensDiscarded(characters=characters):
                shown = shown[:-characters]
            case _:
                pass
    return shown


async def test_abandoned_text_is_taken_back_when_the_whole_node_is_tried_again() -> None:
    _, events = await run_document(
        ASK,
        {"q": "why"},
        models=Breaking(),
        installed=policies(at("nodeError", "after", {"action": "retry"})),
        stream=True,
    )
    assert shown_text(events) == "Hello"


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        ({"action": "retry"}, "Hello"),
        ({"action": "replace", "value": {"generated_text": "other"}}, ""),
        (PASS, "Hel"),
    ],
)
async def test_a_failure_is_treated_alike_whether_or_not_policies_are_asked_around_nodes(
    verdict: Verdict, text: str
) -> None:
    """An execution that none is asked around takes a short way, which tells the same."""
    told = []
    for around in ((), (at("node", "after", PASS),)):
        events: list[Event] = []
        with suppress(NodeFailed):
            await run_document(
                ASK,
                {"q": "why"},
                models=Breaking(),
                installed=policies(at("nodeError", "after", verdict), *around),
                stream=True,
                events=events,
            )
        assert shown_text(events) == text
        told.append(events)
    assert told[0] == told[1]


async def test_text_of_a_node_that_a_policy_stands_in_for_is_taken_back() -> None:
    verdict = on("ask", {"action": "replace", "value": {"generated_text": "other"}}, PASS)
    _, events = await run_document(
        ASK,
        {"q": "why"},
        models=FakeModels(["Hello"]),
        installed=policies(at("node", "after", verdict)),
        stream=True,
    )
    assert shown_text(events) == ""
    assert TokensDiscarded("ask", 5) in events


async def test_only_the_text_of_the_abandoned_call_is_taken_back_from_an_agent() -> None:
    class Speaking(FakeModels):
        async def chat(self, llm: Any, request: Any, *, on_text: Any) -> ModelResponse:
            self.requests.append(request)
            match len(self.requests):
                case 1:
                    on_text("Let me look. ")
                    return asks_for(("1", "{}"))
                case 2:
                    on_text("Hel")
                    raise Busy("the stream broke")
                case _:
                    on_text("Hello")
                    return ModelResponse("Hello")

    retry = lambda e, c: PASS if e.outcome.ok else {"action": "retry"}  # noqa: E731
    _, events = await run_document(
        AGENT,
        models=Speaking(),
        tools={"look": lambda **s: {}},
        installed=policies(at("modelCall", "after", retry)),
        stream=True,
    )
    assert shown_text(events) == "Let me look. Hello"


async def test_usage_is_shown_to_policies_where_it_is_known_and_absent_elsewhere() -> None:
    seen: list[Any] = []

    def after(event: Any, ctx: Any) -> Verdict:
        seen.append(event.outcome.value)
        return PASS

    for answer in (ModelResponse("a", usage=Usage(3, 5)), ModelResponse("b")):
        await run_document(
            ASK,
            models=FakeModels([answer]),
            installed=policies(at("modelCall", "after", after)),
        )
    assert seen == [
        {
            "content": "a",
            "finish_reason": "stop",
            "usage": {"inputTokens": 3, "outputTokens": 5},
        },
        {"content": "b", "finish_reason": "stop"},
    ]


# -- agentRound --------------------------------------------------------------------------


async def test_a_round_budget_ends_the_node_before_the_model_is_called() -> None:
    def before(event: Any, ctx: Any) -> Verdict:
        assert event.input["maxRounds"] == 10
        over = event.input["round"] > 2
        return {"action": "reject", "reason": "2 rounds is the budget"} if over else PROCEED

    models = FakeModels(lambda request: asks_for((f"c{len(request.messages)}", "{}")))
    with pytest.raises(NodeFailed) as caught:
        await run_document(
            AGENT,
            models=models,
            tools={"look": lambda **s: {}},
            installed=policies(at("agentRound", "before", before)),
        )
    assert len(models.requests) == 2
    text = str(caught.value)
    assert "middleware 'Policy'" in text
    assert "round 3" in text
    assert "2 rounds is the budget" in text


async def test_after_is_told_the_tools_of_each_round_the_tenth_included() -> None:
    seen: list[Any] = []

    def after(event: Any, ctx: Any) -> Verdict:
        seen.append(event.outcome.value)
        return PASS

    models = FakeModels(
        lambda request: asks_for(
            (f"{len(request.messages)}a", "{}"), (f"{len(request.messages)}b", "{}")
        )
    )
    with pytest.raises(NodeFailed, match="10 rounds"):
        await run_document(
            AGENT,
            models=models,
            tools={"look": lambda **s: {}},
            installed=policies(at("agentRound", "after", after)),
        )
    assert seen == [
        {"round": number, "toolCalls": ["look", "look"]} for number in range(1, 11)
    ]


async def test_a_round_that_ended_in_an_answer_does_not_reach_after() -> None:
    asked: list[Any] = []
    await run_document(
        AGENT,
        models=FakeModels(["done"]),
        installed=policies(at("agentRound", "after", lambda e, c: asked.append(1) or PASS)),
    )
    assert asked == []


async def test_fail_ends_the_node_after_the_round() -> None:
    models = FakeModels(lambda request: asks_for((f"c{len(request.messages)}", "{}")))
    with pytest.raises(NodeFailed, match=r"ends the agent after round 1 .*: enough"):
        await run_document(
            AGENT,
            models=models,
            tools={"look": lambda **s: {}},
            installed=policies(
                at("agentRound", "after", {"action": "fail", "reason": "enough"})
            ),
        )
    assert len(models.requests) == 1


# -- when the policy is at fault ---------------------------------------------------------


def killed(event: Any, ctx: Any) -> Verdict:
    raise RuntimeError("boom")


FAILURES: list[tuple[Any, str]] = [
    (killed, "RuntimeError"),
    ({}, "action"),
    ("reject", "reject"),
    ({"action": "allow"}, "allow"),
    ({"action": "pass"}, "not admitted"),
    ({"action": "replace", "value": [1]}, "value"),
    ({"action": "modify", "inputs": {}}, "Did you mean 'input'?"),
    ({"action": "reject"}, "reason"),
]


@pytest.mark.parametrize(
    ("verdict", "sentence"), FAILURES, ids=[sentence for _, sentence in FAILURES]
)
async def test_a_policy_at_fault_ends_the_run_and_the_tool_never_runs(
    verdict: Any, sentence: str
) -> None:
    tools = FakeTools({"look": lambda **s: {}})
    with pytest.raises(PolicyFailed) as caught:
        await run_document(
            AGENT,
            models=FakeModels([asks_for(("1", "{}")), "done"]),
            tools=tools,
            installed=policies(at("toolCall", "before", verdict)),
        )
    assert tools.calls == []
    text = str(caught.value)
    assert text.startswith(
        "node 'a' (AgentNode): middleware 'Policy' of plugin 'policy-plugin', "
        "toolCall.before:"
    )
    assert sentence in text


async def test_a_policy_that_fails_after_a_failed_node_tells_both() -> None:
    with pytest.raises(PolicyFailed) as caught:
        await run_document(
            WORK,
            tools={"work": raises(Fault("disk full"))},
            installed=policies(at("nodeError", "after", killed)),
        )
    assert "disk full" in str(caught.value)
    assert "boom" in str(caught.value)


async def test_a_policy_that_never_answers_ends_the_run_at_its_own_deadline(
    autojump_clock: MockClock,
) -> None:
    async def never(event: Any, ctx: Any) -> Verdict:
        await trio.sleep_forever()
        return PASS

    with pytest.raises(PolicyFailed, match="within 5 s"):
        await run_document(
            WORK, installed=policies(at("node", "before", never), patience=5)
        )
    assert trio.current_time() == 5


async def test_no_policy_sees_a_limit_as_a_failed_node() -> None:
    seen = Recorder()
    with pytest.raises(LimitReached):
        await run_document(
            WORK,
            tools={"work": lambda **s: {}},
            limits=Limits(max_iterations=1),
            installed=policies(seen()),
        )
    assert seen.places == [("node.before", "start"), ("node.after", "start")]


# -- what a policy may use of the run ----------------------------------------------------


async def test_reverse_calls_are_served_by_the_run_they_belong_to() -> None:
    async def before(event: Any, ctx: Any) -> Verdict:
        if event.subject.node_name != "work":
            return PROCEED
        found = await ctx.run_tool("helper", {"x": 1})
        ctx.emit_event("checked", {"found": found})
        ctx.log("info", "checked")
        return PROCEED

    tools = FakeTools({"work": lambda **s: {}, "helper": lambda x: {"y": x + 1}})
    seen = Recorder()
    _, events = await run_document(
        WORK, tools=tools, installed=policies(seen(), at("node", "before", before))
    )
    assert ("helper", {"x": 1}) in tools.calls
    assert not [place for place, _ in seen.places if place.startswith("toolCall")]
    assert PluginEmitted(
        "plugin:Policy:checked", "work", "ToolNode", {"found": {"y": 2}}
    ) in (events)
    assert PluginLogged("work", "ToolNode", "info", "checked") in events
    assert tools.open_workspaces == 0


async def test_a_policy_asks_the_model_of_its_settings_with_its_own_parameters_first() -> (
    None
):
    answers: list[Any] = []

    async def before(event: Any, ctx: Any) -> Verdict:
        if event.subject.node_name == "work":
            asked = {"messages": [{"role": "user", "content": "safe?"}], "temperature": 0}
            answers.append(await ctx.call_model(asked))
        return PROCEED

    models = FakeModels(
        [ModelResponse("yes", usage=Usage(3, 1))], {"temperature": 0.7, "max_tokens": 5}
    )
    _, events = await run_document(
        WORK,
        models=models,
        tools={"work": lambda **s: {}},
        installed=policies(
            at("node", "before", before),
            models={"Policy": OpenAiCompatibleConfig(name="m", model_id="small", url="x")},
        ),
    )
    assert models.requests == [
        ModelRequest("small", (Message("user", "safe?"),), temperature=0, max_tokens=5)
    ]
    assert answers[0]["content"] == "yes"
    assert isinstance(events[-1], FlowCompleted)
    assert events[-1].usage == Usage(3, 1)


async def test_a_model_that_was_not_configured_is_told_how_to_configure_it() -> None:
    async def before(event: Any, ctx: Any) -> Verdict:
        await ctx.call_model({"messages": [{"role": "user", "content": "safe?"}]})
        return PROCEED

    with pytest.raises(PolicyFailed, match="'Policy' has no 'llm_config' in its settings"):
        await run_document(WORK, installed=policies(at("node", "before", before)))


# -- laws --------------------------------------------------------------------------------

VERDICTS = st.sampled_from(
    [
        PROCEED,
        {"action": "modify", "input": {"by": "policy"}},
        {"action": "replace", "value": {"by": "policy"}},
        {"action": "reject", "reason": "no"},
        {"action": "nonsense"},
    ]
)


@given(st.lists(VERDICTS, max_size=4))
def test_the_first_verdict_that_settles_wins_and_nobody_after_it_is_asked(
    verdicts: list[Verdict],
) -> None:
    asked: list[int] = []

    def policy(number: int, verdict: Verdict) -> Any:
        def before(event: Any, ctx: Any) -> Verdict:
            if event.subject.node_name != "work":
                return PROCEED
            asked.append(number)
            return verdict

        return at("node", "before", before, f"P{number}")

    installed = policies(
        *(policy(number, verdict) for number, verdict in enumerate(verdicts))
    )
    settles = [
        n for n, v in enumerate(verdicts) if v["action"] not in ("proceed", "modify")
    ]
    stop = settles[0] if settles else len(verdicts)
    tools = FakeTools({"work": lambda **s: {}})

    async def run_it() -> str:
        try:
            await run_document(WORK, {"by": "caller"}, tools=tools, installed=installed)
        except RunFailed as failure:
            return type(failure).__name__
        return "completed"

    ending = trio.run(run_it)
    assert asked == list(range(min(stop + 1, len(verdicts))))
    decided = verdicts[stop]["action"] if settles else "proceed"
    assert ending == {
        "reject": "RefusedByPolicy",
        "nonsense": "PolicyFailed",
    }.get(decided, "completed")
    if decided == "proceed":
        modified = any(v["action"] == "modify" for v in verdicts)
        assert tools.calls == [("work", {"by": "policy" if modified else "caller"})]
    else:
        assert tools.calls == []
