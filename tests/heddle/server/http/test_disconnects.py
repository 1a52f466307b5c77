"""A client that goes away is a cancellation of its handler, at whatever point."""

import socket
import struct
from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from heddle.server.http import (
    Answer,
    Gone,
    Request,
    Response,
    StreamedResponse,
    Writer,
)
from tests.heddle.server.http.support import (
    GET,
    HOST,
    Peer,
    post,
    serving,
    until,
)

Leave = Callable[[trio.SocketStream], Awaitable[None]]


async def close(stream: trio.SocketStream) -> None:
    await stream.aclose()


async def reset(stream: trio.SocketStream) -> None:
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    await stream.aclose()


async def half_close(stream: trio.SocketStream) -> None:
    await stream.send_eof()


LEAVING = [close, reset, half_close]


class Watched:
    """A handler that tells when it begins and how it ends."""

    def __init__(self) -> None:
        self.begun = trio.Event()
        self.cancelled = trio.Event()

    async def wait(self) -> None:
        self.begun.set()
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            self.cancelled.set()
            raise

    async def handler(self, request: Request) -> Answer:
        await self.wait()
        raise AssertionError


@pytest.mark.parametrize("leave", LEAVING)
async def test_a_handler_whose_client_leaves_is_cancelled(leave: Leave) -> None:
    watched = Watched()
    async with serving(watched.handler) as served:
        stream = await trio.open_tcp_stream("127.0.0.1", served.port)
        await stream.send_all(post(b"x"))
        await watched.begun.wait()
        await leave(stream)
        await watched.cancelled.wait()
        await stream.aclose()


@pytest.mark.parametrize("leave", LEAVING)
async def test_it_is_also_when_more_was_sent_than_is_read(leave: Leave) -> None:
    watched = Watched()
    async with serving(watched.handler) as served:
        stream = await trio.open_tcp_stream("127.0.0.1", served.port)
        await stream.send_all(post(b"x") + GET * 100)
        await watched.begun.wait()
        await stream.send_all(GET * 1000)
        await leave(stream)
        await watched.cancelled.wait()
        await stream.aclose()


@pytest.mark.parametrize("leave", LEAVING)
async def test_a_client_that_left_before_its_handler_began_is_noticed(leave: Leave) -> None:
    watched = Watched()
    async with serving(watched.handler) as served:
        stream = await trio.open_tcp_stream("127.0.0.1", served.port)
        await stream.send_all(GET)
        await leave(stream)
        if leave is not reset:  # What arrives behind a reset may never be seen.
            await watched.cancelled.wait()
        await stream.aclose()


async def test_what_needs_no_waiting_is_answered_to_who_said_all_it_had_to_say() -> None:
    async def handler(request: Request) -> Answer:
        return Response(200, (), request.path.encode())

    async with serving(handler) as served:
        for _ in range(20):
            async with served.connect() as peer:
                await peer.send(GET + GET.replace(b"/", b"/2", 1))
                await half_close(peer.stream)  # type: ignore[arg-type]
                assert (await peer.answer()).body == b"/"
                assert (await peer.answer()).body == b"/2"
                assert await peer.rest() == b""


@pytest.mark.parametrize("leave", LEAVING)
async def test_a_handler_that_reads_the_body_is_cancelled(leave: Leave) -> None:
    begun = trio.Event()
    cancelled = trio.Event()

    async def handler(request: Request) -> Answer:
        assert await request.body.receive() == b"part"
        begun.set()
        try:
            await request.read()
        except trio.Cancelled:
            cancelled.set()
            raise
        raise AssertionError

    async with serving(handler) as served:
        stream = await trio.open_tcp_stream("127.0.0.1", served.port)
        head = b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 10\r\n\r\n"
        await stream.send_all(head + b"part")
        await begun.wait()
        await leave(stream)
        await cancelled.wait()
        await stream.aclose()


@pytest.mark.parametrize("leave", LEAVING)
async def test_a_stream_is_cancelled_while_it_has_nothing_to_write(leave: Leave) -> None:
    watched = Watched()

    async def write(writer: Writer) -> None:
        await writer.write(b"one")
        await watched.wait()

    async def handler(request: Request) -> Answer:
        return StreamedResponse(200, (), write)

    async with serving(handler) as served:
        stream = await trio.open_tcp_stream("127.0.0.1", served.port)
        await stream.send_all(GET)
        await watched.begun.wait()
        await leave(stream)
        await watched.cancelled.wait()
        await stream.aclose()


@pytest.mark.parametrize("leave", LEAVING)
async def test_a_stream_that_writes_without_end_is_cancelled(leave: Leave) -> None:
    cancelled = trio.Event()

    async def write(writer: Writer) -> None:
        try:
            while True:
                await writer.write(b"x" * 1000)
        except trio.Cancelled:
            cancelled.set()
            raise

    async def handler(request: Request) -> Answer:
        return StreamedResponse(200, (), write)

    async with serving(handler) as served:
        stream = await trio.open_tcp_stream("127.0.0.1", served.port)
        await stream.send_all(GET)
        assert await stream.receive_some()
        await leave(stream)
        await cancelled.wait()
        await stream.aclose()


@pytest.mark.parametrize("leave", [close, reset])
async def test_a_lost_client_is_no_exception_in_a_handler_with_a_nursery(
    leave: Leave,
) -> None:
    ended = trio.Event()

    async def write(writer: Writer) -> None:
        async def count() -> None:
            while True:
                await writer.write(b"x" * 100_000)

        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(count)
                nursery.start_soon(trio.sleep_forever)
        finally:
            ended.set()

    async def handler(request: Request) -> Answer:
        return StreamedResponse(200, (), write)

    async with serving(handler) as served:
        stream = await trio.open_tcp_stream("127.0.0.1", served.port)
        await stream.send_all(GET)
        assert await stream.receive_some()
        await leave(stream)
        await ended.wait()
        # The server is alive and nothing was reported, as `serving` asserts.
        async with served.connect() as peer:
            await peer.send(GET)
            await peer.until(b"\r\n\r\n")


async def test_a_shielded_writer_is_ended_by_an_exception_nobody_reports() -> None:
    ended: list[BaseException] = []

    async def write(writer: Writer) -> None:
        async def count() -> None:
            while True:
                await writer.write(b"x" * 100_000)

        with trio.CancelScope(shield=True):
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(count)
            except BaseException as error:
                ended.append(error)
                raise

    async def handler(request: Request) -> Answer:
        return StreamedResponse(200, (), write)

    async with serving(handler) as served:
        stream = await trio.open_tcp_stream("127.0.0.1", served.port)
        await stream.send_all(GET)
        assert await stream.receive_some()
        await reset(stream)
        await until(lambda: served.server.connections == 0)
    assert [type(error) for error in ended] == [ExceptionGroup]


async def test_what_goes_wrong_while_a_cancelled_handler_cleans_up_is_reported() -> None:
    begun = trio.Event()

    async def handler(request: Request) -> Answer:
        async def fail() -> None:
            try:
                await trio.sleep_forever()
            finally:
                raise KeyError("cleanup")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail)
            nursery.start_soon(trio.sleep_forever)
            begun.set()
        raise AssertionError

    async with serving(handler, crashes=True) as served:
        stream = await trio.open_tcp_stream("127.0.0.1", served.port)
        await stream.send_all(GET)
        await begun.wait()
        await stream.aclose()
        await until(lambda: served.server.connections == 0)
        (crash,) = served.report.crashes
    assert isinstance(crash, ExceptionGroup)
    assert crash.split(KeyError)[1] is None


async def test_a_client_that_leaves_between_requests_or_inside_one_is_no_event() -> None:
    async def handler(request: Request) -> Answer:
        return Response(200)

    async with serving(handler) as served:
        for sent in (b"", b"G", GET[:-1], GET, GET + b"G"):
            for leave in LEAVING:
                stream = await trio.open_tcp_stream("127.0.0.1", served.port)
                if sent:
                    await stream.send_all(sent)
                await leave(stream)
                await stream.aclose()
        await wait_all_tasks_blocked(0.01)
        assert served.report.refusals == []


async def test_other_clients_notice_nothing() -> None:
    watched = Watched()

    async def handler(request: Request) -> Answer:
        if request.path == "/wait":
            await watched.wait()
        return Response(200, (), b"fine")

    async with serving(handler) as served, served.connect() as other:
        stream = await trio.open_tcp_stream("127.0.0.1", served.port)
        await Peer(stream).send(GET.replace(b"/", b"/wait", 1))
        await watched.begun.wait()
        await stream.aclose()
        await watched.cancelled.wait()
        await other.send(GET)
        assert (await other.answer()).body == b"fine"


async def test_a_shielded_reader_is_ended_by_an_exception_nobody_reports() -> None:
    begun = trio.Event()

    async def handler(request: Request) -> Answer:
        async def read() -> None:
            begun.set()
            await request.read()

        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(read)
        raise AssertionError

    async with serving(handler) as served:
        stream = await trio.open_tcp_stream("127.0.0.1", served.port)
        await stream.send_all(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 9\r\n\r\n")
        await begun.wait()
        await stream.aclose()
        await until(lambda: served.server.connections == 0)


async def test_a_task_elsewhere_that_writes_to_a_lost_client_gets_an_exception() -> None:
    caught: list[Exception] = []
    writers, to_write = trio.open_memory_channel[Writer](1)

    async def elsewhere() -> None:
        writer = await to_write.receive()
        try:
            while True:
                await writer.write(b"x" * 100_000)
        except Gone as error:
            caught.append(error)

    async def write(writer: Writer) -> None:
        await writers.send(writer)
        await trio.sleep_forever()

    async def handler(request: Request) -> Answer:
        return StreamedResponse(200, (), write)

    async with trio.open_nursery() as nursery, serving(handler) as served:
        nursery.start_soon(elsewhere)
        stream = await trio.open_tcp_stream("127.0.0.1", served.port)
        await stream.send_all(GET)
        assert await stream.receive_some()
        await reset(stream)
        await until(lambda: bool(caught))


async def test_who_hung_up_while_its_request_arrived_is_answered_without_waiting() -> None:
    cancelled = []

    async def handler(request: Request) -> Answer:
        if request.path == "/wait":
            try:
                await trio.sleep_forever()
            except trio.Cancelled:
                cancelled.append(request.path)
                raise
        return Response(200, (), b"fine")

    for path, answered in ((b"/", True), (b"/wait", False)):
        async with serving(handler) as served, served.connect() as peer:
            request = GET.replace(b"/", path, 1)
            await peer.send(request[:9])
            await until(lambda: served.server.connections == 1)
            (connection,) = served.server._connections
            connection.hung_up()
            await peer.send(request[9:])
            assert (await peer.rest()).endswith(b"fine") is answered
    assert cancelled == ["/wait"]
