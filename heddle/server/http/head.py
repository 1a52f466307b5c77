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
from collections.abc import Callable
from functools import lru_cache
from typing import Final

import httptools
from msgspec import Struct

from heddle.server.http.fields import Headers
from heddle.server.http.limits import Limits
from heddle.server.http.refusals import Refusal
from heddle.server.http.target import AUTHORITY, Target, read_target

_TOKEN: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_REQUEST_LINE: Final = re.compile(
    rb"(" + _TOKEN + rb") ([\x21-\x7e]+) HTTP/([0-9])\.([0-9])\r\n"
)
_LENGTH: Final = re.compile(rb"[0-9]{1,19}[ \t]*")
# All that a head may consist of besides CR and LF.
_TEXT: Final = b"\t" + bytes(range(0x20, 0x7F)) + bytes(range(0x80, 0x100))
# A line that ends in something else than CR LF; the CR at the very end may still get its
# LF. A continued line is left to the whole head.
_BROKEN_LINE: Final = re.compile(rb"(?<!\r)\n|\r(?!\n|\Z)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_STARTS_METHOD: Final = re.compile(_TOKEN)

_BLANKS: Final = b" \t"
_CONTINUE: Final = b"100-continue"


class Head(Struct):
    """What a request line and its headers say.

    ``content_length`` is None where there is none, ``upgrade`` where the client would not
    rather speak another protocol, or can't have it.

    Requests of one connection share a head that is the same: ``admitted`` is what a handler
    has found out from it and need not find out again, and ``is_json`` whether it is known
    to announce JSON.
    """

    method: str
    target: Target
    headers: Headers
    http_1_1: bool
    keep_alive: bool
    content_length: int | None = None
    chunked: bool = False
    expects_continue: bool = False
    upgrade: str | None = None
    admitted: object = None
    is_json: bool = False


def read_head(raw: bytes, limits: Limits) -> Head:
    """Read a head.

    Args:
        raw: From the request line to the empty line, both included.
        limits: Of the request line, of the head, and of the number of headers.

    Raises:
        Refusal: 400, 414, 417, 431, 501 or 505.
    """
    line = raw[: raw.find(b"\n") + 1]
    if len(line) > limits.request_line + 2:
        raise _long_line(limits)
    read = _read_known_line if len(line) <= _LONGEST_KNOWN else _read_line
    method, target, http_1_1 = read(line)
    if len(raw) > limits.head:
        raise long_head(limits)
    ends = raw.translate(None, _TEXT)
    count = (len(ends) >> 1) - 2
    if ends != b"\r\n" * (count + 2):
        raise _control_character()
    if b"\n " in raw or b"\n\t" in raw:
        raise Refusal(400, "a header line begins with a blank")
    if count > limits.headers:
        raise Refusal(431, f"there are more than {limits.headers} headers")
    headers = _read_headers(raw, count, method)
    head = Head(method, target, headers, http_1_1, http_1_1)
    by_name = headers.by_name
    _check_host(head, by_name.get(b"host"))
    if b"content-length" in by_name or b"transfer-encoding" in by_name:
        _read_length(head)
    if b"connection" in by_name:
        _read_connection(head)
    if b"expect" in by_name:
        _read_expect(head)
    return head


def _read_line(line: bytes) -> tuple[str, Target, bool]:
    """Method and target, and whether the version is HTTP/1.1."""
    found = _REQUEST_LINE.fullmatch(line)
    if found is None:
        raise _bad_line()
    method, target, major, minor = found.groups()
    if major != b"1" or minor not in (b"0", b"1"):
        raise Refusal(505, "the version is not HTTP/1.1", fix="Send HTTP/1.1 or HTTP/1.0.")
    if method == b"CONNECT":
        raise Refusal(501, "this server is not a proxy")
    name = method.decode("ascii")
    return name, read_target(target, options=name == "OPTIONS"), minor == b"1"


# Request lines that come again and again, as those of routes do. Long ones carry data and
# don't, and would be kept for nothing.
_LONGEST_KNOWN: Final = 256
_read_known_line: Final = lru_cache(maxsize=256)(_read_line)


def check_partial(raw: bytes, new: int, limits: Limits) -> None:
    """Refuse a head that is not complete yet and cannot become a good one.

    Args:
        raw: What arrived of it.
        new: Where in ``raw`` it begins that was not looked at before.
        limits: As of `read_head`.

    Raises:
        Refusal: As `read_head` will, whatever follows, but for its status.
    """
    end = raw.find(b"\n", 0, limits.request_line + 2)
    if end >= new:
        _read_line(raw[: end + 1])
    elif end < 0 and len(raw) >= limits.request_line + 2:
        raise _long_line(limits)
    if _BROKEN_LINE.search(raw, max(0, new - 1)):
        raise _control_character()
    if end < 0 and not _STARTS_METHOD.match(raw):
        raise _bad_line()
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
    count = (len(ends) >> 1) - 1
    if ends != b"\r\n" * (count + 1):
        raise _control_character()
    headers = _read_headers(b"GET / HTTP/1.1\r\n" + raw, count, "GET")
    for name in headers.by_name:
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


# What llhttp says of a coding, other than of a second one after "chunked".
_UNKNOWN_CODING: Final = "Request has invalid `Transfer-Encoding`"


def _unknown_coding() -> Refusal:
    return Refusal(
        501, "the Transfer-Encoding is not 'chunked'", fix="Send 'chunked' alone."
    )


def _bad_line() -> Refusal:
    return Refusal(400, "the first line is not METHOD TARGET HTTP/1.1")


def _control_character() -> Refusal:
    return Refusal(
        400, "there is a control character, or a line that does not end in CR LF"
    )


class _Taken:
    """Where the parser puts headers: into a dictionary, without a detour here."""

    __slots__ = ("on_header",)

    on_header: Callable[[bytes, bytes], object]


def _read_headers(raw: bytes, count: int, method: str) -> Headers:
    """Let llhttp take ``count`` header lines apart, and make sure that it saw as many."""
    taken: dict[bytes, bytes] = {}
    protocol = _Taken()
    protocol.on_header = taken.setdefault
    _feed(raw, protocol, method)
    by_name = {name.lower(): value for name, value in taken.items()}
    if len(by_name) == count:
        return Headers(by_name)
    pairs: list[tuple[bytes, bytes]] = []
    protocol.on_header = lambda name, value: pairs.append((name.lower(), value))
    _feed(raw, protocol, method)
    if len(pairs) != count:
        raise Refusal(400, "the head is not HTTP: a line is not a header")
    return Headers(dict(pairs), pairs)


def _feed(raw: bytes, protocol: _Taken, method: str) -> None:
    try:
        httptools.HttpRequestParser(protocol).feed_data(raw)
    except httptools.HttpParserUpgrade:
        pass  # Whether there is an upgrade is the handler's to say.
    except httptools.HttpParserInvalidMethodError as error:
        raise Refusal(501, f"there is no method {method!r}") from error
    except httptools.HttpParserError as error:
        if str(error) == _UNKNOWN_CODING:
            raise _unknown_coding() from error
        raise Refusal(400, f"the head is not HTTP: {error}") from error


def _check_host(head: Head, host: bytes | None) -> None:
    if host is None:
        if head.http_1_1:
            raise Refusal(400, "there is no Host header")
        return
    if head.headers.pairs is not None and len(head.headers.raw(b"host")) > 1:
        raise Refusal(400, "there is more than one Host header")
    if host not in _good_hosts:
        host = host.rstrip(_BLANKS)
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


def _read_length(head: Head) -> None:
    headers = head.headers
    if headers.pairs is not None:
        for name in (b"content-length", b"transfer-encoding"):
            if len(headers.raw(name)) > 1:
                raise Refusal(400, f"there is more than one {name.decode('ascii')}")
    length = headers.by_name.get(b"content-length")
    coding = headers.by_name.get(b"transfer-encoding")
    if coding is None:
        assert length is not None
        if not _LENGTH.fullmatch(length):
            raise Refusal(400, "the Content-Length is not a number of bytes")
        head.content_length = int(length)
    elif length is not None:
        raise Refusal(400, "there are a Content-Length and a Transfer-Encoding")
    elif not head.http_1_1:
        raise Refusal(400, "HTTP/1.0 has no Transfer-Encoding")
    elif coding.rstrip(_BLANKS).lower() != b"chunked":
        raise _unknown_coding()
    else:
        head.chunked = True


def _read_connection(head: Head) -> None:
    words = {
        word.strip(_BLANKS).lower()
        for value in head.headers.raw(b"connection")
        for word in value.split(b",")
    }
    if b"close" in words:
        head.keep_alive = False
    elif b"keep-alive" in words:
        head.keep_alive = True
    has_body = head.chunked or head.content_length
    if b"upgrade" in words and head.http_1_1 and not has_body:
        head.upgrade = head.headers.get("upgrade")


def _read_expect(head: Head) -> None:
    if not head.http_1_1:
        return
    if [one.rstrip(_BLANKS).lower() for one in head.headers.raw(b"expect")] != [_CONTINUE]:
        raise Refusal(417, "only 100-continue can be expected")
    head.expects_continue = head.chunked or bool(head.content_length)
