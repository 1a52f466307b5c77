"""Reverse calls: what a plugin may ask of heddle while it answers a call.

    runTool    call, name, input            a tool of the run that the call belongs to
    callModel  call, messages, ...          the model of the plugin's own component
    emitEvent  call, name, data?            an event of that run
    log        call, level, message         a log line of that run

Each names the call that it was made inside, and is served by that call's own
`CallServices` and nothing else. Here is what they may ask and how it is read; who asked,
and whether they may, is the channel's business.
"""

import re
from typing import Any, Final, Literal, Protocol, TypeAlias, assert_never

import msgspec
from msgspec import Raw, Struct

from plugins_host.conversation import Message, ModelRequest, ModelResponse, ToolDefinition
from plugins_host.faults import Fault, one_of
from plugins_host.model_edits import check_conversation, response_fields
from plugins_host.program import CAPABILITIES

EVENT_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class CallServices(Protocol):
    """What one call may use of the run that it belongs to. The engine implements it.

    What `run_tool` and `call_model` raise is told to the plugin as a refusal. Both are
    awaited in the task that made the call, so that they end when it does.
    """

    async def run_tool(self, name: str, arguments: dict[str, Any], /) -> object:
        """Run a tool that the run has; its output, as JSON's own types."""
        ...

    async def call_model(
        self, component_type: str, request: ModelRequest, /
    ) -> ModelResponse:
        """Ask the model of the component that is being asked.

        ``request.model`` is empty: the model is that of the component's ``llm_config``.
        """
        ...

    def emit_event(self, component_type: str, name: str, data: Any, /) -> None:
        """Publish ``plugin:<component_type>:<name>`` in the run's events."""
        ...

    def log(self, component_type: str, level: str, message: str, /) -> None:
        """Publish a log line in the run's events."""
        ...


class ReverseRefused(Fault):
    """A reverse call that is not served, and why. The plugin is told."""


class Attribution(Struct, frozen=True, rename="camel"):
    """Inside which call, and for which of the components asked in it."""

    call: int | float | str | None = None
    component_type: str | None = None


class RunTool(Struct, frozen=True):
    """Run a tool."""

    name: str
    input: dict[str, Any] = {}


class CallModel(Struct, frozen=True, rename="camel"):
    """Ask a model."""

    messages: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...] = ()
    temperature: float | None = None
    max_tokens: int | None = None
    top_p: float | None = None
    response_format: Literal["text", "json"] | None = None
    response_schema: dict[str, Any] | None = None
    parameters: dict[str, Any] = {}

    def request(self) -> ModelRequest:
        """The same as a request whose model is still open."""
        return ModelRequest(
            "",
            self.messages,
            self.tools,
            self.temperature,
            self.max_tokens,
            self.top_p,
            self.response_format,
            self.response_schema,
            self.parameters,
        )


class EmitEvent(Struct, frozen=True):
    """Publish an event."""

    name: str
    data: Any = None


class Log(Struct, frozen=True):
    """Publish a log line."""

    level: Literal["debug", "info", "warn", "error"]
    message: str


Waited: TypeAlias = RunTool | CallModel
Told: TypeAlias = EmitEvent | Log
Asked: TypeAlias = Waited | Told

_DECODERS: Final[dict[str, msgspec.json.Decoder[Any]]] = {
    "runTool": msgspec.json.Decoder(RunTool),
    "callModel": msgspec.json.Decoder(CallModel),
    "emitEvent": msgspec.json.Decoder(EmitEvent),
    "log": msgspec.json.Decoder(Log),
}
_ATTRIBUTION: Final = msgspec.json.Decoder(Attribution)
_ENCODE: Final = msgspec.json.Encoder().encode
_BROKEN: Final = (msgspec.DecodeError, RecursionError)


def read_attribution(params: Raw) -> Attribution:
    """Which call a reverse call names, if any.

    Raises:
        ReverseRefused: ``params`` is no object with a usable ``call``.
    """
    try:
        return _ATTRIBUTION.decode(params)
    except _BROKEN as error:
        raise ReverseRefused(f"its params cannot be read ({error})") from None


def read_asked(verb: str, params: Raw) -> Asked:
    """What is asked for.

    Raises:
        ReverseRefused: There is no such verb, or its params are not what it takes.
    """
    decoder = _DECODERS.get(verb)
    if decoder is None:
        raise ReverseRefused(f"heddle has no verb {verb!r}", fix=one_of(verb, CAPABILITIES))
    try:
        asked: Asked = decoder.decode(params)
        if isinstance(asked, CallModel):
            check_conversation(asked.messages)
    except _BROKEN as error:
        raise ReverseRefused(f"the params of {verb} are not right ({error})") from None
    except Fault as fault:
        raise ReverseRefused(f"{verb}: {fault.what}", fix=fault.fix) from None
    if isinstance(asked, EmitEvent) and not EVENT_NAME.fullmatch(asked.name):
        raise ReverseRefused(
            f"{asked.name[:80]!r} is no name of an event",
            fix="Use letters, digits and _, not beginning with a digit.",
        )
    return asked


def tell(asked: Told, component_type: str, services: CallServices) -> None:
    """Serve what needs no waiting."""
    match asked:
        case EmitEvent(name=name, data=data):
            services.emit_event(component_type, name, data)
        case Log(level=level, message=message):
            services.log(component_type, level, message)
        case _:
            assert_never(asked)


async def serve(asked: Waited, component_type: str, services: CallServices) -> bytes:
    """Serve what takes time; the result as a JSON text."""
    match asked:
        case RunTool(name=name, input=given):
            return _ENCODE(await services.run_tool(name, given))
        case CallModel():
            response = await services.call_model(component_type, asked.request())
            return _ENCODE(response_fields(response))
        case _:
            assert_never(asked)
