"""Tools of tool servers (MCP), as the engine sees them: what they offer, what they answer.

Who starts runs passes in how servers are reached (`heddle.engine.work.Remote`). A run opens
a session with a server when it first uses one, and all of them end with the run.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec
from msgspec import Struct

from heddle.engine.faults import NodeFault
from heddle.engine.signatures import Properties, typed
from heddle.engine.state import State
from heddle.spec import (
    AgentNode,
    Component,
    Flow,
    MCPTool,
    MCPToolBox,
    MCPToolSpec,
    Property,
    ToolNode,
    schema_flaw,
)
from plugins_host import Fault, ToolDefinition, one_of


class ToolServerFault(NodeFault):
    """A tool server is not what the document says, or its tool failed."""


class Offered(Struct, frozen=True):
    """A tool of a server, as the server describes it."""

    name: str
    description: str
    schema: dict[str, Any]


class ToolAnswer(Struct, frozen=True):
    """What a tool of a server gave: its text, and its JSON object if it gave one."""

    text: str
    structured: dict[str, Any] | None = None


class ToolServers(Protocol):
    """The sessions of one run."""

    async def offered(self, transport: Component, /, *, where: str) -> Sequence[Offered]:
        """All tools of the server."""
        ...

    async def call(
        self,
        transport: Component,
        name: str,
        arguments: Mapping[str, Any],
        /,
        *,
        where: str,
    ) -> ToolAnswer:
        """Call a tool; raises a `Fault` with what the server says when it failed."""
        ...


RESULT: Final = "result"
"""What a tool's text is called where no output is declared."""


def shape_tool_answer(declared: Properties, answer: ToolAnswer, *, of: str) -> State:
    """A tool's answer under the names of its outputs; their types are looked at later.

    Raises:
        ToolServerFault: Several outputs are declared, and it is no JSON object.
    """
    structured = answer.structured
    if not declared:
        return {RESULT: answer.text} if structured is None else structured
    if len(declared) == 1:
        (only,) = declared
        if only.schema.get("type") == "string":
            text = None if structured is None else structured.get(only.title)
            return {only.title: text if isinstance(text, str) else answer.text}
        value = _json(answer.text) if structured is None else structured
        if isinstance(value, dict) and only.title in value:
            return value
        # How the official servers wrap a value that is no object.
        if isinstance(value, dict) and set(value) == {RESULT}:
            value = value[RESULT]
        return {only.title: value}
    value = _json(answer.text) if structured is None else structured
    if not isinstance(value, dict):
        raise ToolServerFault(
            f"{of} gave text, and its outputs are read from a JSON object",
            fix="Declare one output of type string.",
        )
    return value


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


def uses_servers(node: Component) -> bool:
    """Whether a node has a tool of a server among what it may use."""
    if not isinstance(node, (AgentNode, ToolNode)):
        return False
    waiting: list[Any] = [node]
    while waiting:
        each = waiting.pop()
        if isinstance(each, (MCPTool, MCPToolBox)):
            return True
        if isinstance(each, Component) and not isinstance(each, Flow):
            waiting += (getattr(each, field) for field in each.__struct_fields__)
        elif isinstance(each, tuple):
            waiting += each
    return False


class BoxedTool(Struct, frozen=True):
    """A tool out of a toolbox: how it is used, and how a model is told of it."""

    tool: MCPTool
    definition: ToolDefinition


def tools_of_box(box: MCPToolBox, offered: Sequence[Offered]) -> list[BoxedTool]:
    """What a toolbox gives of what its server offers.

    Raises:
        ToolServerFault: A tool that the filter names is not there, or is another one; or
            its server does not say what it takes.
    """
    known = {each.name: each for each in offered}
    wanted = box.tool_filter
    if wanted is None:
        _check_schemas(box, offered)
    else:
        names = (each if isinstance(each, str) else each.name for each in wanted)
        _check_schemas(box, [known[name] for name in names if name in known])
    if box.tool_filter is None:
        return [_boxed(box, each, None) for each in offered]
    return [_filtered(box, known, wanted) for wanted in box.tool_filter]


def _check_schemas(box: MCPToolBox, offered: Iterable[Offered]) -> None:
    """See that what a server says of its tools can be used; nobody else has looked."""
    for each in offered:
        flaw = schema_flaw(each.schema)
        if flaw is not None:
            raise ToolServerFault(
                f"the server of toolbox {box.name!r} has a tool {each.name!r} whose input "
                f"schema can't be used: {flaw.path}: {flaw.what}",
                fix="Correct the server, or name its other tools in 'tool_filter'.",
            )


def _filtered(
    box: MCPToolBox, known: Mapping[str, Offered], wanted: MCPToolSpec | str
) -> BoxedTool:
    spec = None if isinstance(wanted, str) else wanted
    name = wanted if isinstance(wanted, str) else wanted.name
    found = known.get(name)
    if found is None:
        raise ToolServerFault(
            f"the server of toolbox {box.name!r} has no tool {name!r}, which its "
            "'tool_filter' names",
            fix=one_of(name, known) if known else "It has none.",
        )
    if spec is not None and spec.inputs:
        there, here = typed(_properties(found, optional=True)), typed(spec.inputs)
        if there.keys() != here.keys():
            raise _another(box, name, f"has the inputs {_listed(there)}", _listed(here))
        for title, schema in here.items():
            kinds = (there[title].get("type"), schema.get("type"))
            if None not in kinds and kinds[0] != kinds[1]:
                raise _another(
                    box, name, f"takes {title!r} as {kinds[0]}", f"{title!r} as {kinds[1]}"
                )
    return _boxed(box, found, spec)


def _another(box: MCPToolBox, name: str, there: str, here: str) -> ToolServerFault:
    return ToolServerFault(
        f"the tool {name!r} of toolbox {box.name!r} {there}, and its MCPToolSpec says "
        f"{here}",
        fix="Correct the MCPToolSpec, or leave its inputs out.",
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, sorted(names))) or "none"


def _boxed(box: MCPToolBox, found: Offered, spec: MCPToolSpec | None) -> BoxedTool:
    description = found.description
    confirmed = box.requires_confirmation
    if spec is not None:
        description = spec.description or description
        confirmed = confirmed or spec.requires_confirmation
    return BoxedTool(
        MCPTool(
            id=f"{box.id}.{found.name}",
            name=found.name,
            description=description,
            inputs=tuple(_properties(found, optional=False)),
            requires_confirmation=confirmed,
            retry_policy=box.retry_policy,
            client_transport=box.client_transport,
        ),
        ToolDefinition(found.name, description, found.schema),
    )


def _properties(found: Offered, *, optional: bool) -> Properties:
    """A tool's inputs, with the optional ones or without: those the server looks at."""
    schema = found.schema
    required = schema.get("required")
    if not isinstance(required, list):
        required = ()
    shared: dict[str, Any] = {
        key: schema[key] for key in ("$defs", "definitions") if key in schema
    }
    properties = schema.get("properties") or {}
    return tuple(
        Property(title, {**each, **shared, "title": title})
        for title, each in properties.items()
        if isinstance(each, dict) and (optional or title in required)
    )


def refuse_collisions(agent: str, names: Iterable[str]) -> None:
    """See that an agent has each name once, wherever its tools come from.

    Raises:
        ToolServerFault: It does not.
    """
    twice = sorted(_twice(names))
    if twice:
        raise ToolServerFault(
            f"agent {agent!r} has more than one tool named {_listed(twice)}, among its "
            "tools and what its toolboxes bring",
            fix="Rename its own, or leave one out with a 'tool_filter'.",
        )


def _twice(names: Iterable[str]) -> Iterator[str]:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            yield name
        seen.add(name)


def failed(of: str, text: str) -> Fault:
    """The fault for a tool that says that it failed."""
    return ToolServerFault(f"{of} failed: {text}" if text else f"{of} failed")
