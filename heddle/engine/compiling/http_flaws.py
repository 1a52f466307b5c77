"""What is wrong with the requests that a document describes, where its author finds it."""

from collections.abc import Iterator

from heddle.engine.agents import members_of, tools_of
from heddle.engine.requests.request import Described, RequestTemplate
from heddle.spec import (
    AgentNode,
    ApiNode,
    Component,
    Document,
    Problem,
    RemoteTool,
    ToolNode,
)


def request_problems(component: Described, document: Document) -> Iterator[Problem]:
    """Why this request can't be sent, whatever the values."""
    place = document.path_of(component)
    for flaw in RequestTemplate(component).problems():
        yield Problem(f"{place}.{flaw.field}", flaw.what, flaw.fix)


def request_warnings(node: Component, document: Document) -> Iterator[Problem]:
    """What is worth a look in the requests that a node makes."""
    for component in _requests(node):
        place = document.path_of(component)
        for flaw in RequestTemplate(component).warnings():
            yield Problem(f"{place}.{flaw.field}", flaw.what, flaw.fix)


def _requests(node: Component) -> Iterator[Described]:
    match node:
        case ApiNode() as request:
            yield request
        case ToolNode(tool=RemoteTool() as request):
            yield request
        case AgentNode(agent=agent):
            for member in members_of(agent):
                yield from (
                    tool for tool in tools_of(member) if isinstance(tool, RemoteTool)
                )
        case _:
            return
