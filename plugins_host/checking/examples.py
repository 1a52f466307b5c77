"""What plugins are shown when they are tried: one of each thing that heddle shows.

    HALVES    questions to the halves of a seam, by seam and half
    EVENTS    one of each event of a run
    REQUEST   a request to a model, and RESPONSE its answer

Nothing here is asked; `promises` and `verbs` make questions of it.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from plugins_host.consulting.outcomes import Erred, Outcome, ShownError, Succeeded
from plugins_host.conversation import Message, ModelRequest, ModelResponse, ToolDefinition
from plugins_host.model_edits import response_fields
from plugins_host.payload import Payload
from plugins_host.seams import Half, NodeSubject, Seam, Subject, ToolSubject

_NODE: Final = NodeSubject("example", "AgentNode")
_TOOL: Final = ToolSubject("example", "AgentNode", "example_tool", "call-1")
REQUEST: Final = ModelRequest(
    "example-model",
    (Message("system", "You are an example."), Message("user", "Hello.")),
    (ToolDefinition("example_tool", "Does nothing.", {"type": "object"}),),
    temperature=0.5,
)
RESPONSE: Final = response_fields(ModelResponse("Hello, too."))
_TIMED_OUT: Final = Erred(ShownError("TimeoutError", "the example timed out"))
_BUSY: Final = Erred(ShownError("ModelError", "429: slow down", 429, 1000, True))


class Example(Struct, frozen=True):
    """One question to a half."""

    about: str
    subject: Subject
    given: Payload | None = None
    outcome: Outcome | None = None


HALVES: Final[Mapping[tuple[Seam, Half], tuple[Example, ...]]] = {
    (Seam.NODE_ERROR, Half.AFTER): (
        Example("a node that timed out", _NODE, outcome=_TIMED_OUT),
    ),
    (Seam.NODE, Half.BEFORE): (Example("a node", _NODE, Payload.of({"question": "Why?"})),),
    (Seam.NODE, Half.AFTER): (
        Example("a node's output", _NODE, outcome=Succeeded(Payload.of({"result": 1}))),
        Example("a node that timed out", _NODE, outcome=_TIMED_OUT),
    ),
    (Seam.TOOL_CALL, Half.BEFORE): (
        Example("a tool call", _TOOL, Payload.of({"cmd": "ls"})),
    ),
    (Seam.TOOL_CALL, Half.AFTER): (
        Example(
            "a tool's result",
            _TOOL,
            Payload.of({"cmd": "ls"}),
            Succeeded(Payload.of({"stdout": "example"})),
        ),
        Example("a tool that timed out", _TOOL, Payload.of({"cmd": "ls"}), _TIMED_OUT),
    ),
    (Seam.MODEL_CALL, Half.BEFORE): (
        Example("a model request", _NODE, Payload.of(REQUEST)),
    ),
    (Seam.MODEL_CALL, Half.AFTER): (
        Example("a model's answer", _NODE, outcome=Succeeded(Payload.of(RESPONSE))),
        Example("a model that answers 429", _NODE, outcome=_BUSY),
    ),
    (Seam.AGENT_ROUND, Half.BEFORE): (
        Example("a first round", _NODE, Payload.of({"round": 1, "maxRounds": 10})),
        Example("a tenth round", _NODE, Payload.of({"round": 10, "maxRounds": 10})),
    ),
    (Seam.AGENT_ROUND, Half.AFTER): (
        Example(
            "a round that ran a tool",
            _NODE,
            outcome=Succeeded(Payload.of({"round": 1, "toolCalls": ["example_tool"]})),
        ),
    ),
}

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
        "request": msgspec.to_builtins(REQUEST),
        "agentId": "agent-1",
    },
    {
        "type": "model_response",
        "nodeName": "example",
        "requestId": "model-1",
        "llm": "example",
        "duration": 12.5,
        "response": msgspec.to_builtins(RESPONSE),
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
