"""The Responses API: a request to bytes, bytes to a response, with no I/O in sight.

{"model", "input": [message | function_call | function_call_output], "text"?, …}
{"status", "output": [{"type": "message" | "function_call", …}], "usage"}
{"type": "response.output_text.delta", "delta"}       an event of a streamed answer
{"type": "response.completed", "response": {…}}       its last one, with all of it
"""

from typing import Any, Final

import msgspec
from msgspec import Struct

from heddle.models.answers import EventReader, complaint, read
from heddle.models.errors import UnreadableAnswer
from plugins_host import Message, ModelRequest, ModelResponse, ToolCall, Usage

# Decided by who reads the answer, whatever the generation parameters say.
_STREAMING: Final = ("stream", "background")


class Piece(Struct, frozen=True):
    """A piece of a message's content."""

    type: str = ""
    text: str | None = None
    refusal: str | None = None


class Item(Struct, frozen=True):
    """An item of the output; those of other types are thoughts and the like."""

    type: str = ""
    content: list[Piece] | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None


class Incomplete(Struct, frozen=True):
    """Why an answer stopped early."""

    reason: str | None = None


class Tokens(Struct, frozen=True):
    """Usage on the wire."""

    input_tokens: float | None = None
    output_tokens: float | None = None


class Answer(Struct, frozen=True):
    """A whole answer."""

    status: str | None = None
    output: list[Item] | None = None
    usage: Tokens | None = None
    error: Any = None
    incomplete_details: Incomplete | None = None


class StreamEvent(Struct, frozen=True):
    """An event of a streamed answer, of whatever type."""

    type: str = ""
    delta: Any = None
    response: Answer | None = None
    message: str | None = None
    code: Any = None
    error: Any = None


_ANSWER: Final = msgspec.json.Decoder(Answer)
_EVENT: Final = msgspec.json.Decoder(StreamEvent)
_ENCODER: Final = msgspec.json.Encoder()

# Compared one after the other: nearly all events are the first, and none is hashed.
_TEXT: Final = ("response.output_text.delta", "response.refusal.delta")
_LAST: Final = frozenset({"response.completed", "response.incomplete", "response.failed"})


def encode(request: ModelRequest, stream: bool, limit_name: str) -> bytes:
    """The body of a request. ``limit_name`` is of the other protocol: there is one here."""
    del limit_name
    body: dict[str, Any] = {
        # Nothing is kept at the provider: each request holds the whole conversation.
        "store": False,
        **request.parameters,
        "model": request.model,
        "input": [item for message in request.messages for item in _items(message)],
    }
    for name in _STREAMING:
        body.pop(name, None)
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
                "strict": False,
            }
            for tool in request.tools
        ]
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.max_tokens is not None:
        body["max_output_tokens"] = request.max_tokens
    if request.top_p is not None:
        body["top_p"] = request.top_p
    if request.response_format == "json" or request.response_schema is not None:
        body["text"] = {"format": _format(request.response_schema)}
    if stream:
        body["stream"] = True
    return _ENCODER.encode(body)


def _items(message: Message) -> list[dict[str, Any]]:
    if message.role == "tool":
        return [
            {
                "type": "function_call_output",
                "call_id": message.tool_call_id,
                "output": message.content,
            }
        ]
    items: list[dict[str, Any]] = []
    if message.content or not message.tool_calls:
        items.append({"role": message.role, "content": message.content})
    items += (
        {
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
        }
        for call in message.tool_calls
    )
    return items


def _format(schema: dict[str, Any] | None) -> dict[str, Any]:
    if schema is None:
        return {"type": "json_object"}
    return {"type": "json_schema", "name": "answer", "schema": schema, "strict": False}


def decode(body: bytes) -> ModelResponse:
    """A whole answer.

    Raises:
        UnreadableAnswer: The body is no answer.
        ProviderComplaint: It is an error in the shape of one.
    """
    return _response(read(_ANSWER, body))


def _response(answer: Answer) -> ModelResponse:
    if answer.error is not None:
        raise complaint(answer.error)
    if answer.output is None:
        raise UnreadableAnswer("the answer has no output")
    if answer.status not in (None, "completed", "incomplete"):
        raise UnreadableAnswer(f"the answer has status {answer.status!r}", retryable=True)
    content = "".join(
        piece.text or piece.refusal or ""
        for item in answer.output
        if item.type == "message"
        for piece in item.content or ()
    )
    calls = tuple(
        ToolCall(item.call_id or "", item.name or "", item.arguments or "{}")
        for item in answer.output
        if item.type == "function_call"
    )
    return ModelResponse(
        content=content,
        finish_reason=_finish_reason(answer, calls),
        tool_calls=calls,
        usage=_usage(answer.usage),
    )


def _finish_reason(answer: Answer, calls: tuple[ToolCall, ...]) -> str:
    """In the words of chat completions, which is what policies know."""
    if answer.status == "incomplete":
        reason = answer.incomplete_details and answer.incomplete_details.reason
        return "length" if reason in (None, "max_output_tokens") else str(reason)
    return "tool_calls" if calls else "stop"


def _usage(tokens: Tokens | None) -> Usage | None:
    if tokens is None or tokens.input_tokens is None or tokens.output_tokens is None:
        return None
    return Usage(int(tokens.input_tokens), int(tokens.output_tokens))


class ResponseStream(EventReader[StreamEvent]):
    """Takes the text from the pieces of a stream, and the answer from its last event."""

    def __init__(self) -> None:
        super().__init__(_EVENT.decode)
        self._answer: Answer | None = None

    @property
    def finished(self) -> bool:
        """Whether the answer is whole."""
        return self._answer is not None

    def take(self, event: StreamEvent) -> str | None:
        """What an event adds; the text in it.

        Raises:
            ProviderComplaint: It is an error.
        """
        if event.type in _TEXT and isinstance(event.delta, str):
            return event.delta
        if event.type in _LAST and event.response is not None:
            self._answer = event.response
            self.done = True
        elif event.type == "error" or event.error is not None:
            raise complaint(
                event.error or {"message": event.message or "", "code": event.code}
            )
        return None

    def response(self) -> ModelResponse:
        """The whole answer.

        Raises:
            UnreadableAnswer: The stream ended before the last event.
            ProviderComplaint: The last event says that the answer failed.
        """
        if self._answer is None:
            raise UnreadableAnswer("the stream ended before the answer did", retryable=True)
        return _response(self._answer)
