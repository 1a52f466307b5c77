"""Targets of requests: decoded once, and refused where two readers could disagree."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.server.http import Refusal
from heddle.server.http.target import read_target


def path(raw: bytes) -> str:
    return read_target(raw, options=False).path


@pytest.mark.parametrize(
    ("raw", "decoded"),
    [
        (b"/", "/"),
        (b"/v1/runs", "/v1/runs"),
        (b"/a%20b", "/a b"),
        (b"/%C3%a4", "/ä"),
        (b"/%252e%252e", "/%2e%2e"),
        (b"/a//b", "/a//b"),
        (b"//a", "//a"),
        (b"/a/", "/a/"),
        (b"/.well-known/...", "/.well-known/..."),
        (b"/a;b=c,d:e@f", "/a;b=c,d:e@f"),
        (b"/a%3Fb", "/a?b"),
    ],
)
def test_a_path_is_decoded_once(raw: bytes, decoded: str) -> None:
    assert path(raw) == decoded


@pytest.mark.parametrize(
    "raw",
    [
        *(b"/..", b"/a/..", b"/../a", b"/a/../b", b"/.", b"/a/./b", b"/./a"),
        *(b"/%2e%2e", b"/%2E%2e/a", b"/.%2e", b"/%2e", b"/a/%2e%2e/b", b"/a%2f..%2fb"),
        *(b"/a%2fb", b"/a%2Fb", b"/a\\b", b"/a%5cb", b"/a%5Cb", b"/..%5c"),
        *(b"/%00", b"/a%00b", b"/%0d%0a", b"/%7f", b"/%1b[0m"),
        *(b"/%", b"/%2", b"/%zz", b"/%u002e", b"/%-1"),
        *(b"/%ff", b"/%c3", b"/%c0%ae%c0%ae", b"/%ed%a0%80", b"/%f4%90%80%80"),
        *(b"/a b", b'/"', b"/<", b"/#", b"/[", b"/{", b"/|", b"/`", b"/^", b"/\xc3\xa4"),
        *(b"", b"a", b"*", b"?a", b"http://", b"http:///", b"file:///etc", b"x:80"),
        *(b"http://a b/", b"http://a@b/", b"http://a/..", b"http://[::1/", b"http://a:b/"),
    ],
)
def test_a_path_that_could_mean_something_else_is_refused(raw: bytes) -> None:
    with pytest.raises(Refusal) as caught:
        path(raw)
    assert caught.value.status == 400


@given(st.text(st.characters(codec="utf-8"), max_size=20))
def test_what_is_escaped_is_what_is_read_or_refused(text: str) -> None:
    raw = b"".join(b"%%%02x" % byte for byte in text.encode())
    assert read_target(b"/?q=" + raw, options=False).query.get("q") == text
    try:
        found = path(b"/" + raw)
    except Refusal:
        assert {".", "..", "/", "\\"} & {text, *text} or not text.isprintable()
    else:
        assert found == "/" + text


def query(raw: bytes) -> list[tuple[str, str]]:
    return list(read_target(b"/?" + raw, options=False).query)


@pytest.mark.parametrize(
    ("raw", "pairs"),
    [
        (b"", []),
        (b"a", [("a", "")]),
        (b"a=", [("a", "")]),
        (b"=a", [("", "a")]),
        (b"a=b=c", [("a", "b=c")]),
        (b"&&a=1&&b=2&", [("a", "1"), ("b", "2")]),
        (b"a=1&a=2", [("a", "1"), ("a", "2")]),
        (b"a=1;b=2", [("a", "1;b=2")]),
        (b"a+b=c%2Bd%26", [("a b", "c+d&")]),
        (b"a=/?:@", [("a", "/?:@")]),
        (b'a={"b":[1]}', [("a", '{"b":[1]}')]),
        (b"a=%C3%A4", [("a", "ä")]),
    ],
)
def test_a_query_is_names_with_values(raw: bytes, pairs: list[tuple[str, str]]) -> None:
    assert query(raw) == pairs


@pytest.mark.parametrize("raw", [b"a=%", b"a=%zz", b"a=%ff", b"%c3=a", b"a=\xff", b"a#b"])
def test_a_query_that_is_no_text_is_refused(raw: bytes) -> None:
    with pytest.raises(Refusal) as caught:
        query(raw)
    assert caught.value.status == 400


def test_fields_are_looked_up_by_name() -> None:
    found = read_target(b"/?a=1&b=2&a=3", options=False).query
    assert found.get("a") == "1"
    assert found.get("A") is None
    assert found.all("a") == ["1", "3"]
    assert "b" in found
    assert "c" not in found
    assert len(found) == 3
    assert repr(found) == "Fields([('a', '1'), ('b', '2'), ('a', '3')])"
