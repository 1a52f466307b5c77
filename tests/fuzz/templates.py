"""Texts with placeholders, and HTTP requests made of them."""

import json
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import msgspec

from heddle.engine.requests.request import RequestRefused, RequestTemplate
from heddle.hosts import DEFAULT_PORTS
from heddle.spec import (
    ApiNode,
    Effort,
    EffortExceeded,
    TextTooLong,
    placeholders,
    render,
    render_briefly,
    spending,
)
from tests.fuzz.target import Target

VALUES = {"a": "{{b}}", "b": 1.5, "c": [None, {"d": "é"}], "d": ""}


def fill(data: bytes) -> None:
    """Any text is filled in alike in both ways, and names that are not there stay."""
    text = data.decode(errors="replace")
    with suppress(TextTooLong, EffortExceeded), spending(Effort(10_000)):
        filled, missing = render(text, VALUES)
        assert set(missing) == set(placeholders(text)) - set(VALUES)
        assert render_briefly(text, VALUES) in (None, (filled, missing))


TEMPLATES = Target(
    fill,
    seeds=(b"Hello {{ a }}, {{b}} and {{nobody}}!", b"{{c}}{{ {{d}} }}{{a}}"),
    words=(b"{{", b"}}", b"{{a}}", b"{{ b }}", b"{{x}}", b"\xc2\xa0", b"\n"),
)


def ask(data: bytes) -> None:
    """Any request is refused, or goes where its description says and nowhere else."""
    try:
        fields, given = msgspec.json.decode(b"[%b]" % data)
        node = ApiNode(name="n", **{name: _fit(name, fields[name]) for name in fields})
        assert isinstance(given, dict)
    except (ValueError, TypeError, KeyError, AssertionError, RecursionError):
        return
    template = RequestTemplate(node)
    flaws = list(template.problems())
    list(template.warnings())
    if flaws:
        return
    with suppress(RequestRefused, TextTooLong, EffortExceeded), spending(Effort(10_000)):
        request = template.render(given)
        assert request.scheme in DEFAULT_PORTS
        assert template.host in (None, request.host)
        head = [request.method, request.target]
        head += [part for pair in request.headers for part in pair]
        for part in head:
            assert "\r" not in part
            assert "\n" not in part
            part.encode("latin-1")
        assert " " not in request.method + request.target
        assert urlsplit(f"{request.scheme}://h{request.target}").netloc == "h"


KINDS: dict[str, type | tuple[type, ...]] = {
    "url": str,
    "http_method": str,
    "api_spec_uri": (str, type(None)),
    "data": object,
    "query_params": dict,
    "headers": dict,
    "sensitive_headers": dict,
}


def _fit(name: str, value: Any) -> Any:
    """A value of the kind that the reader of documents lets through."""
    if name == "url_allow_list":
        if not all(isinstance(each, str) for each in value):
            raise TypeError
        return tuple(value)
    if not isinstance(value, KINDS[name]):
        raise TypeError
    return value


def _case(given: dict[str, Any], **fields: Any) -> bytes:
    return json.dumps([fields, given]).encode()[1:-1]


REQUESTS = Target(
    ask,
    seeds=(
        _case(
            {"id": "a/b", "q": [1, None]},
            url="https://host/items/{{id}}?x={{id}}",
            http_method="GET",
            query_params={"q": "{{q}}", "r": [1, "{{id}}"]},
            headers={"X-A": "{{id}}"},
            sensitive_headers={"Authorization": "Bearer {{id}}"},
            url_allow_list=["https://host/items/"],
        ),
        _case(
            {"base": "http://[::1]:8080", "m": "post"},
            url="{{base}}/a/../b",
            http_method="{{m}}",
            data={"{{m}}": [{"deep": "{{base}}"}]},
            headers={"Content-Type": "application/x-www-form-urlencoded"},
        ),
    ),
    words=(
        *(
            b"{{id}}",
            b"{{base}}",
            b"..",
            b"%2e",
            b"\\\\",
            b"@",
            b"#",
            b"?",
            b"://",
            b"\\r\\n",
        ),
        *(
            b"\\u0000",
            b"\\ud800",
            b"null",
            b'"url":',
            b'"data":',
            b"xn--",
            b"\\u3002",
            b"[::",
        ),
    ),
)
