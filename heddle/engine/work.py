"""What a node's execution is given, and what it comes to.

The engine states here what it needs of the outside (models, tools) as protocols; whoever
starts runs passes them in. A node's work is one of two kinds, and the walk treats them
differently: `Pure` work transforms the state and is a step of the walk; `Waiting` work
waits for something and may be cancelled there.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, Protocol

from msgspec import Struct

from heddle.engine.graph import GraphNode
from heddle.engine.state import State
from heddle.events import Event, Warned
from heddle.spec import Component
from plugins_host.conversation import ModelRequest, ModelResponse

Report = Callable[[Event], None]
"""Where a run's events go; called in order, must not block."""


class Models(Protocol):
    """Answers model calls for the LLM configurations of documents."""

    def defaults(self, llm: Component) -> Mapping[str, Any]:
        """Fields of `ModelRequest` that the configuration sets for every request."""
        ...

    async def chat(
        self,
        llm: Component,
        request: ModelRequest,
        *,
        on_text: Callable[[str], None] | None,
    ) -> ModelResponse:
        """One answer; streamed when somebody takes the text as it comes."""
        ...


class Tools(Protocol):
    """Runs tools by name."""

    def workspace(self) -> AbstractAsyncContextManager[Any]:
        """A fresh folder for one execution of a node, removed on leaving."""
        ...

    async def run(
        self, name: str, arguments: Mapping[str, Any], /, *, workspace: Any, run_key: object
    ) -> Mapping[str, Any]:
        """The tool's output; raises a `Fault` when it fails.

        ``run_key`` tells whose turn it is where runs queue for the same thing.
        """
        ...


class Result(NamedTuple):
    """A node's own output, and the branch that it chose (None: the unbranched edge)."""

    output: State
    branch: str | None = None


class Services(Struct, frozen=True):
    """What a run was given to work with; shared by all of its nodes.

    ``run_key`` tells this run from others where they queue for the same thing.
    """

    models: Models
    tools: Tools
    report: Report
    stream: bool
    run_key: object
    warned: set[str]


class NodeContext:
    """One execution of one node: who it is and what it may use."""

    __slots__ = ("attempt", "name", "node", "services", "type")

    def __init__(self, node: GraphNode, attempt: int, services: Services) -> None:
        self.node = node
        self.name = node.name
        self.type = node.type
        self.attempt = attempt
        self.services = services

    def report(self, event: Event) -> None:
        """Add an event to the run's stream."""
        self.services.report(event)

    def warn(self, message: str) -> None:
        """Report a warning about this node."""
        self.services.report(Warned(message, self.name))

    def warn_once(self, message: str) -> None:
        """Report a warning about this node, the first time that the run meets it."""
        key = f"{self.name}\0{message}"
        if key not in self.services.warned:
            self.services.warned.add(key)
            self.warn(message)


class Pure(Struct, frozen=True):
    """Work that only transforms the state."""

    step: Callable[[State], Result]


class Waiting(Struct, frozen=True):
    """Work that waits: for a model, a tool, a process."""

    execute: Callable[[State, NodeContext], Awaitable[Result]]


Work = Pure | Waiting
