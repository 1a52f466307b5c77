"""Chat completions are written as providers expect, and read however they answer."""

import gc
import json
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.http.sse import SseEvent
from heddle.models import completion
from heddle.models.completion import (
    CallBuilder,
    CallFragment,
    CompletionStream,
    Function,
)
from heddle.models.errors import ProviderComplaint, UnreadableAnswer
from plugins_host.conversation import (
    Message,
    ModelRequest,
    ModelResponse,
    ToolCall,
    ToolDefinition,
    Usage,
)
from tests.heddle.models.support import ask
from tests.support.model_endpoint import Asked, Call, Reply, chunks, response


def sent(request: ModelRequest, *, stream: bool = False, limit: str = "max_tokens") -> Any:
    return json.loads(completion.encode(request, stream, limit))


def whole(**answer: Any) -> ModelResponse:
    return completion.decode(json.dumps(answer).encode())


def said(**message: Any) -> ModelResponse:
    return whole(choices=[{"message": message, "finish_reason": "stop"}])


def streamed(*chunks: Any) -> tuple[ModelResponse, list[str]]:
    stream = CompletionStream()
    pieces: list[str] = []
    for chunk in chunks:
        data = chunk if isinstance(chunk, bytes) else json.dumps(chunk).encode()
        pieces += stream.feed([SseEvent(data)])
    return stream.response(), pieces


def delta(finish: str | None = None, index: int = 0, **delta: Any) -> Any:
    return {"choices": [{"index": index, "delta": delta, "finish_reason": finish}]}


def calls(*fragments: Any) -> tuple[ToolCall, ...]:
    answer, _ = streamed(
        *(delta(tool_calls=[fragment]) for fragment in fragments), delta("tool_calls")
    )
    return answer.tool_calls


# Requests


def test_a_request_says_what_was_asked_and_nothing_more() -> None:
    assert sent(ask()) == {
        "model": "m-1",
        "messages": [{"role": "user", "content": "hi"}],
    }


def test_generation_parameters_go_by_their_own_names() -> None:
    request = ask(
        temperature=0.0, max_tokens=5, top_p=0.5, parameters={"seed": 7, "stop": ["."]}
    )

    body = sent(request)

    assert body["temperature"] == 0.0
    assert body["max_tokens"] == 5
    assert body["top_p"] == 0.5
    assert body["seed"] == 7
    assert body["stop"] == ["."]


def test_a_provider_may_call_the_limit_of_tokens_differently() -> None:
    body = sent(ask(max_tokens=5), limit="max_completion_tokens")

    assert body["max_completion_tokens"] == 5
    assert "max_tokens" not in body


def test_parameters_decide_neither_the_conversation_nor_the_way_it_is_read() -> None:
    request = ask(
        parameters={"model": "x", "messages": [], "stream": True, "stream_options": {}}
    )

    assert sent(request) == sent(ask())


def test_a_stream_is_asked_for_together_with_its_usage() -> None:
    body = sent(ask(), stream=True)

    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}


def test_tools_are_offered_as_functions() -> None:
    tool = ToolDefinition("add", "Adds.", {"type": "object"})

    assert sent(ask(tools=(tool,)))["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "add",
                "description": "Adds.",
                "parameters": {"type": "object"},
            },
        }
    ]


def test_a_conversation_with_tools_keeps_calls_and_answers() -> None:
    request = ModelRequest(
        model="m",
        messages=(
            Message("user", "2+3?"),
            Message("assistant", "", (ToolCall("c1", "add", '{"a":2}'),)),
            Message("tool", '{"sum":5}', tool_call_id="c1"),
        ),
    )

    assert sent(request)["messages"][1:] == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "add", "arguments": '{"a":2}'},
                }
            ],
        },
        {"role": "tool", "content": '{"sum":5}', "tool_call_id": "c1"},
    ]


def test_a_schema_asks_for_a_json_object_of_it() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}

    body = sent(ask(response_format="json", response_schema=schema))

    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": schema, "strict": False},
    }


def test_json_without_a_schema_asks_for_any_json_object() -> None:
    assert sent(ask(response_format="json"))["response_format"] == {"type": "json_object"}
    assert "response_format" not in sent(ask(response_format="text"))


# Whole answers


def test_a_whole_answer_is_read() -> None:
    answer = whole(
        id="x",
        choices=[
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "hello",
                    "tool_calls": [
                        {"id": "c1", "type": "function", "function": {"name": "f"}}
                    ],
                },
                "finish_reason": "tool_calls",
                "logprobs": None,
            }
        ],
        usage={"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8},
    )

    assert answer == ModelResponse(
        "hello", "tool_calls", (ToolCall("c1", "f", "{}"),), Usage(3, 5)
    )


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": None}, ""),
        ({}, ""),
        ({"content": "", "refusal": "I won't"}, "I won't"),
        ({"content": None, "refusal": "I won't"}, "I won't"),
        ({"content": "a", "reasoning_content": "hm", "refusal": None}, "a"),
        (
            {
                "content": [
                    {"type": "thinking", "text": "hm"},
                    {"type": "text", "text": "a"},
                    {"type": "text", "text": "b"},
                    {"type": "text"},
                ]
            },
            "ab",
        ),
    ],
)
def test_content_is_text_in_whatever_form_it_comes(message: Any, text: str) -> None:
    assert said(**message).content == text
    assert streamed(delta(**message), delta("stop"))[0].content == text


def test_of_two_choices_the_first_counts_whatever_their_order() -> None:
    first = {"index": 0, "message": {"content": "yes"}, "finish_reason": "stop"}
    second = {"index": 1, "message": {"content": "no"}, "finish_reason": "length"}

    assert whole(choices=[first, second]).content == "yes"
    assert whole(choices=[second, first]).content == "yes"
    assert whole(choices=[second]).content == "no"


def test_arguments_may_be_an_object_and_ids_may_be_missing() -> None:
    answer = said(
        tool_calls=[
            {"function": {"name": "f", "arguments": {"a": 1}}},
            {"id": None, "function": {"name": "f", "arguments": None}},
        ]
    )

    assert answer.tool_calls == (ToolCall("", "f", '{"a":1}'), ToolCall("", "f", "{}"))


def test_a_repeated_id_or_index_in_a_whole_answer_is_still_two_calls() -> None:
    call = {"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}

    assert len(said(tool_calls=[call, call]).tool_calls) == 2


def test_a_missing_finish_reason_of_a_whole_answer_is_made_up() -> None:
    call = {"id": "c", "function": {"name": "f"}}

    assert whole(choices=[{"message": {"content": "a"}}]).finish_reason == "stop"
    assert (
        whole(choices=[{"message": {"tool_calls": [call]}}]).finish_reason == "tool_calls"
    )


@pytest.mark.parametrize(
    "usage",
    [None, {}, {"prompt_tokens": 3}, {"prompt_tokens": 3, "completion_tokens": None}],
)
def test_unknown_usage_is_absent_and_not_zero(usage: Any) -> None:
    choices = [{"message": {"content": "a"}, "finish_reason": "stop"}]

    assert whole(choices=choices, usage=usage).usage is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"{}",
        b'{"choices": []}',
        b'{"choices": [{}]}',
        b'{"choices": "x"}',
        b'{"choices": [{"message": {"content": 7}}]}',
        b'{"choices": [{"message": {"content": "\xff"}}]}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_answer_is_refused(body: bytes) -> None:
    with pytest.raises(UnreadableAnswer):
        completion.decode(body)


def test_an_answer_with_nothing_in_it_is_told_as_empty() -> None:
    with pytest.raises(UnreadableAnswer, match="^the answer is empty$"):
        completion.decode(b" \n")


def test_an_unreadable_answer_is_quoted_shortly() -> None:
    with pytest.raises(UnreadableAnswer) as caught:
        completion.decode(b"Not Found" + b"x" * 10_000)

    assert "Not Found" in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("error", "message", "status"),
    [
        ({"message": "no", "code": 429}, "no", 429),
        ({"message": "no", "code": "rate_limited"}, "no", None),
        ({"message": "no", "status": 503}, "no", 503),
        ({"message": "no", "code": 7}, "no", None),
        ("no", "no", None),
        ({"text": "no"}, '{"text":"no"}', None),
    ],
)
def test_an_error_inside_a_good_answer_is_the_providers(
    error: Any, message: str, status: int | None
) -> None:
    for read in (lambda: whole(error=error), lambda: streamed({"error": error})):
        with pytest.raises(ProviderComplaint) as caught:
            read()

        assert (caught.value.message, caught.value.status) == (message, status)


# Streams


def test_a_stream_is_put_together_and_its_text_handed_on_in_order() -> None:
    answer, pieces = streamed(
        delta(role="assistant", content=""),
        delta(content="Hel"),
        delta(content="lo"),
        delta("stop"),
        {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 5}},
        b"[DONE]",
    )

    assert answer == ModelResponse("Hello", "stop", (), Usage(3, 5))
    assert pieces == ["Hel", "lo"]


def test_usage_may_come_with_every_chunk_or_with_the_last_choice() -> None:
    answer, _ = streamed(
        delta(content="a") | {"usage": {"prompt_tokens": 3, "completion_tokens": 1}},
        delta("stop") | {"usage": {"prompt_tokens": 3, "completion_tokens": 2}},
        {"choices": None, "usage": None},
        {"choices": None, "usage": {}},
    )

    assert answer.usage == Usage(3, 2)


def test_nothing_counts_after_done() -> None:
    stream = CompletionStream()
    last = json.dumps(delta("stop", content="a")).encode()

    stream.feed([SseEvent(last), SseEvent(b"[DONE]"), SseEvent(b"nonsense")])

    assert stream.done
    assert stream.response().content == "a"


def test_further_choices_of_a_stream_are_left_out() -> None:
    answer, pieces = streamed(
        delta(content="yes"),
        delta("length", index=1, content="no"),
        delta("stop"),
    )

    assert answer == ModelResponse("yes", "stop")
    assert pieces == ["yes"]


def test_a_choice_may_hold_nothing_but_its_finish_reason() -> None:
    answer, pieces = streamed(
        delta(content="a"), {"choices": [{"finish_reason": "stop"}]}, {"choices": []}
    )

    assert answer == ModelResponse("a", "stop")
    assert pieces == ["a"]


@pytest.mark.parametrize("finish", [None, ""])
def test_a_stream_without_a_finish_reason_is_an_error_worth_a_retry(
    finish: str | None,
) -> None:
    with pytest.raises(UnreadableAnswer, match="without a finish reason") as caught:
        streamed(delta(content="Hel"), delta(finish), b"[DONE]")

    assert caught.value.retryable


def test_an_error_event_is_the_providers_error_whatever_it_holds() -> None:
    for data, message in (
        (b'{"error": {"message": "no"}}', "no"),
        (b'{"message": "no"}', "no"),
        (b'"no"', "no"),
        (b"no", "no"),
    ):
        with pytest.raises(ProviderComplaint) as caught:
            CompletionStream().feed([SseEvent(data, b"error")])

        assert caught.value.message == message


# Fragments of tool calls


def fragment(index: int | None, arguments: str = "", **more: Any) -> Any:
    function = {"arguments": arguments, **{k: more[k] for k in ("name",) if k in more}}
    call = {"function": function, **{k: more[k] for k in ("id",) if k in more}}
    return call if index is None else {"index": index, **call}


def test_fragments_of_two_calls_may_interleave_and_come_backwards() -> None:
    assert calls(
        fragment(1, id="b", name="g"),
        fragment(0, id="a", name="f"),
        fragment(1, '{"x"'),
        fragment(0, "{"),
        fragment(1, ":1}"),
        fragment(0, "}"),
    ) == (ToolCall("a", "f", "{}"), ToolCall("b", "g", '{"x":1}'))


def test_fragments_without_an_index_belong_to_the_latest_call_or_to_their_id() -> None:
    assert calls(
        fragment(None, "{", id="a", name="f"),
        fragment(None, '"x":'),
        fragment(None, "{", id="b", name="g"),
        fragment(None, "1}", id="a"),
        fragment(None, "}", id="b"),
    ) == (ToolCall("a", "f", '{"x":1}'), ToolCall("b", "g", "{}"))


def test_calls_that_all_have_index_zero_are_told_apart_by_id_and_name() -> None:
    assert calls(
        fragment(0, '{"x":1}', id="a", name="f"), fragment(0, '{"x":2}', id="b", name="f")
    ) == (ToolCall("a", "f", '{"x":1}'), ToolCall("b", "f", '{"x":2}'))


def test_an_id_that_changes_inside_a_call_does_not_cut_it() -> None:
    assert calls(fragment(0, "{", id="a", name="f"), fragment(0, "}", id="other")) == (
        ToolCall("a", "f", "{}"),
    )


FRAGMENTS = st.lists(
    st.builds(
        CallFragment,
        st.none() | st.integers(0, 3),
        st.none() | st.sampled_from(["", "a", "b", "c"]),
        st.none()
        | st.builds(Function, st.sampled_from(["", "f"]), st.sampled_from(["", "1", "2"])),
        st.none() | st.dictionaries(st.sampled_from("xy"), st.integers(0, 2), max_size=2),
    ),
    max_size=12,
)


def one_after_the_other(fragments: list[CallFragment]) -> list[list[Any]]:
    """What fragments make, by looking through all calls for each: [index, id, pieces]."""
    found: list[list[Any]] = []
    for each in fragments:
        named = each.function is not None and bool(each.function.name)
        mine = None
        for call in reversed(found):
            if each.index is not None:
                if call[0] != each.index:
                    continue
                if not (named and each.id and call[1] and each.id != call[1]):
                    mine = call
                break
            if not each.id or each.id == call[1]:
                mine = call
                break
        if mine is None:
            index = each.index
            if index is None:
                index = max((call[0] for call in found), default=-1) + 1
            found.append(mine := [index, "", ""])
        mine[1] = mine[1] or each.id or ""
        mine[2] += each.function.arguments if each.function is not None else ""
    return [call[1:] for call in sorted(found, key=lambda call: call[0])]


@given(FRAGMENTS)
def test_a_fragment_finds_its_call_as_if_it_looked_at_each(
    fragments: list[CallFragment],
) -> None:
    builder = CallBuilder()
    for each in fragments:
        builder.add(each)
    made = [[call.id, call.arguments] for call in builder.calls()]
    assert made == [[id_, text or "{}"] for id_, text in one_after_the_other(fragments)]


def test_very_many_calls_take_no_longer_each() -> None:
    def seconds(calls: int) -> float:
        body = b",".join([b'{"extra_content":{"a":1}}'] * calls)
        whole = b'{"choices":[{"message":{"tool_calls":[%b]}}]}' % body
        # The collector looks through all that the suite has left, and not only at these.
        gc.disable()
        try:
            begun = time.process_time()
            assert len(completion.decode(whole).tool_calls) == calls
            return time.process_time() - begun
        finally:
            gc.enable()

    few = min(seconds(2_000) for _ in range(3))
    assert min(seconds(40_000) for _ in range(3)) < 20 * few * 5


def test_a_name_may_be_repeated_or_cut() -> None:
    assert calls(
        fragment(0, "{", name="add", id="a"), fragment(0, "}", name="add", id="a")
    ) == (ToolCall("a", "add", "{}"),)
    assert calls(fragment(0, name="ad", id="a"), fragment(0, "{}", name="d")) == (
        ToolCall("a", "add", "{}"),
    )


def test_missing_ids_stay_empty_and_a_fragment_may_hold_nothing() -> None:
    assert calls({"index": 0}, fragment(0, "{}", name="f"), fragment(1, name="g")) == (
        ToolCall("", "f", "{}"),
        ToolCall("", "g", "{}"),
    )


REPLIES = st.builds(
    Reply,
    content=st.none() | st.text(st.characters(codec="utf-8")),
    calls=st.lists(
        st.builds(
            Call,
            name=st.text("abc", min_size=1),
            arguments=st.sampled_from(["{}", '{"a":1}', '{"text":"long enough to cut"}']),
        ),
        max_size=3,
    ),
    usage=st.none() | st.tuples(st.integers(0, 9), st.integers(0, 9)),
    choices=st.integers(1, 3),
    piece=st.integers(0, 3),
    fragments=st.sampled_from(["whole", "cut", "backwards"]),
)


@given(REPLIES)
def test_streamed_and_buffered_give_one_answer(reply: Reply) -> None:
    asked = Asked("POST", "/v1/chat/completions", {}, {}, 1)
    _, _, body = response(reply, asked).partition(b"\r\n\r\n")

    answer, pieces = streamed(*chunks(reply))

    assert answer == completion.decode(body)
    assert "".join(pieces) == answer.content
    assert all(pieces)


def read_in_every_way(data: bytes) -> None:
    for read in (
        lambda: completion.decode(data),
        lambda: CompletionStream().feed([SseEvent(data)]),
        lambda: CompletionStream().feed([SseEvent(data, b"error")]),
    ):
        try:
            read()
        except (UnreadableAnswer, ProviderComplaint):
            continue


@given(st.binary())
def test_any_bytes_are_an_answer_or_an_error(data: bytes) -> None:
    read_in_every_way(data)


KEYS = [
    *("choices", "message", "delta", "content", "tool_calls", "function", "index"),
    *("arguments", "name", "id", "finish_reason", "usage", "error"),
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
    ),
)


@given(JSON)
def test_any_json_is_an_answer_or_an_error(value: Any) -> None:
    read_in_every_way(msgspec.json.encode(value))
