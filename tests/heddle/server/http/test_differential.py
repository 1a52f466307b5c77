"""A second opinion: nothing is accepted that h11 refuses, and what is, reads the same.

Whole connections are compared, request by request: what a request is, where its body
ends, and so where the next one begins. There are no exceptions. (h11 ends every HTTP/1.0
connection after one request; what we answer after that on a kept one has no second
opinion.)
"""

from itertools import pairwise

import h11
import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Struct

from heddle.server.http import Answer, Limits, Refusal, Request, Response
from heddle.server.http.target import read_target
from tests.heddle.server.http import test_chunks, test_head
from tests.heddle.server.http.support import GET, in_memory, post

LIMITS = Limits(linger_timeout=0.0)


class Accepted(Struct, frozen=True):
    """A request as it was understood."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...]
    headers: tuple[tuple[str, str], ...]
    body: bytes


async def ours(pieces: list[bytes]) -> list[Accepted]:
    """The requests that a handler was given, body and all."""
    found: list[Accepted] = []

    async def handler(request: Request) -> Answer:
        body = await request.read()
        pairs = tuple(request.headers)
        found.append(
            Accepted(request.method, request.path, tuple(request.query), pairs, body)
        )
        return Response(200)

    async with in_memory(handler, limits=LIMITS) as (peer, _):
        try:
            for piece in pieces:
                await peer.send(piece)
            assert isinstance(peer.stream, trio.StapledStream)
            await peer.stream.send_eof()
        except trio.BrokenResourceError:
            pass
        await peer.rest()
    return found


def theirs(raw: bytes) -> tuple[list[Accepted], str]:
    """The same by h11, and how it ended: "refused", "closed" or "incomplete"."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1_000_000)
    connection.receive_data(raw)
    connection.receive_data(b"")
    found: list[Accepted] = []
    request: h11.Request | None = None
    body = b""
    while True:
        try:
            event = connection.next_event()
        except h11.RemoteProtocolError:
            return found, "refused"
        if isinstance(event, h11.Request):
            request, body = event, b""
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            assert request is not None
            found.append(_accepted(request, body))
            connection.send(
                h11.Response(status_code=404, headers=[("Content-Length", "0")])
            )
            connection.send(h11.EndOfMessage())
            if connection.our_state is not h11.DONE:
                return found, "closed"
            connection.start_next_cycle()
        elif isinstance(event, h11.ConnectionClosed):
            return found, "closed"
        else:
            return found, "incomplete"


def _accepted(request: h11.Request, body: bytes) -> Accepted:
    method = request.method.decode()
    try:
        target = read_target(request.target, options=method == "OPTIONS")
        path, query = target.path, tuple(target.query)
    except Refusal:
        path, query = "refused", ()
    pairs = tuple((key.decode(), value.decode("latin-1")) for key, value in request.headers)
    return Accepted(method, path, query, pairs, body)


async def agree(raw: bytes, pieces: list[bytes]) -> list[Accepted]:
    mine = await ours(pieces)
    others, end = theirs(raw)
    for number, accepted in enumerate(mine):
        if number == len(others):
            assert end == "closed", (raw, mine, others, end)
            break
        assert accepted == others[number], raw
    return mine


CHUNKED = b"POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
GOOD = [
    *(GET, post(b"hello"), post(b""), post(b"hello", b"Connection: close")),
    CHUNKED + b"\r\n5\r\nhello\r\n0\r\n\r\n",
    CHUNKED + b"Expect: 100-continue\r\n\r\n5;a=b\r\nhello\r\n1\r\n!\r\n0\r\nA: 1\r\n\r\n",
    b"GET http://x/a?b=c&d HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\n",
    b"GET /a%20b HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    b"HEAD / HTTP/1.0\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: x\r\nX-A: a\r\nX-A:b\r\n\r\n",
    b"DELETE /x HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: h2c\r\n"
    b"Content-Length: 3\r\n\r\nabc",
]
HIDING = [
    # What one server takes for a body and the next for a request.
    post(SMUGGLED[:20], b"Transfer-Encoding: chunked"),
    CHUNKED + b"Content-Length: 4\r\n\r\n5c\r\n" + SMUGGLED,
    CHUNKED + b"Content-Length: 6\r\n\r\n0\r\n\r\nX",
    *(
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n%b\r\n\r\n0\r\n\r\n" % line
        for line in (
            b"Transfer-Encoding:\tchunked",
            b"Transfer-Encoding : chunked",
            b"Transfer-Encoding: \x0bchunked",
            b"Transfer-Encoding: chunked\x00",
            b"Transfer-Encoding: xchunked",
            b"Transfer-Encoding: x\r\n\tchunked",
            b"Transfer-Encoding:\r\n chunked",
            b"Transfer_Encoding: chunked",
            b"Transfer-Encoding: chunked\r\nTransfer-encoding: cow",
            b"X: X\nTransfer-Encoding: chunked",
            b"X: X\rTransfer-Encoding: chunked",
            b"X: X\r\r\nTransfer-Encoding: chunked",
            b"\x00Transfer-Encoding: chunked",
            b"Transfer-\xc5ncoding: chunked",
            b'Transfer-Encoding: "chunked"',
            b"Transfer-Encoding: identity, chunked",
            b"Transfer-Encoding: chunked, identity",
            b"Transfer-Encoding: chunked;foo",
            b" Transfer-Encoding: chunked",
            b"Content-Length: 0",
            b"Content-Length : 0",
            b"Content-Length: 5",
            b"content-length: 6",
            b"Content-Length:\x0c0",
            b"\r\nTransfer-Encoding: chunked",
        )
    ),
    *(
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %b\r\n\r\nhello" % length
        for length in (
            b"5,5",
            b"5, 6",
            b"+5",
            b"5 6",
            b"0x5",
            b"5\t",
            b"\t5",
            b"5.",
            b"5;a",
        )
    ),
    b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
    b"GET / HTTP/1.1\r\nHost: x\nContent-Length: 5\r\n\r\nhello",
    b"GET / HTTP/1.1\nHost: x\n\n",
    b"GET / HTTP/1.1\r\nHost: x\r\n\rGET /a HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\n\nGET /a HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\r\n" + GET,
    b"\n" + GET,
    GET + b"\r\n",
    b"GET /a",
    b"GET /a\r\n\r\n",
    b"",
    b"\x80\x2e\x01\x03\x01",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
]
BODIES = [CHUNKED + b"\r\n" + body for body in test_chunks.BAD]
HEADS = [*test_head.KNOWN]
CORPUS = [*GOOD, *HIDING, *BODIES, *HEADS]


@pytest.mark.parametrize("raw", CORPUS)
async def test_h11_accepts_what_is_accepted(raw: bytes) -> None:
    await agree(raw + SMUGGLED, [raw + SMUGGLED])


async def test_what_is_good_is_accepted() -> None:
    for raw in GOOD:
        mine = await agree(raw, [raw])
        assert len(mine) == 1
    kept = [raw for raw in GOOD if b"close" not in raw and b"HTTP/1.0" not in raw]
    mine = await agree(b"".join(kept), [b"".join(kept)])
    assert len(mine) == len(kept) == 8


@pytest.mark.parametrize("raw", [*HIDING, *BODIES])
async def test_nothing_is_hidden_behind_what_is_ambiguous(raw: bytes) -> None:
    others, end = theirs(raw + SMUGGLED)
    mine = await agree(raw + SMUGGLED, [raw + SMUGGLED])
    hidden = any(one.path == "/smuggled" for one in mine)
    assert not hidden or (others == mine and end == "closed")


SPLICES = st.sampled_from(
    [
        *(b"\r", b"\n", b"\r\n", b"\r\n\r\n", b" ", b"\t", b"\x00", b"\x0b", b"\x7f"),
        *(b":", b",", b";", b"0", b"5", b"a", b"\xff", b"\xa0", b"%", b"/", b"0\r\n\r\n"),
        *(b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n", b"Host: y\r\n"),
        *(b"Connection: close\r\n", b"Expect: 100-continue\r\n", b"HTTP/1.0", SMUGGLED),
    ]
)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """Some requests, and then some damage."""
    raw = b"".join(draw(st.lists(st.sampled_from(CORPUS), min_size=1, max_size=3)))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(raw)))
        match draw(st.sampled_from(("insert", "delete", "double", "replace"))):
            case "insert":
                raw = raw[:at] + draw(SPLICES) + raw[at:]
            case "delete":
                raw = raw[:at] + raw[at + draw(st.integers(1, 6)) :]
            case "double":
                size = draw(st.integers(1, 30))
                raw = raw[: at + size] + raw[at:]
            case "replace":
                raw = raw[:at] + draw(st.binary(min_size=1, max_size=2)) + raw[at + 1 :]
    return raw


@settings(
    max_examples=500,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(mutated(), st.lists(st.integers(0, 2000), max_size=8))
async def test_h11_accepts_what_is_accepted_of_damaged_requests(
    raw: bytes, cuts: list[int]
) -> None:
    marks = sorted({0, len(raw), *(cut for cut in cuts if cut < len(raw))})
    pieces = [raw[start:end] for start, end in pairwise(marks)]
    mine = await agree(raw, pieces)
    assert mine == await ours([raw])
