"""What a manifest promises, as example questions that a plugin can be asked.

    for promise in promises(manifest, settings):
        promise.label      "RetryPolicy nodeError.after, a node that failed"

Each question is one that heddle could put; nothing here asks it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec import Raw, Struct

from plugins_host.chatting import CHAT, PIECE, Assembly
from plugins_host.conversation import Message, ModelRequest, ModelResponse, ToolDefinition
from plugins_host.faults import Fault, one_of
from plugins_host.manifest import (
    Component,
    EncoderComponent,
    Manifest,
    MiddlewareComponent,
    NodeComponent,
    Phase,
    PlainComponent,
    ProviderComponent,
    StoreComponent,
    ToolEntry,
    TransformComponent,
)
from plugins_host.manifest_schemas import (
    tool_schema_problem,
)
from plugins_host.model_edits import response_fields
from plugins_host.outcomes import Erred, Outcome, ShownError, Succeeded
from plugins_host.payload import Payload
from plugins_host.seams import Half, NodeSubject, Seam, Subject, ToolSubject
from plugins_host.verbs import (
    APPLY,
    APPLY_POST,
    CALL_TOOL,
    EXECUTE,
    LIST_TOOLS,
    AnswerShape,
)
from plugins_host.verbs import Verb as VerbRow

T = TypeVar("T")


class WrongAnswer(Fault):
    """An answer is not of the form that the verb asks for."""


class Consultation(Struct, frozen=True):
    """One half of one seam, asked of one middleware or of several together."""

    label: str
    components: tuple[MiddlewareComponent, ...]
    seam: Seam
    half: Half
    subject: Subject
    given: Payload | None
    outcome: Outcome | None


class Verb(Struct, frozen=True):
    """Any other verb: its params, and a reader that says in a word what was answered.

    ``on_partial`` takes its progress, where that is a part of the answer.
    """

    label: str
    component_type: str
    verb: str
    params: dict[str, Any]
    read: Callable[[Raw], str]
    on_partial: Callable[[Raw], None] | None = None

    @property
    def repeatable(self) -> bool:
        """Whether asking again changes nothing that is kept."""
        return not self.verb.startswith("session")


Promise: TypeAlias = Consultation | Verb

_NODE: Final = NodeSubject("example", "AgentNode")
_TOOL: Final = ToolSubject("example", "AgentNode", "example_tool", "call-1")
_REQUEST: Final = ModelRequest(
    "example-model",
    (Message("system", "You are an example."), Message("user", "Hello.")),
    (ToolDefinition("example_tool", "Does nothing.", {"type": "object"}),),
    temperature=0.5,
)
_RESPONSE: Final = response_fields(ModelResponse("Hello, too."))
_TIMED_OUT: Final = Erred(ShownError("TimeoutError", "the example timed out"))
_BUSY: Final = Erred(ShownError("ModelError", "429: slow down", 429, 1000, True))


class _Example(Struct, frozen=True):
    """One question to a half."""

    about: str
    subject: Subject
    given: Payload | None = None
    outcome: Outcome | None = None


_EXAMPLES: Final[Mapping[tuple[Seam, Half], tuple[_Example, ...]]] = {
    (Seam.NODE_ERROR, Half.AFTER): (
        _Example("a node that timed out", _NODE, outcome=_TIMED_OUT),
    ),
    (Seam.NODE, Half.BEFORE): (
        _Example("a node", _NODE, Payload.of({"question": "Why?"})),
    ),
    (Seam.NODE, Half.AFTER): (
        _Example("a node's output", _NODE, outcome=Succeeded(Payload.of({"result": 1}))),
        _Example("a node that timed out", _NODE, outcome=_TIMED_OUT),
    ),
    (Seam.TOOL_CALL, Half.BEFORE): (
        _Example("a tool call", _TOOL, Payload.of({"cmd": "ls"})),
    ),
    (Seam.TOOL_CALL, Half.AFTER): (
        _Example(
            "a tool's result",
            _TOOL,
            Payload.of({"cmd": "ls"}),
            Succeeded(Payload.of({"stdout": "example"})),
        ),
        _Example("a tool that timed out", _TOOL, Payload.of({"cmd": "ls"}), _TIMED_OUT),
    ),
    (Seam.MODEL_CALL, Half.BEFORE): (
        _Example("a model request", _NODE, Payload.of(_REQUEST)),
    ),
    (Seam.MODEL_CALL, Half.AFTER): (
        _Example("a model's answer", _NODE, outcome=Succeeded(Payload.of(_RESPONSE))),
        _Example("a model that answers 429", _NODE, outcome=_BUSY),
    ),
    (Seam.AGENT_ROUND, Half.BEFORE): (
        _Example("a first round", _NODE, Payload.of({"round": 1, "maxRounds": 10})),
        _Example("a tenth round", _NODE, Payload.of({"round": 10, "maxRounds": 10})),
    ),
    (Seam.AGENT_ROUND, Half.AFTER): (
        _Example(
            "a round that ran a tool",
            _NODE,
            outcome=Succeeded(Payload.of({"round": 1, "toolCalls": ["example_tool"]})),
        ),
    ),
}


def promises(manifest: Manifest, *, workspace: str = "") -> Iterator[Promise]:
    """The questions that a manifest says its plugin answers, in its order.

    ``workspace`` is a folder for nodes; without one they are told that there is none.
    """
    for component in manifest.components:
        yield from _of_component(component, workspace)
    for tool in manifest.tools:
        if tool.component_type is not None:
            yield _tool(tool)
    if manifest.discover_tools:
        yield Verb("listTools", "", "listTools", {}, _read_tools)


def together(manifest: Manifest) -> Iterator[Consultation]:
    """The same questions as far as several middleware of the manifest answer them."""
    for (seam, half), examples in _EXAMPLES.items():
        asked = tuple(c for c in manifest.middleware if half in c.seams.get(seam, ()))
        if len(asked) > 1:
            names = ", ".join(each.component_type for each in asked)
            yield _consultation(f"{names} together", asked, seam, half, examples[0])


def _of_component(component: Component, workspace: str) -> Iterator[Promise]:
    name = component.component_type
    match component:
        case MiddlewareComponent():
            for (seam, half), examples in _EXAMPLES.items():
                if half in component.seams.get(seam, ()):
                    for example in examples:
                        yield _consultation(name, (component,), seam, half, example)
        case NodeComponent():
            yield _node(component, workspace)
        case TransformComponent():
            for phase in (Phase.PRE, Phase.POST):
                if component.phase in (phase, Phase.BOTH):
                    yield _transform(component, phase)
        case ProviderComponent():
            for stream in (False, True) if component.stream else (False,):
                yield _provider(component, stream=stream)
        case EncoderComponent():
            yield from _encoder(name)
        case StoreComponent():
            yield from _store(name)
        case PlainComponent():
            pass
        case _:  # pragma: no cover  Component has no other subclasses
            raise AssertionError(component)


def _consultation(
    name: str,
    components: tuple[MiddlewareComponent, ...],
    seam: Seam,
    half: Half,
    example: _Example,
) -> Consultation:
    return Consultation(
        f"{name} {seam}.{half}, {example.about}",
        components,
        seam,
        half,
        example.subject,
        example.given,
        example.outcome,
    )


# --- the other kinds --------------------------------------------------------------------


def _read(verb: VerbRow[T], raw: Raw) -> T:
    """What was answered to one of the verbs that put a component to work."""
    try:
        return verb.read(raw)
    except AnswerShape as wrong:
        raise WrongAnswer(f"{wrong.path}: {wrong.what}", fix=wrong.fix) from wrong


def _example_component(component: Component) -> dict[str, Any]:
    """The component in a document, with the fields that its schema requires."""
    fields = example_of({**(getattr(component, "schema", None) or {}), "type": "object"})
    name = component.component_type
    return {**fields, "component_type": name, "name": "example"}


def _node(component: NodeComponent, workspace: str) -> Verb:
    def read(raw: Raw) -> str:
        answer = _read(EXECUTE, raw)
        if component.branches and answer.branch not in component.branches:
            raise WrongAnswer(
                f"the branch is {answer.branch!r}",
                fix=f"Answer with one that is declared: {', '.join(component.branches)}.",
            )
        titles = [each.get("title") for each in component.outputs]
        extra = [name for name in answer.output if titles and name not in titles]
        if extra:
            raise WrongAnswer(
                f"$.output: {extra[0]!r} is not declared",
                fix=one_of(extra[0], [str(title) for title in titles]),
            )
        return "an output"

    name = component.component_type
    given = {
        str(each.get("title", "")): example_of(each)
        for each in component.inputs
        if "title" in each
    }
    place = {"workspace": workspace} if workspace else {"workspaceUnavailable": "confined"}
    node = _example_component(component)
    params = {"componentType": name, "node": node, "input": given, **place}
    return Verb(f"{name} execute", name, "execute", params, read)


def _transform(component: TransformComponent, phase: Phase) -> Verb:
    name = component.component_type
    row = APPLY if phase is Phase.PRE else APPLY_POST
    role = "user" if phase is Phase.PRE else "assistant"
    params = {
        "componentType": name,
        "component": _example_component(component),
        "phase": phase,
        "messages": [{"role": role, "content": "Hello."}],
    }
    label = f"{name} apply, {phase}"
    return Verb(label, name, "apply", params, lambda raw: _read(row, raw).action)


def _provider(component: ProviderComponent, *, stream: bool) -> Verb:
    answer = Assembly()

    def on_partial(raw: Raw) -> None:
        answer.add(_read(PIECE, raw))

    def read(raw: Raw) -> str:
        answer.add(_read(CHAT, raw))
        try:
            answer.response()
        except AnswerShape as wrong:
            raise WrongAnswer(f"{wrong.path}: {wrong.what}", fix=wrong.fix) from wrong
        return "a response"

    name = component.component_type
    params = {
        "componentType": name,
        "config": _example_component(component),
        "request": msgspec.to_builtins(_REQUEST),
        "stream": stream,
    }
    how = "streamed" if stream else "whole"
    return Verb(f"{name} chat, {how}", name, "chat", params, read, on_partial)


_AT: Final = {"nodeName": "example", "nodeType": "AgentNode"}
_ERROR: Final = {"name": "ExampleError", "message": "an example of an error"}

EVENTS: Final[tuple[dict[str, Any], ...]] = (
    {"type": "flow_start"},
    {"type": "node_start", **_AT, "state": {"question": "Why?"}, "attempt": 1},
    {"type": "token_delta", "nodeName": "example", "delta": "Hello"},
    {"type": "token_discard", "nodeName": "example", "characters": 5},
    {
        "type": "confirmation_request",
        "nodeName": "example",
        "toolName": "example",
        "toolArgs": {},
        "toolCallId": "call_1",
    },
    {
        "type": "confirmation_response",
        "nodeName": "example",
        "toolName": "example",
        "approved": False,
        "reason": "not now",
        "toolCallId": "call_1",
    },
    {
        "type": "tool_call",
        "nodeName": "example",
        "toolName": "example_tool",
        "toolArgs": {"cmd": "ls"},
        "toolCallId": "call-1",
        "startedAt": 1.5,
    },
    {
        "type": "tool_result",
        "nodeName": "example",
        "toolName": "example_tool",
        "toolCallId": "call-1",
        "duration": 12.5,
        "error": _ERROR,
    },
    {"type": "warning", "message": "an example of a warning"},
    {"type": "message", "nodeName": "example", "sender": "agent", "message": "Well?"},
    {"type": "plugin_log", **_AT, "level": "info", "message": "an example of a line"},
    {"type": "plugin:Example:seen", **_AT, "data": None},
    {"type": "state_snapshot", "nodeName": "example", "state": {"question": "Why?"}},
    {
        "type": "subflow_start",
        "nodeName": "example",
        "flow": "inner",
        "state": {"question": "Why?"},
        "nodePath": ["example", 0],
    },
    {
        "type": "agent_start",
        "nodeName": "example",
        "agent": "helper",
        "agentType": "Agent",
        "agentId": "agent-1",
        "state": {"question": "Why?"},
    },
    {
        "type": "model_request",
        "nodeName": "example",
        "requestId": "model-1",
        "llm": "example",
        "request": msgspec.to_builtins(_REQUEST),
        "agentId": "agent-1",
    },
    {
        "type": "model_response",
        "nodeName": "example",
        "requestId": "model-1",
        "llm": "example",
        "duration": 12.5,
        "response": msgspec.to_builtins(_RESPONSE),
        "agentId": "agent-1",
    },
    {
        "type": "agent_complete",
        "nodeName": "example",
        "agent": "helper",
        "agentType": "Agent",
        "agentId": "agent-1",
        "state": {"result": 1},
    },
    {
        "type": "subflow_complete",
        "nodeName": "example",
        "flow": "inner",
        "state": {"result": 1},
        "nodePath": ["example", 0],
        "branch": "done",
    },
    {
        "type": "input_request",
        "nodeName": "example",
        "requestId": "input-1",
        "message": "Well?",
    },
    {
        "type": "input_response",
        "nodeName": "example",
        "requestId": "input-1",
        "message": "Yes.",
    },
    {"type": "node_error", **_AT, "error": _ERROR, "attempt": 1},
    {"type": "node_complete", **_AT, "state": {"result": 1}, "attempt": 2},
    {"type": "flow_complete", "state": {"result": 1}},
    {"type": "error", "error": _ERROR},
)
"""One of each event that an encoder may be shown, in an order in which they may come."""


class _EncodedFrame(Struct, frozen=True):
    data: Any
    event: str | None = None


def _encoder(name: str) -> Iterator[Verb]:
    def read(raw: Raw) -> str:
        frames = _convert(raw, list[_EncodedFrame])
        if any("\n" in (each.event or "") or "\r" in (each.event or "") for each in frames):
            raise WrongAnswer("an 'event' has a line break in it", fix="Write one line.")
        return f"{len(frames)} frames"

    asked = {"componentType": name, "runId": "example-run"}
    for event in EVENTS:
        label = f"{name} encode, {event['type']}"
        yield Verb(label, name, "encode", {**asked, "event": event}, read)
    yield Verb(f"{name} finishEncode", name, "finishEncode", asked, read)


def _store(name: str) -> Iterator[Verb]:
    """A session is made, used and deleted again."""

    def record(raw: Raw) -> str:
        _convert(raw, dict[str, Any] | None)
        return "null" if bytes(raw) == b"null" else "a record"

    def version(raw: Raw) -> str:
        answer = _convert(raw, dict[str, Any])
        if not answer.keys() & {"version", "conflict"}:
            raise WrongAnswer("the answer has no 'version'", fix="Answer {version}.")
        return "a version"

    def sessions(raw: Raw) -> str:
        if not isinstance(_convert(raw, dict[str, Any]).get("sessions"), list):
            raise WrongAnswer("the answer has no 'sessions'", fix="Answer {sessions: []}.")
        return "sessions"

    turn = {"runId": "example-run", "at": "2000-01-01T00:00:00Z", "input": {}, "output": {}}
    key = "heddle-plugin-check"
    asked: tuple[tuple[str, dict[str, Any], Callable[[Raw], str]], ...] = (
        ("sessionCreate", {"id": key, "flow": "example"}, record),
        ("sessionRead", {"id": key}, record),
        ("sessionAppend", {"id": key, "turn": turn, "expect": 0}, version),
        ("sessionCheckpointWrite", {"id": key, "checkpoint": {"at": "example"}}, record),
        ("sessionCheckpointRead", {"id": key}, record),
        ("sessionList", {"limit": 10}, sessions),
        ("sessionDelete", {"id": key}, record),
    )
    for verb, params, read in asked:
        whole = {"componentType": name, "config": {}, **params}
        yield Verb(f"{name} {verb}", name, verb, whole, read)


def _tool(tool: ToolEntry) -> Verb:
    def read(raw: Raw) -> str:
        answer = _read(CALL_TOOL, raw)
        if tool.output_schema is not None:
            # Loaded only here: few tools say what they put out.
            import jsonschema

            schema = jsonschema.Draft202012Validator(tool.output_schema)
            for wrong in schema.iter_errors(answer.output):
                raise WrongAnswer(
                    f"{wrong.json_path.replace('$', '$.output', 1)}: {wrong.message}",
                    fix="Answer what 'outputSchema' declares.",
                )
        return "an output"

    properties = (tool.input_schema or {}).get("properties", {})
    given = {name: example_of(each) for name, each in properties.items()}
    params = {"componentType": tool.component_type, "tool": tool.name, "input": given}
    return Verb(f"tool {tool.name}", str(tool.component_type), "callTool", params, read)


def _read_tools(raw: Raw) -> str:
    tools = _read(LIST_TOOLS, raw).tools
    names = [tool.name for tool in tools]
    for index, tool in enumerate(tools):
        if names.index(tool.name) != index:
            raise WrongAnswer(
                f"$.tools[{index}].name: {tool.name!r} is listed twice",
                fix="List each tool once.",
            )
        for key, schema in (
            ("inputSchema", tool.input_schema),
            ("outputSchema", tool.output_schema),
        ):
            if schema is not None and (problem := tool_schema_problem(schema)):
                raise WrongAnswer(f"$.tools[{index}].{key}: {problem}", fix="Correct it.")
    return f"{len(tools)} tools"


_BY_TYPE: Final[Mapping[object, Any]] = {
    "string": "example",
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "array": [],
    "object": {},
    "null": None,
}


def example_of(schema: object) -> Any:
    """A value that a JSON Schema of a property probably takes."""
    if not isinstance(schema, Mapping):
        return "example"
    for key in ("default", "const"):
        if key in schema:
            return schema[key]
    for key in ("enum", "examples"):
        if isinstance(schema.get(key), list) and schema[key]:
            return schema[key][0]
    for key in ("anyOf", "oneOf"):
        if isinstance(schema.get(key), list) and schema[key]:
            return example_of(schema[key][0])
    kind = schema.get("type")
    first = kind[0] if isinstance(kind, list) and kind else kind
    if first == "object":
        return _example_object(schema)
    if first == "array" and schema.get("minItems"):
        return [example_of(schema.get("items"))]
    return _BY_TYPE.get(first, "example")


def _example_object(schema: Mapping[str, Any]) -> dict[str, Any]:
    known, needed = schema.get("properties"), schema.get("required")
    if not isinstance(known, Mapping) or not isinstance(needed, list):
        return {}
    return {name: example_of(known.get(name, {})) for name in needed}


def _convert(raw: Raw, kind: Any) -> Any:
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise WrongAnswer(f"the answer is not of the right form: {error}") from error
