"""Whatever a provider says when it refuses becomes one sentence and typed fields."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.attempts import RETRYABLE_STATUSES
from heddle.models.complaints import complaint_error, refusal, retry_after_ms, shorten
from heddle.models.errors import (
    MESSAGE_LIMIT,
    ModelRateLimited,
    ModelRefused,
    ModelServerError,
)

NOW = 1_000_000_000.0


def refused(
    status: int, body: Any = b"", headers: Mapping[str, str] | None = None
) -> ModelRefused:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = {name.encode(): value.encode() for name, value in (headers or {}).items()}
    return refusal(
        status,
        lines,
        raw,
        where="llm_config 'm' (http://host)",
        strike=lambda text: text.replace("sk-secret", "***"),
        now=NOW,
    )


def test_too_many_requests_says_so_and_when_to_come_back() -> None:
    error = refused(429, {"error": {"message": "Slow down."}}, {"retry-after": "7"})

    assert type(error) is ModelRateLimited
    assert str(error) == (
        "llm_config 'm' (http://host): answered 429 Too Many Requests: Slow down."
    )
    assert (error.status, error.retry_after_ms, error.retryable) == (429, 7000, True)
    assert error.provider_message == "Slow down."


def test_a_used_up_quota_is_not_worth_a_retry() -> None:
    body = {"error": {"message": "Pay first.", "code": "insufficient_quota"}}

    assert not refused(429, body).retryable


def test_the_providers_own_fault_is_told_apart() -> None:
    error = refused(503, b"upstream is gone", {"content-type": "text/plain"})

    assert type(error) is ModelServerError
    assert "answered 503 Service Unavailable: upstream is gone" in str(error)
    assert error.retryable


def test_a_wrong_key_says_what_to_check_and_does_not_show_it() -> None:
    error = refused(401, {"error": {"message": "Incorrect API key: sk-secret."}})

    assert type(error) is ModelRefused
    assert str(error) == (
        "llm_config 'm' (http://host): answered 401 Unauthorized: Incorrect API key: ***. "
        "Check the api_key of the LLM config."
    )
    assert "sk-secret" not in error.provider_message
    assert not error.retryable


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "no", "type": "t", "code": None}}, "no"),
        ({"error": "no"}, "no"),
        ({"message": "no"}, "no"),
        ({"object": "error", "message": "no", "code": 404}, "no"),
        ({"detail": "no"}, "no"),
        ({"detail": [{"loc": ["body"], "msg": "no"}]}, '[{"loc":["body"],"msg":"no"}]'),
        ([{"error": {"message": "no"}}], "no"),
        ("no", "no"),
        ({"other": 1}, '{"other":1}'),
        ({"error": {"text": "no"}}, '{"text":"no"}'),
        (None, ""),
        ({}, ""),
        ([], ""),
        (b"", ""),
        (b"  no\r\n  way  ", "no way"),
        (b"\xff\x00no", "\ufffd\ufffdno"),
        (b"[" * 1000, "[" * 499 + "…"),
    ],
)
def test_the_message_is_found_in_any_common_shape(body: Any, message: str) -> None:
    assert refused(400, body).provider_message == message


@pytest.mark.parametrize(
    ("page", "content_type"),
    [
        (b"<html><head><title>\n502 Bad &amp; Gateway </title>...", "text/html"),
        (b"  <!DOCTYPE html><title x=1>502 Bad &amp; Gateway</title>", "text/plain"),
    ],
)
def test_an_html_page_is_told_by_its_title(page: bytes, content_type: str) -> None:
    error = refused(502, page + b"x" * 10_000, {"content-type": content_type})

    assert error.provider_message == "an HTML page titled '502 Bad & Gateway'"


@pytest.mark.parametrize("shape", [b'{"error":%b}', b"[%b]", b'{"detail":%b}', b'{"x":%b}'])
def test_a_body_of_any_depth_is_a_refusal(shape: bytes) -> None:
    before, after = shape.split(b"%b")
    for depth in (*range(900, 1010), 100_000):
        error = refused(503, before * depth + b"1" + after * depth)

        assert type(error) is ModelServerError


def test_an_html_page_without_a_title_is_still_one() -> None:
    error = refused(502, b"oops", {"content-type": "text/HTML; charset=x"})

    assert error.provider_message == "an HTML page"


def test_a_long_message_is_cut() -> None:
    error = refused(500, {"error": {"message": "x" * 10_000}})

    assert len(error.provider_message) == MESSAGE_LIMIT
    assert error.provider_message.endswith("…")


def test_a_secret_is_struck_before_a_message_is_cut() -> None:
    message = "x" * (MESSAGE_LIMIT - 5) + "sk-secret"

    assert "sk-" not in refused(500, {"error": {"message": message}}).provider_message


def test_a_message_that_only_repeats_the_status_is_not_repeated() -> None:
    assert str(refused(500, b"Internal Server Error")).endswith(
        "answered 500 Internal Server Error"
    )


def test_a_redirect_says_where_it_points_but_no_more_than_that() -> None:
    error = refused(
        307, b"", {"location": "https://me:pw@other.example/v1/chat?token=abc#frag"}
    )

    assert str(error) == (
        "llm_config 'm' (http://host): answered 307 Temporary Redirect and points to "
        "https://other.example/v1/chat. Redirects are not followed: set url to where the "
        "model is."
    )
    assert not error.retryable


@pytest.mark.parametrize(
    ("location", "target"),
    [("/v2/chat?x=1", "to /v2/chat"), ("", "elsewhere"), ("http://[", "elsewhere")],
)
def test_a_strange_redirect_is_still_a_redirect(location: str, target: str) -> None:
    assert f"points {target}" in refused(302, b"", {"location": location}).what
    assert "points elsewhere" in refused(302).what


def test_a_status_that_nobody_knows_is_still_told() -> None:
    assert refused(599).what == "answered 599"
    assert type(refused(599)) is ModelServerError
    assert type(refused(418, b"no")) is ModelRefused


@pytest.mark.parametrize("status", sorted(RETRYABLE_STATUSES))
def test_the_statuses_of_a_passing_trouble_are_worth_a_retry(status: int) -> None:
    assert refused(status).retryable


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422, 501, 505])
def test_the_other_statuses_are_not(status: int) -> None:
    assert not refused(status).retryable


def test_a_complaint_without_a_status_is_told_without_one() -> None:
    error = complaint_error(None, "overloaded", where="m", strike=str)

    assert type(error) is ModelRefused
    assert str(error) == "m: answered with an error: overloaded"
    assert error.status is None


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7000),
        ({"retry-after": " 0 "}, 0),
        ({"retry-after": "1.5"}, 1500),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "9" * 400}, None),
        ({"retry-after-ms": "250", "retry-after": "7"}, 250),
        ({"retry-after-ms": "x", "retry-after": "7"}, 7000),
        ({"retry-after": "Sun, 09 Sep 2001 01:46:50 GMT"}, 10_000),
        ({"retry-after": "Sun, 09 Sep 2001 01:46:30 GMT"}, 0),
        ({"retry-after": "Sun, 99 Sep 2001 01:46:30 GMT"}, None),
    ],
)
def test_the_time_to_wait_is_read_in_every_form(
    headers: dict[str, str], expected: int | None
) -> None:
    raw = {name.encode(): value.encode() for name, value in headers.items()}

    assert retry_after_ms(raw, now=NOW) == expected


@given(
    st.integers(300, 599),
    st.binary(),
    st.dictionaries(
        st.sampled_from(["retry-after", "location", "content-type", "retry-after-ms"]),
        st.binary(),
    ),
)
def test_any_error_response_becomes_an_error(
    status: int, body: bytes, headers: dict[str, bytes]
) -> None:
    raw = {name.encode(): value for name, value in headers.items()}

    error = refusal(status, raw, body, where="m", strike=str, now=NOW)

    assert error.status == status
    assert len(error.provider_message) <= MESSAGE_LIMIT
    assert str(error).isprintable()


def test_shortening_keeps_what_fits() -> None:
    assert shorten("a\n\tb") == "a b"
    assert shorten("abc", 3) == "abc"
    assert shorten("abcd", 3) == "ab…"
