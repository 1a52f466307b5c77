"""What a description of a request is filled in to, and what of it is refused."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from heddle.engine.requests.request import (
    HttpRequest,
    RequestRefused,
    RequestTemplate,
    needed,
)
from heddle.spec import ApiNode


def template(url: str = "http://host/items/{{id}}", **fields: Any) -> RequestTemplate:
    return RequestTemplate(
        ApiNode(name="ask", **{"url": url, "http_method": "GET", **fields})
    )


def rendered(
    url: str, given: Mapping[str, Any] | None = None, **fields: Any
) -> HttpRequest:
    return template(url, **fields).render(given or {})


def refusal(url: str, given: Mapping[str, Any] | None = None, **fields: Any) -> str:
    with pytest.raises(RequestRefused) as caught:
        rendered(url, given, **fields)
    return str(caught.value)


@pytest.mark.parametrize(
    ("url", "given", "target"),
    [
        ("http://h/items/{{id}}", {"id": "a b"}, "/items/a%20b"),
        ("http://h/items/{{ id }}", {"id": "a/b?c#d"}, "/items/a%2Fb%3Fc%23d"),
        ("http://h/items/{{id}}", {"id": 5}, "/items/5"),
        ("http://h/items/{{id}}", {"id": "{{id}}"}, "/items/%7B%7Bid%7D%7D"),
        ("http://h/items/{{id}}", {"id": "ü"}, "/items/%C3%BC"),
        ("http://h/ü b?x=ü", {}, "/%C3%BC%20b?x=%C3%BC"),
        ("http://h?q={{id}}", {"id": "a&b=c"}, "/?q=a%26b%3Dc"),
        ("http://h/a/../b/./c/%2e%2E/d", {}, "/b/d"),
        ("http://h/a/b/..", {}, "/a/"),
        ("http://h", {}, "/"),
        ("http://h/a#part", {}, "/a"),
        ("http://h/100%", {}, "/100%25"),
    ],
)
def test_values_become_one_part_of_the_address(
    url: str, given: dict[str, Any], target: str
) -> None:
    assert rendered(url, given).target == target


ODD: Final = st.text(
    st.sampled_from("/\\.@:?#%&=+; \t\r\n[]") | st.sampled_from("2eEfF") | st.characters(),
    max_size=20,
)
"""Texts with what ends a part of an address."""


@settings(max_examples=100)
@given(ODD)
@example("..")
@example(".")
@example("a/b")
@example("%2e%2e")
@example("%2F")
@example("..\\")
def test_a_value_never_leaves_its_step_of_the_path(value: str) -> None:
    try:
        target = rendered("http://h/a/{{v}}/z", {"v": value}).target
    except (RequestRefused, UnicodeEncodeError):
        return
    begin, middle, end = target.removeprefix("/").split("/")
    assert (begin, unquote(middle), end) == ("a", value, "z")


@settings(max_examples=100)
@given(ODD)
@example("evil.test/")
@example("evil.test\\")
@example("evil.test?")
@example("evil.test#")
@example("user@evil.test:80/")
@example("evil.test%2F")
def test_no_value_changes_the_host_behind_a_literal_scheme(value: str) -> None:
    try:
        request = rendered("http://{{v}}.example.com/x", {"v": value})
    except (RequestRefused, UnicodeEncodeError):
        return
    assert request.host.endswith(".example.com")
    assert request.target == "/x"


def test_the_beginning_of_an_address_may_be_a_value() -> None:
    request = rendered("{{base}}/items", {"base": "https://api.example.com:8443/v1"})
    assert (request.scheme, request.host, request.port, request.target) == (
        "https",
        "api.example.com",
        8443,
        "/v1/items",
    )


@pytest.mark.parametrize(
    ("url", "given", "words"),
    [
        ("http://h/{{id}}", {}, "needs 'id', which has no value; it was not sent"),
        ("http://h/{{id}}/{{n}}", {}, "needs 'id', 'n', which have no value"),
        ("http://h/a/{{id}}/b", {"id": ".."}, "a step of the path is '..'"),
        ("http://h/a/{{id}}", {"id": "."}, "a step of the path is '.'"),
        ("http://{{h}}/x", {"h": "good@evil"}, "characters that end one"),
        ("http://{{h}}/x", {"h": "evil/"}, "characters that end one"),
        ("http://{{h}}/x", {"h": "a b"}, "characters that end one"),
        ("{{u}}/x", {"u": "http://evil?"}, "has a query or a fragment in it"),
        ("{{u}}/x", {"u": "http://evil/#"}, "has a query or a fragment in it"),
        ("http://h\\@evil/x", {}, "sensitive_headers"),
        ("http://h\\evil/x", {}, "characters that no host has"),
        ("{{u}}", {"u": "http://me:pw@h/"}, "sensitive_headers"),
        ("{{u}}", {"u": "file:///etc/passwd"}, "its scheme is 'file'"),
        ("{{u}}", {"u": "http://h/\r\nX: y"}, "control character"),
        ("{{u}}", {"u": "nowhere"}, "it has no scheme"),
        ("{{u}}", {"u": "http://./"}, "host name cannot be encoded"),
    ],
)
def test_an_address_that_can_not_be_is_refused(
    url: str, given: dict[str, Any], words: str
) -> None:
    assert words in refusal(url, given)


ALLOWED = ["http://h:81/api/"]


@pytest.mark.parametrize(
    "url",
    [
        "http://h:81/other/x",
        "http://h:82/api/x",
        "https://h:81/api/x",
        "http://other:81/api/x",
        "http://h:81/api",
        "http://h:81/api/../other",
        "http://h:81/api/%2e%2e/other",
        "http://h:81/api/..%2fother",
        "http://h:81/api/%252e%252e%252fother",
        "http://h:81/api/..%5cother",
        "http://h:81/%61pi/%2E%2E/api",
    ],
)
def test_what_the_allow_list_does_not_name_is_not_sent(url: str) -> None:
    assert "does not allow" in refusal(url, url_allow_list=ALLOWED)


@pytest.mark.parametrize(
    "url", ["http://h:81/api/x", "HTTP://H:81/api/?q=1", "http://h:81/other/../api/x"]
)
def test_what_the_allow_list_names_is_sent(url: str) -> None:
    assert rendered(url, url_allow_list=ALLOWED).target.startswith("/api/")


def test_an_empty_allow_list_allows_nothing() -> None:
    assert "does not allow" in refusal("http://h/", url_allow_list=())


def test_a_value_does_not_climb_out_of_the_allow_list() -> None:
    words = refusal("http://h:81/api/{{v}}", {"v": "../other"}, url_allow_list=ALLOWED)
    assert "does not allow" in words


def test_data_is_json_unless_it_is_text_or_a_form() -> None:
    data = {"n": "{{n}}", "deep": ["{{n}}", 1]}
    plain = rendered("http://h/", {"n": 5}, data=data)
    form = rendered(
        "http://h/",
        {"n": 5},
        data=data,
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    )
    text = rendered("http://h/", {"n": 5}, data="n is {{n}}")
    assert plain.body == b'{"n":"5","deep":["5",1]}'
    assert ("Content-Type", "application/json") in plain.headers
    assert form.body == b"n=5&deep=5&deep=1"
    assert text.body == b"n is 5"
    assert text.headers == ()
    assert rendered("http://h/").body is None


def test_names_and_values_of_a_query_and_of_headers_are_filled_in() -> None:
    request = template(
        "http://h/?a=1",
        query_params={"{{n}}": "{{list}}", "many": [1, "{{n}}"], "none": None},
        headers={"x-{{h}}": 3},
        sensitive_headers={"authorization": "Bearer {{n}}"},
        http_method="{{m}}",
    ).render({"n": "x y", "list": [1, 2], "h": "one", "m": "put"})
    assert request.method == "PUT"
    assert request.target == "/?a=1&x%20y=%5B1%2C2%5D&many=1&many=x%20y"
    assert request.headers == (("x-one", "3"), ("authorization", "Bearer x y"))
    assert request.secrets == ("Bearer x y",)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"http_method": "{{v}}"}, "is no HTTP method"),
        ({"headers": {"x": "{{v}}"}}, "has characters that no header has"),
        ({"headers": {"{{v}}": "x"}}, "is no name of a header"),
        ({"headers": {"{{host}}": "x"}}, "the header 'Host' is written by heddle"),
        (
            {"headers": {"a": "x"}, "sensitive_headers": {"{{a}}": "x"}},
            "'A' is given twice",
        ),
    ],
)
def test_a_value_can_not_write_a_request_of_its_own(
    fields: dict[str, Any], words: str
) -> None:
    given = {"v": "x\r\nEvil: yes", "host": "Host", "a": "A"}
    assert words in refusal("http://h/", given, **fields)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"http_method": "BREW COFFEE"}, "http_method"),
        ({"http_method": "connect"}, "http_method"),
        ({"http_method": "TRACE"}, "http_method"),
        ({"url": "ftp://h/"}, "url"),
        ({"url": "http://user:pw@h/{{id}}"}, "url"),
        ({"url": "http://user:{{pw}}@h/"}, "url"),
        ({"url": "/items"}, "url"),
        ({"url": "http://h:port/"}, "url"),
        ({"url_allow_list": ("http://h/", "h")}, "url_allow_list[1]"),
        ({"headers": {"Host": "x"}}, "headers"),
        ({"headers": {"Proxy-Authorization": "x"}}, "headers"),
        ({"headers": {"x y": "x"}}, "headers"),
        ({"headers": {"x": "a\nb"}}, "headers"),
        ({"headers": {"x": "1"}, "sensitive_headers": {"X": "2"}}, "sensitive_headers"),
    ],
)
def test_what_can_not_be_sent_is_a_problem_of_the_document(
    fields: dict[str, Any], field: str
) -> None:
    assert [flaw.field for flaw in template(**fields).problems()] == [field]


def test_a_sound_description_has_no_problems() -> None:
    sound = template(
        "https://{{h}}/x", headers={"a": "{{v}}"}, url_allow_list=("https://h/",)
    )
    assert list(sound.problems()) == []
    assert list(sound.warnings()) == []


def test_a_host_that_a_value_decides_without_a_list_is_worth_a_warning() -> None:
    assert [flaw.field for flaw in template("{{url}}").warnings()] == ["url"]
    assert list(template("http://h/{{x}}").warnings()) == []


def test_all_placeholders_are_what_it_needs() -> None:
    node = ApiNode(
        name="ask",
        url="{{a}}",
        http_method="{{b}}",
        data=[{"{{c}}": "{{d}}"}],
        query_params={"{{e}}": 1},
        headers={"x": "{{f}}"},
        sensitive_headers={"y": "{{g}}"},
        api_spec_uri="{{h}}",
    )
    assert sorted(needed(node)) == list("abcdefgh")
