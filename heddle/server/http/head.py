"""The head of a request: bytes in, what they say out, or why they are refused.

httptools (llhttp) takes the header lines apart. What decides where a message ends and
who it is for is checked here as well: RFC 9112 leaves a server choices that two servers
in a row make differently, and whoever sends such a message can hide a second one in it.
Nothing ambiguous gets past:

    lines end in CR LF, and neither stands alone     no line continues another
    one length, as digits or as "chunked"            one Host, agreeing with the target
    one space on either side of the target           HTTP/1.1 or HTTP/1.0
"""

import re
from typing import Final

import httptools

from heddle.server.http.limits import Limits
from heddle.server.http.refusals import Refusal
from heddle.server.http.target import AUTHORITY, Target, read_target

_TOKEN: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_REQUEST_LINE: Final = re.compile(
    rb"(" + _TOKEN + rb") ([\x21-\x7e]+) HTTP/([0-9])\.([0-9])\r\n"
)
_LENGTH: Final = re.compile(rb"[0-9]{1,19}")
# All that a head may consist of besides CR and LF.
_TEXT: Final = b"\t" + bytes(range(0x20, 0x7F)) + bytes(range(0x80, 0x100))
# A line that ends in something else than CR LF; the CR at the very end may still get its
# LF. A continued line is left to the whole head.
_BROKEN_LINE: Final = re.compile(rb"(?<!\r)\n|\r(?!\n|\Z)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_STARTS_METHOD: Final = re.compile(_TOKEN)

# The methods there are, so that they need not be decoded.
_METHODS: Final = {
    name.encode(): name
    for name in ("GET", "POST", "HEAD", "OPTIONS", "DELETE", "PUT", "PATCH", "TRACE")
}


class Head:
    """What a request line and its headers say. ``pairs`` has names in lower case."""

    __slots__ = (
        "by_name",
        "chunked",
        "content_length",
        "expects_continue",
        "http_1_1",
        "keep_alive",
        "method",
        "pairs",
        "target",
        "upgrade",
    )

    def __init__(self, method: str, target: Target, *, http_1_1: bool) -> None:
        self.method = method
        self.target = target
        self.http_1_1 = http_1_1
        self.keep_alive = http_1_1
        self.pairs: list[tuple[bytes, bytes]] = []
        self.by_name: dict[bytes, bytes] = {}
        self.content_length: int | None = None
        self.chunked = False
        self.expects_continue = False
        self.upgrade: str | None = None

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header from the parser."""
        self.pairs.append((name.lower(), value.rstrip(b" \t")))


class _Lines:
    """Header lines alone."""

    def __init__(self) -> None:
        self.pairs: list[tuple[bytes, bytes]] = []
        self.complete = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.pairs.append((name.lower(), value))


def read_head(raw: bytes, limits: Limits) -> Head:
    """Read a head.

    Args:
        raw: From the request line to the empty line, both included.
        limits: Of the request line, of the head, and of the number of headers.

    Raises:
        Refusal: 400, 414, 417, 431, 501 or 505.
    """
    line = _REQUEST_LINE.match(raw)
    if line is None:
        raise _bad_request_line(raw, limits)
    method, raw_target, major, minor = line.groups()
    if line.end() - 2 > limits.request_line:
        raise _long_line(limits)
    if len(raw) > limits.head:
        raise long_head(limits)
    if major != b"1" or minor not in (b"0", b"1"):
        raise Refusal(505, "the version is not HTTP/1.1", fix="Send HTTP/1.1 or HTTP/1.0.")
    ends = raw.translate(None, _TEXT)
    if ends != b"\r\n" * (len(ends) >> 1):
        raise Refusal(400, "the head has a control character or a line without CR LF")
    if (len(ends) >> 1) - 2 > limits.headers:
        raise Refusal(431, f"there are more than {limits.headers} headers")
    name = _METHODS.get(method) or method.decode("ascii")
    if name == "CONNECT":
        raise Refusal(501, "this server is not a proxy")
    head = Head(
        name,
        read_target(raw_target, options=name == "OPTIONS"),
        http_1_1=minor == b"1",
    )
    _parse(raw, head)
    by_name = head.by_name = dict(head.pairs)
    _check_host(head, by_name.get(b"host"))
    if b"content-length" in by_name or b"transfer-encoding" in by_name:
        _read_length(head, by_name)
    if b"connection" in by_name:
        _read_connection(head)
    if b"expect" in by_name:
        _read_expect(head, by_name[b"expect"])
    return head


def check_partial(raw: bytes, new: int, limits: Limits) -> None:
    """Refuse a head that is not complete yet and cannot become a good one.

    Args:
        raw: What arrived of it.
        new: Where in ``raw`` it begins that was not looked at before.
        limits: As of `read_head`.

    Raises:
        Refusal: As `read_head` will, whatever follows, but for its status.
    """
    broken = _BROKEN_LINE.search(raw, max(0, new - 1))
    if broken is not None:
        raise Refusal(400, "the head has a control character or a line without CR LF")
    end = raw.find(b"\n", max(0, new - 1), limits.request_line + 3)
    if end >= 0 and end == raw.find(b"\n"):
        if not _REQUEST_LINE.match(raw):
            raise _bad_request_line(raw, limits)
    elif b"\n" not in raw and not _STARTS_METHOD.match(raw):
        raise Refusal(400, "the request does not begin with a method")
    if len(raw) > limits.request_line + 2 and raw.find(b"\n") < 0:
        raise _long_line(limits)
    if len(raw) > limits.head:
        raise long_head(limits)


def check_trailers(raw: bytes) -> None:
    """Refuse what is not a block of header lines, or says something about the message.

    Args:
        raw: From the first trailer to the empty line, both included.

    Raises:
        Refusal: 400.
    """
    ends = raw.translate(None, _TEXT)
    lines = _Lines()
    parser = httptools.HttpRequestParser(lines)
    try:
        parser.feed_data(b"GET / HTTP/1.1\r\n" + raw)
    except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
        raise Refusal(400, "a trailer of the body is not a header line") from error
    if ends != b"\r\n" * (len(lines.pairs) + 1):
        raise Refusal(400, "a trailer of the body is not a header line")
    for name, _ in lines.pairs:
        if name in _NOT_IN_TRAILERS:
            raise Refusal(400, f"{name.decode('ascii')!r} is no header for a trailer")


# RFC 9110, 6.5.1: those that decide how a message is read, or who may send it.
_NOT_IN_TRAILERS: Final = frozenset(
    (
        b"authorization",
        b"connection",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"expect",
        b"host",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    )
)


def long_head(limits: Limits) -> Refusal:
    """The refusal of a head over its limit."""
    return Refusal(431, f"the head of the request is longer than {limits.head} bytes")


def _long_line(limits: Limits) -> Refusal:
    return Refusal(414, f"the request line is longer than {limits.request_line} bytes")


def _bad_request_line(raw: bytes, limits: Limits) -> Refusal:
    if raw.find(b"\n", 0, limits.request_line + 2) < 0:
        return _long_line(limits)
    return Refusal(400, "the first line is not METHOD TARGET HTTP/1.1")


def _parse(raw: bytes, head: Head) -> None:
    """Let llhttp take the lines apart, and make sure that it saw the same head."""
    parser = httptools.HttpRequestParser(head)
    try:
        parser.feed_data(raw)
    except httptools.HttpParserUpgrade:
        pass  # Whether there is an upgrade is the handler's to say.
    except httptools.HttpParserInvalidMethodError as error:
        raise Refusal(501, f"there is no method {head.method!r}") from error
    except httptools.HttpParserError as error:
        raise Refusal(400, f"the head is not HTTP: {error}") from error
    if len(head.pairs) != raw.count(b"\n") - 2:
        raise Refusal(400, "the head is not HTTP: a line is not a header")


def _check_host(head: Head, host: bytes | None) -> None:
    if host is None:
        if head.http_1_1:
            raise Refusal(400, "there is no Host header")
        return
    if len(head.by_name) != len(head.pairs) and _count(head, b"host") > 1:
        raise Refusal(400, "there is more than one Host header")
    if host not in _good_hosts:
        if not AUTHORITY.fullmatch(host):
            raise Refusal(400, "the Host header is not a host")
        if len(_good_hosts) < _HOSTS_KEPT:
            _good_hosts.add(host)
    if not head.target.agrees_with(host):
        raise Refusal(400, "the Host header is not the host of the request's target")


# Nearly all requests name one of a few hosts. A client that makes names up gets the
# first so many into the set, and nothing is lost by that.
_HOSTS_KEPT: Final = 64
_good_hosts: Final[set[bytes]] = set()


def _read_length(head: Head, by_name: dict[bytes, bytes]) -> None:
    length = by_name.get(b"content-length")
    coding = by_name.get(b"transfer-encoding")
    if length is not None and coding is not None:
        raise Refusal(400, "there are a Content-Length and a Transfer-Encoding")
    if len(by_name) != len(head.pairs):
        for name in (b"content-length", b"transfer-encoding"):
            if _count(head, name) > 1:
                raise Refusal(400, f"there is more than one {name.decode('ascii')}")
    if length is not None:
        if not _LENGTH.fullmatch(length):
            raise Refusal(400, "the Content-Length is not a number of bytes")
        head.content_length = int(length)
    elif not head.http_1_1:
        raise Refusal(400, "HTTP/1.0 has no Transfer-Encoding")
    elif coding is not None and coding.lower() != b"chunked":
        raise Refusal(
            501, "the Transfer-Encoding is not 'chunked'", fix="Send 'chunked' alone."
        )
    else:
        head.chunked = True


def _read_connection(head: Head) -> None:
    words = {
        word.strip().lower()
        for name, value in head.pairs
        if name == b"connection"
        for word in value.split(b",")
    }
    if b"close" in words:
        head.keep_alive = False
    elif b"keep-alive" in words:
        head.keep_alive = True
    has_body = head.chunked or head.content_length
    if b"upgrade" in words and head.http_1_1 and not has_body:
        protocol = head.by_name.get(b"upgrade")
        head.upgrade = None if protocol is None else protocol.decode("latin-1")


def _read_expect(head: Head, value: bytes) -> None:
    if not head.http_1_1:
        return
    if value.lower() != b"100-continue" or _count(head, b"expect") > 1:
        raise Refusal(417, "only 100-continue can be expected")
    head.expects_continue = head.chunked or bool(head.content_length)


def _count(head: Head, name: bytes) -> int:
    return sum(own == name for own, _ in head.pairs)
