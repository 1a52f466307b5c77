"""What a node's execution is given, and what it comes to.

The engine states here what it needs of the outside (models, tools) as protocols; whoever
starts runs passes them in. A node's work is one of two kinds, and the walk treats them
differently: `Pure` work transforms the state and is a step of the walk; `Waiting` work
waits for something and may be cancelled there.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from msgspec import Struct

from heddle.engine.faults import NodeFailed, NoWayOn, SubflowFailed
from heddle.engine.graph import GraphNode
from heddle.engine.questions import Person
from heddle.engine.requests.request import HttpAnswer, HttpRequest
from heddle.engine.state import State
from heddle.engine.walk import Limits
from heddle.events import Event, MessageSaid, TokenDelta, TokensDiscarded, Warned
from heddle.spec import Component, RetryPolicy
from plugins_host import (
    CallServices,
    Message,
    ModelRequest,
    ModelResponse,
    NodePath,
    Usage,
)

if TYPE_CHECKING:
    import trio

    from heddle.engine.gate import Gate, Policies
    from heddle.engine.plan import Plan
    from heddle.engine.tool_servers import ToolServers
    from heddle.engine.tracing import Trace
    from plugins_host import PolicyWarning, Served

Report = Callable[[Event], None]
"""Where a run's events go; called in order, must not block."""


class Models(Protocol):
    """Answers model calls for the LLM configurations of documents."""

    def defaults(self, llm: Component) -> Mapping[str, Any]:
        """Fields of `ModelRequest` that the configuration sets for every request."""
        ...

    def chat(
        self,
        llm: Component,
        request: ModelRequest,
        *,
        on_text: Callable[[str], None] | None,
    ) -> Awaitable[ModelResponse]:
        """One answer; streamed when somebody takes the text as it comes."""
        ...


class Tools(Protocol):
    """Runs tools by name."""

    def workspace(self) -> AbstractAsyncContextManager[Any]:
        """A fresh folder for one execution of a node, removed on leaving."""
        ...

    async def folder(self, workspace: Any, /) -> str:
        """The path of a workspace, which is there from now on."""
        ...

    async def run(
        self,
        name: str,
        arguments: Mapping[str, Any],
        /,
        *,
        workspace: Any,
        run_key: object,
        services: CallServices | None = None,
    ) -> Mapping[str, Any]:
        """The tool's output; raises a `Fault` when it fails.

        ``run_key`` tells whose turn it is where runs queue for the same thing;
        ``services`` is what a tool that a plugin serves may use of the run.
        """
        ...


class Remote(Protocol):
    """Reaches services for flows, other than models."""

    async def send(
        self,
        request: HttpRequest,
        policy: RetryPolicy | None,
        /,
        *,
        where: str,
        warn: Callable[[str], None],
    ) -> HttpAnswer:
        """The answer of a success; raises a `Fault` that says why there is none.

        ``where`` is how errors name who asks; ``warn`` is told of each time that the
        request is sent again.
        """
        ...

    def sessions(self) -> "AbstractAsyncContextManager[ToolServers]":
        """What one run uses tool servers by; nothing is open once it is left."""
        ...


class Result(NamedTuple):
    """A node's own output, and the branch that it chose (None: the unbranched edge)."""

    output: State
    branch: str | None = None


class Services(Struct, frozen=True):
    """What a run is given to work with.

    ``report`` takes its events; ``stream`` is whether somebody reads the text of models
    as it comes; ``policies`` is None when none are installed. ``components`` are the
    nodes, transforms and providers of plugins, by component type. ``person`` is None where
    there is nobody to ask, ``remote`` where nothing beyond models is reached. ``trace`` is
    whether somebody reads the events of traced runs.
    """

    models: Models
    tools: Tools
    report: Report
    stream: bool = False
    policies: "Policies | None" = None
    components: "Mapping[str, Served]" = {}
    person: Person | None = None
    remote: Remote | None = None
    trace: bool = False


class Ended(NamedTuple):
    """How a flow ended: what it returns, and the branch that its EndNode names.

    None stands for the branch that an edge without a name carries.
    """

    output: State
    branch: str | None


class Conversation:
    """The messages of a flow, which it shares with the flows inside it."""

    __slots__ = ("messages",)

    def __init__(self) -> None:
        self.messages: list[Message] = []


Enter = Callable[
    ["Plan", State, "NodeContext", tuple[int, ...], Conversation], Awaitable[Ended]
]
"""Walks a flow inside a node; awaited, it gives how the flow `Ended`."""


class RunContext:
    """One run, as its nodes see it: its services, its policies, what it keeps count of.

    ``at`` is the node where the run is, ``executions`` how many it has begun, of the
    flows inside it too. ``enter`` is how a node has a flow walked, ``servers`` how one uses
    the tools of tool servers. ``asking`` is held by what asks the person; made when first
    used. ``trace`` tells and numbers what only traced runs tell of; None in others.
    """

    __slots__ = (
        "_warned",
        "asking",
        "at",
        "enter",
        "executions",
        "gate",
        "limits",
        "model_calls",
        "servers",
        "services",
        "trace",
        "usage",
    )

    def __init__(
        self,
        services: Services,
        gate: "Gate | None",
        limits: Limits,
        enter: Enter,
    ) -> None:
        self.services = services
        self.gate = gate
        self.limits = limits
        self.enter = enter
        self.at: GraphNode | None = None
        self.executions = 0
        self.servers: ToolServers | None = None
        self.usage: Usage | None = None
        self.asking: trio.Lock | None = None
        self.model_calls = 0
        self.trace: Trace | None = None
        self._warned: set[tuple[str, str]] = set()

    def spend(self, usage: Usage | None) -> None:
        """Add a model call's tokens, if they are known."""
        self.usage = total(self.usage, usage)

    def first_time(self, node: str, message: str) -> bool:
        """Whether this warning is new to the run."""
        if (node, message) in self._warned:
            return False
        self._warned.add((node, message))
        return True


class NodeContext:
    """One execution of one node: who it is and what it may use.

    ``path`` is where it is, None at the top; ``conversation`` that of its flow.
    ``is_open`` is whether readers saw it begin and not fail. ``speaker`` is who works in
    it, when it is one agent of several; ``agent_id`` which piece of its work, when traced.
    """

    __slots__ = (
        "_inside",
        "_shown",
        "_within",
        "agent_id",
        "attempt",
        "conversation",
        "is_open",
        "model_calls",
        "name",
        "node",
        "path",
        "run",
        "services",
        "speaker",
        "type",
        "usage",
    )

    def __init__(
        self,
        node: GraphNode,
        attempt: int,
        run: RunContext,
        conversation: Conversation,
        path: NodePath | None = None,
        within: "NodeContext | None" = None,
        speaker: str | None = None,
    ) -> None:
        self.node = node
        self.name = node.name
        self.type = node.type
        self.attempt = attempt
        self.run = run
        self.services = run.services
        self.conversation = conversation
        self.path = path
        self.usage: Usage | None = None
        self.model_calls = 0
        self.is_open = False
        self._shown = 0
        self._within = within
        self.speaker = speaker
        self.agent_id: str | None = None
        # Executions inside it that have shown text.
        self._inside: list[NodeContext] = []

    def speaking(self, name: str) -> "NodeContext":
        """The same execution, as one of its agents has it."""
        return NodeContext(
            self.node, self.attempt, self.run, self.conversation, self.path, self, name
        )

    def report(self, event: Event) -> None:
        """Add an event to the run's stream."""
        self.services.report(event)

    def show_text(self, piece: str, request: str | None = None) -> None:
        """Let readers see a piece of a model's text as it arrives.

        ``request`` is the id of the request that it answers, when that is traced.
        """
        if self._within is not None and not self._shown:
            self._within.holds_text(self)
        self._shown += len(piece)
        self.services.report(TokenDelta(self.name, piece, self.path, self.speaker, request))

    def holds_text(self, inner: "NodeContext") -> None:
        """Note that an execution inside this one has shown text."""
        if self._within is not None and not self._inside:
            self._within.holds_text(self)
        self._inside.append(inner)

    @property
    def shown_text(self) -> int:
        """How many characters of this execution's text readers have before them."""
        return self._shown

    def discard_text(self, keep: int = 0) -> None:
        """Have readers take away what they were shown, all but the first ``keep``.

        What executions inside it have shown goes as well.
        """
        while self._inside:
            self._inside.pop().discard_text()
        if self._shown > keep:
            dropped = self._shown - keep
            self.services.report(
                TokensDiscarded(self.name, dropped, self.path, self.speaker)
            )
            self._shown = keep

    def say(self, message: Message) -> None:
        """Add a message to the flow's conversation."""
        self.conversation.messages.append(message)
        sender: Final = "agent" if message.role == "assistant" else "user"
        self.services.report(MessageSaid(self.name, sender, message.content, self.path))

    async def enter(
        self,
        plan: "Plan",
        state: State,
        *place: int,
        conversation: Conversation | None = None,
    ) -> Ended:
        """Walk a flow inside this execution.

        Args:
            plan: The flow.
            state: What it begins with.
            place: Which of the walks of this execution it is, when there are several.
            conversation: One of its own; None to share that of the node's flow.

        Raises:
            SubflowFailed: A node of it failed, or it came to a place with no way on.
            RunFailed: The run ends.
        """
        shared = self.conversation if conversation is None else conversation
        trace = self.run.trace
        try:
            if trace is None:
                ended: Ended = await self.run.enter(plan, state, self, place, shared)
            else:
                ended = await trace.entering(self, plan, state, place, shared)
        except (NodeFailed, NoWayOn) as inside:
            if isinstance(inside, NoWayOn) and inside.by is not None:
                raise  # what a policy did ends the run
            raise SubflowFailed(inside) from inside
        self.run.at = self.node
        return ended

    def warn(self, message: str) -> None:
        """Report a warning about this node."""
        self.services.report(Warned(message, self.name, self.path))

    def warn_of_policy(self, did: "PolicyWarning") -> None:
        """Report what a policy did at this node and that is never silent."""
        seam = f"{did.seam}.{did.half}"
        self.services.report(
            Warned(str(did), self.name, self.path, did.component_type, did.plugin, seam)
        )

    def warn_once(self, message: str) -> None:
        """Report a warning about this node, the first time that the run meets it."""
        if self.run.first_time(self.name, message):
            self.warn(message)

    def count_model_call(self) -> None:
        """Count a request to a model, for this execution and for the run."""
        self.model_calls += 1
        if self.speaker is not None and self._within is not None:
            self._within.count_model_call()
        else:
            self.run.model_calls += 1

    def spend(self, usage: Usage | None) -> None:
        """Count a model call's tokens for this execution and for the run."""
        self.usage = total(self.usage, usage)
        if self.speaker is not None and self._within is not None:
            self._within.spend(usage)
        else:
            self.run.spend(usage)


def total(one: Usage | None, other: Usage | None) -> Usage | None:
    """Both together; what is unknown is left out, and two unknowns are unknown."""
    if one is None or other is None:
        return one or other
    return one + other


class Pure(Struct, frozen=True):
    """Work that only transforms the state; ``checks``: holds it against types, too."""

    step: Callable[[State], Result]
    checks: bool = False


class Waiting(Struct, frozen=True):
    """Work that waits: for a model, a tool, a process."""

    execute: Callable[[State, NodeContext], Awaitable[Result]]


Work = Pure | Waiting
