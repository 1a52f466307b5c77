"""Accepting, making room, and ending in an orderly way."""

import errno
import socket
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from heddle.server.http import (
    Answer,
    Limits,
    Listener,
    Refusal,
    Request,
    Response,
    Server,
    StreamedResponse,
    Writer,
    bind,
)
from tests.heddle.server.http.support import GET, Peer, Served, ok, serving, until


class Gate:
    """A handler that answers ``/wait`` when it is let."""

    def __init__(self) -> None:
        self.waiting = 0
        self.opened = trio.Event()
        self.cancelled = 0

    async def wait(self) -> None:
        self.waiting += 1
        try:
            await self.opened.wait()
        except trio.Cancelled:
            self.cancelled += 1
            raise

    async def write(self, writer: Writer) -> None:
        await self.wait()
        await writer.write(b"waited")

    async def handler(self, request: Request) -> Answer:
        match request.path:
            case "/wait":
                await self.wait()
                return Response(200, (), b"waited")
            case "/stream":
                return StreamedResponse(200, (), self.write)
            case _:
                return Response(200, (), b"ok")


WAIT = GET.replace(b"/", b"/wait", 1)
STREAM = GET.replace(b"/", b"/stream", 1)


# Ending


async def test_a_server_that_stops_lets_go_who_is_idle_and_finishes_what_is_open() -> None:
    gate = Gate()
    async with serving(gate.handler) as served, AsyncExitStack() as stack:
        idle, new, busy, stream = [
            await stack.enter_async_context(served.connect()) for _ in range(4)
        ]
        await idle.send(GET)
        assert (await idle.answer()).status == 200
        await busy.send(WAIT)
        await stream.send(STREAM)
        await until(lambda: gate.waiting == 2 and served.server.connections == 4)

        served.server.stop(grace=60)
        assert await idle.rest() == b""
        assert await new.rest() == b""
        with pytest.raises(OSError, match="connect"):
            await trio.open_tcp_stream("127.0.0.1", served.port)

        gate.opened.set()
        answer = await busy.answer()
        assert answer.body == b"waited"
        assert answer.headers["connection"] == "close"
        assert (await stream.answer()).body == b"waited"
        assert await busy.rest() == b""
        # It was to be kept when it began, and must not keep the server now.
        assert await stream.rest() == b""
        await served.ended.wait()


async def test_a_server_without_clients_stops_at_once() -> None:
    async with serving(ok) as served:
        served.server.stop(grace=60)
        await served.ended.wait()


async def test_who_is_not_done_in_time_is_cancelled() -> None:
    gate = Gate()
    async with serving(gate.handler) as served, AsyncExitStack() as stack:
        peers = [await stack.enter_async_context(served.connect()) for _ in range(2)]
        await peers[0].send(WAIT)
        await peers[1].send(STREAM)
        await until(lambda: gate.waiting == 2)
        served.server.stop(grace=60)
        served.server.stop(grace=0)
        served.server.stop(grace=60)
        assert await peers[0].rest() == b""
        assert not (await peers[1].rest()).endswith(b"0\r\n\r\n")
        await served.ended.wait()
        assert gate.cancelled == 2


async def test_a_request_that_is_on_its_way_when_the_server_stops_is_answered() -> None:
    async with serving(ok) as served, served.connect() as peer:
        await peer.send(GET)
        assert (await peer.answer()).status == 200
        assert isinstance(peer.stream, trio.SocketStream)
        number = peer.stream.socket.fileno()
        with socket.fromfd(number, socket.AF_INET, socket.SOCK_STREAM) as sock:
            # Without letting the server run in between.
            sock.send(GET)
            served.server.stop(grace=60)
        assert (await peer.answer()).headers["connection"] == "close"
        await served.ended.wait()


async def test_the_first_request_of_a_connection_may_come_as_the_server_stops() -> None:
    async with serving(ok) as served, served.connect() as peer:
        await until(lambda: served.server.connections == 1)
        served.server.stop(grace=60)
        await peer.send(GET)
        assert (await peer.answer()).headers["connection"] == "close"
        await served.ended.wait()


async def test_who_waits_to_be_accepted_when_the_server_stops_is_answered() -> None:
    async with serving(ok) as served:
        waiting = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(3)]
        for each in waiting:
            each.sendall(GET)
        served.server.stop(grace=60)
        await served.ended.wait()
        for each in waiting:
            with each, each.makefile("rb") as answer:
                assert answer.readline() == b"HTTP/1.1 200 OK\r\n"


async def test_before_a_server_stops_it_can_say_so_to_everyone() -> None:
    gate = Gate()
    async with serving(gate.handler) as served, served.connect() as busy:
        await busy.send(WAIT)
        await until(lambda: gate.waiting == 1)
        served.server.end_keep_alive()
        async with served.connect() as peer:
            await peer.send(GET)
            assert (await peer.answer()).headers["connection"] == "close"
            assert await peer.rest() == b""
        gate.opened.set()
        assert (await busy.answer()).headers["connection"] == "close"


async def test_a_server_that_is_cancelled_cancels_and_closes_everything() -> None:
    gate = Gate()
    listeners = bind("127.0.0.1", 0)
    async with AsyncExitStack() as stack:
        async with serving(gate.handler, listeners=listeners) as served:
            for sent in (b"", b"GET", WAIT, STREAM):
                peer = await stack.enter_async_context(served.connect())
                if sent:
                    await peer.send(sent)
            await until(lambda: gate.waiting == 2)
        assert gate.cancelled == 2
        assert listeners[0].sock.fileno() == -1


# Room


async def test_who_was_idle_longest_makes_room() -> None:
    async with (
        serving(ok, limits=Limits(connections=2)) as served,
        served.connect() as first,
        served.connect() as second,
    ):
        for peer in (second, first):
            await peer.send(GET)
            assert (await peer.answer()).status == 200
        async with served.connect() as third:
            await third.send(GET)
            assert (await third.answer()).status == 200
            assert await second.rest() == b""
            await first.send(GET)
            assert (await first.answer()).status == 200


async def test_while_all_are_at_work_the_next_waits_and_gets_the_first_place() -> None:
    gate = Gate()
    async with (
        serving(gate.handler, limits=Limits(connections=2)) as served,
        served.connect() as first,
        served.connect() as second,
    ):
        await first.send(WAIT)
        await second.send(STREAM)
        await until(lambda: gate.waiting == 2)
        async with served.connect() as third, served.connect() as fourth:
            await third.send(GET)
            await fourth.send(GET)
            await wait_all_tasks_blocked(0.01)
            assert served.server.connections == 2
            gate.opened.set()
            assert (await first.answer()).headers["connection"] == "close"
            assert (await third.answer()).body == b"ok"
            assert (await fourth.answer()).body == b"ok"


async def test_waiting_for_room_is_over_for_all_listeners_at_once() -> None:
    gate = Gate()
    listeners = [*bind("127.0.0.1", 0), *bind("127.0.0.1", 0)]
    async with (
        serving(gate.handler, limits=Limits(connections=1), listeners=listeners) as served,
        served.connect() as first,
    ):
        await first.send(WAIT)
        await until(lambda: gate.waiting == 1)
        async with AsyncExitStack() as stack:
            others = []
            for listener in listeners * 3:
                stream = await trio.open_tcp_stream("127.0.0.1", listener.port)
                others.append(Peer(await stack.enter_async_context(stream)))
                await others[-1].send(GET)
            await wait_all_tasks_blocked(0.01)
            gate.opened.set()
            for peer in others:
                assert (await peer.answer()).body == b"ok"


async def test_whoever_is_not_being_served_makes_room_the_oldest_first() -> None:
    gate = Gate()
    limits = Limits(connections=3, linger_timeout=60)
    async with (
        serving(gate.handler, limits=limits) as served,
        served.connect() as refused,
        served.connect() as slow,
        served.connect() as busy,
    ):
        await busy.send(WAIT)
        await refused.send(b"nonsense\r\n")
        assert (await refused.answer()).status == 400
        await slow.send(GET[:10])
        await until(lambda: gate.waiting == 1)

        async with served.connect() as fourth, served.connect() as fifth:
            assert await refused.rest() == b""
            assert await slow.rest() == b""
            for number, peer in enumerate((fourth, fifth), 2):
                await peer.send(WAIT)
                await until(lambda: gate.waiting == number)  # noqa: B023
            gate.opened.set()
            for peer in (busy, fourth, fifth):
                assert (await peer.answer()).body == b"waited"


async def test_a_report_that_fails_ends_nothing() -> None:
    class Full:
        def refused(self, refusal: Refusal, client: str) -> None:
            raise OSError(errno.ENOSPC, "full")

        def crashed(self, request: Request | None, error: Exception) -> None:
            raise OSError(errno.ENOSPC, "full")

        def accept_failed(self, error: OSError) -> None:
            raise OSError(errno.ENOSPC, "full")

    async def handler(request: Request) -> Answer:
        raise KeyError

    listeners = failing(errno.EMFILE)
    server = Server(handler, listeners, report=Full())
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        for sent, status in ((b"nonsense\r\n", 400), (GET, 500)):
            stream = await trio.open_tcp_stream("127.0.0.1", listeners[0].port)
            async with stream:
                peer = Peer(stream)
                await peer.send(sent)
                assert (await peer.answer()).status == status
        nursery.cancel_scope.cancel()


async def test_losing_one_connection_after_the_other_is_no_reason_to_spin() -> None:
    lost = [errno.ECONNABORTED] * 65
    async with serving(ok, listeners=failing(*lost)) as served, served.connect() as peer:
        await peer.send(GET)
        assert (await peer.answer()).status == 200
        assert [error.errno for error in served.report.shortages] == lost[:2]


class Failing:
    """A listening socket whose `accept` fails a few times first."""

    def __init__(self, sock: socket.socket, errors: list[int]) -> None:
        self._sock = sock
        self.errors = errors

    def accept(self) -> tuple[socket.socket, object]:
        if self.errors:
            raise OSError(self.errors.pop(0), "as told")
        return self._sock.accept()

    def __getattr__(self, name: str) -> object:
        return getattr(self._sock, name)


def failing(*errors: int) -> list[Listener]:
    (listener,) = bind("127.0.0.1", 0)
    listener.sock = Failing(listener.sock, list(errors))  # type: ignore[assignment]
    return [listener]


async def test_running_out_of_files_ends_nothing_and_is_tried_again_after_a_while() -> None:
    shortages = [errno.EMFILE, errno.ENFILE, errno.ENOBUFS]
    async with serving(ok, listeners=failing(*shortages)) as served:
        async with served.connect() as peer:
            await peer.send(GET)
            assert (await peer.answer()).status == 200
        assert [error.errno for error in served.report.shortages] == shortages


async def test_a_connection_that_is_lost_before_it_is_accepted_is_no_event() -> None:
    lost = [errno.ECONNABORTED, errno.EPROTO, errno.EPERM] * 3
    async with serving(ok, listeners=failing(*lost)) as served, served.connect() as peer:
        await peer.send(GET)
        assert (await peer.answer()).status == 200
        assert served.report.shortages == []


# Turns


async def order_of(
    served: Served, order: list[str], busy: bytes, others: Callable[[], Awaitable[None]]
) -> int:
    """After how many entries of a busy client another one had its turn."""
    async with served.connect() as flood:
        await flood.send(busy)
        await others()
    return order.index("/other")


async def test_a_client_that_always_has_requests_does_not_keep_the_others_waiting() -> None:
    order: list[str] = []

    async def handler(request: Request) -> Answer:
        order.append(request.path)
        return Response(200)

    async with serving(handler) as served, served.connect() as other:
        # As many as are read at once.
        flood = b"GET /f HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" * 1500

        async def ask() -> None:
            await other.send(GET.replace(b"/", b"/other", 1))
            assert (await other.answer()).status == 200

        assert await order_of(served, order, flood, ask) < 1000


async def test_a_stream_that_always_has_something_to_write_lets_the_others_run() -> None:
    order: list[str] = []
    done = trio.Event()

    async def write(writer: Writer) -> None:
        while not done.is_set():
            order.append("/f")
            await writer.write(b"x")

    async def handler(request: Request) -> Answer:
        if request.path == "/":
            return StreamedResponse(200, (), write)
        order.append(request.path)
        done.set()
        return Response(200)

    async with serving(handler) as served, served.connect() as other:

        async def ask() -> None:
            await until(lambda: len(order) > 0)
            await other.send(GET.replace(b"/", b"/other", 1))
            assert (await other.answer()).status == 200

        await order_of(served, order, GET, ask)


async def test_a_thousand_idle_connections_are_no_burden_to_the_next() -> None:
    async with serving(ok) as served, AsyncExitStack() as stack:
        for _ in range(1000):
            sock = stack.enter_context(socket.socket())
            sock.setblocking(False)
            sock.connect_ex(("127.0.0.1", served.port))
        await until(lambda: served.server.connections == 1000)
        async with served.connect() as peer:
            await peer.send(GET)
            assert (await peer.answer()).status == 200
