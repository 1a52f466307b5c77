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
from heddle.spec import ApiNode, RemoteTool, placeholders, render

Described: TypeAlias = ApiNode | RemoteTool

TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
REFUSED_METHODS: Final = ("CONNECT", "TRACE")
"""One opens a tunnel, the other has secrets sent back; neither is a request."""

OWN_HEADERS: Final = frozenset(
    (
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)
"""What says how a request travels: heddle writes it. All ``proxy-`` headers are, too."""

PORTS: Final[Mapping[str, int]] = {"http": 80, "https": 443}
FORM: Final = "application/x-www-form-urlencoded"

_MARK: Final = re.compile(r"(\{\{\s*\w+\s*\}\})")
_NO_HOST: Final = re.compile(r"[\s/?#@\\\"<>^`{|}\x00-\x1f\x7f]")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_ENCODED: Final = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED: Final = frozenset(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
)
# What stands for itself in a path or a query; a percent sign was looked at before.
_SAFE_PATH: Final = "/%:@!$&'()*+,;=~"
_SAFE_QUERY: Final = _SAFE_PATH + "?"
# A path that is still encoded after this many decodings is a trick.
_DECODINGS: Final = 8


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


class Allowed(Struct, frozen=True):
    """An entry of an allow list: where it points, and what its paths begin with."""

    origin: tuple[str, str, int]
    path: str
    decoded: str

    def covers(self, origin: tuple[str, str, int], path: str) -> bool:
        """Whether a request goes to where this points, however its path is read."""
        return (
            origin == self.origin
            and path.startswith(self.path)
            and decoded_path(path).startswith(self.decoded)
        )


class RequestTemplate:
    """A request with placeholders in it, read once."""

    def __init__(self, component: Described) -> None:
        self.component = component
        self.label = f"{component.component_type} {component.name!r}"
        self._head, self._tail = _cut(component.url)
        self._allowed: tuple[Allowed, ...] | None = None
        if component.url_allow_list is not None:
            known = (_entry(each) for each in component.url_allow_list)
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
        if not placeholders(method) and (flaw := _method_flaw(method)):
            yield Flaw("http_method", *flaw)
        if self.host_is_literal:
            try:
                origin_of_url(self._head + "/")
            except ValueError as error:
                yield Flaw("url", f"this is no HTTP URL: {error}", _URL_FIX)
        elif "@" in _MARK.sub("", self._head):
            yield Flaw("url", _USERINFO, _USERINFO_FIX)
        if _CONTROL.search(component.url):
            yield Flaw("url", "it has a control character in it", "Take it out.")
        for index, entry in enumerate(component.url_allow_list or ()):
            if _entry(entry) is None:
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
                if (flaw := _header_flaw(name)) or (
                    isinstance(value, str)
                    and not placeholders(value)
                    and (flaw := _value_flaw(name, value))
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
        if flaw := _method_flaw(method):
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

    def _address(self, filler: "_Filler") -> tuple[tuple[str, str, int], str, str]:
        literal_scheme = re.match(r"https?://", self._head, re.IGNORECASE) is not None
        head = ""
        for piece in _MARK.split(self._head):
            value = filler.text(piece)
            if piece.startswith("{{") and filler.knows(piece):
                if literal_scheme and _NO_HOST.search(value):
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
        return origin, normal_path(parts.path), _safe(parts.query, _SAFE_QUERY)

    def _check_allowed(self, origin: tuple[str, str, int], path: str) -> None:
        if self._allowed is None:
            return
        if not any(each.covers(origin, path) for each in self._allowed):
            scheme, host, port = origin
            raise RequestRefused(
                f"the request would go to {scheme}://{_authority(host, port, scheme)}"
                f"{_short(path)}, which the url_allow_list does not allow; it was not sent",
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
_USERINFO: Final = "it has a user or a password in it"
_USERINFO_FIX: Final = "Put an Authorization header into 'sensitive_headers'."


def origin_of_url(url: str) -> tuple[str, str, int]:
    """Scheme, host and port.

    Raises:
        ValueError: It is no HTTP URL; the text says why, and quotes nothing of it.
    """
    if _CONTROL.search(url):
        raise ValueError("it has a control character in it")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError("its host or port cannot be read") from None
    scheme = parts.scheme.lower()
    if scheme not in PORTS:
        raise ValueError(f"its scheme is {scheme!r}" if scheme else "it has no scheme")
    if "@" in parts.netloc:
        raise ValueError(f"{_USERINFO}; secrets belong into 'sensitive_headers'")
    host = parts.hostname
    if not host:
        raise ValueError("it has no host")
    if not host.isascii():
        try:
            host = host.encode("idna").decode("ascii")
        except UnicodeError:
            raise ValueError("its host name cannot be encoded") from None
    if _NO_HOST.search(host) or "%" in host or len(host) > 255:
        raise ValueError("its host name has characters that no host has")
    return scheme, host.rstrip(".").lower(), PORTS[scheme] if port is None else port


def _authority(host: str, port: int, scheme: str) -> str:
    shown = f"[{host}]" if ":" in host else host
    return shown if port == PORTS[scheme] else f"{shown}:{port}"


def _safe(text: str, safe: str) -> str:
    """The text as it may stand in a URL; what is encoded in it stays, in one spelling."""

    def one(match: re.Match[str]) -> str:
        character = chr(int(match[1], 16))
        return character if character in _UNRESERVED else match[0].upper()

    plain = re.sub(r"%(?![0-9A-Fa-f]{2})", "%25", text)
    return quote(_ENCODED.sub(one, plain), safe=safe)


def normal_path(path: str) -> str:
    """The path that is sent: encoded in one way, without dot segments."""
    return resolve_dots(_safe(path, _SAFE_PATH))


def decoded_path(path: str) -> str:
    """The path as a server reads it that decodes again and again."""
    for _ in range(_DECODINGS):
        decoded = unquote(path)
        if decoded == path:
            break
        path = decoded
    return resolve_dots(path.replace("\\", "/"))


def resolve_dots(path: str) -> str:
    """A path without ``.`` and ``..``, from the root on (RFC 3986, 5.2.4)."""
    steps: list[str] = []
    parts = path.split("/")
    for step in parts[1:] if path.startswith("/") else parts:
        if step == "..":
            del steps[-1:]
        elif step != ".":
            steps.append(step)
    if parts[-1] in (".", "..") or not steps:
        steps.append("")
    return "/" + "/".join(steps)


def _entry(entry: str) -> Allowed | None:
    if "{{" in entry:
        return None
    try:
        origin = origin_of_url(entry)
    except ValueError:
        return None
    path = normal_path(urlsplit(entry).path)
    return Allowed(origin, path, decoded_path(path))


def _short(path: str) -> str:
    return path if len(path) <= 100 else f"{path[:99]}…"


def _method_flaw(method: str) -> tuple[str, str] | None:
    if TOKEN.fullmatch(method.strip()) is None:
        return f"{_short(method)!r} is no HTTP method", "Write GET, POST or another."
    if method.strip().upper() in REFUSED_METHODS:
        return f"{method.strip().upper()} is not sent", "Write GET, POST or another."
    return None


def _header_flaw(name: str) -> tuple[str, str] | None:
    if TOKEN.fullmatch(name) is None:
        return f"{_short(name)!r} is no name of a header", "Correct or remove it."
    if name.lower() in OWN_HEADERS or name.lower().startswith("proxy-"):
        return f"the header {name!r} is written by heddle", "Leave it out."
    return None


def _value_flaw(name: str, value: str) -> tuple[str, str] | None:
    try:
        value.encode("latin-1")
    except UnicodeEncodeError:
        fits = False
    else:
        fits = re.search(r"[\x00-\x08\x0a-\x1f\x7f]", value) is None
    if fits:
        return None
    return (
        f"the value of the header {name!r} has characters that no header has",
        "Encode it, as base64 for example.",
    )


def header_problem(name: str, value: str) -> tuple[str, str] | None:
    """What is wrong with a header, and what to do; None for a sound one."""
    return _header_flaw(name) or _value_flaw(name, value)


def _written(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _headers(plain: Mapping[str, Any], secret: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in (*plain.items(), *secret.items()):
        text = _written(value)
        flaw = _header_flaw(name) or _value_flaw(name, text)
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
