"""A URL becomes an origin and a target, and a secret shows itself to nobody."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.models.endpoint import (
    METHOD_PATHS,
    ApiType,
    HttpEndpoint,
    Origin,
    Secret,
    read_url,
)
from heddle.models.errors import EndpointInvalid


def address(url: str, api_type: ApiType = "chat_completions") -> str:
    origin, target, _ = read_url(url, api_type, where="test")
    return f"{origin}{target}"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://localhost:8000/v1", "http://localhost:8000/v1/chat/completions"),
        ("http://localhost:8000/v1/", "http://localhost:8000/v1/chat/completions"),
        ("http://localhost:8000", "http://localhost:8000/v1/chat/completions"),
        ("http://localhost:8000/", "http://localhost:8000/v1/chat/completions"),
        ("localhost:11434", "http://localhost:11434/v1/chat/completions"),
        (" localhost:11434/v1 ", "http://localhost:11434/v1/chat/completions"),
        ("host.example", "http://host.example/v1/chat/completions"),
        ("host.example:80", "http://host.example/v1/chat/completions"),
        ("https://host.example:443", "https://host.example/v1/chat/completions"),
        ("HTTPS://Host.Example", "https://host.example/v1/chat/completions"),
        ("https://host/api", "https://host/api/v1/chat/completions"),
        ("https://host/api/v1", "https://host/api/v1/chat/completions"),
        ("https://host/v1beta/openai/", "https://host/v1beta/openai/chat/completions"),
        ("https://host/paas/v4", "https://host/paas/v4/chat/completions"),
        ("https://host/v1/chat/completions", "https://host/v1/chat/completions"),
        ("https://host/x/chat/completions/", "https://host/x/chat/completions"),
        ("https://host/v1?api-version=2", "https://host/v1/chat/completions?api-version=2"),
        ("host.example/llm:12345", "http://host.example/llm:12345/v1/chat/completions"),
        ("http://[::1]:8000", "http://[::1]:8000/v1/chat/completions"),
        ("http://bücher.example", "http://xn--bcher-kva.example/v1/chat/completions"),
        ("LLAMA_API_URL", "http://llama_api_url/v1/chat/completions"),
    ],
)
def test_a_url_is_taken_as_people_write_it(url: str, expected: str) -> None:
    assert address(url) == expected


def test_the_other_protocol_has_another_path() -> None:
    assert address("host/v1", "responses") == "http://host/v1/responses"
    assert address("host/v1/responses", "responses") == "http://host/v1/responses"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", "it has no host"),
        ("http://", "it has no host"),
        ("ftp://host", "the scheme is 'ftp'"),
        ("file:///etc/passwd", "the scheme is 'file'"),
        ("http://host:99999", "Port out of range"),
        ("http://host:x", "Port could not be cast"),
        ("http://[::1", "Invalid IPv6 URL"),
        ("[[MODEL_URL]]", ""),
        ("http://<URL>", "characters that no host has"),
        ("http://a b", "characters that no host has"),
        ("http://" + "ü" * 300, "cannot be encoded"),
        ("http://" + "x" * 64 + ".example", "cannot be encoded"),
        ("http://a..b", "cannot be encoded"),
    ],
)
def test_what_is_no_http_url_is_refused_with_its_reason(url: str, reason: str) -> None:
    with pytest.raises(EndpointInvalid) as caught:
        address(url)

    assert caught.value.what.startswith("url is not an HTTP URL: ")
    assert reason in caught.value.what
    assert str(caught.value).endswith("Write it like http://localhost:8000/v1.")


def test_a_path_that_would_break_the_request_line_is_refused() -> None:
    for url in ("http://host/a b", "http://host/ü", "http://host/v1?x=\x7f"):
        with pytest.raises(EndpointInvalid, match="percent-encoded"):
            address(url)


@given(st.text())
def test_any_text_is_a_url_or_refused(url: str) -> None:
    try:
        origin, target, _ = read_url(url, "chat_completions", where="test")
    except EndpointInvalid:
        return
    line = f"POST {target} HTTP/1.1\r\nHost: {origin.authority}\r\n\r\n"
    assert line.isascii()
    assert len(line.splitlines()) == 3
    assert len(line.splitlines()[0].split(" ")) == 3


def test_user_and_password_of_a_url_are_a_secret_and_no_part_of_the_origin() -> None:
    origin, target, userinfo = read_url(
        "https://me:p%40ss@host/v1", "chat_completions", where="test"
    )

    assert f"{origin}{target}" == "https://host/v1/chat/completions"
    assert userinfo == Secret("me:p@ss")
    endpoint = HttpEndpoint(name="m", origin=origin, target=target, userinfo=userinfo)
    assert endpoint.authorization == "Basic bWU6cEBzcw=="


def test_a_key_goes_before_the_user_of_the_url() -> None:
    endpoint = HttpEndpoint(
        name="m",
        origin=Origin("http", "host", 80),
        target="/",
        api_key=Secret("key-123"),
        userinfo=Secret("me:pass"),
    )

    assert endpoint.authorization == "Bearer key-123"


def test_a_secret_is_not_shown_by_accident() -> None:
    secret = Secret("key-123")
    endpoint = HttpEndpoint(
        name="m", origin=Origin("http", "host", 80), target="/", api_key=secret
    )

    for shown in (repr(secret), str(secret), f"{secret}", repr(endpoint), str(endpoint)):
        assert "key-123" not in shown
    assert secret.reveal() == "key-123"
    assert secret != "key-123"
    assert hash(secret) == hash(Secret("key-123"))


def test_secrets_are_struck_out_of_texts_whole_and_in_part() -> None:
    endpoint = HttpEndpoint(
        name="m",
        origin=Origin("http", "host", 80),
        target="/",
        api_key=Secret("key-123"),
        userinfo=Secret("me:password"),
    )

    struck = endpoint.strike("key-123, me:password, password, other")

    assert struck == "***, ***, ***, other"


def test_an_endpoint_without_credentials_has_nothing_to_strike() -> None:
    endpoint = HttpEndpoint(name="m", origin=Origin("http", "host", 80), target="/")

    assert endpoint.strike("any text") == "any text"


def test_a_stand_in_for_a_key_is_not_worth_striking() -> None:
    assert Secret("none").strike("none of them") == "none of them"
    assert Secret("").strike("text") == "text"


def test_every_protocol_has_a_path() -> None:
    assert set(METHOD_PATHS) == set(get_args(ApiType))
