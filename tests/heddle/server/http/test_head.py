"""What a head may be, what it says, and how it is refused."""

import httptools
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from heddle.server.http import Limits, Refusal
from heddle.server.http.head import check_partial, check_trailers, read_head

LIMITS = Limits(request_line=100, head=600, headers=10)


def head(*lines: bytes, first: bytes = b"GET / HTTP/1.1", host: bytes = b"x") -> bytes:
    """A head with a Host."""
    return b"\r\n".join((first, b"Host: " + host, *lines, b"", b""))


def refused(raw: bytes) -> Refusal:
    with pytest.raises(Refusal) as caught:
        read_head(raw, LIMITS)
    return caught.value


def test_a_head_says_method_target_and_headers() -> None:
    found = read_head(
        head(b"X-A: 1", b"x-b:2 \t", b"X-a:\t3", first=b"PUT /a?b=c HTTP/1.1"), LIMITS
    )
    assert found.method == "PUT"
    assert found.target.path == "/a"
    assert list(found.target.query) == [("b", "c")]
    assert list(found.headers) == [("host", "x"), ("x-a", "1"), ("x-b", "2"), ("x-a", "3")]
    assert found.headers.get("X-A") == "1, 3"
    assert found.headers.all("x-a") == ["1", "3"]
    assert found.headers.get("X-B") == "2"
    assert found.headers.get("X-C") is None
    assert found.headers.all("X-C") == []
    assert "X-B" in found.headers
    assert len(found.headers) == 4
    assert found.content_length is None
    assert not found.chunked


def test_headers_are_printed_without_their_values() -> None:
    found = read_head(head(b"Authorization: secret"), LIMITS)
    assert repr(found.headers) == "Headers(['host', 'authorization'])"


def test_a_value_may_have_bytes_beyond_ascii() -> None:
    found = read_head(head("X-Name: Ägypten".encode()), LIMITS)
    value = found.headers.get("x-name")
    assert value is not None
    assert value.encode("latin-1").decode() == "Ägypten"


KEEPING = [
    (b"HTTP/1.1", [], True),
    (b"HTTP/1.1", [b"Connection: close"], False),
    (b"HTTP/1.1", [b"Connection: Keep-Alive, CLOSE"], False),
    (b"HTTP/1.1", [b"Connection: x", b"Connection: close , y"], False),
    (b"HTTP/1.1", [b"Connection: closed"], True),
    (b"HTTP/1.0", [], False),
    (b"HTTP/1.0", [b"Connection: keep-alive"], True),
    (b"HTTP/1.0", [b"Connection: keep-alive, close"], False),
]


@pytest.mark.parametrize(("version", "lines", "kept"), KEEPING)
def test_a_connection_is_kept_as_version_and_header_say(
    version: bytes, lines: list[bytes], kept: bool
) -> None:
    found = read_head(head(*lines, first=b"GET / " + version), LIMITS)
    assert found.keep_alive is kept


UPGRADES = [
    ([b"Connection: Upgrade", b"Upgrade: websocket"], "websocket"),
    ([b"Connection: keep-alive, upgrade", b"Upgrade: websocket"], "websocket"),
    ([b"Upgrade: websocket"], None),
    ([b"Connection: upgrade"], None),
    ([b"Connection: upgrade", b"Upgrade: h2c", b"Content-Length: 0"], "h2c"),
    ([b"Connection: upgrade", b"Upgrade: h2c", b"Content-Length: 1"], None),
    ([b"Connection: upgrade", b"Upgrade: h2c", b"Transfer-Encoding: chunked"], None),
]


@pytest.mark.parametrize(("lines", "protocol"), UPGRADES)
def test_an_upgrade_is_asked_for_by_two_headers_and_without_a_body(
    lines: list[bytes], protocol: str | None
) -> None:
    assert read_head(head(*lines), LIMITS).upgrade == protocol


def test_http_1_0_has_no_upgrade_and_no_expectation() -> None:
    found = read_head(
        head(
            b"Connection: upgrade",
            b"Upgrade: websocket",
            b"Expect: 200-maybe",
            first=b"GET / HTTP/1.0",
        ),
        LIMITS,
    )
    assert found.upgrade is None
    assert not found.expects_continue


def test_a_length_is_digits() -> None:
    assert read_head(head(b"Content-Length: 007 "), LIMITS).content_length == 7


def test_only_a_client_with_a_body_waits_to_be_told_to_go_on() -> None:
    expect = b"Expect: 100-Continue"
    assert not read_head(head(expect), LIMITS).expects_continue
    assert not read_head(head(expect, b"Content-Length: 0"), LIMITS).expects_continue
    assert read_head(head(expect, b"Content-Length: 1"), LIMITS).expects_continue
    assert read_head(head(expect, b"Transfer-Encoding: chunked"), LIMITS).expects_continue


def test_http_1_0_needs_no_host() -> None:
    assert read_head(b"GET / HTTP/1.0\r\n\r\n", LIMITS).target.path == "/"


@pytest.mark.parametrize(
    "host", [b"", b"a.example", b"127.0.0.1:80", b"[::1]:4319", b"[::1]", b"x:", b"a_b"]
)
def test_a_host_is_a_name_or_an_address_with_a_port(host: bytes) -> None:
    assert read_head(head(host=host), LIMITS).headers.get("host") == host.decode()


@pytest.mark.parametrize(
    ("target", "host"),
    [
        (b"http://a.example/x", b"a.example"),
        (b"http://A.example:80/x", b"a.EXAMPLE"),
        (b"https://a.example/x", b"a.example:443"),
        (b"http://a.example:81/x", b"a.example:81"),
        (b"http://a.example/x?y", b"a.example"),
    ],
)
def test_a_url_as_target_agrees_with_the_host(target: bytes, host: bytes) -> None:
    found = read_head(head(first=b"GET %b HTTP/1.1" % target, host=host), LIMITS)
    assert found.target.path == "/x"


def test_a_url_as_target_needs_no_path() -> None:
    assert read_head(head(first=b"GET http://x HTTP/1.1"), LIMITS).target.path == "/"
    found = read_head(head(first=b"GET http://x?a=b HTTP/1.1"), LIMITS)
    assert found.target.path == "/"
    assert found.target.query.get("a") == "b"


def test_the_whole_server_is_a_target_of_options_alone() -> None:
    assert read_head(head(first=b"OPTIONS * HTTP/1.1"), LIMITS).target.path == "*"
    assert refused(head(first=b"GET * HTTP/1.1")).status == 400


CHUNKED = b"Transfer-Encoding: chunked"
LENGTH = b"Content-Length: 5"
BAD = {
    # Lines
    "bare LF": head().replace(b"\r\nHost", b"\nHost"),
    "bare LF at the end of a value": head(b"A: 1\nB: 2"),
    "bare CR": head(b"A: 1\rB: 2"),
    "CR CR LF": head(b"A: 1\r"),
    "an empty first line": b"\r\n" + head(),
    "a continued line": head(b"A: 1", b" 2"),
    "a line continued by a tab": head(b"A: 1", b"\t2"),
    "a continued first line": b"GET / HTTP/1.1\r\n x\r\nHost: x\r\n\r\n",
    "NUL in a value": head(b"A: \x00"),
    "NUL in a name": head(b"A\x00: 1"),
    "a control character": head(b"A: \x1b[0m"),
    "DEL": head(b"A: \x7f"),
    "vertical tab": head(b"A: \x0b"),
    # Names
    "a blank before the colon": head(b"A : 1"),
    "a tab before the colon": head(b"A\t: 1"),
    "no colon": head(b"A"),
    "no name": head(b": 1"),
    "a blank before the name": head().replace(b"Host", b" Host"),
    "a blank in a name": head(b"A B: 1"),
    "a name beyond ASCII": head(b"\xc3\x84: 1"),
    "a bracket in a name": head(b"A[]: 1"),
    # The first line
    "two blanks": head(first=b"GET  / HTTP/1.1"),
    "a tab": head(first=b"GET\t/ HTTP/1.1"),
    "two blanks before the version": head(first=b"GET /  HTTP/1.1"),
    "a blank at its end": head(first=b"GET / HTTP/1.1 "),
    "a blank at its start": head(first=b" GET / HTTP/1.1"),
    "no version": head(first=b"GET /"),
    "no target": head(first=b"GET HTTP/1.1"),
    "a version in lower case": head(first=b"GET / http/1.1"),
    "half a version": head(first=b"GET / HTTP/1"),
    "a long version": head(first=b"GET / HTTP/1.10"),
    "another protocol": head(first=b"GET / RTSP/1.0"),
    "a TLS handshake": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "a method with a colon": head(first=b"GE:T / HTTP/1.1"),
    "a target beyond ASCII": head(first=b"GET /\xc3\xa4 HTTP/1.1"),
    "a target with a fragment": head(first=b"GET /#x HTTP/1.1"),
    "a target without a slash": head(first=b"GET a HTTP/1.1"),
    "an absolute target of another scheme": head(first=b"GET ftp://x/ HTTP/1.1"),
    "an absolute target with a user": head(first=b"GET http://a@x/ HTTP/1.1"),
    "an absolute target without a host": head(first=b"GET http:///a HTTP/1.1"),
    "an absolute target of another host": head(first=b"GET http://y/ HTTP/1.1"),
    "an absolute target of another port": head(first=b"GET http://x:81/ HTTP/1.1"),
    # Host
    "no Host": b"GET / HTTP/1.1\r\nA: 1\r\n\r\n",
    "two Hosts": head(b"Host: x"),
    "two Hosts in different case": head(b"hOST: y"),
    "two Hosts in HTTP/1.0": head(b"Host: x", first=b"GET / HTTP/1.0"),
    "a Host with a path": head(host=b"x/y"),
    "a Host with a user": head(host=b"u@x"),
    "a Host with a blank": head(host=b"x y"),
    "a list of Hosts": head(host=b"x, y "),
    "a Host with a wordy port": head(host=b"x:http"),
    # Lengths
    "two lengths": head(LENGTH, b"Content-Length: 6"),
    "two equal lengths": head(LENGTH, LENGTH),
    "a list of lengths": head(b"Content-Length: 5, 5"),
    "a length with a sign": head(b"Content-Length: +5"),
    "a negative length": head(b"Content-Length: -5"),
    "a length in hex": head(b"Content-Length: 0x5"),
    "a length with a point": head(b"Content-Length: 5.0"),
    "a length with an underscore": head(b"Content-Length: 1_0"),
    "a length with a blank": head(b"Content-Length: 1 0"),
    "an empty length": head(b"Content-Length:"),
    "a length beyond all bounds": head(b"Content-Length: 99999999999999999999"),
    "a length beyond ASCII": head("Content-Length: ٥".encode()),
    "a length and chunks": head(LENGTH, CHUNKED),
    "chunks and a length": head(CHUNKED, LENGTH),
    "chunks twice": head(CHUNKED, CHUNKED),
    "chunks in gzip": head(b"Transfer-Encoding: chunked, gzip"),
    "no coding": head(b"Transfer-Encoding:"),
    "chunks in HTTP/1.0": head(CHUNKED, first=b"POST / HTTP/1.0"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_could_be_read_in_two_ways_is_refused(name: str) -> None:
    refusal = refused(BAD[name])
    assert refusal.status == 400
    assert refusal.type == "bad_request"


class Lenient(httptools.HttpRequestParser):
    """llhttp as a later version might be."""

    def __init__(self, protocol: object) -> None:
        super().__init__(protocol)
        self.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_chunked_length=True,
            lenient_transfer_encoding=True,
            lenient_optional_lf_after_cr=True,
            lenient_optional_cr_before_lf=True,
        )


@pytest.mark.parametrize("name", BAD)
def test_llhttp_is_not_what_the_refusal_of_ambiguity_rests_on(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(httptools, "HttpRequestParser", Lenient)
    refused(BAD[name])


OTHERS = {
    "a body in gzip": (501, head(b"Transfer-Encoding: gzip")),
    "gzip in chunks": (501, head(b"Transfer-Encoding: gzip, chunked")),
    "identity": (501, head(b"Transfer-Encoding: identity")),
    "chunks in quotes": (501, head(b'Transfer-Encoding: "chunked"')),
    "a coding like chunked": (501, head(b"Transfer-Encoding: xchunked")),
    "a coding with a parameter": (501, head(b"Transfer-Encoding: chunked;q=1")),
    "a method that is none": (501, head(first=b"BREW / HTTP/1.1")),
    "a method in lower case": (501, head(first=b"get / HTTP/1.1")),
    "a tunnel": (501, head(first=b"CONNECT x:80 HTTP/1.1")),
    "HTTP/2": (505, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[:18]),
    "HTTP/1.2": (505, head(first=b"GET / HTTP/1.2")),
    "HTTP/0.9": (505, head(first=b"GET / HTTP/0.9")),
    "an expectation": (417, head(b"Expect: 200-maybe")),
    "two expectations": (417, head(b"Expect: 100-continue", b"Expect: 100-continue")),
    "a long line": (414, head(first=b"GET /%b HTTP/1.1" % (b"a" * 90))),
    "many headers": (431, head(*(b"A%d: 1" % one for one in range(10)))),
    "many equal headers": (431, head(*(b"A: 1" for one in range(10)))),
    "long headers": (431, head(b"A: " + b"a" * 600)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_this_server_does_not_do_is_refused_with_its_own_status(name: str) -> None:
    status, raw = OTHERS[name]
    assert refused(raw).status == status


def test_limits_are_what_is_still_allowed() -> None:
    read_head(head(first=b"GET /%b HTTP/1.1" % (b"a" * 86)), LIMITS)
    read_head(head(*(b"A%d: 1" % one for one in range(9))), LIMITS)
    used = len(head(b"A: "))
    read_head(head(b"A: " + b"a" * (600 - used)), LIMITS)
    assert refused(head(b"A: " + b"a" * (601 - used))).status == 431


GOOD = [
    head(),
    head(b"A: 1", b"B: \xff", b"Connection: close"),
    head(LENGTH, first=b"POST /a%20b?c HTTP/1.1"),
    head(CHUNKED, first=b"POST http://x/a HTTP/1.1"),
    b"GET / HTTP/1.0\r\n\r\n",
]


@pytest.mark.parametrize("raw", GOOD)
def test_no_beginning_of_a_good_head_is_refused(raw: bytes) -> None:
    read_head(raw, LIMITS)
    for end in range(1, len(raw) - 1):
        for new in range(end):
            check_partial(raw[:end], new, LIMITS)


def fate(raw: bytes, cuts: list[int]) -> int:
    """The status that a head ends with when it arrives in pieces; 0 for a good one."""
    whole = b""
    try:
        for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True):
            new, whole = len(whole), whole + raw[start:end]
            found = whole.find(b"\r\n\r\n")
            if found >= 0:
                read_head(whole[: found + 4], LIMITS)
                return 0
            if whole:
                check_partial(whole, new, LIMITS)
    except Refusal as refusal:
        return refusal.status
    return -1


KNOWN = [*GOOD, *BAD.values(), *(raw for _, raw in OTHERS.values())]


@given(st.sampled_from(KNOWN), st.lists(st.integers(0, 200)))
def test_how_a_head_is_cut_does_not_change_its_fate(raw: bytes, cuts: list[int]) -> None:
    # Over a limit the first limit that is seen wins, and that is a matter of the cuts.
    if len(raw) < 100:
        cuts = sorted(min(cut, len(raw)) for cut in cuts)
        assert fate(raw, cuts) == fate(raw, [])


@given(st.binary())
@example(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
def test_any_bytes_are_a_head_or_a_refusal(raw: bytes) -> None:
    assert fate(raw + b"\r\n\r\n", []) >= 0
    assert fate(b"GET / HTTP/1.1\r\nHost: x\r\n" + raw + b"\r\n\r\n", []) >= 0


def test_trailers_are_header_lines() -> None:
    check_trailers(b"X-Sum: 1\r\nx-sum: 2\r\n\r\n")


@pytest.mark.parametrize(
    "raw",
    [
        b"no colon\r\n\r\n",
        b"A : 1\r\n\r\n",
        b"A: 1\n\r\n",
        b"A: 1\r\n B: 1\r\n\r\n",
        b"Content-Length: 1\r\n\r\n",
        b"transfer-encoding: chunked\r\n\r\n",
        b"Host: y\r\n\r\n",
    ],
)
def test_trailers_that_say_something_about_the_message_are_refused(raw: bytes) -> None:
    with pytest.raises(Refusal) as caught:
        check_trailers(raw)
    assert caught.value.status == 400
