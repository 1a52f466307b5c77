"""Connections that go on as something else, above all WebSocket by trio-websocket."""

import socket
import struct

import pytest
import trio
import trio_websocket
from trio.abc import Stream
from trio.testing import wait_all_tasks_blocked

from heddle.server.http import (
    Answer,
    HandlerMisuse,
    Limits,
    Request,
    Response,
    Upgrade,
    UpgradedStream,
)
from tests.heddle.server.http.support import GET, HOST, post, serving, until

ASK = (
    b"GET /chat HTTP/1.1\r\n"
    + HOST
    + b"Connection: keep-alive, Upgrade\r\nUpgrade: x\r\n\r\n"
)


async def shout(stream: Stream) -> None:
    """A protocol: the request comes back, then everything in capitals."""
    while data := await stream.receive_some(10):
        await stream.send_all(data.upper())


async def upgrading(request: Request) -> Answer:
    return Upgrade(shout) if request.upgrade else Response(200, (), await request.read())


async def test_the_stream_begins_with_the_request_and_what_came_behind_it() -> None:
    async with serving(upgrading) as served, served.connect() as peer:
        await peer.send(post(b"first") + ASK + b"and more")
        assert (await peer.answer()).body == b"first"
        assert await peer.until(b"AND MORE") == (ASK + b"and more").upper()
        await peer.send(b"later")
        assert await peer.until(b"LATER") == b"LATER"
        assert isinstance(peer.stream, trio.SocketStream)
        await peer.stream.send_eof()
        assert await peer.rest() == b""


async def test_who_would_rather_speak_something_else_is_still_answered() -> None:
    async def handler(request: Request) -> Answer:
        return Response(200, (), await request.read())

    async with serving(handler) as served, served.connect() as peer:
        await peer.send(ASK + ASK)
        assert (await peer.answer()).body == b""
        assert (await peer.answer()).body == b""
        # As Java's client asks for HTTP/2.
        h2c = (
            b"Connection: Upgrade, HTTP2-Settings",
            b"Upgrade: h2c",
            b"HTTP2-Settings: A",
        )
        await peer.send(post(b"body", *h2c) + GET)
        assert (await peer.answer()).body == b"body"
        assert (await peer.answer()).body == b""


@pytest.mark.parametrize(
    "request_bytes", [GET, post(b"x", b"Connection: upgrade", b"Upgrade: x")]
)
async def test_a_handler_can_only_upgrade_who_asked(request_bytes: bytes) -> None:
    async def handler(request: Request) -> Answer:
        assert request.upgrade is None
        return Upgrade(shout)

    async with serving(handler, crashes=True) as served, served.connect() as peer:
        await peer.send(request_bytes)
        assert (await peer.answer()).status == 500
        assert [type(error) for error in served.report.crashes] == [HandlerMisuse]


async def test_what_goes_wrong_behind_an_upgrade_is_reported_and_cut_off() -> None:
    error = KeyError("x")

    async def fail(stream: Stream) -> None:
        raise error

    async def handler(request: Request) -> Answer:
        return Upgrade(fail)

    async with serving(handler, crashes=True) as served, served.connect() as peer:
        await peer.send(ASK)
        assert await peer.rest() == b""
        assert served.report.crashes == [error]


async def test_a_lost_connection_behind_an_upgrade_is_no_crash() -> None:
    async def write(stream: Stream) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(send_for_ever, stream)

    async def send_for_ever(stream: Stream) -> None:
        while True:
            await stream.send_all(b"x" * 100_000)

    async def handler(request: Request) -> Answer:
        return Upgrade(write)

    async with serving(handler) as served:
        async with served.connect() as peer:
            await peer.send(ASK)
            assert await peer.stream.receive_some()
        await until(lambda: served.server.connections == 0)


async def test_what_several_tasks_send_is_never_mixed() -> None:
    size = 1_000_000

    async def write(stream: Stream) -> None:
        async with trio.open_nursery() as nursery:
            for letter in b"abc":
                nursery.start_soon(stream.send_all, bytes((letter,)) * size)

    async def handler(request: Request) -> Answer:
        return Upgrade(write)

    async with serving(handler) as served, served.connect() as peer:
        await peer.send(ASK)
        await wait_all_tasks_blocked(0.01)
        data = await peer.rest()
        assert len(data) == 3 * size
        assert {data[start : start + size] for start in range(0, 3 * size, size)} == {
            bytes((letter,)) * size for letter in b"abc"
        }


async def test_what_is_sent_at_once_comes_before_what_is_sent_next() -> None:
    size = 8_000_000
    free: list[bool] = []

    async def write(stream: Stream) -> None:
        assert isinstance(stream, UpgradedStream)
        assert stream.free
        assert stream.send_at_once(b"a")
        assert not stream.send_at_once(b"b" * size)
        free.append(stream.free)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.send_all, b"c")
            await wait_all_tasks_blocked()
            free.append(stream.free)
        await stream.send_all(b"")
        free.append(stream.free)
        await stream.aclose()
        free.append(stream.free)

    async def handler(request: Request) -> Answer:
        return Upgrade(write)

    async with serving(handler) as served, served.connect() as peer:
        await peer.send(ASK)
        await until(lambda: len(free) == 2)
        assert await peer.rest() == b"a" + b"b" * size + b"c"
    assert free == [False, False, True, False]


async def test_what_cannot_be_sent_at_once_fails_where_it_is_waited_for() -> None:
    gone = trio.Event()

    async def write(stream: Stream) -> None:
        assert isinstance(stream, UpgradedStream)
        with pytest.raises(trio.BrokenResourceError):
            while True:
                await stream.receive_some()
        while stream.send_at_once(b"x"):
            pass
        assert not stream.free
        with pytest.raises(trio.BrokenResourceError):
            await stream.send_all(b"")
        gone.set()

    async def handler(request: Request) -> Answer:
        return Upgrade(write)

    async with serving(handler) as served, served.connect() as peer:
        await peer.send(ASK)
        assert isinstance(peer.stream, trio.SocketStream)
        linger = struct.pack("ii", 1, 0)
        peer.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        await peer.stream.aclose()
        await gone.wait()


async def test_nothing_is_sent_behind_half_a_message() -> None:
    outcome: list[type[BaseException]] = []

    async def write(stream: Stream) -> None:
        with trio.move_on_after(0.05):
            await stream.send_all(b"x" * 50_000_000)
        try:
            await stream.send_all(b"y")
        except trio.BrokenResourceError as error:
            outcome.append(type(error))

    async def handler(request: Request) -> Answer:
        return Upgrade(write)

    async with serving(handler) as served, served.connect() as peer:
        await peer.send(ASK)
        await until(lambda: bool(outcome))
        assert set(await peer.rest()) == {ord("x")}


async def test_a_closed_stream_says_so() -> None:
    said: list[type[BaseException]] = []
    done = trio.Event()

    async def close(stream: Stream) -> None:
        async def receive() -> None:
            try:
                await stream.receive_some()
            except trio.ClosedResourceError as error:
                said.append(type(error))

        await stream.wait_send_all_might_not_block()
        await stream.receive_some()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive)
            await wait_all_tasks_blocked()
            await stream.aclose()
        for use in (stream.receive_some, lambda: stream.send_all(b"x")):
            with pytest.raises(trio.ClosedResourceError):
                await use()
        await stream.aclose()
        done.set()

    async def handler(request: Request) -> Answer:
        return Upgrade(close)

    async with serving(handler) as served, served.connect() as peer:
        await peer.send(ASK)
        assert await peer.rest() == b""
        await done.wait()
        assert said == [trio.ClosedResourceError]


async def test_a_client_that_does_not_read_is_dropped_with_its_protocol() -> None:
    ended = trio.Event()

    async def write(stream: Stream) -> None:
        try:
            while True:
                await stream.send_all(b"x" * 1_000_000)
        finally:
            ended.set()

    async def handler(request: Request) -> Answer:
        return Upgrade(write)

    limits = Limits(write_timeout=0.1, transfer_rate=1_000_000_000)
    async with serving(handler, limits=limits) as served, served.connect() as peer:
        await peer.send(ASK)
        await ended.wait()


async def test_a_websocket_is_served_by_trio_websocket() -> None:
    closed = trio.Event()

    async def chat(stream: Stream) -> None:
        async with trio.open_nursery() as nursery:
            request = await trio_websocket.wrap_server_stream(nursery, stream)
            assert request.path == "/chat?a=b"
            socket = await request.accept(subprotocol="heddle.v1")
            try:
                while True:
                    await socket.send_message((await socket.get_message()).upper())
            except trio_websocket.ConnectionClosed:
                closed.set()
            nursery.cancel_scope.cancel()

    async def handler(request: Request) -> Answer:
        assert request.upgrade == "websocket"
        return Upgrade(chat)

    async with serving(handler) as served:
        url = f"ws://127.0.0.1:{served.port}/chat?a=b"
        async with trio_websocket.open_websocket_url(
            url, subprotocols=["heddle.v1"]
        ) as client:
            assert client.subprotocol == "heddle.v1"
            for text in ("hello", "x" * 200_000):
                await client.send_message(text)
                assert await client.get_message() == text.upper()
            await client.ping()
        await closed.wait()


async def test_a_server_that_stops_waits_for_what_was_upgraded() -> None:
    async with serving(upgrading) as served, served.connect() as peer:
        await peer.send(ASK)
        await peer.until(b"\r\n\r\n")
        served.server.stop(grace=60)
        await peer.send(b"still")
        assert await peer.until(b"STILL") == b"STILL"
        served.server.stop(grace=0)
        assert await peer.rest() == b""
        await served.ended.wait()
