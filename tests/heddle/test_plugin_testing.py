"""Asking handlers in a test: the same finding, calling and checking as in a run."""

from typing import Any

import pytest

from heddle.plugin import Problem, modify, pass_, proceed, reject, replace
from heddle.plugin_testing import ask
from plugins_host.authoring.handlers import AnswerInvalid, HandlerMissing


def test_a_handler_is_shown_what_the_test_says() -> None:
    def before(event: Any, ctx: Any) -> Any:
        seen = [event.subject.node_name, event.subject.tool_name, ctx.attempt]
        return replace({"seen": seen, "input": event.input, "settings": ctx.component})

    handlers = {"P": {"toolCall": {"before": before}}}

    answer = ask(
        handlers,
        "P",
        "toolCall",
        "before",
        input={"a": 1},
        settings={"k": 2},
        node="n",
        tool="t",
        attempt=3,
    )

    assert answer.verdict["value"] == {
        "seen": ["n", "t", 3],
        "input": {"a": 1},
        "settings": {"k": 2},
    }


def test_after_is_shown_a_value_or_an_error() -> None:
    class Policy:
        def after_model_call(self, event: Any, ctx: Any) -> Any:
            if event.outcome.ok:
                return replace({"was": event.outcome.value})
            ctx.emit_event("failed", event.outcome.error.status)
            ctx.log("warn", event.outcome.error.message)
            return pass_()

    handlers = {"P": Policy}

    fine = ask(handlers, "P", "modelCall", "after", value={"content": "hi"})
    text = ask(handlers, "P", "modelCall", "after", error="no")
    busy = ask(
        handlers, "P", "modelCall", "after", error=Problem(message="busy", status=429)
    )

    assert fine.verdict == {"action": "replace", "value": {"was": {"content": "hi"}}}
    assert (text.logs, text.events) == ([("warn", "no")], [("failed", None)])
    assert (busy.logs, busy.events) == ([("warn", "busy")], [("failed", 429)])


def test_async_handlers_may_ask_for_tools_and_models() -> None:
    async def before(event: Any, ctx: Any) -> Any:
        assert not ctx.signal.cancelled
        found = await ctx.run_tool("lookup", {"k": 1})
        said = await ctx.call_model({"messages": []})
        return modify({"found": found, "said": said["content"]})

    handlers = {"P": {"toolCall": {"before": before}}}

    answer = ask(
        handlers,
        "P",
        "toolCall",
        "before",
        tools={"lookup": 42},
        model={"content": "yes"},
    )

    assert answer.verdict["input"] == {"found": 42, "said": "yes"}


def test_what_the_half_admits_is_what_heddle_admits() -> None:
    def before(event: Any, ctx: Any) -> Any:
        return reject(",".join(ctx.admits))

    handlers = {"P": {"agentRound": {"before": before}}}

    assert ask(handlers, "P", "agentRound", "before").verdict["reason"] == "proceed,reject"


def test_no_verdict_and_no_handler_raise() -> None:
    handlers = {"P": {"node": {"before": lambda event, ctx: None}}}

    with pytest.raises(AnswerInvalid):
        ask(handlers, "P", "node", "before")
    with pytest.raises(HandlerMissing):
        ask(handlers, "P", "node", "after", value={})


def test_a_plain_handler_cannot_await() -> None:
    def before(event: Any, ctx: Any) -> Any:
        ctx.run_tool("x")
        return proceed()

    with pytest.raises(TypeError, match="async def"):
        ask({"P": {"node": {"before": before}}}, "P", "node", "before")
