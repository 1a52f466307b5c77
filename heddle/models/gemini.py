"""The Gemini API: a request to bytes, bytes to a response, with no I/O in sight.

POST …/models/MODEL:generateContent                   or :streamGenerateContent?alt=sse
{"contents": [{"role", "parts": [{"text"} | {"functionCall"} | {"functionResponse"}]}], …}
{"candidates": [{"content": {"parts"}, "finishReason"}], "usageMetadata"}

A streamed answer is a series of the same objects. Calls have no ids there, so they are
given some; what a tool answered is sent back under the tool's name. The signature of the
thoughts before a call goes back with it, as it came: newer models refuse a call without.
"""

import os
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec
from msgspec import Struct

from heddle.models.answers import EventReader, complaint, read
from heddle.models.asking import arguments_of, as_object, json_wanted
from heddle.models.errors import ProviderComplaint, UnreadableAnswer
from plugins_host import Message, ModelRequest, ModelResponse, ToolCall, Usage

_FINISHED: Final[Mapping[str, str]] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    **dict.fromkeys(
        ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"),
        "content_filter",
    ),
}
"""Why an answer ended, in the words of chat completions, which policies know."""


class FunctionCall(Struct, frozen=True):
    """A call that the model asks for."""

    name: str = ""
    args: Any = None


class Part(Struct, frozen=True, rename="camel"):
    """A piece of a message; ``thought`` are those that are no part of the answer."""

    text: str | None = None
    thought: bool = False
    function_call: FunctionCall | None = None
    thought_signature: str | None = None


class Content(Struct, frozen=True):
    """A message."""

    parts: list[Part] | None = None


class Candidate(Struct, frozen=True, rename="camel"):
    """An answer."""

    content: Content | None = None
    finish_reason: str | None = None


class Tokens(Struct, frozen=True, rename="camel"):
    """Usage on the wire; thoughts are paid for like answers."""

    prompt_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None


class Feedback(Struct, frozen=True, rename="camel"):
    """Why a prompt was not answered."""

    block_reason: str | None = None


class Answer(Struct, frozen=True, rename="camel"):
    """A whole answer, or a piece of a streamed one."""

    candidates: list[Candidate] | None = None
    prompt_feedback: Feedback | None = None
    usage_metadata: Tokens | None = None
    error: Any = None


_ANSWER: Final = msgspec.json.Decoder(Answer)
_ENCODER: Final = msgspec.json.Encoder()

OWN: Final = "gemini"
"""What is kept with a call is under this name: ``{"thoughtSignature": …}``."""


def target(base: str, model: str, stream: bool) -> str:
    """Path and query of a request: they say which model is asked, and how."""
    path, _, query = base.partition("?")
    name = quote(model.removeprefix("models/"), safe="")
    method = "streamGenerateContent" if stream else "generateContent"
    parts = [*(["alt=sse"] if stream else []), *([query] if query else [])]
    return f"{path}/models/{name}:{method}{'?' if parts else ''}{'&'.join(parts)}"


def encode(request: ModelRequest, stream: bool, limit_name: str) -> bytes:
    """The body of a request; how it is answered is said by its `target`."""
    del stream, limit_name
    config: dict[str, Any] = dict(request.parameters)
    if request.temperature is not None:
        config["temperature"] = request.temperature
    if request.top_p is not None:
        config["topP"] = request.top_p
    if request.max_tokens is not None:
        config["maxOutputTokens"] = request.max_tokens
    body: dict[str, Any] = {"contents": _contents(request.messages)}
    system = [each.content for each in request.messages if each.role == "system"]
    if request.tools:
        # An answer in JSON and tools exclude each other there, so it is asked for in words.
        system += json_wanted(request)
        body["tools"] = [
            {
                "functionDeclarations": [
                    {
                        "name": tool.name,
                        "description": tool.description,
                        "parametersJsonSchema": tool.parameters,
                    }
                    for tool in request.tools
                ]
            }
        ]
    elif request.response_format == "json" or request.response_schema is not None:
        config["responseMimeType"] = "application/json"
        if request.response_schema is not None:
            config["responseJsonSchema"] = request.response_schema
    if any(system):
        text = "\n\n".join(each for each in system if each)
        body["systemInstruction"] = {"parts": [{"text": text}]}
    if config:
        body["generationConfig"] = config
    return _ENCODER.encode(body)


def _contents(messages: Iterable[Message]) -> list[dict[str, Any]]:
    called: dict[str, str] = {}
    turns: list[dict[str, Any]] = []
    for message in messages:
        if message.role == "system":
            continue
        called.update((call.id, call.name) for call in message.tool_calls)
        role = "model" if message.role == "assistant" else "user"
        parts = _parts(message, called)
        if turns and turns[-1]["role"] == role:
            turns[-1]["parts"] += parts
        elif parts:
            turns.append({"role": role, "parts": parts})
    return turns


def _parts(message: Message, called: Mapping[str, str]) -> list[dict[str, Any]]:
    if message.role == "tool":
        name = called.get(message.tool_call_id or "", "")
        answer = {"name": name, "response": as_object(message.content, "result")}
        return [{"functionResponse": answer}]
    parts: list[dict[str, Any]] = [{"text": message.content}] if message.content else []
    parts += (
        {
            "functionCall": {"name": call.name, "args": arguments_of(call)},
            **(call.provider_data or {}).get(OWN, {}),
        }
        for call in message.tool_calls
    )
    return parts


def decode(body: bytes) -> ModelResponse:
    """A whole answer.

    Raises:
        UnreadableAnswer: The body is no answer.
        ProviderComplaint: It is an error in the shape of one.
    """
    answer = GeminiStream()
    answer.take(read(_ANSWER, body))
    return answer.response()


class GeminiStream(EventReader[Answer]):
    """Puts an answer together from its pieces; a whole one is one piece."""

    def __init__(self) -> None:
        super().__init__(_ANSWER.decode)
        self._text: list[str] = []
        self._calls: list[ToolCall] = []
        self._reason: str | None = None
        self._usage: Tokens | None = None

    @property
    def finished(self) -> bool:
        """Whether the answer is whole."""
        return self._reason is not None

    def take(self, event: Answer) -> str:
        """What a piece adds; the text in it.

        Raises:
            ProviderComplaint: The provider does not answer.
        """
        if event.error is not None:
            raise complaint(event.error)
        blocked = event.prompt_feedback and event.prompt_feedback.block_reason
        if blocked:
            raise ProviderComplaint(f"the prompt was blocked: {blocked}", None)
        self._usage = event.usage_metadata or self._usage
        first = event.candidates[0] if event.candidates else Candidate()
        texts: list[str] = []
        for part in (first.content and first.content.parts) or ():
            if part.function_call is not None:
                self._calls.append(_call(part.function_call, part.thought_signature))
            elif part.text and not part.thought:
                texts.append(part.text)
        self._text += texts
        self._reason = first.finish_reason or self._reason
        self.done = self._reason is not None and self._usage is not None
        return "".join(texts)

    def response(self) -> ModelResponse:
        """The whole answer.

        Raises:
            UnreadableAnswer: There is none, or the stream ended before it.
        """
        if self._reason is None:
            raise UnreadableAnswer("the answer ended before its end", retryable=True)
        reason = _FINISHED.get(self._reason, self._reason.lower())
        return ModelResponse(
            content="".join(self._text),
            finish_reason="tool_calls" if self._calls and reason == "stop" else reason,
            tool_calls=tuple(self._calls),
            usage=_usage(self._usage),
        )


def _call(call: FunctionCall, signature: str | None) -> ToolCall:
    arguments = _ENCODER.encode(call.args or {}).decode()
    kept = None if signature is None else {OWN: {"thoughtSignature": signature}}
    return ToolCall(f"call_{os.urandom(8).hex()}", call.name, arguments, kept)


def _usage(tokens: Tokens | None) -> Usage | None:
    if tokens is None or tokens.prompt_token_count is None:
        return None
    told = (tokens.candidates_token_count, tokens.thoughts_token_count)
    return Usage(tokens.prompt_token_count, sum(each or 0 for each in told))
