"""Anthropic's and Gemini's protocols carry the same conversations in their own words."""

import json
from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest

from heddle.engine.plan import make_plan
from heddle.engine.testing import FakeModels, policies, run_document
from heddle.http.sse import SseEvent
from heddle.models import ModelClient, ModelRateLimited, ModelRefused, ModelServerError
from heddle.models import completion as chat_api
from heddle.models import gemini as gemini_api
from heddle.models import messages as anthropic_api
from heddle.models.dialects import AnswerStream
from heddle.models.endpoint import ApiType
from heddle.models.errors import ProviderComplaint, UnreadableAnswer
from heddle.services import ModelService
from heddle.spec import DocumentError, read_document
from plugins_host.conversation import (
    Message,
    ModelRequest,
    ModelResponse,
    ToolCall,
    ToolDefinition,
    Usage,
)
from tests.heddle.models.support import KEY, ask, endpoint_at
from tests.support.flows import (
    agent,
    component,
    document,
    end,
    flow,
    llm,
    prop,
    server_tool,
    start,
)
from tests.support.http_stub import Answer, Asked, http_stub

TOOL = ToolDefinition("add", "Adds.", {"type": "object"})
TALK = (
    Message("system", "Be kind."),
    Message("user", "1+1?"),
    Message(
        "assistant",
        "Let me see.",
        (ToolCall("c1", "add", '{"a":1}'), ToolCall("c2", "add", "")),
    ),
    Message("tool", '{"sum":2}', tool_call_id="c1"),
    Message("tool", "[3]", tool_call_id="c2"),
    Message("user", "And?"),
)
SETTINGS: dict[str, Any] = {
    "temperature": 0.5,
    "top_p": 0.1,
    "max_tokens": 5,
    "parameters": {"seed": 1},
}


def conversation(**fields: Any) -> ModelRequest:
    return ModelRequest(model="m-1", messages=TALK, **fields)


# --- Anthropic ----------------------------------------------------------------------


def to_anthropic(request: ModelRequest, *, stream: bool = False) -> Any:
    return json.loads(anthropic_api.encode(request, stream, "max_tokens"))


CLAUDE: dict[str, Any] = {
    "type": "message",
    "content": [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "Hello"},
        {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1}},
    ],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 3, "cache_read_input_tokens": 4, "output_tokens": 5},
}
CLAUDE_EVENTS: list[Any] = [
    {
        "type": "message_start",
        "message": {"usage": {"input_tokens": 3, "output_tokens": 1}},
    },
    {"type": "ping"},
    {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "text", "text": ""},
    },
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": "Hel"},
    },
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": "lo"},
    },
    {"type": "content_block_stop", "index": 0},
    {
        "type": "content_block_start",
        "index": 1,
        "content_block": {"type": "tool_use", "id": "t1", "name": "add", "input": {}},
    },
    *(
        {
            "type": "content_block_delta",
            "index": 1,
            "delta": {"type": "input_json_delta", "partial_json": piece},
        }
        for piece in ("", '{"a"', ":1}")
    ),
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use"},
        "usage": {"cache_read_input_tokens": 4, "output_tokens": 5},
    },
    {"type": "message_stop"},
]
ANSWER = ModelResponse(
    "Hello", "tool_calls", (ToolCall("t1", "add", '{"a":1}'),), Usage(7, 5)
)


def test_anthropic_is_sent_turns_of_blocks() -> None:
    body = to_anthropic(conversation(tools=(TOOL,), **SETTINGS), stream=True)
    assert body == {
        "model": "m-1",
        "system": "Be kind.",
        "max_tokens": 5,
        "temperature": 0.5,
        "top_p": 0.1,
        "seed": 1,
        "stream": True,
        "tools": [
            {"name": "add", "description": "Adds.", "input_schema": {"type": "object"}}
        ],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "1+1?"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "Let me see."},
                    {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},
                    {"type": "tool_use", "id": "c2", "name": "add", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": '{"sum":2}'},
                    {"type": "tool_result", "tool_use_id": "c2", "content": "[3]"},
                    {"type": "text", "text": "And?"},
                ],
            },
        ],
    }


def test_anthropic_is_always_sent_a_limit_and_asked_for_json_in_words() -> None:
    body = to_anthropic(ask(response_schema={"type": "object"}))
    assert body["max_tokens"] == anthropic_api.MAX_TOKENS
    assert '{"type":"object"}' in body["system"]


def test_anthropic_is_told_of_tools_that_only_the_conversation_has() -> None:
    body = to_anthropic(conversation())
    assert body["tools"] == [{"name": "add", "input_schema": {"type": "object"}}]
    assert body["tool_choice"] == {"type": "none"}


def test_anthropics_answer_is_the_same_whole_and_streamed() -> None:
    assert anthropic_api.decode(json.dumps(CLAUDE).encode()) == ANSWER
    stream = anthropic_api.MessageStream()
    pieces = stream.feed(SseEvent(json.dumps(event).encode()) for event in CLAUDE_EVENTS)
    assert pieces == ["Hel", "lo"]
    assert (stream.done, stream.finished, stream.response()) == (True, True, ANSWER)


@pytest.mark.parametrize("cut", range(len(CLAUDE_EVENTS) - 2))
def test_a_stream_of_anthropic_that_breaks_off_is_no_answer(cut: int) -> None:
    stream = anthropic_api.MessageStream()
    stream.feed(SseEvent(json.dumps(event).encode()) for event in CLAUDE_EVENTS[:cut])
    with pytest.raises(UnreadableAnswer):
        stream.response()


# --- Gemini -------------------------------------------------------------------------


def to_gemini(request: ModelRequest) -> Any:
    return json.loads(gemini_api.encode(request, False, "max_tokens"))


def piece(*parts: Any, reason: str | None = None, **more: Any) -> Any:
    content = {"role": "model", "parts": list(parts)}
    return {"candidates": [{"content": content, "finishReason": reason}], **more}


COUNTED = {"promptTokenCount": 7, "candidatesTokenCount": 3, "thoughtsTokenCount": 2}
CALLED = {"functionCall": {"name": "add", "args": {"a": 1}}}
THOUGHT = {"text": "hm", "thought": True}
GEMINI = piece(THOUGHT, {"text": "Hello"}, CALLED, reason="STOP", usageMetadata=COUNTED)
GEMINI_EVENTS = [
    piece(THOUGHT, {"text": "Hel"}),
    piece({"text": "lo"}, usageMetadata={"promptTokenCount": 7}),
    piece(CALLED, reason="STOP", usageMetadata=COUNTED),
]


def same_but_for_the_id(response: ModelResponse) -> bool:
    (call,) = response.tool_calls
    return (response.content, response.finish_reason, response.usage) == (
        ANSWER.content,
        ANSWER.finish_reason,
        ANSWER.usage,
    ) and (call.name, call.arguments) == ("add", '{"a":1}')


def test_gemini_is_sent_turns_of_parts() -> None:
    body = to_gemini(conversation(tools=(TOOL,), **SETTINGS))
    assert body == {
        "systemInstruction": {"parts": [{"text": "Be kind."}]},
        "generationConfig": {
            "temperature": 0.5,
            "topP": 0.1,
            "maxOutputTokens": 5,
            "seed": 1,
        },
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "add",
                        "description": "Adds.",
                        "parametersJsonSchema": {"type": "object"},
                    }
                ]
            }
        ],
        "contents": [
            {"role": "user", "parts": [{"text": "1+1?"}]},
            {
                "role": "model",
                "parts": [
                    {"text": "Let me see."},
                    {"functionCall": {"name": "add", "args": {"a": 1}}},
                    {"functionCall": {"name": "add", "args": {}}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"name": "add", "response": {"sum": 2}}},
                    {"functionResponse": {"name": "add", "response": {"result": [3]}}},
                    {"text": "And?"},
                ],
            },
        ],
    }


def test_gemini_is_given_the_schema_unless_there_are_tools() -> None:
    schema = {"type": "object"}
    alone = to_gemini(ask(response_schema=schema))
    assert alone["generationConfig"] == {
        "responseMimeType": "application/json",
        "responseJsonSchema": schema,
    }
    beside = to_gemini(ask(response_schema=schema, tools=(TOOL,)))
    assert "generationConfig" not in beside
    assert '{"type":"object"}' in beside["systemInstruction"]["parts"][0]["text"]


def test_geminis_answer_is_the_same_whole_and_streamed() -> None:
    assert same_but_for_the_id(gemini_api.decode(json.dumps(GEMINI).encode()))
    stream = gemini_api.GeminiStream()
    events = [SseEvent(json.dumps(event).encode()) for event in GEMINI_EVENTS]
    assert stream.feed(events[:2]) == ["Hel", "lo"]
    with pytest.raises(UnreadableAnswer):
        stream.response()
    stream.feed(events[2:])
    assert stream.done
    assert same_but_for_the_id(stream.response())


def test_what_comes_behind_the_end_of_gemini_counts_as_little_in_one_piece() -> None:
    events = [SseEvent(json.dumps(event).encode()) for event in GEMINI_EVENTS]
    stream = gemini_api.GeminiStream()
    assert stream.feed([*events, *events]) == ["Hel", "lo"]
    assert same_but_for_the_id(stream.response())


@pytest.mark.parametrize("reader", [anthropic_api.MessageStream, gemini_api.GeminiStream])
def test_the_end_that_gateways_write_as_chat_completions_do_is_passed_over(
    reader: Callable[[], AnswerStream],
) -> None:
    assert reader().feed([SseEvent(b"[DONE]")]) == []
    with pytest.raises(UnreadableAnswer):
        reader().feed([SseEvent(b"[DONE")])


def test_calls_of_gemini_have_ids_of_their_own() -> None:
    answers = [gemini_api.decode(json.dumps(GEMINI).encode()) for _ in range(9)]
    assert len({answer.tool_calls[0].id for answer in answers}) == 9


@pytest.mark.parametrize(
    ("reason", "word"),
    [("MAX_TOKENS", "length"), ("SAFETY", "content_filter"), ("OTHER", "other")],
)
def test_why_an_answer_of_gemini_ended_is_said(reason: str, word: str) -> None:
    body = json.dumps(piece({"text": "x"}, reason=reason)).encode()
    assert gemini_api.decode(body).finish_reason == word


def test_a_prompt_that_gemini_blocks_is_a_complaint() -> None:
    body = json.dumps({"promptFeedback": {"blockReason": "SAFETY"}}).encode()
    with pytest.raises(ProviderComplaint, match="blocked: SAFETY"):
        gemini_api.decode(body)


# --- what goes back as it came ------------------------------------------------------


SIGNED = {"type": "thinking", "thinking": "I add.", "signature": "c2ln+/="}
HIDDEN = {"type": "redacted_thinking", "data": "ZGF0YQ=="}
USES = {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1}}
CLAUDE_THOUGHT: dict[str, Any] = {
    **CLAUDE,
    "content": [SIGNED, HIDDEN, {"type": "text", "text": "So."}, USES],
}


def begins(index: int, block: Any) -> Any:
    return {"type": "content_block_start", "index": index, "content_block": block}


def goes_on(index: int, **delta: Any) -> Any:
    return {"type": "content_block_delta", "index": index, "delta": delta}


CLAUDE_THOUGHT_EVENTS: list[Any] = [
    {"type": "message_start", "message": {"usage": {"input_tokens": 3}}},
    begins(0, {"type": "thinking", "thinking": "", "signature": ""}),
    goes_on(0, type="thinking_delta", thinking="I "),
    goes_on(0, type="thinking_delta", thinking="add."),
    goes_on(0, type="signature_delta", signature="c2ln+/="),
    begins(1, HIDDEN),
    begins(2, {"type": "text", "text": ""}),
    goes_on(2, type="text_delta", text="So."),
    begins(3, {**USES, "input": {}}),
    goes_on(3, type="input_json_delta", partial_json='{"a":1}'),
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use"},
        "usage": {"input_tokens": 3, "output_tokens": 5},
    },
    {"type": "message_stop"},
]
CALL_SIGNED = {**CALLED, "thoughtSignature": "R2VtaW5p"}
GEMINI_SIGNED = piece(CALL_SIGNED, CALLED, reason="STOP", usageMetadata=COUNTED)

CONFIGS: dict[str, Any] = {
    "messages": {
        "component_type": "LlmConfig",
        "api_provider": "anthropic",
        "api_key": "secret-key-1",
    },
    "gemini": {
        "component_type": "GeminiConfig",
        "auth": component("GeminiAIStudioAuthConfig", "auth", api_key="secret-key-1"),
    },
    "chat_completions": {"component_type": "OpenAiCompatibleConfig"},
}
EXTRA = {"google": {"thought_signature": "R2VtaW5p"}}


def completion(**message: Any) -> Any:
    return {"choices": [{"message": message, "finish_reason": "stop"}]}


def sse(events: list[Any]) -> Answer:
    lines = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    return Answer(body=lines.encode(), headers={"content-type": "text/event-stream"})


def plain(body: Any) -> Answer:
    return Answer(body=body, headers={"content-type": "application/json"})


DONE: dict[str, Any] = {
    "messages": {"content": [{"type": "text", "text": "2"}], "stop_reason": "end_turn"},
    "gemini": piece({"text": "2"}, reason="STOP"),
    "chat_completions": completion(content="2"),
}
FUNCTION = {
    "id": "c1",
    "type": "function",
    "function": {"name": "add", "arguments": '{"a":1}'},
    "extra_content": EXTRA,
}
THINKING: list[tuple[str, Answer, list[Any]]] = [
    ("messages", plain(CLAUDE_THOUGHT), CLAUDE_THOUGHT["content"]),
    ("messages", sse(CLAUDE_THOUGHT_EVENTS), CLAUDE_THOUGHT["content"]),
    ("gemini", plain(GEMINI_SIGNED), [CALL_SIGNED, CALLED]),
    ("gemini", sse([GEMINI_SIGNED]), [CALL_SIGNED, CALLED]),
    (
        "chat_completions",
        plain(completion(content=None, tool_calls=[FUNCTION])),
        [FUNCTION],
    ),
]


def assistants(kind: str, body: Any) -> Any:
    """The parts of the assistant's message of a request."""
    if kind == "gemini":
        return body["contents"][1]["parts"]
    message = body["messages"][1]
    return message["content"] if kind == "messages" else message["tool_calls"]


@pytest.mark.parametrize(("kind", "first", "back"), THINKING)
async def test_signed_thoughts_go_back_with_the_calls_that_they_led_to(
    kind: str, first: Answer, back: list[Any]
) -> None:
    answers = iter([first, plain(DONE[kind])])
    shown: list[Any] = []

    def before(event: Any, ctx: Any) -> Any:
        # A policy that sends messages back as it was shown them loses nothing.
        shown.append(event.input["messages"])
        return {"action": "modify", "input": {"messages": event.input["messages"]}}

    async with http_stub(lambda _: next(answers)) as stub:
        config = {"id": "m", "name": "m", "model_id": "m-1", **CONFIGS[kind]}
        config["url"] = f"http://127.0.0.1:{stub.port}/v1"
        uses = server_tool("add", inputs=[prop("a", "integer")])
        node = agent("a", tools=[uses], llm_config=config)
        models = ModelService({})
        try:
            result, _ = await run_document(
                document(flow([start(), node, end()], ["start", "a", "end"])),
                models=cast("FakeModels", models),
                tools={"add": lambda a: {"sum": a + 1}},
                stream=first.headers["content-type"] == "text/event-stream",
                installed=policies(("Looks", {"modelCall": {"before": before}})),
            )
        finally:
            await models.aclose()
    assert result["result"] == "2"
    assert assistants(kind, json.loads(stub.asked[1].body)) == back
    assert len(shown) == 2
    # Another protocol is not sent what it does not know.
    others = {"messages": to_anthropic, "gemini": to_gemini, "chat_completions": to_chat}
    read = msgspec.convert(shown[1], tuple[Message, ...])
    for other, encode in others.items():
        text = json.dumps(encode(ModelRequest(model="m", messages=read)))
        signed = any(each in text for each in ("c2ln+/=", "ZGF0YQ==", "R2VtaW5p"))
        assert signed == (other == kind)


def to_chat(request: ModelRequest) -> Any:
    return json.loads(chat_api.encode(request, False, "max_tokens"))


# --- both, by HTTP ------------------------------------------------------------------


WHOLE: dict[ApiType, Any] = {"messages": CLAUDE, "gemini": GEMINI}
EVENTS: dict[ApiType, list[Any]] = {"messages": CLAUDE_EVENTS, "gemini": GEMINI_EVENTS}
HEADERS: dict[ApiType, str] = {"messages": "x-api-key", "gemini": "x-goog-api-key"}
TARGETS: dict[tuple[ApiType, bool], str] = {
    ("messages", False): "/v1/messages",
    ("messages", True): "/v1/messages",
    ("gemini", False): "/v1beta/models/m-1:generateContent",
    ("gemini", True): "/v1beta/models/m-1:streamGenerateContent?alt=sse",
}


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("kind", WHOLE)
async def test_the_client_speaks_it(kind: ApiType, streamed: bool) -> None:
    def answer(asked: Asked) -> Answer:
        if not streamed:
            return Answer(body=WHOLE[kind], headers={"content-type": "application/json"})
        lines = [f"data: {json.dumps(event)}\n\n" for event in EVENTS[kind]]
        return Answer(
            body="".join(lines).encode(), headers={"content-type": "text/event-stream"}
        )

    pieces: list[str] = []
    async with http_stub(answer) as stub, ModelClient() as client:
        endpoint = endpoint_at(
            f"http://127.0.0.1:{stub.port}", kind, key_header=HEADERS[kind]
        )
        response = await client.chat(
            endpoint, ask(), on_text=pieces.append if streamed else None
        )
    assert same_but_for_the_id(response)
    assert "".join(pieces) == ("Hello" if streamed else "")
    (asked,) = stub.asked
    assert asked.target == TARGETS[kind, streamed]
    assert asked.headers[HEADERS[kind]] == KEY
    assert "authorization" not in asked.headers
    assert ("anthropic-version" in asked.headers) == (kind == "messages")


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"type": "error", "error": {"type": "overloaded_error", "message": "m"}}, 529),
        ({"type": "error", "error": {"type": "rate_limit_error", "message": "m"}}, 429),
        ({"type": "error", "error": {"type": "other", "message": "m"}}, None),
    ],
)
async def test_an_error_in_the_middle_of_a_stream_of_anthropic_has_a_status(
    body: Any, error: int | None
) -> None:
    kinds = {529: ModelServerError, 429: ModelRateLimited, None: ModelRefused}
    data = f"event: error\ndata: {json.dumps(body)}\n\n".encode()

    def answer(asked: Asked) -> Answer:
        return Answer(body=data, headers={"content-type": "text/event-stream"})

    async with http_stub(answer) as stub, ModelClient() as client:
        endpoint = endpoint_at(f"http://127.0.0.1:{stub.port}", "messages")
        with pytest.raises(kinds[error]) as raised:
            await client.chat(endpoint, ask(), on_text=lambda _: None)
    assert raised.value.status == error


def test_vertex_is_refused_where_the_document_names_it() -> None:
    auth = component("GeminiVertexAIAuthConfig", "vertex")
    config = component("GeminiConfig", "g", model_id="m", auth=auth)
    data = document(
        flow([start(), llm("a", "hi", llm_config=config), end()], ["start", "a", "end"])
    )
    with pytest.raises(DocumentError, match=r"GeminiVertexAIAuthConfig.*does not run yet"):
        make_plan(read_document(data))
