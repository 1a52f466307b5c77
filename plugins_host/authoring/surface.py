"""What the author of a plugin sees: verdicts, events and ctx.

    event      before: .subject .input      after: .subject .outcome (toolCall: .input too)
    ctx        .component .seam .half .attempt .admits …, and calls back into heddle
    verdict    {"action": "reject", "reason": "…"}, or reject("…")

The same words hold in a process of the plugin's own (`heddle.plugin.serve`) and inside
heddle's. Python starts each plugin process anew, so this module imports next to nothing.
"""

from collections.abc import Awaitable, Mapping
from typing import Any, Final, Literal, NotRequired, Protocol, TypeAlias, TypedDict

import msgspec
from msgspec import Raw, Struct

Level = Literal["debug", "info", "warn", "error"]

_NOTHING: Final = Raw()
_decode: Final = msgspec.json.Decoder().decode


class HostError(Exception):
    """heddle refused or failed something that a handler asked of it.

    ``name`` is the class of the error as heddle knows it, such as ``ToolError``. What is
    known of trying again is in ``status``, ``retry_after_ms`` and ``retryable``.
    """

    def __init__(
        self, name: str, message: str, about: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.name = name
        self.message = message
        known = about or {}
        self.status: int | None = known.get("status")
        self.retry_after_ms: float | None = known.get("retryAfterMs")
        self.retryable: bool | None = known.get("retryable")


class ProviderError(Exception):
    """A provider has no answer; heddle and its policies are told what is known of it.

    Args:
        message: What went wrong.
        status: The HTTP status of whoever was asked, such as 429.
        retry_after_ms: How long to wait before the same is asked again.
        retryable: Whether asking again may help.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retry_after_ms: float | None = None,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_ms = retry_after_ms
        self.retryable = retryable


# --- what is decided -------------------------------------------------------------------


class Proceed(TypedDict):
    """Go on as asked."""

    action: Literal["proceed"]


class Modify(TypedDict):
    """Go on with another input; the next middleware sees it too."""

    action: Literal["modify"]
    input: Mapping[str, Any]


class Replace(TypedDict):
    """Let ``value`` stand for the result."""

    action: Literal["replace"]
    value: Mapping[str, Any]


class Reject(TypedDict):
    """Do not let it happen."""

    action: Literal["reject"]
    reason: str


class Pass(TypedDict):
    """Let the outcome stand."""

    action: Literal["pass"]


class Retry(TypedDict):
    """Try again, after ``delayMs`` milliseconds."""

    action: Literal["retry"]
    delayMs: NotRequired[float]


class Fail(TypedDict):
    """End it with an error."""

    action: Literal["fail"]
    reason: str


BeforeVerdict: TypeAlias = Proceed | Modify | Replace | Reject
AfterVerdict: TypeAlias = Pass | Replace | Retry | Fail
Verdict: TypeAlias = BeforeVerdict | AfterVerdict


def proceed() -> Proceed:
    """Before: let it happen as asked. The next middleware is asked."""
    return {"action": "proceed"}


def modify(input: Mapping[str, Any]) -> Modify:  # noqa: A002  the word on the wire
    """Before: let it happen with ``input`` instead. The next middleware sees ``input``.

    At ``modelCall`` it is an edit: a field that ``input`` leaves out keeps its value.
    """
    return {"action": "modify", "input": input}


def replace(value: Mapping[str, Any]) -> Replace:
    """Before: do not do it, ``value`` is the result. After: ``value`` is the outcome."""
    return {"action": "replace", "value": value}


def reject(reason: str) -> Reject:
    """Before: it must not happen. ``reason`` reaches whoever asked for it."""
    return {"action": "reject", "reason": reason}


def pass_() -> Pass:
    """After: let the outcome stand. The next middleware is asked."""
    return {"action": "pass"}


def retry(*, delay_ms: float = 0) -> Retry:
    """After a failure: try once more, ``delay_ms`` milliseconds from now."""
    return {"action": "retry", "delayMs": delay_ms}


def fail(reason: str) -> Fail:
    """After: end it with an error that states ``reason``."""
    return {"action": "fail", "reason": reason}


# --- what is decided about -------------------------------------------------------------


class Subject(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Which node it is about, and which tool; "" where there is no tool.

    ``agent_name`` is whose call or round it is, "" unless several agents work in the node.
    ``node_path`` is there for nodes of sub-flows: from the outermost node to this one, a
    number for which item or flow of the node before it.
    """

    node_name: str = ""
    node_type: str = ""
    tool_name: str = ""
    tool_call_id: str = ""
    node_path: tuple[str | int, ...] | None = None
    agent_name: str = ""


class Problem(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A failure as policies are shown it. What is None was not said.

    ``status`` is the HTTP status of a model provider; ``retry_after_ms`` what it asked for.
    """

    name: str = "Error"
    message: str = ""
    status: int | None = None
    retry_after_ms: float | None = None
    retryable: bool | None = None


class WireOutcome(Struct, frozen=True):
    """An outcome as it arrives: the value stays bytes until somebody looks at it."""

    ok: bool
    value: Raw = _NOTHING
    error: Problem | None = None


class Outcome:
    """How it went: ``ok`` with a ``value``, or not ``ok`` with an ``error``."""

    __slots__ = ("_value", "error", "ok")

    def __init__(
        self, *, ok: bool, value: Any = None, error: Problem | None = None
    ) -> None:
        self.ok = ok
        self.error = error
        self._value = value

    @property
    def value(self) -> Any:
        """The result, a copy of one's own; None when it failed."""
        if type(self._value) is Raw:
            self._value = _decode(self._value) if len(self._value) else None
        return self._value

    def __repr__(self) -> str:
        return f"Outcome(ok={self.ok}, value={self.value!r}, error={self.error!r})"


class Before(Struct, eq=False, weakref=True):
    """Something is about to happen: ``subject`` says where, ``input`` what with."""

    subject: Subject
    _input: Any

    @property
    def input(self) -> dict[str, Any]:
        """What with, in the names of the wire; a copy of one's own."""
        if type(self._input) is Raw:
            self._input = _decode(self._input) if len(self._input) else {}
        found: dict[str, Any] = self._input
        return found

    def __repr__(self) -> str:
        return f"Before(subject={self.subject!r}, input={self.input!r})"


class After(Before):
    """Something happened: ``subject`` says where, ``outcome`` how it went.

    ``input`` holds the arguments of a tool call, and is empty at the other seams.
    """

    _outcome: Outcome | WireOutcome

    @property
    def outcome(self) -> Outcome:
        """How it went."""
        found = self._outcome
        if type(found) is WireOutcome:
            self._outcome = found = Outcome(
                ok=found.ok, value=found.value, error=found.error
            )
        return found  # type: ignore[return-value]

    def __repr__(self) -> str:
        return f"After(subject={self.subject!r}, outcome={self.outcome!r})"


# --- ctx -------------------------------------------------------------------------------


class Signal(Protocol):
    """Says that heddle no longer wants the answer."""

    @property
    def cancelled(self) -> bool:
        """True once it is so. A plain handler that works for long looks here."""
        ...

    async def wait(self) -> None:
        """Return once it is so."""
        ...


class Services(Protocol):
    """What `Context` needs from the process that it lives in."""

    @property
    def plain(self) -> bool:
        """Whether the handler was not written with ``async def``."""
        ...

    @property
    def signal(self) -> Signal:
        """The call's cancellation."""
        ...

    async def ask(self, verb: str, params: dict[str, Any]) -> Any:
        """Call heddle inside this call, and wait for what it says."""
        ...

    def tell(self, verb: str, params: dict[str, Any]) -> None:
        """Call heddle inside this call without waiting; a refusal goes to stderr."""
        ...

    def partial(self, chunk: Any) -> None:
        """Report progress of this call."""
        ...


class Context(Struct, eq=False, dict=True, weakref=True):
    """What a handler is told beside its event, and what it may ask of heddle.

    Attributes:
        seam, half: Where a middleware is asked.
        attempt, max_attempts: Which try this is, from 1, and how many there may be.
        admits: The verdicts that this half honours.
        phase: Of a transform, "pre" or "post".
        stream: Whether a provider may send pieces with `partial`.
        run_id: Which run an encoder is asked about.
    """

    _services: Services
    _component: Any
    _workspace: str | HostError | None = None
    seam: str = ""
    half: str = ""
    attempt: int = 1
    max_attempts: int = 1
    admits: tuple[str, ...] = ()
    phase: str = ""
    stream: bool = False
    run_id: str = ""

    @property
    def component(self) -> dict[str, Any]:
        """The component's fields; for a middleware the operator's settings, or {}."""
        found = self._component
        if type(found) is Raw:
            decoded = _decode(found) if len(found) else {}
            self._component = found = decoded if isinstance(decoded, dict) else {}
        fields: dict[str, Any] = found
        if "llm_config" in fields:
            fields.setdefault("llmConfig", fields["llm_config"])
        return fields

    @property
    def node(self) -> dict[str, Any]:
        """The same as `component`, as a node's author calls it."""
        return self.component

    @property
    def signal(self) -> Signal:
        """Whether heddle still wants the answer. Async handlers are cancelled besides."""
        return self._services.signal

    async def _ask(self, verb: str, params: dict[str, Any]) -> Any:
        return await self._services.ask(verb, params)

    def run_tool(self, name: str, input: Mapping[str, Any] | None = None) -> Awaitable[Any]:  # noqa: A002  the word on the wire
        """Run a tool of the run that this call belongs to, and await its output.

        Raises:
            HostError: The capability ``runTool`` is not granted, or the tool failed.
        """
        self._must_await("run_tool")
        return self._ask("runTool", {"name": name, "input": input or {}})

    def call_model(self, request: Mapping[str, Any]) -> Awaitable[dict[str, Any]]:
        """Ask the model of this component's own ``llm_config``, and await its response.

        Args:
            request: ``messages``, and optionally ``tools``, ``temperature``, ``maxTokens``,
                ``topP``, ``responseFormat``.

        Raises:
            HostError: The capability ``callModel`` is not granted, or the call failed.
        """
        self._must_await("call_model")
        return self._ask("callModel", dict(request))

    def emit_event(self, name: str, data: Any = None) -> None:
        """Publish ``plugin:<componentType>:<name>`` in the run's stream; does not wait."""
        params = {"name": name} if data is None else {"name": name, "data": data}
        self._services.tell("emitEvent", params)

    def log(self, level: Level, message: str) -> None:
        """Publish a line as ``plugin_log`` in the run's stream, without waiting."""
        self._services.tell("log", {"level": level, "message": str(message)})

    def partial(self, chunk: Mapping[str, Any]) -> None:
        """Send a piece of an answer that is still being made, as a provider streams."""
        self._services.partial(chunk)

    def get_workspace(self) -> str:
        """The folder that this node's files are in.

        Raises:
            HostError: This call has none.
        """
        if isinstance(self._workspace, HostError):
            raise self._workspace
        if self._workspace is None:
            raise HostError("WorkspaceUnavailable", "this call has no workspace")
        return self._workspace

    def __repr__(self) -> str:
        """Its place only: settings may hold what must not end in a log."""
        return f"Context(seam={self.seam!r}, half={self.half!r})"

    def _must_await(self, function: str) -> None:
        if self._services.plain:
            raise TypeError(
                f"ctx.{function} is awaited, which a plain function cannot do: "
                f"write the handler with 'async def'"
            )
