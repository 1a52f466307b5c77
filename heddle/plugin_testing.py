"""Asks handlers in a test, without a process and without heddle running.

    from heddle.plugin_testing import ask

    answer = ask(handlers, "Gate", "toolCall", "before", tool="shell", input={"cmd": "rm"})
    assert answer.verdict == {"action": "reject", "reason": "destructive command"}

    plugin = Plugin(handlers)
    assert plugin.call("Shout", "execute", input={"text": "hi"}).answer == {…}

The handler is found, called and checked as it would be in a run: a handler that returns
no verdict, or that is not there, raises.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from plugins_host.authoring.dispatch import Dispatch, Question
from plugins_host.authoring.handlers import Handlers, HandlerTable
from plugins_host.authoring.surface import Problem, Signal, Subject, WireOutcome
from plugins_host.seams import HANDSHAKE_HALVES

__all__ = ["Answer", "Called", "Plugin", "ask"]


class Answer(Struct, frozen=True):
    """What a handler decided, and what it published on the way.

    ``events`` holds ``(name, data)``, ``logs`` ``(level, message)``.
    """

    verdict: dict[str, Any]
    events: list[tuple[str, Any]]
    logs: list[tuple[str, str]]


def ask(
    handlers: Handlers,
    component_type: str,
    seam: str,
    half: Literal["before", "after"],
    *,
    input: Mapping[str, Any] | None = None,  # noqa: A002  the word on the wire
    value: Any = None,
    error: str | Problem | None = None,
    settings: Mapping[str, Any] | None = None,
    node: str = "node",
    node_type: str = "AgentNode",
    tool: str = "",
    attempt: int = 1,
    max_attempts: int = 3,
    tools: Mapping[str, Any] | None = None,
    model: Mapping[str, Any] | None = None,
) -> Answer:
    """Put one question to one handler and return what it answers.

    Args:
        handlers: What ``serve`` is given.
        component_type, seam, half: Which handler.
        input: Before: what it is about to be done with; after a tool call: its arguments.
        value: After: what came of it.
        error: After: what failed instead, as a message or a `Problem`.
        settings: The operator's configuration, ``ctx.component``.
        node, node_type, tool: The subject.
        attempt, max_attempts: Which try it is.
        tools: What ``ctx.run_tool`` gives, by the name of the tool.
        model: What ``ctx.call_model`` gives.
    """
    outcome = None
    if half == "after":
        problem = Problem(message=error) if isinstance(error, str) else error
        outcome = WireOutcome(error is None, Raw(msgspec.json.encode(value)), problem)
    question = Question(
        seam,
        component_type,
        Raw(msgspec.json.encode({} if settings is None else settings)),
        Subject(node, node_type, tool, "call-1" if tool else ""),
        Raw(b"" if input is None else msgspec.json.encode(input)),
        outcome,
        attempt,
        max_attempts,
    )
    admits = {
        (each, side): admitted
        for each, sides in HANDSHAKE_HALVES.items()
        for side, admitted in sides.items()
    }
    services = _Services(tools or {}, model)
    found, args, read = Dispatch(HandlerTable(handlers), admits=admits).step(
        half, question, dict, services
    )
    services.plain = not found.is_async
    answer = found.function(*args)
    if found.is_async:
        answer = _wait_for(answer)
    return Answer(read(answer), services.events, services.logs)


class Called(Struct, frozen=True):
    """What a handler answered, and what it published on the way.

    ``partials`` are the pieces of a streamed answer; ``events`` holds ``(name, data)``,
    ``logs`` ``(level, message)``.
    """

    answer: Any
    partials: list[Any]
    events: list[tuple[str, Any]]
    logs: list[tuple[str, str]]


class Plugin:
    """The handlers of a plugin, called as a run would; classes are made once.

    Args:
        handlers: What ``serve`` is given.
        tools, list_tools: Its options.
    """

    def __init__(
        self,
        handlers: Handlers,
        *,
        tools: Mapping[str, Any] | None = None,
        list_tools: Callable[[], Any] | None = None,
    ) -> None:
        self._dispatch = Dispatch(
            HandlerTable(handlers), tools=tools, list_tools=list_tools
        )

    def call(
        self,
        component_type: str,
        verb: str,
        *,
        tools: Mapping[str, Any] | None = None,
        model: Mapping[str, Any] | None = None,
        **said: Any,
    ) -> Called:
        """Ask one thing.

        Args:
            component_type: Which handler; "" for tools.
            verb: ``execute``, ``apply``, ``chat``, ``encode``, ``finishEncode``,
                ``callTool`` or ``listTools``.
            tools: What ``ctx.run_tool`` gives, by the name of the tool.
            model: What ``ctx.call_model`` gives.
            said: What the verb carries: ``node`` and ``input``, ``messages`` and
                ``phase``, ``config``, ``request`` and ``stream``, ``runId`` and ``event``,
                ``tool`` and ``input``.
        """
        services = _Services(tools or {}, model)
        encoded = msgspec.json.encode({"componentType": component_type, **said})
        question = msgspec.json.decode(encoded, type=Question)
        found, args, read = self._dispatch.step(
            verb, question, lambda: msgspec.json.decode(encoded), services
        )
        services.plain = not found.is_async
        answer = found.function(*args)
        if found.is_async:
            answer = _wait_for(answer)
        return Called(read(answer), services.partials, services.events, services.logs)


def _wait_for(answer: Awaitable[Any]) -> Any:
    import asyncio

    async def wait() -> Any:
        return await answer

    return asyncio.run(wait())


class _Uncancelled:
    @property
    def cancelled(self) -> bool:
        return False

    async def wait(self) -> None:
        import asyncio

        await asyncio.Event().wait()


class _Services:
    """Answers from what the test gave."""

    def __init__(self, tools: Mapping[str, Any], model: Mapping[str, Any] | None) -> None:
        self.plain = True
        self.events: list[tuple[str, Any]] = []
        self.logs: list[tuple[str, str]] = []
        self.partials: list[Any] = []
        self.signal: Signal = _Uncancelled()
        self._tools = tools
        self._model = model

    async def ask(self, verb: str, params: dict[str, Any]) -> Any:
        if verb == "callModel":
            return self._model
        return self._tools[params["name"]]

    def tell(self, verb: str, params: dict[str, Any]) -> None:
        if verb == "emitEvent":
            self.events.append((params["name"], params.get("data")))
        else:
            self.logs.append((params["level"], params["message"]))

    def partial(self, chunk: Any) -> None:
        self.partials.append(chunk)
