"""The Responses API carries the same conversations in its own words."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.http.sse import SseEvent
from heddle.models import responses
from heddle.models.errors import ProviderComplaint, UnreadableAnswer
from heddle.models.responses import ResponseStream
from plugins_host.conversation import (
    Message,
    ModelRequest,
    ModelResponse,
    ToolCall,
    ToolDefinition,
    Usage,
)
from tests.heddle.models.support import ask


def sent(request: ModelRequest, *, stream: bool = False) -> Any:
    return json.loads(responses.encode(request, stream, "max_tokens"))


def whole(**answer: Any) -> ModelResponse:
    return responses.decode(json.dumps(answer).encode())


def message(*parts: Any) -> Any:
    return {"type": "message", "role": "assistant", "content": list(parts)}


def text(words: str) -> Any:
    return {"type": "output_text", "text": words, "annotations": []}


def stream(*events: Any) -> tuple[ResponseStream, list[str]]:
    reader = ResponseStream()
    return reader, reader.feed(SseEvent(json.dumps(event).encode()) for event in events)


def test_a_request_says_what_was_asked_and_keeps_nothing_there() -> None:
    assert sent(ask()) == {
        "model": "m-1",
        "input": [{"role": "user", "content": "hi"}],
        "store": False,
    }


def test_parameters_have_their_names_here() -> None:
    tool = ToolDefinition("add", "Adds.", {"type": "object"})
    request = ask(
        temperature=0.5,
        max_tokens=5,
        top_p=0.1,
        tools=(tool,),
        parameters={"seed": 1, "store": True, "stream": True},
        response_schema={"type": "object"},
    )

    body = sent(request, stream=True)

    assert body == {
        "model": "m-1",
        "input": [{"role": "user", "content": "hi"}],
        "store": True,
        "seed": 1,
        "temperature": 0.5,
        "max_output_tokens": 5,
        "top_p": 0.1,
        "tools": [
            {
                "type": "function",
                "name": "add",
                "description": "Adds.",
                "parameters": {"type": "object"},
                "strict": False,
            }
        ],
        "text": {
            "format": {
                "type": "json_schema",
                "name": "answer",
                "schema": {"type": "object"},
                "strict": False,
            }
        },
        "stream": True,
    }
    assert sent(ask(response_format="json"))["text"] == {"format": {"type": "json_object"}}
    assert "stream" not in sent(request)


def test_calls_and_their_answers_are_items_of_their_own() -> None:
    call = ToolCall("c1", "add", '{"a":2}')
    request = ModelRequest(
        model="m",
        messages=(
            Message("system", "Be short."),
            Message("user", "2+3?"),
            Message("assistant", "Let me see.", (call,)),
            Message("tool", '{"sum":5}', tool_call_id="c1"),
            Message("assistant", "", (call,)),
            Message("assistant", ""),
        ),
    )

    made = {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a":2}'}
    assert sent(request)["input"] == [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "2+3?"},
        {"role": "assistant", "content": "Let me see."},
        made,
        {"type": "function_call_output", "call_id": "c1", "output": '{"sum":5}'},
        made,
        {"role": "assistant", "content": ""},
    ]


def test_a_whole_answer_is_read() -> None:
    answer = whole(
        status="completed",
        error=None,
        output=[
            {"type": "reasoning", "summary": []},
            message(text("a"), text("b")),
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
            {"type": "function_call", "name": "g"},
        ],
        usage={"input_tokens": 3, "output_tokens": 5},
    )

    assert answer == ModelResponse(
        "ab",
        "tool_calls",
        (ToolCall("c1", "f", "{}"), ToolCall("", "g", "{}")),
        Usage(3, 5),
    )


def test_a_refusal_is_text() -> None:
    part = {"type": "refusal", "refusal": "I won't"}

    assert whole(output=[message(part)]) == ModelResponse("I won't", "stop")


@pytest.mark.parametrize(
    ("details", "reason"),
    [
        (None, "length"),
        ({"reason": "max_output_tokens"}, "length"),
        ({"reason": "content_filter"}, "content_filter"),
    ],
)
def test_why_an_answer_stopped_early_is_said_in_the_common_words(
    details: Any, reason: str
) -> None:
    answer = whole(status="incomplete", incomplete_details=details, output=[])

    assert answer.finish_reason == reason


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"output": 7}', b"[" * 100_000])
def test_what_is_no_answer_is_refused(body: bytes) -> None:
    with pytest.raises(UnreadableAnswer):
        responses.decode(body)


def test_an_answer_that_is_not_finished_is_none() -> None:
    with pytest.raises(UnreadableAnswer, match="'in_progress'"):
        whole(status="in_progress", output=[])


def test_an_error_inside_a_good_answer_is_the_providers() -> None:
    with pytest.raises(ProviderComplaint, match="no"):
        whole(error={"message": "no", "code": "server_error"}, output=[])


def test_the_text_of_a_stream_is_handed_on_and_the_last_event_holds_the_answer() -> None:
    answer = {"status": "completed", "output": [message(text("Hello"))]}

    reader, pieces = stream(
        {"type": "response.created", "response": {"status": "in_progress"}},
        {"type": "response.output_text.delta", "delta": "Hel"},
        {"type": "response.function_call_arguments.delta", "delta": "{"},
        {"type": "response.output_text.delta", "delta": "lo"},
        {"type": "response.completed", "response": answer},
        {"type": "nobody reads on"},
    )

    assert pieces == ["Hel", "lo"]
    assert reader.done
    assert reader.finished
    assert reader.response() == ModelResponse("Hello")


def test_a_stream_that_ends_early_is_an_error_worth_a_retry() -> None:
    reader, _ = stream({"type": "response.output_text.delta", "delta": "Hel"})
    reader.feed([SseEvent(b"[DONE]")])

    assert not reader.finished
    with pytest.raises(UnreadableAnswer, match="ended before the answer") as caught:
        reader.response()
    assert caught.value.retryable


@pytest.mark.parametrize(
    "event",
    [
        {"type": "error", "message": "no", "code": "x"},
        {"type": "error", "error": {"message": "no"}},
        {"error": {"message": "no"}},
    ],
)
def test_an_error_in_the_middle_is_the_providers(event: Any) -> None:
    with pytest.raises(ProviderComplaint, match="no"):
        stream(event)


def test_a_failed_answer_is_the_providers_error() -> None:
    failed = {"status": "failed", "error": {"message": "no"}, "output": []}
    reader, _ = stream({"type": "response.failed", "response": failed})

    with pytest.raises(ProviderComplaint, match="no"):
        reader.response()


@given(st.binary())
def test_any_bytes_are_an_answer_or_an_error(data: bytes) -> None:
    for read in (
        lambda: responses.decode(data),
        lambda: ResponseStream().feed([SseEvent(data)]),
    ):
        try:
            read()
        except (UnreadableAnswer, ProviderComplaint):
            continue
