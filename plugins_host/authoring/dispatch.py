"""How a question becomes the call of a handler: which, with what, and what may come back.

    found, args, read = dispatch.step("before", question, said, services)
    answer = read(found.function(*args))

Both hosts of handlers use it, a process of the plugin's own and heddle's, so that a plugin
moves between them without a change. It calls no handler itself.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Raw, Struct

from plugins_host.authoring.handlers import (
    AnswerInvalid,
    Found,
    HandlerMissing,
    HandlerTable,
    read_answer,
)
from plugins_host.authoring.surface import (
    After,
    Before,
    Context,
    HostError,
    Services,
    Subject,
    WireOutcome,
)

_decode: Final = msgspec.json.Decoder().decode

Admits: TypeAlias = Mapping[tuple[str, str], tuple[str, ...]]

_FAILED: Final = WireOutcome(ok=False)

# Store handlers by their verbs.
_STORE: Final[Mapping[str, str]] = {
    "sessionCreate": "create",
    "sessionRead": "read",
    "sessionAppend": "append",
    "sessionCheckpointRead": "readCheckpoint",
    "sessionCheckpointWrite": "writeCheckpoint",
    "sessionList": "list",
    "sessionDelete": "delete",
}


class Question(Struct, frozen=True, rename="camel"):
    """What a consultation carries; what is large stays bytes until somebody looks."""

    seam: str = ""
    component_type: str = ""
    component: Raw = Raw()
    subject: Subject = Subject()
    input: Raw = Raw()
    outcome: WireOutcome | None = None
    attempt: int = 1
    max_attempts: int = 1
    run_id: str = ""
    event: Raw = Raw()


# One call of one handler: which, with what, and what reads its answer. A tuple and no
# class with names, as four policies make four of them in a frame.
Step: TypeAlias = tuple[Found, tuple[Any, ...], Callable[[Any], Any]]


class Dispatch:
    """The handlers of one plugin, found by what is asked.

    Args:
        handlers: By component type.
        tools: By name, for ``callTool``.
        list_tools: For ``listTools``.

    Attributes:
        admits: The verdicts of each half, by seam and half.
    """

    def __init__(
        self,
        handlers: HandlerTable,
        *,
        tools: Mapping[str, Any] | None = None,
        list_tools: Callable[[], Any] | None = None,
        admits: Admits | None = None,
    ) -> None:
        self.admits: Admits = {} if admits is None else admits
        self._handlers = handlers
        self._tools = HandlerTable({"tools": tools or {}})
        self._list_tools = list_tools

    def step(
        self,
        verb: str,
        question: Question,
        said: Callable[[], dict[str, Any]],
        services: Services,
    ) -> Step:
        """The call that answers ``verb``.

        Args:
            verb: Any but those that a host answers itself.
            question: Its params, as far as they are a consultation's.
            said: All of its params, for the verbs that are not asked often.
            services: What the handler's ctx works with.

        Raises:
            HandlerMissing: No handler, or no such verb; says what to write.
        """
        if verb in {"before", "after"}:
            found = self.half(question.component_type, question.seam, verb)
            admits = self.admitted(question.seam, verb)
            args = arguments(
                question, verb, question.component, question.input, admits, services
            )
            return found, args, found.read_verdict
        if verb == "encode":
            # As frequent as consultations are, so decoded as they are: once.
            return self._encode(question, services)
        prepare = _PREPARE.get(verb)
        if prepare is None:
            raise HandlerMissing(f"there is no verb {verb!r}")
        return prepare(self, verb, said(), services)

    def half(self, component_type: str, seam: str, half: str) -> Found:
        """The handler of one half of one seam.

        Raises:
            HandlerMissing: There is none; says what to write.
        """
        return self._handlers.half(component_type, seam, half)

    def admitted(self, seam: str, half: str) -> tuple[str, ...]:
        """The verdicts of one half; nothing when heddle has not said."""
        return self.admits.get((seam, half), ())

    # --- the other kinds ---------------------------------------------------------------

    def _list(self, _verb: str, _said: dict[str, Any], _services: Services) -> Step:
        if self._list_tools is None:
            raise HandlerMissing(
                "the manifest says discoverTools and nothing lists them. "
                "Write serve(handlers, list_tools=function)."
            )
        found = Found(self._list_tools, "list_tools")
        return found, (), _reader(found, "{'tools': […]}")

    def _call_tool(self, _verb: str, said: dict[str, Any], services: Services) -> Step:
        found = self._tools.function("tools", str(said.get("tool", "")))
        ctx = Context(services, said.get("component") or {})
        return found, (said.get("input") or {}, ctx), _reader_of_output(found)

    def _execute(self, _verb: str, said: dict[str, Any], services: Services) -> Step:
        found = self._function(said, "execute")
        workspace: str | HostError | None = said.get("workspace")
        if "workspaceUnavailable" in said:
            why = f"there is no workspace here: {said['workspaceUnavailable']}"
            workspace = HostError("WorkspaceUnavailable", why)
        ctx = Context(services, said.get("node") or {}, _workspace=workspace)
        return found, (said.get("input") or {}, ctx), _reader_of_output(found)

    def _apply(self, _verb: str, said: dict[str, Any], services: Services) -> Step:
        found = self._function(said, "apply")
        ctx = Context(services, said.get("component") or {})
        ctx.phase = str(said.get("phase", ""))
        read = _reader(found, "pass, modify or reject, as a dict")
        return found, (said.get("messages") or [], ctx), read

    def _chat(self, _verb: str, said: dict[str, Any], services: Services) -> Step:
        found = self._function(said, "chat")
        ctx = Context(services, said.get("config") or {})
        ctx.stream = said.get("stream") is True
        read = _reader(found, "{'content': …, 'finish_reason': …}")
        return found, (said.get("request") or {}, ctx), read

    def _encode(self, question: Question, services: Services) -> Step:
        found = self._handlers.function(question.component_type, "encode")
        ctx = Context(services, {})
        ctx.run_id = question.run_id
        event = _decode(question.event) if len(question.event) else None
        return found, (event, ctx), found.read_frames

    def _finish(self, _verb: str, said: dict[str, Any], services: Services) -> Step:
        try:
            found = self._function(said, "finish")
        except HandlerMissing:
            found = Found(lambda _: [], "finish")
        ctx = Context(services, {})
        ctx.run_id = str(said.get("runId", ""))
        return found, (ctx,), found.read_frames

    def _store(self, verb: str, said: dict[str, Any], services: Services) -> Step:
        found = self._function(said, _STORE[verb])
        ctx = Context(services, said.pop("config", None) or {})
        said.pop("componentType", None)
        return found, (said, ctx), lambda answer: answer

    def _function(self, said: dict[str, Any], name: str) -> Found:
        return self._handlers.function(str(said.get("componentType", "")), name)


def arguments(
    question: Question,
    half: str,
    component: Raw,
    given: Raw,
    admits: tuple[str, ...],
    services: Services,
) -> tuple[Before, Context]:
    """What a middleware is called with; ``given`` is the input as it stands by now."""
    event = (
        Before(question.subject, given)
        if half == "before"
        else After(question.subject, given, question.outcome or _FAILED)
    )
    seam, attempt, most = question.seam, question.attempt, question.max_attempts
    return event, Context(services, component, None, seam, half, attempt, most, admits)


_Prepare: TypeAlias = Callable[[Dispatch, str, dict[str, Any], Services], Step]

_PREPARE: Final[Mapping[str, _Prepare]] = {
    "listTools": Dispatch._list,  # noqa: SLF001  this is the class's own table
    "callTool": Dispatch._call_tool,  # noqa: SLF001
    "execute": Dispatch._execute,  # noqa: SLF001
    "apply": Dispatch._apply,  # noqa: SLF001
    "chat": Dispatch._chat,  # noqa: SLF001
    "finishEncode": Dispatch._finish,  # noqa: SLF001
    **dict.fromkeys(_STORE, Dispatch._store),  # noqa: SLF001
}


def _reader(found: Found, wanted: str) -> Callable[[Any], dict[str, Any]]:
    return lambda answer: read_answer(answer, found.label, wanted=wanted)


def _reader_of_output(found: Found) -> Callable[[Any], dict[str, Any]]:
    def read(answer: Any) -> dict[str, Any]:
        wanted = "{'output': {…}}"
        whole = read_answer(answer, found.label, wanted=wanted)
        if not isinstance(whole.get("output"), Mapping):
            raise AnswerInvalid(
                f"{found.label} returned no 'output' that is a dict. Return {wanted}."
            )
        return whole

    return read
