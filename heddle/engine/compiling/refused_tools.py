"""What is wrong with the tools that a document uses, before anything runs.

A tool of a type that heddle can't use is refused by name and with a reason: a flow that
fails in its third node has done half of its work for nothing.
"""

from collections.abc import Iterator
from typing import Final

from heddle.engine.compiling.http_flaws import request_problems
from heddle.engine.graph import wrong_kind
from heddle.engine.requests.headers import header_flaw
from heddle.engine.requests.urls import origin_of_url
from heddle.engine.tool_use import USERS
from heddle.spec import (
    BuiltinTool,
    ClientTool,
    Component,
    Document,
    MCPTool,
    MCPToolBox,
    PluginComponent,
    Problem,
    RemoteTool,
    RemoteTransport,
)

_RUNS: Final = ", ".join(sorted(each.__name__ for each in USERS))


def tool_problems(tool: Component, document: Document) -> Iterator[Problem]:
    """Why this tool can't be used; nothing when it can."""
    place = f"{document.path_of(tool)}.component_type"
    match tool:
        case RemoteTool():
            yield from request_problems(tool, document)
        case MCPTool():
            yield from _transport_problems(tool.client_transport, document)
        case PluginComponent():
            yield Problem(place, *wrong_kind(tool, "a tool"))
        case ClientTool():
            yield Problem(
                place,
                f"{tool.name!r} is a ClientTool, which the caller of a run executes in the "
                "middle of it; here a run is started and answered once",
                "Make it a ServerTool, and put an executable of that name into the folder "
                "of tools.",
            )
        case BuiltinTool():
            yield Problem(
                place,
                f"{tool.name!r} is a BuiltinTool of type {tool.tool_type!r}, and heddle "
                "has none built in",
                "Make it a ServerTool, and put an executable of that name into the folder "
                "of tools.",
            )
        case _ if type(tool) not in USERS:
            yield Problem(
                place,
                f"{tool.name!r} is of type {tool.component_type}, which this version of "
                "heddle reads and does not run yet",
                f"What runs as tools: {_RUNS}.",
            )


def toolbox_problems(box: Component, document: Document) -> Iterator[Problem]:
    """Why this toolbox can't be used; nothing when it can."""
    if isinstance(box, MCPToolBox):
        yield from _transport_problems(box.client_transport, document)
        return
    assert isinstance(box, PluginComponent), "the reader admits nothing else"
    place = f"{document.path_of(box)}.component_type"
    yield Problem(place, *wrong_kind(box, "a toolbox"))


def _transport_problems(transport: Component, document: Document) -> Iterator[Problem]:
    place = document.path_of(transport)
    if isinstance(transport, PluginComponent):
        yield Problem(f"{place}.component_type", *wrong_kind(transport, "a transport"))
    elif isinstance(transport, RemoteTransport):
        if transport.auth is not None:
            yield Problem(
                f"{place}.auth",
                f"{transport.auth.name!r} is of type {transport.auth.component_type}, and "
                "heddle does not log in to tool servers by OAuth",
                "Put a token into 'sensitive_headers'.",
            )
        seen: set[str] = set()
        for field in ("headers", "sensitive_headers"):
            for name, value in (getattr(transport, field) or {}).items():
                if wrong := header_flaw(name, value):
                    yield Problem(f"{place}.{field}", *wrong)
                if name.lower() in seen:
                    what = f"the header {name!r} is given twice"
                    yield Problem(f"{place}.{field}", what, "Keep one.")
                seen.add(name.lower())
        try:
            origin_of_url(transport.url)
        except ValueError as error:
            yield Problem(
                f"{place}.url",
                f"this is no HTTP URL: {error}",
                "Write it like https://tools.example.com/mcp.",
            )
