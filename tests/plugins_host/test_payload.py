"""One value in two forms, each made once."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from plugins_host.conversation import Message, ModelResponse, ToolCall, Usage
from plugins_host.model_edits import response_fields
from plugins_host.payload import Payload


@given(st.dictionaries(st.text(), st.integers(-(2**53), 2**53) | st.text() | st.none()))
def test_both_forms_say_the_same(value: dict[str, object]) -> None:
    text = msgspec.json.encode(value)
    assert Payload.of(value).raw == text
    assert Payload.encoded(text).value == value
    assert Payload.encoded(msgspec.Raw(text)).raw == text


def test_each_form_is_made_once() -> None:
    payload = Payload.of({"a": 1})
    assert payload.raw is payload.raw
    encoded = Payload.encoded(b'{"a":1}')
    assert encoded.value is encoded.value


def test_a_struct_stays_itself_and_is_written_as_json() -> None:
    message = Message("user", "hi")
    payload = Payload.of(message)
    assert payload.value is message
    assert payload.fresh() == {"role": "user", "content": "hi"}


def test_a_fresh_copy_may_be_changed() -> None:
    payload = Payload.of({"a": [1]})
    payload.fresh()["a"].append(2)
    assert payload.value == {"a": [1]}


def test_its_data_does_not_end_in_logs() -> None:
    assert repr(Payload.of({"secret": "s3cret"})) == "<Payload of 19 bytes>"


def test_an_answer_on_the_wire_always_says_what_and_why_it_ended() -> None:
    assert response_fields(ModelResponse()) == {"content": "", "finish_reason": "stop"}
    calls = (ToolCall("c", "add", "{}"),)
    whole = response_fields(ModelResponse("", "tool_calls", calls, Usage(1, 2)))
    assert msgspec.json.decode(msgspec.json.encode(whole)) == {
        "content": "",
        "finish_reason": "tool_calls",
        "tool_calls": [{"id": "c", "name": "add", "arguments": "{}"}],
        "usage": {"inputTokens": 1, "outputTokens": 2},
    }
