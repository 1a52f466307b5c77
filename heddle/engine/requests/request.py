"""One HTTP request as a document describes it: a template, and what it is filled in to.

    RequestTemplate(ApiNode(url="https://host/items/{{id}}", http_method="GET")).render(
        {"id": "a/b"}
    )   ->  HttpRequest("GET", "https", "host", 443, "/items/a%2Fb")

A value never becomes part of a URL's structure: from the path on it is percent-encoded,
and before it, it can't hold what would end the host. What is sent is what was held against
the allow list: the path with its dot segments resolved. No I/O here.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import quote, unquote, urlencode, urlsplit

import msgspec
from msgspec import Struct

from heddle.engine.faults import NodeFault
from heddle.engine.requests.headers import (
    header_flaw,
    method_flaw,
    name_flaw,
    shortened,
    value_flaw,
)
from heddle.engine.requests.urls import (
    CONTROL,
    NO_HOST,
    USERINFO,
    Allowed,
    Origin,
    allowed_entry,
    normal_path,
    origin_of_url,
    safe_query,
    written_origin,
)
from heddle.spec import ApiNode, RemoteTool, placeholders, render

Described: TypeAlias = ApiNode | RemoteTool

FORM: Final = "application/x-www-form-urlencoded"

_MARK: Final = re.compile(r"(\{\{\s*\w+\s*\}\})")


class RequestRefused(NodeFault):
    """With these values the request can't be sent; nothing was."""


class HttpRequest(Struct, frozen=True):
    """A request ready to be sent. ``secrets`` are texts that no error shows."""

    method: str
    scheme: str
    host: str
    port: int
    target: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    secrets: tuple[str, ...] = ()


class HttpAnswer(Struct, frozen=True):
    """What came back, of a request that was answered with success."""

    status: int
    body: bytes


class Flaw(Struct, frozen=True):
    """What is wrong with a description, and in which of its fields."""

    field: str
    what: str
    fix: str = ""


class RequestTemplate:
    """A request with placeholders in it, read once."""

    def __init__(self, component: Described) -> None:
        self.component = component
        self.label = f"{component.component_type} {component.name!r}"
        self._head, self._tail = _cut(component.url)
        self._allowed: tuple[Allowed, ...] | None = None
        if component.url_allow_list is not None:
            known = (allowed_entry(each) for each in component.url_allow_list)
            self._allowed = tuple(each for each in known if each is not None)

    @property
    def host_is_literal(self) -> bool:
        """Whether it is known where it goes, whatever the values."""
        return not placeholders(self._head)

    @property
    def host(self) -> str | None:
        """The host, where it is literal and usable."""
        if not self.host_is_literal:
            return None
        try:
            return origin_of_url(self._head + "/")[1]
        except ValueError:
            return None

    def problems(self) -> Iterator[Flaw]:
        """What can't be right, whatever the values."""
        component = self.component
        method = component.http_method
        if not placeholders(method) and (flaw := method_flaw(method)):
            yield Flaw("http_method", *flaw)
        if self.host_is_literal:
            try:
                origin_of_url(self._head + "/")
            except ValueError as error:
                yield Flaw("url", f"this is no HTTP URL: {error}", _URL_FIX)
        elif "@" in _MARK.sub("", self._head):
            yield Flaw("url", USERINFO, _USERINFO_FIX)
        if CONTROL.search(component.url):
            yield Flaw("url", "it has a control character in it", "Take it out.")
        for index, entry in enumerate(component.url_allow_list or ()):
            if allowed_entry(entry) is None:
                yield Flaw(
                    f"url_allow_list[{index}]",
                    f"{entry!r} is no HTTP URL",
                    "Write scheme, host and the beginning of the path: "
                    "https://api.example.com/v1/.",
                )
        yield from self._header_problems()

    def _header_problems(self) -> Iterator[Flaw]:
        seen: set[str] = set()
        for field in ("headers", "sensitive_headers"):
            for name, value in getattr(self.component, field).items():
                if placeholders(name):
                    continue
                if (flaw := name_flaw(name)) or (
                    isinstance(value, str)
                    and not placeholders(value)
                    and (flaw := value_flaw(name, value))
                ):
                    yield Flaw(field, *flaw)
                if name.lower() in seen:
                    yield Flaw(field, f"the header {name!r} is given twice", "Keep one.")
                seen.add(name.lower())

    def warnings(self) -> Iterator[Flaw]:
        """What is worth a look."""
        if not self.host_is_literal and self.component.url_allow_list is None:
            yield Flaw(
                "url",
                "a value decides which host this request goes to, and nothing says which "
                "may be reached",
                "Add a 'url_allow_list'.",
            )

    def render(self, given: Mapping[str, Any]) -> HttpRequest:
        """Fill the values in.

        Raises:
            RequestRefused: A value is missing, or makes a request that can't or must not
                be sent.
            EffortExceeded: It is too much to fill in.
        """
        filler = _Filler(given)
        origin, path, query = self._address(filler)
        params = filler.tree(self.component.query_params)
        method = filler.text(self.component.http_method).strip().upper()
        data = filler.tree(self.component.data)
        plain = filler.tree(self.component.headers)
        secret = filler.tree(self.component.sensitive_headers)
        filler.text(self.component.api_spec_uri or "")
        if filler.missing:
            listed = ", ".join(map(repr, filler.missing))
            raise RequestRefused(
                f"the request needs {listed}, which has no value; it was not sent"
                if len(filler.missing) == 1
                else f"the request needs {listed}, which have no value; it was not sent",
                fix="Connect it to an output, or give the input a default.",
            )
        if flaw := method_flaw(method):
            raise RequestRefused(*flaw[:1], fix=flaw[1])
        self._check_allowed(origin, path)
        headers = _headers(plain, secret)
        body, kind = _body(data, headers)
        if kind is not None:
            headers["Content-Type"] = kind
        extra = _query(params)
        query = "&".join(part for part in (query, extra) if part)
        return HttpRequest(
            method,
            *origin,
            f"{path}?{query}" if query else path,
            tuple(headers.items()),
            body,
            tuple(_written(value) for value in secret.values() if value != ""),
        )

    def _address(self, filler: "_Filler") -> tuple[Origin, str, str]:
        literal_scheme = re.match(r"https?://", self._head, re.IGNORECASE) is not None
        head = ""
        for piece in _MARK.split(self._head):
            value = filler.text(piece)
            if piece.startswith("{{") and filler.knows(piece):
                if literal_scheme and NO_HOST.search(value):
                    raise RequestRefused(
                        f"{_name(piece)!r} stands for a part of the host, and its value "
                        "has characters that end one",
                        fix="Pass a host name alone.",
                    )
                if not literal_scheme and self._tail and re.search("[?#]", value):
                    raise RequestRefused(
                        f"{_name(piece)!r} stands for the beginning of a URL, and its "
                        "value has a query or a fragment in it",
                        fix="Pass scheme, host and the beginning of the path.",
                    )
            head += value
        path, question, query = self._tail.partition("?")
        whole = head.strip() + "/".join(_segment(each, filler) for each in path.split("/"))
        if question:
            whole += "?" + "".join(
                quote(filler.text(piece), safe="") if piece.startswith("{{") else piece
                for piece in _MARK.split(query)
            )
        if filler.missing:
            return ("", "", 0), "", ""
        try:
            origin = origin_of_url(whole)
            parts = urlsplit(whole)
        except ValueError as error:
            raise RequestRefused(f"this is no HTTP URL: {error}", fix=_URL_FIX) from None
        return origin, normal_path(parts.path), safe_query(parts.query)

    def _check_allowed(self, origin: Origin, path: str) -> None:
        if self._allowed is None:
            return
        if not any(each.covers(origin, path) for each in self._allowed):
            raise RequestRefused(
                f"the request would go to {written_origin(origin)}{shortened(path)}, which "
                "the url_allow_list does not allow; it was not sent",
                fix="Correct the value, or add the address to 'url_allow_list'.",
            )


def needed(component: Described) -> tuple[str, ...]:
    """The names of all placeholders in a description, each once."""
    found: dict[str, None] = {}
    for field in ("url", "http_method", "api_spec_uri", "data", "query_params", "headers"):
        found.update(dict.fromkeys(_names(getattr(component, field))))
    found.update(dict.fromkeys(_names(component.sensitive_headers)))
    return tuple(found)


def _names(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield from placeholders(each)
        elif isinstance(each, Mapping):
            waiting += each.values()
            waiting += each.keys()
        elif isinstance(each, (list, tuple)):
            waiting += each


class _Filler:
    """Fills texts in; ``missing`` are the names that have no value."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = given
        self.missing: dict[str, None] = {}

    def knows(self, mark: str) -> bool:
        return _name(mark) in self._given

    def text(self, text: str) -> str:
        filled, unknown = render(text, self._given)
        self.missing.update(dict.fromkeys(unknown))
        return filled

    def tree(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(key): self.tree(inner) for key, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.tree(inner) for inner in value]
        return value


def _name(mark: str) -> str:
    return mark[2:-2].strip()


def _cut(url: str) -> tuple[str, str]:
    """Scheme and host of a URL, and the rest; what is behind ``#`` is no part of it."""
    text = url.strip()
    begin = text.find("://") + 3 if "://" in _MARK.sub("", text) else 0
    found = re.compile(r"[/?#\\]").search(text, begin)
    at = len(text) if found is None else found.start()
    tail = text[at:].partition("#")[0]
    return text[:at], tail


def _segment(segment: str, filler: _Filler) -> str:
    """One step of the path, with its values encoded so that they stay one step."""
    if "{{" not in segment:
        return segment
    filled = "".join(
        quote(filler.text(piece), safe="") if piece.startswith("{{") else piece
        for piece in _MARK.split(segment)
    )
    if not filler.missing and unquote(filled) in (".", ".."):
        raise RequestRefused(
            f"with these values a step of the path is {unquote(filled)!r}, which leads "
            "elsewhere",
            fix="Pass another value.",
        )
    return filled


_URL_FIX: Final = "Write it like https://api.example.com/items/{{id}}."
_USERINFO_FIX: Final = "Put an Authorization header into 'sensitive_headers'."


def _written(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _headers(plain: Mapping[str, Any], secret: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in (*plain.items(), *secret.items()):
        text = _written(value)
        flaw = header_flaw(name, text)
        if flaw is None and any(name.lower() == other.lower() for other in found):
            flaw = (f"the header {name!r} is given twice", "Keep one.")
        if flaw is not None:
            raise RequestRefused(flaw[0], fix=flaw[1])
        found[name] = text.strip()
    return found


def _body(data: Any, headers: Mapping[str, str]) -> tuple[bytes | None, str | None]:
    """What is sent, and its Content-Type where the description gives none."""
    if data is None or data == "" or data == {}:
        return None, None
    given = next((v for k, v in headers.items() if k.lower() == "content-type"), None)
    try:
        if isinstance(data, str):
            return data.encode(), None
        if given is not None and given.partition(";")[0].strip().lower() == FORM:
            if not isinstance(data, Mapping):
                raise RequestRefused(
                    "the data of a form is an object", fix="Write an object into 'data'."
                )
            return urlencode(list(_pairs(data))).encode("ascii"), None
        return msgspec.json.encode(data), None if given else "application/json"
    except UnicodeEncodeError as error:
        raise RequestRefused(
            "the data has half a character in it, which can't be sent"
        ) from error


def _query(params: Mapping[str, Any]) -> str:
    try:
        return urlencode(list(_pairs(params)), quote_via=quote, safe="")
    except UnicodeEncodeError as error:
        raise RequestRefused(
            "the query has half a character in it, which can't be sent"
        ) from error


def _pairs(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """A list is its items, each under the same name; null is left out."""
    for name, value in values.items():
        for each in value if isinstance(value, list) else (value,):
            if each is not None:
                yield name, _written(each)
