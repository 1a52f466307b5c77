"""What is wrong with the tools that a document uses, before anything runs.

A tool of a type that heddle can't use is refused by name and with a reason: a flow that
fails in its third node has done half of its work for nothing.
"""

from collections.abc import Iterator
from typing import Final

from heddle.engine.graph import wrong_kind
from heddle.engine.http_flaws import request_problems
from heddle.engine.tool_use import USERS
from heddle.spec import (
    BuiltinTool,
    ClientTool,
    Component,
    Document,
    PluginComponent,
    Problem,
    RemoteTool,
)

_RUNS: Final = ", ".join(sorted(each.__name__ for each in USERS))


def tool_problems(tool: Component, document: Document) -> Iterator[Problem]:
    """Why this tool can't be used; nothing when it can."""
    place = f"{document.path_of(tool)}.component_type"
    match tool:
        case RemoteTool():
            yield from request_problems(tool, document)
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
