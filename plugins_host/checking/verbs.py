"""Questions to what is no middleware: each verb, with its params and who reads the answer.

One function for each kind of component. A reader says in a word what was answered, or
raises `WrongAnswer`.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from plugins_host.checking.examples import EVENTS, REQUEST
from plugins_host.checking.schema_examples import example_of
from plugins_host.faults import Fault, one_of
from plugins_host.manifests.manifest import (
    Component,
    NodeComponent,
    Phase,
    ProviderComponent,
    ToolEntry,
    TransformComponent,
)
from plugins_host.manifests.schemas import tool_schema_problem
from plugins_host.verbs.chatting import CHAT, PIECE, Assembly
from plugins_host.verbs.rows import (
    APPLY,
    APPLY_POST,
    CALL_TOOL,
    EXECUTE,
    LIST_TOOLS,
    AnswerShape,
)
from plugins_host.verbs.rows import Verb as VerbRow

T = TypeVar("T")


class WrongAnswer(Fault):
    """An answer is not of the form that the verb asks for."""


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


def node_verb(component: NodeComponent, workspace: str) -> Verb:
    """A node at work, with an example of each input; without ``workspace`` it has none."""

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


def transform_verb(component: TransformComponent, phase: Phase) -> Verb:
    """A transform given one message, before the model or after it."""
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


def provider_verb(component: ProviderComponent, *, stream: bool) -> Verb:
    """A provider that is to play the model."""
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
        "request": msgspec.to_builtins(REQUEST),
        "stream": stream,
    }
    how = "streamed" if stream else "whole"
    return Verb(f"{name} chat, {how}", name, "chat", params, read, on_partial)


class _EncodedFrame(Struct, frozen=True):
    data: Any
    event: str | None = None


def encoder_verbs(name: str) -> Iterator[Verb]:
    """An encoder shown one of each event, and then the end."""

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


def store_verbs(name: str) -> Iterator[Verb]:
    """A store in whose keeping a session is made, used and deleted again."""

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


def tool_verb(tool: ToolEntry) -> Verb:
    """A tool of the manifest called once."""

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


def list_tools_verb() -> Verb:
    """What a plugin answers that lists its tools when it is asked."""
    return Verb("listTools", "", "listTools", {}, _read_tools)


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


def _convert(raw: Raw, kind: Any) -> Any:
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise WrongAnswer(f"the answer is not of the right form: {error}") from error
