"""The scripted model answers from its document alone, the same way every time."""

import json
from typing import Any

import pytest
import trio

from heddle.models import ModelClient, ScriptedEndpoint, ScriptFault
from heddle.models.scripted import Step, answer, play, read_script
from plugins_host.conversation import Message, ModelRequest, ModelResponse, ToolCall

SCRIPT: list[dict[str, Any]] = [
    {
        "content": "Let me count.",
        "tool_calls": [
            {"name": "count", "arguments": {"path": "{{path}}", "deep": ["{{ user }}", 1]}},
            {"name": "list", "arguments": {}},
        ],
    },
    {"content": "{{path}} has {{words}} words, {{unknown}}."},
]


def steps(script: Any = SCRIPT) -> tuple[Step, ...]:
    return read_script({"script": script}, where="demo")


def request(*messages: Message) -> ModelRequest:
    return ModelRequest(model="demo", messages=messages)


USER = Message("user", '{"path": "a.txt"}')
CALL = ToolCall("call_1", "count", "{}")


def test_the_first_step_answers_a_fresh_conversation() -> None:
    assert answer(steps(), request(USER), where="demo") == ModelResponse(
        content="Let me count.",
        finish_reason="tool_calls",
        tool_calls=(
            ToolCall(
                "call_1", "count", '{"path":"a.txt","deep":["{\\"path\\": \\"a.txt\\"}",1]}'
            ),
            ToolCall("call_2", "list", "{}"),
        ),
    )


def test_the_next_step_follows_each_answer_and_knows_what_the_tools_said() -> None:
    conversation = request(
        Message("system", "Count."),
        USER,
        Message("assistant", "", (CALL,)),
        Message("tool", '{"words": 3}', tool_call_id="call_1"),
        Message("tool", "no object", tool_call_id="call_2"),
    )

    assert answer(steps(), conversation, where="demo").content == (
        "a.txt has 3 words, {{unknown}}."
    )


def test_a_new_user_message_begins_the_script_anew_with_fresh_call_ids() -> None:
    conversation = request(
        USER,
        Message("assistant", "", (CALL,)),
        Message("tool", "{}", tool_call_id="call_1"),
        Message("assistant", "done"),
        Message("user", "again"),
    )

    again = answer(steps(), conversation, where="demo")

    assert [call.id for call in again.tool_calls] == ["call_2", "call_3"]
    assert json.loads(again.tool_calls[0].arguments)["deep"] == ["again", 1]


def test_the_latest_value_of_a_name_wins_and_user_is_always_the_message() -> None:
    conversation = request(
        Message("user", '{"x": 1, "user": 2}'),
        Message("tool", '{"x": 2}'),
        Message("tool", '{"x": {"y": [true, null]}, "user": 3}'),
    )

    said = answer(steps([{"content": "{{x}} {{user}}"}]), conversation, where="demo")

    assert said.content == '{"y":[true,null]} {"x": 1, "user": 2}'


def test_a_value_is_not_filled_a_second_time() -> None:
    conversation = request(Message("user", '{"a": "{{b}}", "b": "{{a}}"}'))

    assert answer(steps([{"content": "{{a}}"}]), conversation, where="x").content == "{{b}}"


def test_a_user_message_that_is_no_object_is_only_text() -> None:
    for text in ("plain", "[1]", '"x"', "", "[" * 100_000):
        said = answer(
            steps([{"content": "<{{user}}>"}]), request(Message("user", text)), where=""
        )
        assert said.content == f"<{text}>"


def test_a_conversation_without_a_user_has_no_values_but_those_of_tools() -> None:
    conversation = request(
        Message("assistant", "", (CALL,)), Message("tool", '{"words": 3}')
    )

    said = answer(
        steps([{"content": "first"}, {"content": "{{words}}{{user}}{{path}}"}]),
        conversation,
        where="demo",
    )

    assert said.content == "3{{path}}"


def test_a_conversation_longer_than_the_script_is_an_error() -> None:
    conversation = request(USER, Message("assistant", "a"), Message("assistant", "b"))

    with pytest.raises(ScriptFault) as caught:
        answer(steps(), conversation, where="llm_config 'demo'")

    assert str(caught.value) == (
        "llm_config 'demo': the script has 2 steps and was asked for one more. "
        "Add a step to metadata.script."
    )


@pytest.mark.parametrize("metadata", [None, {}, {"script": []}, {"script": "x"}])
def test_a_model_without_a_script_is_an_error(metadata: Any) -> None:
    with pytest.raises(ScriptFault, match="a scripted model without a script"):
        read_script(metadata, where="demo")


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        ("x", "Expected `object`, got `str`"),
        ({}, "a step that says nothing"),
        ({"content": 7}, r"Expected `str`, got `int` - at `\$.content`"),
        ({"contents": "x"}, "unknown field `contents`"),
        ({"tool_calls": [{"arguments": {}}]}, "missing required field `name`"),
        ({"tool_calls": [{"name": "x", "arguments": "{}"}]}, "Expected `object`"),
    ],
)
def test_a_malformed_step_is_an_error_that_says_which(step: Any, reason: str) -> None:
    with pytest.raises(ScriptFault, match=reason) as caught:
        steps([{"content": "fine"}, step])

    assert caught.value.where == "demo metadata.script[1]"


async def test_text_is_streamed_word_by_word() -> None:
    pieces: list[str] = []

    response = await play(
        steps([{"content": "  Hello, big\n world "}]),
        request(USER),
        where="demo",
        on_text=pieces.append,
    )

    assert pieces == ["  Hello, ", "big\n ", "world "]
    assert "".join(pieces) == response.content


async def test_the_client_plays_a_script_without_any_connection() -> None:
    endpoint = ScriptedEndpoint("demo", steps())

    async with ModelClient(environ={}) as client:
        response = await client.chat(endpoint, request(USER))

    assert response.content == "Let me count."


async def test_a_script_can_be_cancelled_between_words() -> None:
    with trio.CancelScope() as scope:
        await play(
            steps([{"content": "a b c"}]),
            request(USER),
            where="demo",
            on_text=lambda word: scope.cancel(),
        )

    assert scope.cancelled_caught
