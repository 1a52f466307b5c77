"""The Messages API of Anthropic: a request to bytes, bytes to a response, no I/O in sight.

{"model", "max_tokens", "system"?, "messages": [{"role", "content": [block, …]}], …}
{"content": [{"type": "text"} | {"type": "tool_use"}], "stop_reason", "usage"}
{"type": "content_block_delta", "index", "delta"}     an event of a streamed answer
{"type": "message_stop"}                              its last one

Roles take turns there, so what follows one another under one role is one message. Thoughts
are signed, and go back before the call that they led to: without them it is refused.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from heddle.models.answers import EventReader, complaint, read
from heddle.models.asking import arguments_of, json_wanted
from heddle.models.errors import ProviderComplaint, UnreadableAnswer
from plugins_host import Message, ModelRequest, ModelResponse, ToolCall, Usage

MAX_TOKENS: Final = 8192
"""What is sent where the document sets no limit: the protocol requires one."""

_FINISHED: Final[Mapping[str, str]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
"""Why an answer ended, in the words of chat completions, which policies know."""

_STATUSES: Final[Mapping[str, int]] = {
    "rate_limit_error": 429,
    "api_error": 500,
    "overloaded_error": 529,
}
"""Errors in the middle of a stream have no status of their own."""


class Tokens(Struct, frozen=True):
    """Usage on the wire; what came from a cache is counted apart there."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None


class Block(Struct, frozen=True):
    """A piece of an answer: text, a call, a thought that may be hidden (``data``)."""

    type: str = ""
    text: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None


class Answer(Struct, frozen=True):
    """A whole answer."""

    content: list[Block] | None = None
    stop_reason: str | None = None
    usage: Tokens | None = None
    error: Any = None


class Delta(Struct, frozen=True):
    """What an event adds."""

    type: str = ""
    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None
    stop_reason: str | None = None


class StreamEvent(Struct, frozen=True):
    """An event of a streamed answer, of whatever type."""

    type: str = ""
    index: int = 0
    message: Answer | None = None
    content_block: Block | None = None
    delta: Delta | None = None
    usage: Tokens | None = None
    error: Any = None


_ANSWER: Final = msgspec.json.Decoder(Answer)
_EVENT: Final = msgspec.json.Decoder(StreamEvent)
_ENCODER: Final = msgspec.json.Encoder()

OWN: Final = "messages"
"""What is kept with a call is under this name: ``{"thoughts": [block, …]}``."""


def encode(request: ModelRequest, stream: bool, limit_name: str) -> bytes:
    """The body of a request. ``limit_name`` is of other protocols: there is one here."""
    del limit_name
    body: dict[str, Any] = {
        "max_tokens": MAX_TOKENS if request.max_tokens is None else request.max_tokens,
        **request.parameters,
        "model": request.model,
        "messages": _messages(request.messages),
    }
    body.pop("stream", None)
    system = [each.content for each in request.messages if each.role == "system"]
    system += json_wanted(request)
    if system:
        body["system"] = "\n\n".join(each for each in system if each)
    if request.tools:
        body["tools"] = [
            {
                "name": tool.name,
                "description": tool.description,
                "input_schema": tool.parameters,
            }
            for tool in request.tools
        ]
    elif used := {call.name for each in request.messages for call in each.tool_calls}:
        # Calls of a conversation that was handed over: they must be declared to be read.
        body["tools"] = [
            {"name": name, "input_schema": {"type": "object"}} for name in sorted(used)
        ]
        body["tool_choice"] = {"type": "none"}
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.top_p is not None:
        body["top_p"] = request.top_p
    if stream:
        body["stream"] = True
    return _ENCODER.encode(body)


def _messages(messages: Iterable[Message]) -> list[dict[str, Any]]:
    turns: list[dict[str, Any]] = []
    for message in messages:
        if message.role == "system":
            continue
        role = "assistant" if message.role == "assistant" else "user"
        blocks = _blocks(message)
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": role, "content": blocks})
    return turns


def _blocks(message: Message) -> list[dict[str, Any]]:
    if message.role == "tool":
        return [
            {
                "type": "tool_result",
                "tool_use_id": message.tool_call_id,
                "content": message.content,
            }
        ]
    text = [{"type": "text", "text": message.content}]
    if not message.tool_calls:
        return text if message.content else []  # an empty text is refused
    blocks: list[dict[str, Any]] = []
    for number, call in enumerate(message.tool_calls):
        blocks += (call.provider_data or {}).get(OWN, {}).get("thoughts", ())
        if number == 0 and message.content:
            blocks += text  # thoughts come first in a message that has any
        blocks.append(
            {
                "type": "tool_use",
                "id": call.id,
                "name": call.name,
                "input": arguments_of(call),
            }
        )
    return blocks


def decode(body: bytes) -> ModelResponse:
    """A whole answer.

    Raises:
        UnreadableAnswer: The body is no answer.
        ProviderComplaint: It is an error in the shape of one.
    """
    answer = read(_ANSWER, body)
    if answer.error is not None:
        raise _complaint(answer.error)
    if answer.content is None:
        raise UnreadableAnswer("the answer has no content")
    text = "".join(each.text or "" for each in answer.content if each.type == "text")
    calls = _calls(answer.content)
    return _response(text, calls, answer.stop_reason, answer.usage)


def _calls(blocks: Iterable[Block]) -> tuple[ToolCall, ...]:
    """The calls, each with the thoughts that came before it."""
    calls: list[ToolCall] = []
    thoughts: list[dict[str, Any]] = []
    for block in blocks:
        if block.type == "tool_use":
            arguments = block.input
            if not isinstance(arguments, str):  # that of a stream is put together already
                arguments = _ENCODER.encode(arguments or {}).decode()
            kept = {OWN: {"thoughts": thoughts}} if thoughts else None
            calls.append(ToolCall(block.id or "", block.name or "", arguments, kept))
            thoughts = []
        elif (thought := _thought(block)) is not None:
            thoughts.append(thought)
    return tuple(calls)


def _thought(block: Block) -> dict[str, Any] | None:
    """A signed thought as it is sent back; None for anything else."""
    if block.type == "redacted_thinking":
        return {"type": block.type, "data": block.data or ""}
    if block.type == "thinking" and block.signature:
        return {
            "type": block.type,
            "thinking": block.thinking or "",
            "signature": block.signature,
        }
    return None


def _response(
    text: str, calls: tuple[ToolCall, ...], reason: str | None, usage: Tokens | None
) -> ModelResponse:
    return ModelResponse(
        content=text,
        finish_reason=_FINISHED.get(reason or "end_turn", reason or "stop"),
        tool_calls=calls,
        usage=_usage(usage),
    )


def _usage(tokens: Tokens | None) -> Usage | None:
    if tokens is None or tokens.input_tokens is None or tokens.output_tokens is None:
        return None
    cached = (tokens.cache_creation_input_tokens, tokens.cache_read_input_tokens)
    return Usage(
        tokens.input_tokens + sum(each or 0 for each in cached), tokens.output_tokens
    )


def _complaint(error: Any) -> ProviderComplaint:
    made = complaint(error)
    kind = error.get("type") if isinstance(error, dict) else None
    status = _STATUSES.get(kind) if isinstance(kind, str) else None
    return made if status is None else ProviderComplaint(made.message, status)


class MessageStream(EventReader[StreamEvent]):
    """Puts a streamed answer together, block by block."""

    def __init__(self) -> None:
        super().__init__(_EVENT.decode)
        self._text: list[str] = []
        # Calls and thoughts by the index of their block, and the pieces of each of their
        # texts as they come.
        self._blocks: dict[int, tuple[Block, dict[str, list[str]]]] = {}
        self._reason: str | None = None
        self._usage: Tokens | None = None

    @property
    def finished(self) -> bool:
        """Whether the answer is whole."""
        return self._reason is not None

    def take(self, event: StreamEvent) -> str | None:
        """What an event adds; the text in it.

        Raises:
            ProviderComplaint: It is an error.
        """
        delta = event.delta
        if delta is not None and delta.type == "text_delta":  # nearly all events
            if delta.text:
                self._text.append(delta.text)
            return delta.text
        if event.type == "error" or event.error is not None:
            raise _complaint(event.error or {"message": "an error without a text"})
        if event.type == "message_stop":
            self.done = True
            return None
        block = event.content_block
        if event.message is not None:
            self._usage = event.message.usage
        if block is not None and block.type != "text":
            begun = _ENCODER.encode(block.input).decode() if block.input else ""
            self._blocks[event.index] = (
                block,
                {
                    "partial_json": [begun],
                    "thinking": [block.thinking or ""],
                    "signature": [block.signature or ""],
                },
            )
        if event.usage is not None:
            self._usage = _latest(self._usage, event.usage)
        if delta is not None:
            if delta.stop_reason is not None:
                self._reason = delta.stop_reason
            if event.index in self._blocks:
                for name, pieces in self._blocks[event.index][1].items():
                    pieces.append(getattr(delta, name) or "")
        elif block is not None and block.type == "text" and block.text:
            self._text.append(block.text)
            return block.text
        return None

    def response(self) -> ModelResponse:
        """The whole answer.

        Raises:
            UnreadableAnswer: The stream ended before it.
        """
        if self._reason is None:
            raise UnreadableAnswer("the stream ended before the answer did", retryable=True)
        blocks = (
            msgspec.structs.replace(
                block,
                input="".join(pieces["partial_json"]) or "{}",
                thinking="".join(pieces["thinking"]),
                signature="".join(pieces["signature"]),
            )
            for _, (block, pieces) in sorted(self._blocks.items(), key=lambda each: each[0])
        )
        text = "".join(self._text)
        return _response(text, _calls(blocks), self._reason, self._usage)


def _latest(before: Tokens | None, now: Tokens) -> Tokens:
    """Counts are told as they grow; the first event has those of the input."""
    if before is None:
        return now
    fields = {
        name: value
        for name in now.__struct_fields__
        if (value := getattr(now, name)) is not None
    }
    return msgspec.structs.replace(before, **fields)
