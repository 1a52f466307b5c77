"""Chat completions: a request to bytes, bytes to a response, with no I/O in sight.

    {"model", "messages", "tools"?, "response_format"?, "stream"?, …}       to the model
    {"choices": [{"message": {"content", "tool_calls"}, "finish_reason"}], "usage"}
    {"choices": [{"delta":   {"content", "tool_calls"}, "finish_reason"}], "usage"}
                                                         one chunk of a streamed answer

Providers agree on the outline and differ in the rest, so the readers here take what is
there: content null or in parts, arguments as an object, fragments of tool calls in any
order, without ids or without an index, usage in the last chunk, in each, or nowhere.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec import Struct

from heddle.http import SseEvent
from heddle.models.answers import DONE, complaint, read
from heddle.models.errors import ProviderComplaint, UnreadableAnswer
from plugins_host import (
    Message,
    ModelRequest,
    ModelResponse,
    ToolCall,
    ToolDefinition,
    Usage,
)

# Decided by who reads the answer, whatever the generation parameters say.
_STREAMING: Final = ("stream", "stream_options")


class Part(Struct, frozen=True):
    """A piece of content, where a provider sends content as a list."""

    type: str = "text"
    text: str | None = None


class Function(Struct, frozen=True):
    """Name and arguments of a call, or a fragment of them."""

    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class CallFragment(Struct, frozen=True):
    """A tool call, or the next piece of one."""

    index: int | None = None
    id: str | None = None
    function: Function | None = None
    extra_content: dict[str, Any] | None = None


class Said(Struct, frozen=True):
    """A message, or the next piece of one."""

    content: str | list[Part] | None = None
    refusal: str | None = None
    tool_calls: list[CallFragment] | None = None


class Choice(Struct, frozen=True):
    """One of the alternatives; ``message`` in a whole answer, ``delta`` in a chunk."""

    index: int | None = None
    message: Said | None = None
    delta: Said | None = None
    finish_reason: str | None = None


class Tokens(Struct, frozen=True):
    """Usage on the wire."""

    prompt_tokens: float | None = None
    completion_tokens: float | None = None


class Completion(Struct, frozen=True):
    """A whole answer or a chunk of one."""

    choices: list[Choice] | None = None
    usage: Tokens | None = None
    error: Any = None


_DECODER: Final = msgspec.json.Decoder(Completion)
_ENCODER: Final = msgspec.json.Encoder()

OWN: Final = "chat_completions"
"""What is kept with a call is under this name: ``{"extra_content": …}``, in which Gemini's
endpoint of this protocol signs its thoughts."""


def encode(request: ModelRequest, stream: bool, limit_name: str) -> bytes:
    """The body of a request.

    Args:
        request: What is asked.
        stream: Whether the answer is to come in chunks, with the usage in the last.
        limit_name: The name under which this provider takes ``max_tokens``.
    """
    body: dict[str, Any] = {
        **request.parameters,
        "model": request.model,
        "messages": [_message(message) for message in request.messages],
    }
    for name in _STREAMING:
        body.pop(name, None)
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.max_tokens is not None:
        body[limit_name] = request.max_tokens
    if request.top_p is not None:
        body["top_p"] = request.top_p
    if request.response_format == "json" or request.response_schema is not None:
        body["response_format"] = _response_format(request.response_schema)
    if stream:
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}
    return _ENCODER.encode(body)


def _message(message: Message) -> Any:
    """A message as it is, unless it carries calls, which look different on this wire."""
    if not message.tool_calls:
        return message
    return {
        "role": message.role,
        "content": message.content or None,
        "tool_calls": [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
                **(call.provider_data or {}).get(OWN, {}),
            }
            for call in message.tool_calls
        ],
    }


def _tool(tool: ToolDefinition) -> dict[str, Any]:
    return {"type": "function", "function": tool}


def _response_format(schema: dict[str, Any] | None) -> dict[str, Any]:
    if schema is None:
        return {"type": "json_object"}
    # Not strict: strict mode refuses schemas with optional properties, and the engine
    # checks the answer in any case.
    return {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": schema, "strict": False},
    }


def decode(body: bytes) -> ModelResponse:
    """A whole answer, from its first choice.

    Raises:
        UnreadableAnswer: The body is no completion.
        ProviderComplaint: It is an error in the shape of an answer.
    """
    completion = read(_DECODER, body)
    if completion.error is not None:
        raise complaint(completion.error)
    choice = _first(completion.choices)
    if choice is None or (said := choice.message or choice.delta) is None:
        raise UnreadableAnswer("the answer has no choices")
    made = _whole_calls(said.tool_calls) if said.tool_calls else ()
    return ModelResponse(
        content=_text(said),
        finish_reason=choice.finish_reason or ("tool_calls" if made else "stop"),
        tool_calls=made,
        usage=_usage(completion.usage),
    )


def _whole_calls(fragments: list[CallFragment]) -> tuple[ToolCall, ...]:
    """Calls that are whole, each one of its own.

    An index or an id that repeats is the model's mistake here, and no sign that two
    calls are one.
    """
    calls = CallBuilder()
    for position, fragment in enumerate(fragments):
        calls.add(msgspec.structs.replace(fragment, index=position))
    return calls.calls()


def _error_event(data: bytes) -> ProviderComplaint:
    """The error in an event of that name, whatever its data look like."""
    try:
        value = msgspec.json.decode(data)
        return complaint(value.get("error", value) if isinstance(value, dict) else value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ProviderComplaint(data.decode("utf-8", "replace"), None)


def _first(choices: list[Choice] | None) -> Choice | None:
    """Of several alternatives, the one with index 0, else the first in the list."""
    if not choices:
        return None
    for choice in choices:
        if choice.index == 0:
            return choice
    return choices[0]


def _text(said: Said) -> str:
    content = said.content
    if content is None:
        return said.refusal or ""
    if isinstance(content, str):
        return content or said.refusal or ""
    return "".join(part.text or "" for part in content if part.type == "text")


def _usage(tokens: Tokens | None) -> Usage | None:
    if tokens is None or tokens.prompt_tokens is None or tokens.completion_tokens is None:
        return None
    return Usage(int(tokens.prompt_tokens), int(tokens.completion_tokens))


class _Call:
    """A tool call while it arrives."""

    __slots__ = ("arguments", "extra", "id", "index", "name", "number")

    def __init__(self, index: int, number: int) -> None:
        self.index = index
        self.number = number
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []
        self.extra: dict[str, Any] | None = None


class CallBuilder:
    """Puts tool calls together from fragments.

    A fragment belongs to the call of its index; without one, to the call of its id, else
    to the latest. An index that comes with another id and a name begins a new call, for
    providers that number all calls 0. The calls come out in the order of their index.
    """

    __slots__ = ("_by_id", "_by_index", "_calls", "_highest")

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        # The newest call of each: an answer may have very many.
        self._by_index: dict[int, _Call] = {}
        self._by_id: dict[str, _Call] = {}
        self._highest = -1

    def add(self, fragment: CallFragment) -> None:
        """Append ``fragment`` to the call that it belongs to."""
        call = self._find(fragment)
        if fragment.id and not call.id:
            call.id = fragment.id
            known = self._by_id.get(call.id)
            if known is None or known.number < call.number:
                self._by_id[call.id] = call
        if fragment.extra_content:
            if call.extra is None:
                call.extra = {}
            call.extra.update(fragment.extra_content)
        function = fragment.function
        if function is None:
            return
        if function.name and function.name != call.name:
            call.name += function.name
        if isinstance(function.arguments, str):
            call.arguments.append(function.arguments)
        elif function.arguments is not None:
            call.arguments.append(_ENCODER.encode(function.arguments).decode())

    def _find(self, fragment: CallFragment) -> _Call:
        index = fragment.index
        if index is not None:
            call = self._by_index.get(index)
            named = fragment.function is not None and bool(fragment.function.name)
            if call is not None and not (
                named and fragment.id and call.id and fragment.id != call.id
            ):
                return call
        else:
            if fragment.id:
                call = self._by_id.get(fragment.id)
            else:
                call = self._calls[-1] if self._calls else None
            if call is not None:
                return call
            index = self._highest + 1
        call = _Call(index, len(self._calls))
        self._calls.append(call)
        self._by_index[index] = call
        self._highest = max(self._highest, index)
        return call

    def calls(self) -> tuple[ToolCall, ...]:
        """The calls so far. No arguments at all are those of a tool without any."""
        ordered = sorted(self._calls, key=lambda call: call.index)
        return tuple(
            ToolCall(
                call.id,
                call.name,
                "".join(call.arguments) or "{}",
                None if call.extra is None else {OWN: {"extra_content": call.extra}},
            )
            for call in ordered
        )


class CompletionStream:
    """Puts an answer together from the events of a stream.

    No `EventReader`, which calls a method for each event: nearly all streams are of this
    protocol, and each of their tokens comes through here.
    """

    def __init__(self) -> None:
        self._text: list[str] = []
        self._calls = CallBuilder()
        self._finish_reason = ""
        self._usage: Usage | None = None
        self.done = False

    @property
    def finished(self) -> bool:
        """Whether the answer is whole; usage may still follow."""
        return bool(self._finish_reason)

    def feed(self, events: Iterable[SseEvent]) -> list[str]:
        """Take events in, and hand out the pieces of text in them, none of them empty.

        Raises:
            UnreadableAnswer: An event is no chunk of a completion.
            ProviderComplaint: The provider reports an error in the middle.
        """
        pieces: list[str] = []
        for event in events:
            data = event.data
            if data == DONE:
                self.done = True
                break
            if event.name == b"error":
                raise _error_event(data)
            chunk = read(_DECODER, data)
            if chunk.error is not None:
                raise complaint(chunk.error)
            if chunk.usage is not None:
                self._usage = _usage(chunk.usage) or self._usage
            if chunk.choices is None:
                continue
            for choice in chunk.choices:
                # Of several alternatives, the first.
                if choice.index:
                    continue
                said = choice.delta or choice.message
                if said is not None:
                    text = said.content
                    if not isinstance(text, str) or not text:
                        text = _text(said)
                    if text:
                        pieces.append(text)
                    if said.tool_calls:
                        for fragment in said.tool_calls:
                            self._calls.add(fragment)
                if choice.finish_reason:
                    self._finish_reason = choice.finish_reason
        self._text += pieces
        return pieces

    def response(self) -> ModelResponse:
        """The whole answer.

        Raises:
            UnreadableAnswer: The stream ended before a finish reason.
        """
        if not self._finish_reason:
            raise UnreadableAnswer(
                "the stream ended without a finish reason", retryable=True
            )
        return ModelResponse(
            content="".join(self._text),
            finish_reason=self._finish_reason,
            tool_calls=self._calls.calls(),
            usage=self._usage,
        )
