"""Answers of models, in each protocol, whole and as streams."""

import json
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from heddle.http import SseEvent, SseParser
from heddle.models.dialects import DIALECTS, Dialect
from heddle.models.errors import ProviderComplaint, UnreadableAnswer
from plugins_host import Message, ModelRequest, ModelResponse
from tests.fuzz.target import Target, cut

DECLARED = (UnreadableAnswer, ProviderComplaint)


def read_whole(dialect: Dialect, data: bytes) -> None:
    """Any bytes are an answer, which any protocol can carry on, or an error."""
    with suppress(*DECLARED):
        carry_on(dialect.decode(data))


def read_stream(dialect: Dialect, data: bytes) -> None:
    """The same of a stream; how it is cut changes nothing about what it says."""
    pieces = cut(data)
    answer, text = said(dialect, [b"".join(pieces)])
    same, text_in_pieces = said(dialect, pieces)
    assert same == answer
    if isinstance(answer, ModelResponse):
        # Before an error, more of it is handed on when it comes in pieces.
        assert text_in_pieces == text
        carry_on(answer)


def said(dialect: Dialect, pieces: list[bytes]) -> tuple[ModelResponse | str, str]:
    """What a stream comes to, or which error, and the text that was handed on."""
    stream, parser, text = dialect.stream(), SseParser(), ""
    try:
        for piece in pieces:
            text += _fed(stream.feed(parser.feed(piece)))
            if stream.done:
                break
        if not stream.done:
            with suppress(UnreadableAnswer):
                text += _fed(stream.feed(parser.end()))
        return _without_own_ids(stream.response()), text
    except DECLARED as error:
        return f"{type(error).__name__}: {error}", text


def _without_own_ids(answer: ModelResponse) -> ModelResponse:
    """The same with one id for calls that came without, and were given any."""
    calls = (
        replace(each, id="call" if each.id.startswith("call_") else each.id)
        for each in answer.tool_calls
    )
    return replace(answer, tool_calls=tuple(calls))


def read_error_event(dialect: Dialect, data: bytes) -> None:
    """What a stream tells as an event of that name."""
    stream = dialect.stream()
    with suppress(*DECLARED):
        stream.feed([SseEvent(data, b"error")])
        stream.response()


def _fed(pieces: list[str]) -> str:
    assert all(pieces), "a piece of no text"
    return "".join(pieces)


def carry_on(answer: ModelResponse) -> None:
    """What was answered can be told, and sent back to any model with what came of it."""
    msgspec.json.encode(answer)
    results = (Message("tool", "{}", tool_call_id=each.id) for each in answer.tool_calls)
    talk = (
        Message("user", "?"),
        Message("assistant", answer.content, answer.tool_calls),
        *results,
    )
    for dialect in DIALECTS.values():
        dialect.encode(ModelRequest("m", talk), True, "max_tokens")


def _lines(*events: Any) -> bytes:
    """A stream of these, cut nowhere."""
    return b"\x00" + b"".join(b"data: %b\n\n" % _json(each) for each in events)


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


CALL = {"index": 0, "id": "c", "function": {"name": "add", "arguments": '{"a":1}'}}
ANSWERS: Mapping[str, tuple[Any, ...]] = {
    "chat_completions": (
        {
            "choices": [
                {
                    "message": {"content": [{"type": "text", "text": "x"}]},
                    "finish_reason": "stop",
                }
            ],
            "usage": {"prompt_tokens": 1, "completion_tokens": 2},
        },
        {"choices": [{"message": {"content": None, "tool_calls": [CALL]}}]},
        {"error": {"message": "no", "code": 429}},
    ),
    "responses": (
        {
            "status": "completed",
            "output": [
                {"type": "reasoning", "id": "r", "summary": []},
                {"type": "message", "content": [{"type": "output_text", "text": "x"}]},
                {
                    "type": "function_call",
                    "call_id": "c",
                    "name": "add",
                    "arguments": "{}",
                },
            ],
            "usage": {"input_tokens": 1, "output_tokens": 2},
        },
        {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
        {"error": {"message": "no", "code": "rate_limit_exceeded"}},
    ),
    "messages": (
        {
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "text", "text": "x"},
                {"type": "tool_use", "id": "t", "name": "add", "input": {"a": 1}},
            ],
            "stop_reason": "tool_use",
            "usage": {"input_tokens": 1, "output_tokens": 2},
        },
        {"type": "error", "error": {"type": "overloaded_error", "message": "no"}},
    ),
    "gemini": (
        {
            "candidates": [
                {
                    "content": {
                        "parts": [
                            {"text": "x"},
                            {"text": "hm", "thought": True},
                            {
                                "functionCall": {"name": "add", "args": {"a": 1}},
                                "thoughtSignature": "s",
                            },
                        ]
                    },
                    "finishReason": "STOP",
                }
            ],
            "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 2},
        },
        {"promptFeedback": {"blockReason": "SAFETY"}},
        {"error": {"message": "no", "code": 503}},
    ),
}


def _delta(**delta: Any) -> Any:
    return {"choices": [{"index": 0, "delta": delta}]}


STREAMS: Mapping[str, tuple[bytes, ...]] = {
    "chat_completions": (
        _lines(
            _delta(content="x"),
            _delta(tool_calls=[CALL]),
            _delta(tool_calls=[{"index": 0, "function": {"arguments": "}"}}]),
            {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]},
            {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}},
        )
        + b"data: [DONE]\n\n",
    ),
    "responses": (
        _lines(
            {"type": "response.created", "response": {"status": "in_progress"}},
            {"type": "response.output_text.delta", "delta": "x"},
            {"type": "response.output_item.done", "item": {"type": "message"}},
            {"type": "response.completed", "response": ANSWERS["responses"][0]},
        ),
        _lines({"type": "response.failed", "response": ANSWERS["responses"][2]}),
        _lines({"type": "error", "message": "no", "code": "x"}),
    ),
    "messages": (
        _lines(
            {"type": "message_start", "message": {"usage": {"input_tokens": 1}}},
            {
                "type": "content_block_start",
                "index": 0,
                "content_block": {"type": "tool_use", "id": "t", "name": "add"},
            },
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "input_json_delta", "partial_json": '{"a":1}'},
            },
            {"type": "content_block_stop", "index": 0},
            {
                "type": "content_block_delta",
                "index": 1,
                "delta": {"type": "text_delta", "text": "x"},
            },
            {
                "type": "message_delta",
                "delta": {"stop_reason": "tool_use"},
                "usage": {"output_tokens": 2},
            },
            {"type": "message_stop"},
        ),
        _lines(ANSWERS["messages"][1]),
    ),
    "gemini": (
        _lines(ANSWERS["gemini"][0], {"candidates": [{"finishReason": "STOP"}]}),
        _lines(ANSWERS["gemini"][2]),
    ),
}

WORDS = (
    *(b"null", b"true", b"-1", b"1e999", b"0.5", b"[]", b"{}", b'""', b"[[[[", b"\\ud800"),
    *(b'{"', b'":', b'"},', b"}]}", b"data: ", b"\n\n", b"[DONE]", b"event: error\n"),
    *(b'"index":', b'"id":', b'"error":', b'"code":', b'"name":', b'"arguments":'),
)


def _targets() -> dict[str, Target]:
    made: dict[str, Target] = {}
    for name, dialect in DIALECTS.items():
        short = name.replace("_", "-")
        made[f"model-{short}"] = Target(
            partial(_read, dialect), tuple(map(_json, ANSWERS[name])), WORDS
        )
        made[f"model-{short}-stream"] = Target(
            partial(read_stream, dialect), STREAMS[name], WORDS
        )
    return made


def _read(dialect: Dialect, data: bytes) -> None:
    read_whole(dialect, data)
    read_error_event(dialect, data)


MODELS = _targets()
