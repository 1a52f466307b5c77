"""A connection reads any HTTP/1.1 answer, however its bytes arrive."""

import errno
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import ClassVar

import h11
import pytest
import trio
from hypothesis import example, given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from heddle.http.transport import MAX_HEAD, BadHttp, Connection, Pool
from heddle.http.wires import ConnectionBroken, SocketWire, _broken


class Script:
    """A wire that gives pieces, then the end."""

    trusted: ClassVar[float] = 1.0

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = list(pieces)
        self.sent = b""
        self.closed = False
        self.is_quiet = True

    def send_now(self, _: bytes, /) -> int:
        return 0

    async def send_rest(self, data: bytes) -> None:
        self.sent += data

    async def receive(self) -> bytes:
        return self.pieces.pop(0) if self.pieces else b""

    def quiet(self) -> bool:
        return self.is_quiet

    def mark(self) -> None:
        pass

    def undelivered(self, *, aborted: bool) -> bool:
        return not aborted

    def wake(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


async def send_all(wire: SocketWire, data: bytes) -> None:
    rest = data[wire.send_now(data) :]
    if rest:
        await wire.send_rest(rest)


def connection(*pieces: bytes) -> Connection:
    return Connection(Script(*pieces), set())


def read(*pieces: bytes) -> Connection:
    """A connection that was read to the end of the answer."""
    reader = connection(*pieces)

    async def main() -> None:
        while not reader.complete:
            await reader.advance()

    trio.run(main)
    return reader


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place for place in places if place < len(data))})
    return [data[a:b] for a, b in pairwise(edges)]


HEADER_NAME = st.text("abcdefghijklmnop-", min_size=1)
HEADER_VALUE = st.text("abc 123;=/", max_size=10).map(str.strip)


@st.composite
def answers(draw: st.DrawFn) -> tuple[int, dict[bytes, bytes], bytes, bytes]:
    """Status, headers and body, and the bytes that h11 makes of them."""
    writer = h11.Connection(h11.SERVER)
    writer.receive_data(b"POST / HTTP/1.1\r\nHost: x\r\n\r\n")
    while writer.next_event() is not h11.NEED_DATA and writer.their_state is not h11.DONE:
        pass
    body = draw(st.binary(max_size=100))
    headers = draw(st.dictionaries(HEADER_NAME, HEADER_VALUE, max_size=3))
    lines = [(name.encode(), value.encode()) for name, value in headers.items()]
    if draw(st.booleans()):
        lines.append((b"content-length", b"%d" % len(body)))
    else:
        lines.append((b"transfer-encoding", b"chunked"))
    status = draw(st.sampled_from([200, 429, 500]))
    data = b""
    if draw(st.booleans()):
        data += writer.send(h11.InformationalResponse(status_code=100, headers=[]))
    data += writer.send(h11.Response(status_code=status, headers=lines))
    for piece in cut(body, draw(st.lists(st.integers(0, 100)))):
        data += writer.send(h11.Data(piece))
    data += writer.send(h11.EndOfMessage())
    return status, dict(lines), body, data


@given(answers(), st.lists(st.integers(0, 300)))
def test_what_another_implementation_writes_is_read_however_it_is_cut(
    answer: tuple[int, dict[bytes, bytes], bytes, bytes], cuts: list[int]
) -> None:
    status, headers, body, data = answer

    reader = read(*cut(data, cuts))

    assert reader.status == status
    assert reader.headers == headers
    assert reader.take() == body
    assert reader.size == len(data)
    assert reader.reusable


@given(st.binary(max_size=200), st.lists(st.integers(0, 200)))
@example(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx", [])
@example(b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nx", [])
@example(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", [])
@example(b"HTTP/1.1 999999999999 OK\r\n\r\n", [])
def test_any_bytes_are_an_answer_or_an_error(data: bytes, cuts: list[int]) -> None:
    try:
        read(*cut(data, cuts))
    except (BadHttp, ConnectionBroken):
        return


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    reader = read(b"HTTP/1.1 200 OK\r\n\r\n", b"ab", b"c")

    assert reader.take() == b"abc"
    assert not reader.reusable


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"HTTP/1.1 200",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n1\r\na\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
    ],
)
def test_an_answer_that_is_cut_off_is_broken(data: bytes) -> None:
    with pytest.raises(ConnectionBroken, match="the connection was closed"):
        read(*([data] if data else []))


def test_an_answer_that_forbids_reuse_is_not_reused() -> None:
    for head in (b"HTTP/1.0 200 OK\r\n", b"HTTP/1.1 200 OK\r\nConnection: close\r\n"):
        assert not read(head + b"Content-Length: 1\r\n\r\nx").reusable


def test_bytes_behind_the_answer_belong_to_nobody_and_forbid_reuse() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"
    other = b"HTTP/1.1 500 No\r\nX-Other: y\r\nContent-Length: 2\r\n\r\nno"

    for surplus in (other, b"garbage", b"H"):
        reader = read(answer + surplus)
        assert (reader.status, reader.take()) == (200, b"x")
        assert b"x-other" not in reader.headers
        assert not reader.reusable


def test_endless_headers_are_refused() -> None:
    def endless() -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\n"
        while True:
            yield b"X-More: " + b"x" * 1000 + b"\r\n"

    lines = endless()
    with pytest.raises(BadHttp, match=f"exceed {MAX_HEAD} bytes"):
        read(*(next(lines) for _ in range(100)))
    with pytest.raises(BadHttp, match=f"exceed {MAX_HEAD} bytes"):
        read(*[b"HTTP/1.1 100 Continue\r\n\r\n" * 1000] * 10)


def test_trailers_are_left_out_and_count_as_what_arrived() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-A: head\r\n\r\n"
    tail = b"1\r\nx\r\n0\r\nX-A: trailer\r\nX-B: trailer\r\n\r\n"

    reader = read(head + tail)

    assert reader.take() == b"x"
    assert reader.headers == {b"transfer-encoding": b"chunked", b"x-a": b"head"}
    assert reader.size == len(head + tail)


def test_a_broken_connection_is_told_in_the_words_of_the_system() -> None:
    assert str(_broken(OSError(errno.ETIMEDOUT, "Connection timed out"))) == (
        "Connection timed out"
    )
    assert str(_broken(ValueError("bad record"))) == "bad record"
    assert str(_broken(None)) == "the connection was closed"


def test_what_is_not_http_is_told() -> None:
    with pytest.raises(BadHttp, match="the answer is not HTTP"):
        read(b"SSH-2.0-OpenSSH_9.6\r\n")


# Sockets


@asynccontextmanager
async def wires() -> AsyncIterator[tuple[SocketWire, trio.SocketStream]]:
    """A wire and the stream at its other end."""
    here, there = socket.socketpair()
    here.setblocking(False)
    there.setblocking(False)
    wire = SocketWire(trio.SocketStream(trio.socket.from_stdlib_socket(here)))
    async with trio.SocketStream(trio.socket.from_stdlib_socket(there)) as peer:
        try:
            yield wire, peer
        finally:
            wire.close()


async def test_more_than_the_socket_takes_is_sent_as_it_drains() -> None:
    data = bytes(range(256)) * 8000

    async def drain(peer: trio.SocketStream) -> None:
        got = b""
        while len(got) < len(data):
            got += await peer.receive_some(50_000)
        assert got == data

    async with wires() as (wire, peer), trio.open_nursery() as nursery:
        nursery.start_soon(send_all, wire, data)
        await wait_all_tasks_blocked()
        nursery.start_soon(drain, peer)


async def test_a_full_socket_is_waited_for_before_the_first_byte() -> None:
    async with wires() as (wire, peer), trio.open_nursery() as nursery:
        with trio.move_on_after(0.05):
            await send_all(wire, b"x" * 10_000_000)
        nursery.start_soon(send_all, wire, b"last")
        await wait_all_tasks_blocked()
        got = b"x"
        while not got.endswith(b"last"):
            got = await peer.receive_some(100_000)


async def test_a_wire_that_is_always_ready_lets_others_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("heddle.http.wires._READ", 1)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with wires() as (wire, peer), trio.open_nursery() as nursery:
        await peer.send_all(b"x" * 100)
        nursery.start_soon(other)
        for _ in range(100):
            assert await wire.receive() == b"x"
        assert turns >= 4
        nursery.cancel_scope.cancel()


async def test_a_request_is_always_followed_by_a_schedule_point() -> None:
    async with wires() as (wire, peer):
        await peer.send_all(b"x")
        await send_all(wire, b"request")
        with trio.CancelScope() as scope:
            scope.cancel()
            await wire.receive()
        assert scope.cancelled_caught
        assert await wire.receive() == b"x"


async def test_the_end_is_no_bytes_and_a_dead_peer_is_an_error() -> None:
    async with wires() as (wire, peer):
        assert wire.quiet()
        await peer.aclose()
        assert not wire.quiet()
        assert await wire.receive() == b""
        with pytest.raises(ConnectionBroken, match="reset"):
            await send_all(wire, b"x")


async def test_a_wait_is_ended_by_waking_and_by_closing() -> None:
    async with wires() as (wire, _), trio.open_nursery() as nursery:
        for end in (wire.wake, wire.close):

            async def waits() -> None:
                with pytest.raises(ConnectionBroken, match="by this side"):
                    await wire.receive()

            nursery.start_soon(waits)
            await wait_all_tasks_blocked()
            end()
            await wait_all_tasks_blocked()
        wire.close()


async def test_a_send_that_waits_is_told_when_the_peer_goes() -> None:
    async with wires() as (wire, peer), trio.open_nursery() as nursery:

        async def waits() -> None:
            with pytest.raises(ConnectionBroken, match="reset"):
                await send_all(wire, b"x" * 10_000_000)

        nursery.start_soon(waits)
        await wait_all_tasks_blocked()
        await peer.aclose()


async def test_a_send_that_waits_is_ended_by_closing() -> None:
    async with wires() as (wire, _), trio.open_nursery() as nursery:

        async def waits() -> None:
            with pytest.raises(ConnectionBroken, match="by this side"):
                await send_all(wire, b"x" * 10_000_000)

        nursery.start_soon(waits)
        await wait_all_tasks_blocked()
        wire.close()


async def test_waking_a_wire_that_nobody_waits_on_loses_nothing() -> None:
    async with wires() as (wire, peer):
        wire.wake()
        await peer.send_all(b"x")
        assert await wire.receive() == b"x"


# Pools


def rested(registry: set[Connection]) -> Connection:
    reader = Connection(Script(), registry)
    reader.complete = reader.keep_alive = True
    return reader


def closed(reader: Connection) -> bool:
    assert isinstance(reader.wire, Script)
    return reader.wire.closed


async def test_the_latest_connection_is_used_first(autojump_clock: MockClock) -> None:
    pool, registry = Pool(most=10, patience=30), set[Connection]()
    first, second = rested(registry), rested(registry)
    pool.give_back(first)
    pool.give_back(second)

    assert pool.take(0) is second
    assert pool.take(0) is first
    assert pool.take(0) is None
    assert registry == {first, second}


async def test_a_pool_keeps_no_more_than_it_may(autojump_clock: MockClock) -> None:
    pool, registry = Pool(most=1, patience=30), set[Connection]()
    first, second = rested(registry), rested(registry)
    pool.give_back(first)
    pool.give_back(second)

    assert len(pool) == 1
    assert closed(second)
    assert registry == {first}


async def test_idle_connections_expire(autojump_clock: MockClock) -> None:
    pool, registry = Pool(most=10, patience=30), set[Connection]()
    old, young = rested(registry), rested(registry)
    pool.give_back(old)
    await trio.sleep(20)
    pool.give_back(young)
    await trio.sleep(20)

    assert pool.take(trio.current_time()) is young
    assert closed(old)


async def test_a_connection_that_the_server_closed_meanwhile_is_not_used(
    autojump_clock: MockClock,
) -> None:
    pool, registry = Pool(most=10, patience=30), set[Connection]()
    good, bad = rested(registry), rested(registry)
    for reader in (good, bad):
        pool.give_back(reader)
    assert isinstance(bad.wire, Script)
    bad.wire.is_quiet = False
    await trio.sleep(5)

    assert pool.take(trio.current_time()) is good
    assert closed(bad)


async def test_what_cannot_be_reused_is_closed(autojump_clock: MockClock) -> None:
    pool, registry = Pool(most=10, patience=30), set[Connection]()
    unfinished = Connection(Script(), registry)

    pool.give_back(unfinished)

    assert closed(unfinished)
    assert len(pool) == 0


async def test_a_retired_pool_keeps_nothing(autojump_clock: MockClock) -> None:
    pool, registry = Pool(most=10, patience=30), set[Connection]()
    before, after = rested(registry), rested(registry)
    pool.give_back(before)
    pool.retire()
    pool.give_back(after)

    assert closed(before)
    assert closed(after)
    assert not registry
