"""The walk along the chain: order, composition, ceilings, failures, and what is said aloud."""
# ruff: noqa: E501  tables of sentences read best with one a line

from collections.abc import Mapping, Sequence
from itertools import product
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec.structs import fields

from plugins_host import payload as payload_module
from plugins_host.consulting.chain import Chain
from plugins_host.consulting.links import Asking, Link
from plugins_host.consulting.outcomes import (
    AfterOutcome,
    BeforeOutcome,
    Erred,
    Failed,
    MiddlewareFailure,
    Outcome,
    Passed,
    Proceeded,
    Rejected,
    Replaced,
    RetryGranted,
    ShownError,
    Succeeded,
)
from plugins_host.conversation import Message, ModelRequest, ModelResponse, ToolCall
from plugins_host.payload import Payload
from plugins_host.plugin_faults import PluginFailed, PluginGone, PluginOverdue
from plugins_host.seams import SEAMS, Half, NodeSubject, Seam, Subject, ToolSubject
from plugins_host.testing import StubAsker

NODE = NodeSubject("fetch", "ToolNode")
TOOL = ToolSubject("agent", "AgentNode", "shell", "call_1")
EVERYWHERE = {seam: frozenset(row.halves) for seam, row in SEAMS.items()}
HALVES = [(seam, half) for seam, row in SEAMS.items() for half in row.halves]
ERROR = ShownError("TimeoutError", "timed out")
ERRED = Erred(ERROR)

Answers = Mapping[str, object]


def says(answers: Answers, *, name: str = "p", features: Sequence[str] = ()) -> StubAsker:
    """A plugin whose components answer from a table; an exception is raised."""

    def one(component_type: str) -> object:
        answer = answers[component_type]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def answer(verb: str, params: dict[str, Any]) -> object:
        if verb != "consult":
            return one(params["componentType"])
        said: list[dict[str, Any]] = []
        for asked in params["ask"]:
            component = asked["componentType"]
            try:
                verdict: Any = one(component)
            except Exception as error:
                told = {"name": type(error).__name__, "message": str(error)}
                said.append({"componentType": component, "error": told})
                break
            said.append({"componentType": component, "verdict": verdict})
            if not isinstance(verdict, dict) or verdict.get("action") not in {
                "proceed",
                "pass",
                "modify",
            }:
                break
        return {"verdicts": said}

    return StubAsker(answer, name=name, features=features)


def links(
    *askers: StubAsker, names: Sequence[Sequence[str]], seams: Any = None
) -> list[Link]:
    return [
        Link(name, asker.name, b"{}", seams or EVERYWHERE, asker)
        for asker, group in zip(askers, names, strict=True)
        for name in group
    ]


def subject_of(seam: Seam) -> Subject:
    return TOOL if seam is Seam.TOOL_CALL else NODE


class Told(list[str]):
    """The warnings of a walk."""

    def asking(self, **how: Any) -> Asking:
        return Asking(None, lambda did: self.append(str(did)), **how)


async def before(
    seam: Seam, answers: Answers, given: Any = None, told: Told | None = None, **how: Any
) -> BeforeOutcome:
    """Ask one plugin whose components are the keys of ``answers``."""
    asker = says(answers)
    chain = Chain(links(asker, names=[list(answers)]))
    asking = (Told() if told is None else told).asking(**how)
    return await chain.before(
        seam, subject_of(seam), Payload.of({} if given is None else given), asking
    )


async def after(
    seam: Seam,
    answers: Answers,
    outcome: Outcome = ERRED,
    told: Told | None = None,
    **how: Any,
) -> AfterOutcome:
    asker = says(answers)
    chain = Chain(links(asker, names=[list(answers)]))
    asking = (Told() if told is None else told).asking(**how)
    return await chain.after(
        seam, subject_of(seam), outcome, asking, given=Payload.of({"a": 1})
    )


OK = Succeeded(Payload.of({"x": 1}))
PROCEED = {"action": "proceed"}
PASS = {"action": "pass"}


# --- who is asked --------------------------------------------------------------------------


def test_a_chain_of_nobody_asks_nowhere() -> None:
    chain = Chain([])
    assert not any(chain.asks(seam, half) for seam, half in product(Seam, Half))


@pytest.mark.parametrize(("seam", "half"), HALVES)
def test_only_a_declared_half_is_asked(seam: Seam, half: Half) -> None:
    chain = Chain(links(says({}), names=[["A"]], seams={seam: frozenset({half})}))
    asked = [place for place in product(Seam, Half) if chain.asks(*place)]
    assert asked == [(seam, half)]


async def test_a_half_that_nobody_declared_lets_everything_be() -> None:
    chain = Chain([])
    given = Payload.of({"x": 1})
    outcome = await chain.before(Seam.NODE, NODE, given, Told().asking())
    assert isinstance(outcome, Proceeded)
    assert outcome.input is given
    assert await chain.after(Seam.NODE, NODE, OK, Told().asking()) == Passed()


async def test_all_are_asked_in_the_order_in_which_they_were_installed() -> None:
    order: list[str] = []

    def remember(_: str, params: dict[str, Any]) -> object:
        order.append(params["componentType"])
        return PROCEED if "outcome" not in params else PASS

    one, two = StubAsker(remember, name="one"), StubAsker(remember, name="two")
    chain = Chain(links(one, two, one, names=[["A", "B"], ["C"], ["D"]]))
    await chain.before(Seam.NODE, NODE, Payload.of({}), Told().asking())
    await chain.after(Seam.NODE, NODE, OK, Told().asking())
    assert order == ["A", "B", "C", "D"] * 2


@pytest.mark.parametrize(("seam", "half"), HALVES)
async def test_each_half_is_shown_what_the_table_says_and_nothing_wider(
    seam: Seam, half: Half
) -> None:
    asker = says({"A": PROCEED if half is Half.BEFORE else PASS})
    chain = Chain([Link("A", "p", b'{"max":3}', EVERYWHERE, asker)])
    asking = Told().asking(attempt=2, max_attempts=3)
    if half is Half.BEFORE:
        await chain.before(seam, subject_of(seam), Payload.of({"x": 1}), asking)
    else:
        await chain.after(seam, subject_of(seam), OK, asking, given=Payload.of({"a": 1}))
    ((verb, question),) = asker.asked
    shows = {str(shown) for shown in SEAMS[seam].halves[half].shows}
    assert verb == half
    assert set(question) == {
        "seam",
        "componentType",
        "component",
        "subject",
        "attempt",
        "maxAttempts",
        *shows,
    }
    assert question["seam"] == seam
    assert question["component"] == {"max": 3}
    assert (question["attempt"], question["maxAttempts"]) == (2, 3)
    of_all = {each.encode_name for each in fields(SEAMS[seam].subject) if each.required}
    assert set(question["subject"]) == of_all
    assert question.get("outcome", {"ok": True, "value": {"x": 1}}) == {
        "ok": True,
        "value": {"x": 1},
    }


async def test_an_error_is_shown_with_what_is_known_of_it() -> None:
    asker = says({"A": PASS})
    chain = Chain(links(asker, names=[["A"]]))
    shown = ShownError("ModelError", "429", status=429, retry_after_ms=7000, retryable=True)
    await chain.after(Seam.MODEL_CALL, NODE, Erred(shown), Told().asking())
    await chain.after(Seam.MODEL_CALL, NODE, Erred(ERROR), Told().asking())
    assert [question["outcome"]["error"] for _, question in asker.asked] == [
        {
            "name": "ModelError",
            "message": "429",
            "status": 429,
            "retryAfterMs": 7000,
            "retryable": True,
        },
        {"name": "TimeoutError", "message": "timed out"},
    ]


# --- before --------------------------------------------------------------------------------


async def test_a_modify_changes_what_the_next_one_sees_and_what_is_done() -> None:
    seen: list[Any] = []

    def add(_: str, params: dict[str, Any]) -> object:
        seen.append(params["input"])
        return {"action": "modify", "input": {"n": params["input"]["n"] * 10 + 1}}

    one, two = StubAsker(add, name="one"), StubAsker(add, name="two")
    chain = Chain(links(one, two, names=[["A"], ["B"]]))
    outcome = await chain.before(Seam.NODE, NODE, Payload.of({"n": 0}), Told().asking())
    assert seen == [{"n": 0}, {"n": 1}]
    assert isinstance(outcome, Proceeded)
    assert outcome.input.value == {"n": 11}


async def test_a_redactor_and_a_gate_compose() -> None:
    def redact(_: str, __: dict[str, Any]) -> object:
        return {"action": "modify", "input": {"cmd": "***"}}

    redactor, gate = (
        StubAsker(redact, name="r"),
        says({"Gate": {"action": "reject", "reason": "no"}}),
    )
    chain = Chain(links(redactor, gate, names=[["Redactor"], ["Gate"]]))
    told = Told()
    outcome = await chain.before(
        Seam.TOOL_CALL, TOOL, Payload.of({"cmd": "s3cret"}), told.asking()
    )
    assert isinstance(outcome, Rejected)
    assert (outcome.reason, outcome.by) == ("no", "middleware 'Gate' of plugin 'p'")
    assert outcome.input.value == {"cmd": "***"}
    assert gate.asked[0][1]["input"] == {"cmd": "***"}
    assert "s3cret" not in str(told)


@pytest.mark.parametrize(
    "verdict", [{"action": "reject", "reason": "no"}, {"action": "replace", "value": {}}]
)
async def test_what_settles_a_before_ends_the_walk(verdict: dict[str, Any]) -> None:
    asker = says({"A": PROCEED, "B": verdict, "C": PROCEED})
    chain = Chain(links(asker, names=[["A", "B", "C"]]))
    outcome = await chain.before(Seam.NODE, NODE, Payload.of({}), Told().asking())
    assert isinstance(outcome, Rejected | Replaced)
    assert [question["componentType"] for _, question in asker.asked] == ["A", "B"]


async def test_a_refused_tool_call_is_said_aloud_and_other_refusals_are_errors() -> None:
    told = Told()
    reject = {"A": {"action": "reject", "reason": "destructive command"}}
    await before(Seam.TOOL_CALL, reject, told=told)
    assert told == [
        "middleware 'A' of plugin 'p', toolCall.before: refuses the call of tool 'shell' in node "
        "'agent': destructive command"
    ]
    for seam in (Seam.NODE, Seam.MODEL_CALL, Seam.AGENT_ROUND):
        outcome = await before(seam, reject, told=told)
        assert isinstance(outcome, Rejected)
        assert (outcome.reason, outcome.by) == (
            "destructive command",
            "middleware 'A' of plugin 'p'",
        )
    assert len(told) == 1


@pytest.mark.parametrize(
    ("seam", "thing"),
    [
        (Seam.NODE, "node 'fetch'"),
        (Seam.TOOL_CALL, "the call of tool 'shell' in node 'agent'"),
        (Seam.MODEL_CALL, "the model call of node 'fetch'"),
    ],
)
async def test_a_replacement_is_said_aloud(seam: Seam, thing: str) -> None:
    replace = {"A": {"action": "replace", "value": {"content": "hi"}}}
    told = Told()
    outcome = await before(seam, replace, told=told)
    assert isinstance(outcome, Replaced)
    await after(seam, replace, told=told)
    await after(seam, replace, OK, told=told)
    prefix = f"middleware 'A' of plugin 'p', {seam}"
    assert told == [
        f"{prefix}.before: replaces {thing} with a result of its own",
        f"{prefix}.after: replaces the error of {thing} with a result of its own",
        f"{prefix}.after: replaces the result of {thing}",
    ]


async def test_consent_says_nothing() -> None:
    told = Told()
    for seam, half in HALVES:
        if half is Half.BEFORE:
            await before(seam, {"A": PROCEED, "B": PROCEED}, told=told)
        else:
            await after(seam, {"A": PASS, "B": PASS}, told=told)
    await before(Seam.NODE, {"A": {"action": "modify", "input": {}}}, told=told)
    assert told == []


async def test_arguments_that_the_tool_does_not_take_are_the_policys_fault() -> None:
    modify = {"A": {"action": "modify", "input": {"cmd": 7}}}
    with pytest.raises(MiddlewareFailure) as caught:
        await before(
            Seam.TOOL_CALL,
            modify,
            {"cmd": "ls"},
            check_input=lambda _: "'cmd': 7 is no string",
        )
    assert str(caught.value) == (
        "middleware 'A' of plugin 'p', toolCall.before: it modified the arguments to what the "
        "tool does not take: 'cmd': 7 is no string. Keep to the tool's declared inputs."
    )
    outcome = await before(
        Seam.TOOL_CALL, modify, {"cmd": "ls"}, check_input=lambda _: None
    )
    assert isinstance(outcome, Proceeded)


# --- model calls ---------------------------------------------------------------------------

REQUEST = ModelRequest(
    "gpt",
    (
        Message("system", "be kind"),
        Message("user", "hi"),
        Message(
            "assistant", "", (ToolCall("c1", "add", "{}"), ToolCall("c2", "add", "{}"))
        ),
        Message("tool", "1", tool_call_id="c1"),
        Message("tool", "2", tool_call_id="c2"),
    ),
    temperature=0.5,
)
WIRE = msgspec.json.decode(msgspec.json.encode(REQUEST.messages))


async def edit(change: dict[str, Any]) -> ModelRequest:
    outcome = await before(
        Seam.MODEL_CALL, {"A": {"action": "modify", "input": change}}, REQUEST
    )
    assert isinstance(outcome, Proceeded)
    request = outcome.input.value
    assert isinstance(request, ModelRequest)
    return request


async def test_an_edit_changes_what_it_names_and_keeps_the_rest() -> None:
    assert await edit({}) == REQUEST
    edited = await edit(
        {"temperature": 0, "maxTokens": 100, "model": "small", "unheard": 1}
    )
    assert edited == msgspec.structs.replace(
        REQUEST, temperature=0.0, max_tokens=100, model="small"
    )
    edited = await edit({"messages": [*WIRE[:1], {"role": "user", "content": "***"}]})
    assert edited.messages == (REQUEST.messages[0], Message("user", "***"))
    assert edited.temperature == 0.5


async def test_edits_compose_and_each_sees_the_request_whole() -> None:
    def warmer(_: str, params: dict[str, Any]) -> object:
        assert params["input"]["messages"] == WIRE
        return {
            "action": "modify",
            "input": {"temperature": params["input"]["temperature"] * 2},
        }

    asker = StubAsker(warmer, name="p")
    chain = Chain(links(asker, names=[["A", "B"]]))
    outcome = await chain.before(
        Seam.MODEL_CALL, NODE, Payload.of(REQUEST), Told().asking()
    )
    assert isinstance(outcome, Proceeded)
    assert outcome.input.value.temperature == 2.0


EDITS_REFUSED: list[tuple[dict[str, Any], str]] = [
    (
        {"temperature": "hot"},
        "'input' is no edit of a model request (Expected `float`, got `str` - at `$.temperature`)",
    ),
    ({"temperature": None}, "(Expected `float`, got `null` - at `$.temperature`)"),
    ({"maxTokens": 1.5}, "(Expected `int`, got `float` - at `$.maxTokens`)"),
    (
        {"max_tokens": 10},
        "a model request has no field 'max_tokens'. Did you mean 'maxTokens'?",
    ),
    ({"message": []}, "a model request has no field 'message'. Did you mean 'messages'?"),
    ({"messages": "hi"}, "(Expected `array`, got `str` - at `$.messages`)"),
    (
        {"messages": [{"role": "boss", "content": "x"}]},
        "(Invalid enum value 'boss' - at `$.messages[0].role`)",
    ),
    (
        {"messages": [{"role": "user", "content": None}]},
        "(Expected `str`, got `null` - at `$.messages[0].content`)",
    ),
    (
        {"messages": [{"role": "user"}]},
        "(Object missing required field `content` - at `$.messages[0]`)",
    ),
    (
        {"messages": [{"role": "tool", "content": "x"}]},
        "messages[0] is of a tool and has no 'tool_call_id'",
    ),
    (
        {"messages": WIRE[3:]},
        "messages[0] answers the call 'c1', which is gone. Remove the answer with its call, or keep both.",
    ),
    ({"messages": [*WIRE, WIRE[4]]}, "messages[5] answers the call 'c2', which is gone"),
    (
        {"messages": WIRE[:4]},
        "the call 'c2' of messages[2] has lost its answer. Remove the call with its answer, or keep both.",
    ),
    (
        {"messages": [*WIRE[:4], WIRE[1], WIRE[4]]},
        "the call 'c2' of messages[2] has lost its answer",
    ),
    (
        {
            "messages": [
                {"role": "user", "content": "", "tool_calls": WIRE[2]["tool_calls"]}
            ]
        },
        "messages[0] calls tools and is of the user",
    ),
    ({"tools": [{"name": 1}]}, "(Expected `str`, got `int` - at `$.tools[0].name`)"),
    ({"responseFormat": "xml"}, "(Invalid enum value 'xml' - at `$.responseFormat`)"),
]


@pytest.mark.parametrize(("change", "told"), EDITS_REFUSED)
async def test_an_edit_that_a_provider_would_refuse_is_the_policys_fault(
    change: dict[str, Any], told: str
) -> None:
    with pytest.raises(MiddlewareFailure) as caught:
        await edit(change)
    assert str(caught.value).startswith("middleware 'A' of plugin 'p', modelCall.before: ")
    assert told in str(caught.value)


async def test_a_replaced_answer_is_as_if_a_model_had_given_it() -> None:
    call = {"id": "c", "name": "add", "arguments": "{}"}
    values: list[tuple[dict[str, Any], ModelResponse]] = [
        ({"content": ""}, ModelResponse("", "stop")),
        ({"content": "hi", "finish_reason": "length"}, ModelResponse("hi", "length")),
        (
            {"content": "", "tool_calls": [call]},
            ModelResponse("", "tool_calls", (ToolCall("c", "add", "{}"),)),
        ),
        ({"content": "", "tool_calls": None}, ModelResponse("", "stop")),
    ]
    for value, response in values:
        for outcome in (
            await before(
                Seam.MODEL_CALL, {"A": {"action": "replace", "value": value}}, REQUEST
            ),
            await after(Seam.MODEL_CALL, {"A": {"action": "replace", "value": value}}),
        ):
            assert isinstance(outcome, Replaced)
            assert outcome.value.value == response


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"content": None},
        {"content": 7},
        {"content": "", "finish_reason": 1},
        {"content": "", "tool_calls": {}},
        {"content": "", "tool_calls": [{"id": "c", "name": "add", "arguments": {}}]},
        {"content": "", "tool_calls": [{"name": "add", "arguments": "{}"}]},
        {"content": "", "usage": {"inputTokens": "many", "outputTokens": 1}},
    ],
)
async def test_an_answer_that_no_model_would_give_is_the_policys_fault(
    value: dict[str, Any],
) -> None:
    replace = {"A": {"action": "replace", "value": value}}
    for ask in (before(Seam.MODEL_CALL, replace, REQUEST), after(Seam.MODEL_CALL, replace)):
        with pytest.raises(MiddlewareFailure, match="'value' is no answer of a model"):
            await ask


# --- after ---------------------------------------------------------------------------------

RETRY_SEAMS = [Seam.NODE_ERROR, Seam.MODEL_CALL]


@pytest.mark.parametrize(
    "verdict", [{"action": "fail", "reason": "no"}, {"action": "replace", "value": {}}]
)
async def test_what_settles_an_after_ends_the_walk(verdict: dict[str, Any]) -> None:
    asker = says({"A": PASS, "B": verdict, "C": PASS})
    chain = Chain(links(asker, names=[["A", "B", "C"]]))
    outcome = await chain.after(Seam.NODE, NODE, OK, Told().asking())
    assert outcome != Passed()
    assert [question["componentType"] for _, question in asker.asked] == ["A", "B"]


async def test_a_fail_says_who_and_why() -> None:
    for seam in Seam:
        outcome = await after(seam, {"A": {"action": "fail", "reason": "enough"}})
        assert outcome == Failed("enough", "middleware 'A' of plugin 'p'")


@pytest.mark.parametrize("seam", RETRY_SEAMS)
async def test_a_granted_retry_is_said_aloud(seam: Seam) -> None:
    told = Told()
    retry = {"A": {"action": "retry", "delayMs": 1500}}
    outcome = await after(seam, retry, told=told, attempt=1, max_attempts=3)
    assert outcome == RetryGranted(1.5, "middleware 'A' of plugin 'p'")
    thing = "node 'fetch'" if seam is Seam.NODE_ERROR else "the model call of node 'fetch'"
    assert told == [
        f"middleware 'A' of plugin 'p', {seam}.after: retries {thing}: attempt 2 of 3 after 1.5 s"
    ]


@pytest.mark.parametrize("seam", RETRY_SEAMS)
async def test_a_retry_beyond_the_ceiling_is_refused_aloud_and_the_rest_is_asked(
    seam: Seam,
) -> None:
    told = Told()
    answers = {
        "A": {"action": "retry"},
        "B": {"action": "retry"},
        "C": {"action": "replace", "value": {"content": ""}},
    }
    outcome = await after(seam, answers, told=told, attempt=3, max_attempts=3)
    assert isinstance(outcome, Replaced)
    assert len(told) == 3
    assert "which is refused: this was attempt 3 of 3" in told[0]
    assert told[1].startswith("middleware 'B'")
    assert "replaces the error" in told[2]


async def test_a_retry_that_the_run_cannot_afford_is_refused_with_its_reason() -> None:
    told = Told()
    outcome = await after(
        Seam.NODE_ERROR,
        {"A": {"action": "retry"}, "B": PASS},
        told=told,
        attempt=1,
        max_attempts=3,
        retry_refused="the run has had its 50 executions (--max-iterations)",
    )
    assert outcome == Passed()
    assert told == [
        "middleware 'A' of plugin 'p', nodeError.after: asked to retry node 'fetch', which is "
        "refused: the run has had its 50 executions (--max-iterations)"
    ]


@pytest.mark.parametrize(("asked", "waits"), [(99_999, 30.0), (-1, 0.0)])
async def test_a_clamped_delay_is_said_aloud(asked: int, waits: float) -> None:
    told = Told()
    retry = {"A": {"action": "retry", "delayMs": asked}}
    outcome = await after(Seam.NODE_ERROR, retry, told=told, attempt=1, max_attempts=2)
    assert outcome == RetryGranted(waits, "middleware 'A' of plugin 'p'")
    assert told[0].endswith(
        f"asked for a delay of {asked} ms, which is clamped to {waits * 1000:g} ms"
    )
    assert "retries node 'fetch': attempt 2 of 2" in told[1]


# --- failures ------------------------------------------------------------------------------

FAULTS: list[tuple[object, str]] = [
    (
        {},
        "the verdict has no 'action'. Answer with an action from: modify, proceed, reject, replace.",
    ),
    (None, "the answer is null, which is no verdict"),
    (
        "proceed",
        'the answer is the text \'proceed\', which is no verdict. Answer {"action": "proceed"}.',
    ),
    ({"action": "pass"}, "action 'pass' is not admitted here"),
    ({"action": "replace", "value": []}, "'value' of action 'replace' is an array"),
    (
        {"action": "modify", "inputs": {}},
        "action 'modify' has no 'input', and has 'inputs'. Did you mean 'input'?",
    ),
    (
        PluginFailed("p", "TypeError", "x is undefined"),
        "it failed with TypeError: x is undefined",
    ),
    (
        PluginGone("p", "its process exited with status 1"),
        "its process exited with status 1",
    ),
    (PluginOverdue("p", 0.5, verb="before"), "it did not answer 'before' within 0.5 s"),
    (
        ZeroDivisionError("division by zero"),
        "it failed with ZeroDivisionError: division by zero",
    ),
]


@pytest.mark.parametrize(("answer", "told"), FAULTS)
async def test_each_way_to_fail_names_the_policy_and_says_what_it_did(
    answer: object, told: str
) -> None:
    asker = says({"Quiet": PROCEED, "Gate": answer, "Later": PROCEED})
    chain = Chain(links(asker, names=[["Quiet", "Gate", "Later"]]))
    with pytest.raises(MiddlewareFailure) as caught:
        await chain.before(Seam.TOOL_CALL, TOOL, Payload.of({}), Told().asking())
    failure = caught.value
    assert str(failure).startswith(
        f"middleware 'Gate' of plugin 'p', toolCall.before: {told}"
    )
    assert (failure.middleware, failure.plugin) == ("Gate", "p")
    assert (failure.seam, failure.half) == (Seam.TOOL_CALL, Half.BEFORE)
    assert [question["componentType"] for _, question in asker.asked] == ["Quiet", "Gate"]


@pytest.mark.parametrize(
    ("seam", "what"),
    [
        (Seam.NODE_ERROR, "the node itself"),
        (Seam.NODE, "the node itself"),
        (Seam.TOOL_CALL, "the tool call itself"),
        (Seam.MODEL_CALL, "the model call itself"),
    ],
)
async def test_a_failure_after_a_failure_tells_both(seam: Seam, what: str) -> None:
    with pytest.raises(MiddlewareFailure) as caught:
        await after(seam, {"A": {}})
    assert str(caught.value).startswith(
        f"middleware 'A' of plugin 'p', {seam}.after: the verdict has no 'action' (before that, "
        f"{what} had failed with TimeoutError: timed out). Answer with an action from: "
    )
    assert caught.value.outcome_error == ERROR


async def test_a_failure_after_a_success_tells_only_itself() -> None:
    with pytest.raises(MiddlewareFailure) as caught:
        await after(Seam.NODE, {"A": {}}, OK)
    assert "before that" not in str(caught.value)
    assert caught.value.outcome_error is None


# --- several in one frame ------------------------------------------------------------------


def consulting(answers: Answers) -> tuple[StubAsker, Chain]:
    asker = says(answers, features=["consult"])
    return asker, Chain(links(asker, names=[list(answers)]))


async def test_links_next_to_each_other_in_one_process_are_asked_in_one_frame() -> None:
    asker, other = (
        says({"A": PASS, "B": PASS, "D": PASS}, features=["consult"]),
        says({"C": PASS}, name="q"),
    )
    chain = Chain(links(asker, other, asker, names=[["A", "B"], ["C"], ["D"]]))
    await chain.after(Seam.TOOL_CALL, TOOL, OK, Told().asking(), given=Payload.of({"a": 1}))
    ((verb, question), (single, _)) = asker.asked
    assert (verb, single) == ("consult", "after")
    assert question == {
        "seam": "toolCall",
        "half": "after",
        "ask": [
            {"componentType": "A", "component": {}},
            {"componentType": "B", "component": {}},
        ],
        "subject": {
            "nodeName": "agent",
            "nodeType": "AgentNode",
            "toolName": "shell",
            "toolCallId": "call_1",
        },
        "input": {"a": 1},
        "outcome": {"ok": True, "value": {"x": 1}},
        "attempt": 1,
        "maxAttempts": 1,
    }
    assert len(other.asked) == 1


async def test_a_plugin_without_the_feature_is_asked_one_by_one() -> None:
    asker = says({"A": PASS, "B": PASS})
    chain = Chain(links(asker, names=[["A", "B"]]))
    await chain.after(Seam.NODE, NODE, OK, Told().asking())
    assert [verb for verb, _ in asker.asked] == ["after", "after"]


async def test_a_retry_that_is_refused_here_has_the_rest_asked_in_another_frame() -> None:
    asker, chain = consulting(
        {"A": {"action": "retry"}, "B": PASS, "C": {"action": "fail", "reason": "no"}}
    )
    told = Told()
    outcome = await chain.after(
        Seam.NODE_ERROR, NODE, Erred(ERROR), told.asking(attempt=3, max_attempts=3)
    )
    assert outcome == Failed("no", "middleware 'C' of plugin 'p'")
    assert [
        [ask["componentType"] for ask in question["ask"]] for _, question in asker.asked
    ] == [
        ["A", "B", "C"],
        ["B", "C"],
    ]
    assert len(told) == 1


async def test_an_error_of_one_is_its_own_and_what_came_before_it_counts() -> None:
    _, chain = consulting({"A": PROCEED, "B": PluginFailed("p", "X", "boom"), "C": PROCEED})
    with pytest.raises(MiddlewareFailure) as caught:
        await chain.before(Seam.NODE, NODE, Payload.of({}), Told().asking())
    assert caught.value.middleware == "B"
    assert "it failed with PluginFailed: plugin 'p': it failed with X: boom" in str(
        caught.value
    )


async def test_a_verdict_that_is_none_is_the_fault_of_whose_it_is() -> None:
    _, chain = consulting(
        {"A": {"action": "modify", "input": {}}, "B": {"action": "pass"}, "C": PROCEED}
    )
    with pytest.raises(
        MiddlewareFailure, match="action 'pass' is not admitted here"
    ) as caught:
        await chain.before(Seam.NODE, NODE, Payload.of({}), Told().asking())
    assert caught.value.middleware == "B"


@pytest.mark.parametrize(
    ("at", "named", "counted"),
    [("B", "B", "B"), (None, "A, B", "A"), ("whoever it claims", "A, B", "A")],
)
async def test_a_late_answer_of_several_names_where_it_stood(
    at: str | None, named: str, counted: str
) -> None:
    def late(_: str, __: dict[str, Any]) -> object:
        raise PluginOverdue("p", 0.5, verb="consult", at=at)

    asker = StubAsker(late, name="p", features=["consult"])
    watch = Counted()
    chain = Chain(links(asker, names=[["A", "B"]]), watch=watch)
    with pytest.raises(MiddlewareFailure) as caught:
        await chain.before(Seam.NODE, NODE, Payload.of({}), Told().asking())
    assert caught.value.middleware == named
    assert watch.seen == [("node", "before", counted)]


BROKEN_CONSULTS: list[tuple[object, str, str]] = [
    (None, "A", "its answer to 'consult' is none: Expected `object`, got `null`"),
    ({}, "A", "its answer to 'consult' is none: Object missing required field `verdicts`"),
    ({"verdicts": []}, "A", "it answered 'consult' with 0 verdicts"),
    (
        {"verdicts": [{"componentType": "A", "verdict": PROCEED}] * 3},
        "A",
        "it answered 'consult' with 3 verdicts",
    ),
    (
        {"verdicts": [{"componentType": "B", "verdict": PROCEED}]},
        "A",
        "it answered for 'B' in its place",
    ),
    (
        {"verdicts": [{"componentType": "A"}, {"componentType": "B"}]},
        "A",
        "the answer is null, which is no verdict",
    ),
    (
        {"verdicts": [{"componentType": "A", "verdict": PROCEED}]},
        "B",
        "its plugin did not ask it, although nobody had settled the matter",
    ),
    (
        {
            "verdicts": [
                {"componentType": "A", "verdict": {"action": "reject", "reason": "no"}},
                {"componentType": "B", "verdict": PROCEED},
            ]
        },
        "A",
        "its plugin asked others after it had settled the matter",
    ),
]


@pytest.mark.parametrize(("answer", "who", "told"), BROKEN_CONSULTS)
async def test_a_runtime_that_walks_wrongly_is_found_out(
    answer: object, who: str, told: str
) -> None:
    asker = StubAsker(lambda _, __: answer, name="p", features=["consult"])
    chain = Chain(links(asker, names=[["A", "B"]]))
    with pytest.raises(MiddlewareFailure) as caught:
        await chain.before(Seam.NODE, NODE, Payload.of({}), Told().asking())
    assert caught.value.middleware == who
    assert told in str(caught.value)


async def test_a_plugin_that_does_not_start_fails_the_first_that_needs_it() -> None:
    class NeverStarts(StubAsker):
        @property
        def features(self) -> None:  # type: ignore[override]
            return None

        async def start(self) -> frozenset[str]:
            raise PluginGone("p", "it did not start")

    asker = NeverStarts(lambda _, __: PROCEED, name="p")
    chain = Chain(links(asker, names=[["A", "B"]]))
    with pytest.raises(MiddlewareFailure, match="it did not start") as caught:
        await chain.before(Seam.NODE, NODE, Payload.of({}), Told().asking())
    assert caught.value.middleware == "A"


# --- what is counted -----------------------------------------------------------------------


class Counted:
    """A watch that writes down what it is told: who answered what, and who failed."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, ...]] = []

    def answered(
        self,
        seam: Seam,
        half: Half,
        components: tuple[str, ...],
        action: str,
        seconds: float,
    ) -> None:
        assert seconds >= 0
        self.seen.append((seam, half, *components, action))

    def failed(self, seam: Seam, half: Half, component: str) -> None:
        self.seen.append((seam, half, component))


@pytest.mark.parametrize("features", [[], ["consult"]])
async def test_a_watch_is_told_every_answer_and_every_failure(features: list[str]) -> None:
    change = {"action": "modify", "input": {}}
    asker = says({"A": PROCEED, "B": change, "C": "nonsense"}, features=features)
    watch = Counted()
    chain = Chain(links(asker, names=[["A", "B", "C"]]), watch=watch)
    with pytest.raises(MiddlewareFailure):
        await chain.before(Seam.NODE, NODE, Payload.of({}), Told().asking())
    assert watch.seen == [
        ("node", "before", "A", "proceed"),
        ("node", "before", "B", "modify"),
        ("node", "before", "C"),
    ]


@pytest.mark.parametrize("half", Half)
async def test_a_watch_is_told_of_consent_that_is_not_read(half: Half) -> None:
    action = "proceed" if half is Half.BEFORE else "pass"
    text = msgspec.Raw(b'{"action":"%b"}' % action.encode())
    watch = Counted()
    chain = Chain(links(StubAsker(lambda _, __: text), names=[["A"]]), watch=watch)
    if half is Half.BEFORE:
        await chain.before(Seam.NODE, NODE, Payload.of({}), Told().asking())
    else:
        await chain.after(Seam.NODE, NODE, OK, Told().asking())
    assert watch.seen == [("node", half.value, "A", action)]


# --- what is encoded -----------------------------------------------------------------------


async def test_a_state_is_encoded_once_however_many_are_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoded: list[object] = []
    encode = payload_module._ENCODER.encode

    def counting(value: object) -> bytes:
        encoded.append(value)
        return encode(value)

    monkeypatch.setattr(payload_module, "_ENCODER", SimpleNamespace(encode=counting))
    askers = [says({"A": PROCEED}, name=f"p{n}") for n in range(5)]
    chain = Chain([Link("A", asker.name, b"{}", EVERYWHERE, asker) for asker in askers])
    given = Payload.of({"big": "x" * 1000})
    outcome = await chain.before(Seam.NODE, NODE, given, Told().asking())
    assert len(encoded) == 1
    assert isinstance(outcome, Proceeded)
    assert outcome.input is given


@pytest.mark.parametrize("space", [b"", b" "])
@pytest.mark.parametrize(("seam", "half"), HALVES)
async def test_consent_of_all_is_consent_however_it_is_written(
    seam: Seam, half: Half, space: bytes
) -> None:
    word = b"proceed" if half is Half.BEFORE else b"pass"
    one = b'{"componentType":%b"%b","verdict":{"action":%b"%b"}}'
    said = b",".join(one % (space, name, space, word) for name in (b"A", b"B"))
    text = msgspec.Raw(b'{"verdicts":[%b]}' % said)
    asker = StubAsker(lambda _, __: text, name="p", features=["consult"])
    chain = Chain(links(asker, names=[["A", "B"]]))
    given = Payload.of({"x": 1})
    if half is Half.BEFORE:
        outcome: Any = await chain.before(seam, subject_of(seam), given, Told().asking())
        assert outcome == Proceeded(given)
    else:
        outcome = await chain.after(
            seam, subject_of(seam), OK, Told().asking(), given=given
        )
        assert outcome == Passed()
    assert len(asker.asked) == 1
