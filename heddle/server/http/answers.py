"""The bytes of an answer: status line, headers, chunks.

Everything that a header may not contain is looked for here, on the way out, whoever wrote
it: a line end in a value would let a client write our answers.
"""

import re
import time
from collections.abc import Mapping
from typing import Final

from heddle.server.http.messages import HeaderPairs, Response, StreamedResponse
from heddle.server.http.refusals import Refusal, error_body
from plugins_host import Fault

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK: Final = b"0\r\n\r\n"

CLOSE: Final = b"Connection: close\r\n"
KEEP_ALIVE: Final = b"Connection: keep-alive\r\n"
"""For HTTP/1.0, where keeping is not the rule."""

_REASONS: Final[Mapping[int, str]] = {
    200: "OK",
    201: "Created",
    202: "Accepted",
    204: "No Content",
    206: "Partial Content",
    301: "Moved Permanently",
    302: "Found",
    303: "See Other",
    304: "Not Modified",
    307: "Temporary Redirect",
    308: "Permanent Redirect",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    408: "Request Timeout",
    409: "Conflict",
    410: "Gone",
    411: "Length Required",
    412: "Precondition Failed",
    413: "Content Too Large",
    414: "URI Too Long",
    415: "Unsupported Media Type",
    416: "Range Not Satisfiable",
    417: "Expectation Failed",
    421: "Misdirected Request",
    422: "Unprocessable Content",
    426: "Upgrade Required",
    428: "Precondition Required",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
    505: "HTTP Version Not Supported",
}
_NO_BODY: Final = frozenset((204, 304))

_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# RFC 9110, 5.5. What is not ASCII belongs into a body.
_VALUE: Final = re.compile(r"(?:[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?)?")
_OURS: Final = frozenset(
    ("connection", "content-length", "date", "server", "transfer-encoding")
)

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = (
    *("Jan", "Feb", "Mar", "Apr", "May", "Jun"),
    *("Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
)

# Headers that come with every answer of a route are encoded once a second. What is never
# the same twice must not fill the memory.
_KEPT: Final = 128


class HandlerMisuse(Fault):
    """A handler answered with what HTTP has no bytes for: our bug."""


def http_date(seconds: float) -> str:
    """A moment as HTTP writes it."""
    year, month, day, hour, minute, second, weekday, _, _ = time.gmtime(seconds)
    return (
        f"{_DAYS[weekday]}, {day:02} {_MONTHS[month - 1]} {year} "
        f"{hour:02}:{minute:02}:{second:02} GMT"
    )


def encode_headers(headers: HeaderPairs) -> bytes:
    """Header lines.

    Raises:
        HandlerMisuse: A name or value that would not arrive as it is, or is ours to send.
    """
    lines = []
    for name, value in headers:
        if name not in _good_names:
            _check_name(name)
        if not _VALUE.fullmatch(value):
            # The value may be a credential, or a client's.
            raise HandlerMisuse(f"a handler answers with a value of {name!r} that no "
                                "header can have")  # fmt: skip
        lines.append(f"{name}: {value}\r\n")
    return "".join(lines).encode("ascii")


# The names that handlers use are a few, and always the same.
_NAMES_KEPT: Final = 128
_good_names: Final[set[str]] = set()


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or name.lower() in _OURS:
        raise HandlerMisuse(f"a handler answers with a header named {name!r}")
    if len(_good_names) < _NAMES_KEPT:
        _good_names.add(name)


class Encoder:
    """Writes the answers of one server."""

    __slots__ = ("_second", "_starts")

    def __init__(self) -> None:
        self._second = -1
        self._starts: dict[tuple[int, HeaderPairs], bytes] = {}

    def _start(self, status: int, headers: HeaderPairs, own: HeaderPairs) -> bytes:
        """Status line and headers, Server and Date among them: the same for a second,
        but for those that this answer has for itself."""
        now = int(time.time())
        if now != self._second:
            self._second = now
            self._starts.clear()
        key = (status, headers)
        start = self._starts.get(key)
        if start is None:
            if not 200 <= status <= 599:
                raise HandlerMisuse(f"a handler answers with status {status!r}")
            line = f"HTTP/1.1 {status} {_REASONS.get(status, '')}\r\n"
            ours = f"{line}Server: heddle\r\nDate: {http_date(now)}\r\n"
            start = ours.encode("ascii") + encode_headers(headers)
            if len(self._starts) < _KEPT:
                self._starts[key] = start
        return start + encode_headers(own) if own else start

    def response(self, answer: Response, connection: bytes, *, head_only: bool) -> bytes:
        """All bytes of an answer.

        Args:
            answer: What the handler says.
            connection: A Connection header, or nothing.
            head_only: Whether the request was HEAD.

        Raises:
            HandlerMisuse: It cannot be written down.
        """
        status, body = answer.status, answer.body
        start = self._start(status, answer.headers, answer.own)
        if status in _NO_BODY:
            if body:
                raise HandlerMisuse(f"a handler answers {status} with a body")
            return b"%b%b\r\n" % (start, connection)
        return b"%b%bContent-Length: %d\r\n\r\n%b" % (
            start,
            connection,
            len(body),
            b"" if head_only else body,
        )

    def stream_head(
        self, answer: StreamedResponse, *, connection: bytes, chunked: bool
    ) -> bytes:
        """The head of an answer whose body follows in pieces; raises as `response`."""
        if answer.status in _NO_BODY:
            raise HandlerMisuse(f"a handler streams an answer {answer.status}")
        return b"%b%b%b\r\n" % (
            self._start(answer.status, answer.headers, answer.own),
            connection,
            b"Transfer-Encoding: chunked\r\n" if chunked else b"",
        )


_JSON: Final = ("Content-Type", "application/json")


def refusal_response(refusal: Refusal, *, close: bool) -> Response:
    """What a client is told about its fault."""
    message = str(refusal)
    return Response(
        refusal.status,
        (_JSON, *refusal.headers),
        error_body(refusal.type, message),
        close=close,
    )


def crash_response(request_id: str) -> Response:
    """What a client is told about ours."""
    message = f"heddle-server failed to answer; its log has more under {request_id}"
    return Response(500, (_JSON,), error_body("internal_error", message), close=False)
