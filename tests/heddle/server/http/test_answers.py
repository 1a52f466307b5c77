"""The bytes of answers."""

from email.utils import formatdate

import h11
import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from heddle.server.http import ERROR_TYPES, HandlerMisuse, Refusal, Response, error_body
from heddle.server.http import answers as module
from heddle.server.http.answers import Encoder, encode_headers, http_date


@given(st.integers(0, 253402300799))
def test_dates_are_written_as_http_writes_them(seconds: int) -> None:
    assert http_date(seconds) == formatdate(seconds, usegmt=True)


@given(st.text(max_size=10), st.text(max_size=10))
@example("X-A", "a\r\nb: c")
@example("a\x00", "")
def test_any_header_arrives_as_it_is_or_is_a_bug(name: str, value: str) -> None:
    try:
        lines = encode_headers(((name, value),))
    except HandlerMisuse:
        return
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method="GET", target="/", headers=[("Host", "x")]))
    client.send(h11.EndOfMessage())
    client.receive_data(b"HTTP/1.1 200 OK\r\n" + lines + b"\r\n")
    response = client.next_event()
    assert isinstance(response, h11.Response)
    assert list(response.headers) == [(name.lower().encode(), value.encode())]


def test_the_bug_is_told_without_the_value() -> None:
    with pytest.raises(HandlerMisuse) as caught:
        encode_headers((("Authorization", "Bearer x\n"),))
    assert str(caught.value) == (
        "a handler answers with a value of 'Authorization' that no header can have"
    )


def test_the_date_follows_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000_000_000.9
    monkeypatch.setattr("heddle.server.http.answers.time.time", lambda: now)
    encoder = Encoder()
    answer = Response(200, (("X-A", "1"),), b"x")
    first = encoder.response(answer, b"", head_only=False)
    assert first == (
        b"HTTP/1.1 200 OK\r\nServer: heddle\r\nDate: Sun, 09 Sep 2001 01:46:40 GMT\r\n"
        b"X-A: 1\r\nContent-Length: 1\r\n\r\nx"
    )
    assert encoder.response(answer, b"", head_only=False) == first
    now = 1_000_000_001.0
    assert b"01:46:41" in encoder.response(answer, b"", head_only=False)


def test_headers_that_are_never_the_same_twice_do_not_fill_the_memory() -> None:
    encoder = Encoder()
    for number in range(10_000):
        answer = Response(200, (("X-Request-ID", str(number)),))
        data = encoder.response(answer, b"", head_only=True)
        assert b"X-Request-ID: %d\r\n" % number in data
    assert len(encoder._starts) <= 128


def test_every_refusal_has_a_reason_and_a_type() -> None:
    assert set(ERROR_TYPES) <= set(module._REASONS)
    for status, type_ in ERROR_TYPES.items():
        assert Refusal(status, "x").type == type_


def test_an_error_is_a_type_and_a_message() -> None:
    assert msgspec.json.decode(error_body("a", 'b"')) == {
        "error": {"type": "a", "message": 'b"'}
    }
