"""Handlers inside heddle: the same as in a process, with the same checks."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock

from heddle.plugin import modify, pass_, proceed, replace, serve
from plugins_host.authoring.handlers import HandlerTable
from plugins_host.consulting.chain import Chain
from plugins_host.consulting.links import Asking, Link
from plugins_host.consulting.outcomes import (
    Erred,
    MiddlewareFailure,
    Proceeded,
    Rejected,
    Replaced,
    ShownError,
    Succeeded,
)
from plugins_host.conversation import ModelResponse
from plugins_host.inprocess import InProcessPlugin
from plugins_host.payload import Payload
from plugins_host.plugin_faults import PluginFailed, PluginOverdue
from plugins_host.plugin_log import PluginLine
from plugins_host.program import CAPABILITIES
from plugins_host.seams import Half, NodeSubject, Seam, ToolSubject
from plugins_host.testing import RecordedServices
from tests.plugins_host.driver import question

TOOL = ToolSubject("ask", "AgentNode", "shell", "call-1")
NODE = NodeSubject("ask", "AgentNode")


class Host:
    """One plugin whose P answers toolCall.before with a handler, and what it is logged."""

    def __init__(
        self, handlers: Any, *, capabilities: tuple[str, ...] = CAPABILITIES
    ) -> None:
        self.lines: list[PluginLine] = []
        if not isinstance(handlers, Mapping):
            handlers = {"P": {"toolCall": {"before": handlers}}}
        self.plugin = InProcessPlugin(
            "policy",
            HandlerTable(handlers),
            capabilities=frozenset(capabilities),
            log=self.lines.append,
        )
        self.services = RecordedServices(
            {"double": lambda given: {"n": given["n"] * 2}}, ModelResponse("hello")
        )

    async def ask(self, verb: str = "before", *, patience: float = 30, **keys: Any) -> Any:
        asked = question("P", **{"input": {}, **keys})
        return await self.plugin.request(
            verb,
            msgspec.json.encode(asked),
            services=self.services,
            components=("P",),
            patience=patience,
        )


def chain(asker: InProcessPlugin, *types: str, settings: bytes = b"{}") -> Chain:
    seams = {Seam.TOOL_CALL: frozenset(Half), Seam.NODE: frozenset(Half)}
    return Chain([Link(each, asker.name, settings, seams, asker) for each in types])


def asking(host: Host, warnings: list[str] | None = None) -> Asking:
    said: list[str] = [] if warnings is None else warnings
    return Asking(
        host.services, lambda did: said.append(str(did)), attempt=2, max_attempts=3
    )


# --- in a chain -------------------------------------------------------------------------


async def test_a_handler_is_shown_what_it_would_be_in_a_process() -> None:
    seen: list[Any] = []

    def before(event: Any, ctx: Any) -> Any:
        seen.extend((event, ctx))
        return proceed()

    host = Host(before)
    asked = chain(host.plugin, "P", settings=b'{"k": 1}')

    outcome = await asked.before(
        Seam.TOOL_CALL, TOOL, Payload.of({"cmd": "ls"}), asking(host)
    )

    event, ctx = seen
    assert isinstance(outcome, Proceeded)
    assert (event.subject.tool_name, event.input) == ("shell", {"cmd": "ls"})
    assert (ctx.component, ctx.seam, ctx.half) == ({"k": 1}, "toolCall", "before")
    assert (ctx.attempt, ctx.max_attempts) == (2, 3)
    assert ctx.admits == ("proceed", "modify", "replace", "reject")


async def test_an_async_handler_after_sees_the_outcome() -> None:
    async def after(event: Any, ctx: Any) -> Any:
        await trio.lowlevel.checkpoint()
        if not event.outcome.ok:
            return replace({"said": event.outcome.error.message})
        return replace({"was": event.outcome.value, "input": event.input})

    host = Host({"P": {"toolCall": {"after": after}}})
    asked = chain(host.plugin, "P")
    given = Payload.of({"a": 1})

    ran = await asked.after(
        Seam.TOOL_CALL, TOOL, Succeeded(Payload.of({"x": 1})), asking(host), given=given
    )
    failed = await asked.after(
        Seam.TOOL_CALL, TOOL, Erred(ShownError("E", "broke")), asking(host), given=given
    )

    assert isinstance(ran, Replaced)
    assert ran.value.value == {"was": {"x": 1}, "input": {"a": 1}}
    assert isinstance(failed, Replaced)
    assert failed.value.value == {"said": "broke"}


async def test_middleware_of_one_module_compose_in_order() -> None:
    def redact(event: Any, ctx: Any) -> Any:
        event.input["cmd"] = event.input["cmd"].replace("secret", "***")
        return modify(event.input)

    def gate(event: Any, ctx: Any) -> Any:
        return {"action": "reject", "reason": event.input["cmd"]}

    host = Host(
        {"R": {"toolCall": {"before": redact}}, "G": {"toolCall": {"before": gate}}}
    )
    given = {"cmd": "echo secret"}

    outcome = await chain(host.plugin, "R", "G").before(
        Seam.TOOL_CALL, TOOL, Payload.of(given), asking(host)
    )

    assert isinstance(outcome, Rejected)
    assert outcome.reason == "echo ***"
    assert given == {"cmd": "echo secret"}


async def test_what_a_handler_keeps_and_changes_later_changes_nothing() -> None:
    kept: list[Any] = []

    def before(event: Any, ctx: Any) -> Any:
        kept.append(modify({"list": [1]}))
        return kept[0]

    host = Host(before)

    outcome = await chain(host.plugin, "P").before(
        Seam.TOOL_CALL, TOOL, Payload.of({}), asking(host)
    )
    kept[0]["input"]["list"].append(2)

    assert isinstance(outcome, Proceeded)
    assert outcome.input.value == {"list": [1]}


async def test_a_failure_names_the_middleware_its_plugin_and_what_it_did() -> None:
    host = Host(lambda event, ctx: None)

    with pytest.raises(MiddlewareFailure) as caught:
        await chain(host.plugin, "P").before(
            Seam.TOOL_CALL, TOOL, Payload.of({}), asking(host)
        )

    assert str(caught.value) == (
        "middleware 'P' of plugin 'policy', toolCall.before: it failed with AnswerInvalid: "
        "P toolCall.before returned None. Return a verdict, such as {'action': 'proceed'} "
        "or {'action': 'pass'}."
    )


# --- mishaps ----------------------------------------------------------------------------


class Verdict:
    action = "proceed"


async def later() -> Any:
    return proceed()


def exits() -> None:
    raise SystemExit(0)


def interrupts() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("body", "name", "says"),
    [
        (lambda: None, "AnswerInvalid", "P toolCall.before returned None"),
        (lambda: "proceed", "AnswerInvalid", "returned str 'proceed'"),
        (lambda: later(), "AnswerInvalid", "returned a coroutine"),
        (Verdict, "AnswerInvalid", "returned Verdict"),
        (exits, "SystemExit", "called sys.exit(0)"),
        (interrupts, "KeyboardInterrupt", "raised KeyboardInterrupt"),
        (lambda: 1 / 0, "ZeroDivisionError", "division by zero"),
        (lambda: {}["x"], "KeyError", "'x'"),
    ],
)
async def test_only_a_verdict_is_a_verdict(
    is_async: bool, body: Callable[[], Any], name: str, says: str
) -> None:
    async def slowly(event: Any, ctx: Any) -> Any:
        return body()

    host = Host(slowly if is_async else lambda event, ctx: body())

    with pytest.raises(PluginFailed) as caught:
        await host.ask()

    assert caught.value.name == name
    assert says in caught.value.message
    assert caught.value.plugin == "policy"


async def test_a_handler_that_is_missing_is_a_failure() -> None:
    with pytest.raises(PluginFailed, match=r"has no handler for toolCall\.after"):
        await Host(lambda event, ctx: proceed()).ask("after")


async def test_a_handler_written_for_asyncio_is_a_failure_and_nothing_worse() -> None:
    import asyncio

    async def before(event: Any, ctx: Any) -> Any:
        await asyncio.sleep(1)

    with pytest.raises(PluginFailed):
        await Host(before).ask()
    await trio.lowlevel.checkpoint()


async def test_a_handler_whose_nursery_fails_is_a_failure() -> None:
    async def before(event: Any, ctx: Any) -> Any:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 1)
            raise ValueError("no")

    with pytest.raises(PluginFailed):
        await Host(before).ask()


# --- time and cancelling ----------------------------------------------------------------


async def test_silence_has_a_budget(autojump_clock: MockClock) -> None:
    async def before(event: Any, ctx: Any) -> Any:
        await trio.sleep(31)

    with pytest.raises(PluginOverdue) as caught:
        await Host(before).ask(patience=30)

    assert trio.current_time() == 30
    assert caught.value.patience == 30


async def test_what_a_handler_raises_when_its_time_is_up_does_not_hide_that(
    autojump_clock: MockClock,
) -> None:
    async def before(event: Any, ctx: Any) -> Any:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("while it was cancelled")

    with pytest.raises(PluginOverdue):
        await Host(before).ask(patience=1)


async def test_a_log_line_or_an_event_restarts_it_up_to_a_ceiling(
    autojump_clock: MockClock,
) -> None:
    async def before(event: Any, ctx: Any) -> Any:
        while True:
            await trio.sleep(0.9)
            ctx.log("info", "still there")
            ctx.emit_event("beat")

    with pytest.raises(PluginOverdue, match="reported progress"):
        await Host(before).ask(patience=1)

    assert trio.current_time() == 10


async def test_it_stands_still_while_heddle_serves_a_tool(
    autojump_clock: MockClock,
) -> None:
    async def before(event: Any, ctx: Any) -> Any:
        await trio.sleep(0.5)
        await ctx.run_tool("slow", {})
        await trio.sleep(0.4)
        return proceed()

    async def slow(given: Any) -> Any:
        await trio.sleep(5)
        return {}

    host = Host(before)
    host.services = RecordedServices({"slow": slow})

    assert await host.ask(patience=1) == {"action": "proceed"}
    assert trio.current_time() == pytest.approx(5.9)


async def test_a_cancelled_question_is_cancelled_and_no_failure() -> None:
    seen: list[bool] = []

    async def before(event: Any, ctx: Any) -> Any:
        seen.append(ctx.signal.cancelled)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep_forever)
                await ctx.signal.wait()
        finally:
            seen.append(ctx.signal.cancelled)
            raise ValueError("while it was cancelled")

    host = Host(before)

    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(host.ask)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()

    assert scope.cancelled_caught
    assert seen == [False, True]


async def test_many_are_asked_at_once(autojump_clock: MockClock) -> None:
    async def before(event: Any, ctx: Any) -> Any:
        await trio.sleep(event.input["n"] % 7)
        return replace(event.input)

    host = Host(before)
    answers: dict[int, Any] = {}

    async def ask(n: int) -> None:
        answers[n] = (await host.ask(input={"n": n}))["value"]

    async with trio.open_nursery() as nursery:
        for n in range(200):
            nursery.start_soon(ask, n)

    assert answers == {n: {"n": n} for n in range(200)}


# --- reverse calls ----------------------------------------------------------------------


async def test_reverse_calls_are_served_by_the_run_that_asked() -> None:
    async def before(event: Any, ctx: Any) -> Any:
        ctx.log("warn", "careful")
        ctx.emit_event("seen", {"n": 1})
        tool = await ctx.run_tool("double", {"n": 21})
        said = await ctx.call_model({"messages": [{"role": "user", "content": "hi"}]})
        return replace({"tool": tool, "model": said["content"]})

    host = Host(before)

    verdict = await host.ask()

    assert verdict["value"] == {"tool": {"n": 42}, "model": "hello"}
    kinds = [event[0] for event in host.services.events]
    assert kinds == ["log", "event", "runTool", "callModel"]
    assert host.services.events[1] == ("event", "P", "seen", {"n": 1})


async def test_what_is_not_granted_is_refused() -> None:
    async def before(event: Any, ctx: Any) -> Any:
        ctx.log("info", "nobody hears")
        try:
            await ctx.run_tool("double", {"n": 1})
        except Exception as error:
            return replace({"said": str(error)})

    host = Host(before, capabilities=())

    verdict = await host.ask()

    assert verdict["value"]["said"] == (
        "runTool is not granted to this plugin. Name 'runTool' in the manifest's "
        "'capabilities'."
    )
    (line,) = host.lines
    assert (line.plugin, "log is not granted" in line.text) == ("policy", True)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda ctx: ctx.run_tool("gone"), "gone"),
        (lambda ctx: ctx.run_tool("double", {"n": object()}), "object is unsupported"),
        (lambda ctx: ctx.call_model({}), "messages"),
        (lambda ctx: ctx.call_model({"messages": [{"role": "x"}]}), "callModel"),
    ],
)
async def test_a_reverse_call_that_fails_is_an_error_that_can_be_caught(
    call: Callable[[Any], Any], says: str
) -> None:
    async def before(event: Any, ctx: Any) -> Any:
        try:
            await call(ctx)
        except Exception as error:
            return replace({"said": f"{type(error).__name__} {error}"})

    said = (await Host(before).ask())["value"]["said"]

    assert said.startswith("HostError")
    assert says in said


async def test_an_event_of_a_bad_name_is_told_to_the_log() -> None:
    def before(event: Any, ctx: Any) -> Any:
        ctx.emit_event("not a name")
        return proceed()

    host = Host(before)

    assert await host.ask() == {"action": "proceed"}
    assert "is no name of an event" in host.lines[0].text


async def test_nothing_is_served_for_a_call_that_has_ended() -> None:
    kept: list[Any] = []

    def before(event: Any, ctx: Any) -> Any:
        kept.append(ctx)
        return proceed()

    host = Host(before)
    await host.ask()

    kept[0].log("info", "too late")

    assert host.services.events == []
    assert "has ended" in host.lines[0].text


async def test_inside_a_call_that_belongs_to_no_run_there_is_nothing_to_ask_for() -> None:
    def before(event: Any, ctx: Any) -> Any:
        ctx.log("info", "to nobody")
        ctx.partial({"at": "P"})
        return proceed()

    host = Host(before)

    await host.plugin.request("before", msgspec.json.encode(question("P")))

    assert "there is nothing to ask for" in host.lines[0].text


async def test_a_plain_handler_cannot_await() -> None:
    def before(event: Any, ctx: Any) -> Any:
        return ctx.run_tool("double", {"n": 1})

    with pytest.raises(PluginFailed, match="write the handler with 'async def'"):
        await Host(before).ask()


# --- other kinds, and the module itself ---------------------------------------------------


async def test_the_other_kinds_are_served_as_well() -> None:
    host = Host({"P": {"execute": lambda given, ctx: {"output": {"n": given["n"] + 1}}}})

    asked = msgspec.json.encode({"componentType": "P", "node": {}, "input": {"n": 1}})

    assert await host.plugin.request("execute", asked) == {"output": {"n": 2}}
    with pytest.raises(PluginFailed, match="there is no verb 'fly'"):
        await host.plugin.request("fly", b"{}")


async def test_progress_of_a_provider_reaches_who_asked() -> None:
    def chat(request: Any, ctx: Any) -> Any:
        ctx.partial({"content": "a"})
        return {"content": "", "finish_reason": "stop"}

    partials: list[bytes] = []
    host = Host({"P": {"chat": chat}})

    await host.plugin.request(
        "chat",
        b'{"componentType": "P", "stream": true}',
        on_partial=lambda raw: partials.append(bytes(raw)),
    )

    assert partials == [b'{"content":"a"}']


async def test_it_announces_no_features() -> None:
    assert await Host(lambda event, ctx: pass_()).plugin.start() == frozenset()


def test_serve_works_as_ever_outside_of_an_import() -> None:
    with pytest.raises(TypeError, match="handlers are a dict"):
        serve([])  # type: ignore[arg-type]
