"""What a run tells about itself: an ordered stream of frozen events, as on the wire.

    {"type": "node_start", "nodeName": "ask", "nodeType": "AgentNode", "state": {…},
     "attempt": 1}

Contract version 1: fields may be added, none is renamed or removed. Every reader (the
terminal, SSE, WebSocket, encoders, chat) renders this one stream. Those of traced runs
come only where somebody asked for them: they hold all that models are sent.
"""

from typing import Any, Final, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from plugins_host import Message, ModelRequest, NodePath, Usage

EVENT_CONTRACT: Final = 1


class ErrorInfo(Struct, frozen=True):
    """An error as readers and policies are shown it: its class and its sentence."""

    name: str
    message: str


class RunEvent(Struct, frozen=True, tag_field="type", rename="camel", omit_defaults=True):
    """Base of every event. The tag is the word on the wire.

    ``node_path`` is there for nodes of sub-flows: from the outermost node to this one.
    ``agent`` is there when several agents work in one node: the name of the one whose
    text or tool call it is.
    """


class FlowStarted(RunEvent, frozen=True, tag="flow_start"):
    """The first event of every run."""


class NodeStarted(RunEvent, frozen=True, tag="node_start"):
    """An execution of a node begins; ``state`` is what it is given."""

    node_name: str
    node_type: str
    state: dict[str, Any]
    attempt: int
    node_path: NodePath | None = None


class NodeCompleted(RunEvent, frozen=True, tag="node_complete"):
    """An execution settled; ``state`` is the node's own output.

    ``usage`` are the tokens of its model calls, absent when no provider counted any;
    ``model_calls`` is how many requests it sent, those that failed too. ``branch`` is
    there when the node chose one.
    """

    node_name: str
    node_type: str
    state: dict[str, Any]
    attempt: int
    usage: Usage | None = None
    node_path: NodePath | None = None
    model_calls: int = 0
    branch: str | None = None


class NodeFailed(RunEvent, frozen=True, tag="node_error"):
    """An execution failed. A policy may still retry or replace it."""

    node_name: str
    node_type: str
    error: ErrorInfo
    attempt: int
    node_path: NodePath | None = None
    usage: Usage | None = None
    model_calls: int = 0


class TokenDelta(RunEvent, frozen=True, tag="token_delta"):
    """A piece of a model's text as it arrives.

    ``request_id`` is that of its ``model_request``, in a traced run.
    """

    node_name: str
    delta: str
    node_path: NodePath | None = None
    agent: str | None = None
    request_id: str | None = None


class TokensDiscarded(RunEvent, frozen=True, tag="token_discard"):
    """The last ``characters`` of this node's streamed text are not part of its answer.

    A model call that had streamed text is being made again, or was given another answer:
    whoever shows the text takes that much of its end away.
    """

    node_name: str
    characters: int
    node_path: NodePath | None = None
    agent: str | None = None


class ToolCalled(RunEvent, frozen=True, tag="tool_call"):
    """A tool begins. ``started_at`` is seconds since the epoch.

    ``round`` is which answer of the agent's model asked for it, from 1.
    """

    node_name: str
    tool_name: str
    tool_args: Any
    tool_call_id: str
    started_at: float
    node_path: NodePath | None = None
    agent: str | None = None
    round: int | None = None


class ToolReturned(RunEvent, frozen=True, tag="tool_result"):
    """A tool ended: ``tool_result`` or ``error``. ``duration`` is in milliseconds."""

    node_name: str
    tool_name: str
    tool_call_id: str
    duration: float
    tool_result: Any = None
    error: ErrorInfo | None = None
    node_path: NodePath | None = None
    agent: str | None = None


class ConfirmationAsked(RunEvent, frozen=True, tag="confirmation_request"):
    """A person is asked whether a tool may run. ``tool_call_id`` is that of its
    ``tool_call``; a ToolNode's tool has none, unless the run is traced."""

    node_name: str
    tool_name: str
    tool_args: Any
    tool_call_id: str | None = None
    node_path: NodePath | None = None
    agent: str | None = None


class ConfirmationGiven(RunEvent, frozen=True, tag="confirmation_response"):
    """What the person decided; ``reason`` is theirs, for a no."""

    node_name: str
    tool_name: str
    approved: bool
    reason: str | None = None
    tool_call_id: str | None = None
    node_path: NodePath | None = None
    agent: str | None = None


class Warned(RunEvent, frozen=True, tag="warning"):
    """Something that the operator should know and that does not end the run.

    Where a policy is what it is about, ``policy`` is its component type, ``plugin`` where
    that comes from and ``seam`` where it was asked, such as ``toolCall.before``.
    """

    message: str
    node_name: str | None = None
    node_path: NodePath | None = None
    policy: str | None = None
    plugin: str | None = None
    seam: str | None = None


class MessageSaid(RunEvent, frozen=True, tag="message"):
    """The conversation of the flow got a message: of the agent, or of the user."""

    node_name: str
    sender: Literal["agent", "user"]
    message: str
    node_path: NodePath | None = None


class PluginLogged(RunEvent, frozen=True, tag="plugin_log"):
    """A line that a plugin wrote with ``log``."""

    node_name: str
    node_type: str
    level: str
    message: str
    node_path: NodePath | None = None


class PluginEmitted(Struct, frozen=True, rename="camel"):
    """What a plugin published with ``emitEvent``.

    Its type on the wire is ``plugin:<component type>:<name>``, so no tag can stand for it.
    """

    type: str
    node_name: str
    node_type: str
    data: Any = None
    node_path: NodePath | UnsetType = UNSET


class FlowCompleted(RunEvent, frozen=True, tag="flow_complete"):
    """The last event of a run that ended well; ``state`` is its result.

    ``usage`` are the tokens of all its model calls, of abandoned attempts too; absent
    when no provider counted any. ``model_calls`` is how many there were.
    """

    state: dict[str, Any]
    usage: Usage | None = None
    model_calls: int = 0


# --- of traced runs ---------------------------------------------------------------------


class SubflowStarted(RunEvent, frozen=True, tag="subflow_start"):
    """Traced runs: a flow inside a node begins. ``node_path`` has the node's name last, and
    behind it a number where the node has several flows under way."""

    node_name: str
    flow: str
    state: dict[str, Any]
    node_path: NodePath


class SubflowCompleted(RunEvent, frozen=True, tag="subflow_complete"):
    """Traced runs: a flow inside a node reached an end. ``branch`` is what its EndNode
    names, when it names one."""

    node_name: str
    flow: str
    state: dict[str, Any]
    node_path: NodePath
    branch: str | None = None


class AgentStarted(RunEvent, frozen=True, tag="agent_start"):
    """Traced runs: an agent, or a team of them, begins a piece of work.

    ``agent_type`` is its component type, ``state`` what it is given. ``agent_id`` is this
    piece of work among all of the run; ``within`` is that of the team that it works in, or
    of the agent that asked it.
    """

    node_name: str
    agent: str
    agent_type: str
    agent_id: str
    state: dict[str, Any]
    within: str | None = None
    node_path: NodePath | None = None


class AgentCompleted(RunEvent, frozen=True, tag="agent_complete"):
    """Traced runs: an agent has done its work. ``state`` is its output; in its place there
    is ``handed_to``, who goes on, when it handed the conversation over."""

    node_name: str
    agent: str
    agent_type: str
    agent_id: str
    state: dict[str, Any] | None = None
    handed_to: str | None = None
    node_path: NodePath | None = None


class ModelAsked(RunEvent, frozen=True, tag="model_request"):
    """Traced runs: a request is sent to a model, each attempt by itself.

    ``llm`` is the name of the LLM configuration; ``request`` is all that is sent, as
    policies at ``modelCall.before`` left it, and no credential. ``agent_id`` is the piece
    of work that it belongs to, when an agent asks.
    """

    node_name: str
    request_id: str
    llm: str
    request: ModelRequest
    node_path: NodePath | None = None
    agent: str | None = None
    agent_id: str | None = None


class ModelAnswered(RunEvent, frozen=True, tag="model_response"):
    """Traced runs: a model's answer, as it came, or the ``error`` in its place.

    ``response`` has ``content``, ``finish_reason``, ``tool_calls`` and ``usage``, the last
    two where there are any. ``duration`` is in milliseconds.
    """

    node_name: str
    request_id: str
    llm: str
    duration: float
    response: dict[str, Any] | None = None
    error: ErrorInfo | None = None
    node_path: NodePath | None = None
    agent: str | None = None
    agent_id: str | None = None


class InputAsked(RunEvent, frozen=True, tag="input_request"):
    """Traced runs: an InputMessageNode waits for a person. ``message`` is what it asks,
    when it asks something."""

    node_name: str
    request_id: str
    message: str | None = None
    node_path: NodePath | None = None


class InputGiven(RunEvent, frozen=True, tag="input_response"):
    """Traced runs: what the person answered."""

    node_name: str
    request_id: str
    message: str
    node_path: NodePath | None = None


class StateShown(RunEvent, frozen=True, tag="state_snapshot"):
    """Traced runs: what a flow carries on once this node has settled, its conversation
    too."""

    node_name: str
    state: dict[str, Any]
    conversation: tuple[Message, ...] = ()
    node_path: NodePath | None = None


Traced: TypeAlias = (
    SubflowStarted
    | SubflowCompleted
    | AgentStarted
    | AgentCompleted
    | ModelAsked
    | ModelAnswered
    | InputAsked
    | InputGiven
    | StateShown
)

Event: TypeAlias = (
    FlowStarted
    | NodeStarted
    | NodeCompleted
    | NodeFailed
    | TokenDelta
    | TokensDiscarded
    | ToolCalled
    | ToolReturned
    | ConfirmationAsked
    | ConfirmationGiven
    | Warned
    | MessageSaid
    | PluginLogged
    | PluginEmitted
    | FlowCompleted
    | Traced
)
