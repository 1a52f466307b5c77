"""Clients that take their time, and what they may cost meanwhile."""

import pytest
import trio
from trio.testing import MockClock, memory_stream_pair

from heddle.server.http import (
    Answer,
    Limits,
    Request,
    Response,
    Server,
    StreamedResponse,
    Writer,
)
from tests.heddle.server.http.support import GET, HOST, Peer, echo, in_memory, ok, post

# Deadlines are looked at a quarter of a second late at most.
LATE = 0.25

LIMITS = Limits(
    header_timeout=10,
    idle_timeout=75,
    body_timeout=30,
    write_timeout=30,
    linger_timeout=2,
    transfer_rate=100,
)


def about(seconds: float) -> object:
    return pytest.approx(seconds + LATE / 2, abs=LATE / 2 + 1e-6)


async def test_a_head_that_trickles_in_is_cut_off(autojump_clock: MockClock) -> None:
    async with in_memory(ok, limits=LIMITS) as (peer, report):
        await trio.sleep(5)
        for byte in GET[:9]:
            await peer.send(bytes((byte,)))
            await trio.sleep(1)
        answer = await peer.answer()
        assert trio.current_time() == about(5 + 10)
        assert answer.status == 408
        assert answer.error == "request_timeout"
        assert answer.headers["connection"] == "close"
        assert await peer.rest() == b""
        assert [refusal.status for refusal in report.refusals] == [408]


async def test_a_head_may_take_its_time(autojump_clock: MockClock) -> None:
    async with in_memory(ok, limits=LIMITS) as (peer, _):
        await trio.sleep(70)
        await peer.send(GET[:9])
        await trio.sleep(9)
        await peer.send(GET[9:])
        assert (await peer.answer()).status == 200


async def test_the_time_for_a_head_counts_from_its_first_byte_behind_another(
    autojump_clock: MockClock,
) -> None:
    async with in_memory(ok, limits=LIMITS) as (peer, _):
        await trio.sleep(20)
        await peer.send(GET + GET[:5])
        assert (await peer.answer()).status == 200
        assert (await peer.answer()).status == 408
        assert trio.current_time() == about(20 + 10)


@pytest.mark.parametrize("requests", [0, 1])
async def test_an_idle_connection_is_closed_without_a_word(
    autojump_clock: MockClock, requests: int
) -> None:
    async with in_memory(ok, limits=LIMITS) as (peer, report):
        await trio.sleep(20)
        for _ in range(requests):
            await peer.send(GET)
            assert (await peer.answer()).status == 200
        assert await peer.rest() == b""
        assert trio.current_time() == about(75 + 20 * requests)
        assert report.refusals == []


async def test_a_handler_may_take_as_long_as_it_likes(autojump_clock: MockClock) -> None:
    async def handler(request: Request) -> Answer:
        await trio.sleep(80_000)
        return Response(200, (), await request.read())

    async with in_memory(handler, limits=LIMITS) as (peer, _):
        await peer.send(post(b"late"))
        assert (await peer.answer()).body == b"late"


async def test_a_body_that_does_not_arrive_cancels_its_handler(
    autojump_clock: MockClock,
) -> None:
    cancelled = []

    async def handler(request: Request) -> Answer:
        try:
            return await echo(request)
        except trio.Cancelled:
            cancelled.append(trio.current_time())
            raise

    async with in_memory(handler, limits=LIMITS) as (peer, report):
        await peer.send(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\n\r\nhel")
        answer = await peer.answer()
        assert answer.status == 408
        assert answer.headers["connection"] == "close"
        assert await peer.rest() == b""
        assert cancelled == [about(30)]
        assert len(report.refusals) == 1


async def test_a_body_below_the_slowest_rate_is_cut_off(autojump_clock: MockClock) -> None:
    async with in_memory(echo, limits=LIMITS) as (peer, _):
        await peer.send(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 99999\r\n\r\n")
        async with trio.open_nursery() as nursery:

            async def trickle() -> None:
                while True:
                    await peer.send(b"x" * 50)
                    await trio.sleep(1)

            nursery.start_soon(trickle)
            # 50 bytes a second earn half a second each: 30 seconds are used up in 60.
            assert (await peer.answer()).status == 408
            assert trio.current_time() == pytest.approx(60, abs=2)
            nursery.cancel_scope.cancel()


async def test_a_body_above_the_slowest_rate_takes_as_long_as_it_takes(
    autojump_clock: MockClock,
) -> None:
    async with in_memory(echo, limits=LIMITS) as (peer, _):
        await peer.send(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 30000\r\n\r\n")
        for _ in range(100):
            await trio.sleep(3)
            await peer.send(b"x" * 300)
        assert len((await peer.answer()).json["body"]) == 30000


async def test_only_the_waits_for_a_body_count_not_what_is_done_in_between(
    autojump_clock: MockClock,
) -> None:
    async def handler(request: Request) -> Answer:
        size = 0
        while piece := await request.body.receive():
            size += len(piece)
            await trio.sleep(100)
        return Response(200, (), b"%d" % size)

    async with in_memory(handler, limits=LIMITS) as (peer, _):
        await peer.send(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 4\r\n\r\nx")
        for _ in range(3):
            await trio.sleep(109)
            await peer.send(b"x")
        # Three waits of nine seconds.
        assert (await peer.answer()).body == b"4"


async def test_a_body_that_stops_under_a_begun_answer_cuts_the_answer_off(
    autojump_clock: MockClock,
) -> None:
    async def handler(request: Request) -> Answer:
        async def write(writer: Writer) -> None:
            await writer.write(await request.body.receive())
            await writer.write(await request.body.receive())

        return StreamedResponse(200, (), write)

    async with in_memory(handler, limits=LIMITS) as (peer, _):
        await peer.send(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 9\r\n\r\nhel")
        assert (await peer.rest()).endswith(b"\r\n\r\n3\r\nhel\r\n")
        assert trio.current_time() == about(30)


async def test_a_body_nobody_wanted_is_not_waited_for_without_end(
    autojump_clock: MockClock,
) -> None:
    async with in_memory(ok, limits=LIMITS) as (peer, _):
        await peer.send(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 9\r\n\r\nhel")
        assert (await peer.answer()).body == b"ok"
        assert await peer.rest() == b""
        assert trio.current_time() == about(30)


async def test_a_client_that_does_not_read_a_stream_is_dropped(
    autojump_clock: MockClock,
) -> None:
    ended = []

    async def write(writer: Writer) -> None:
        try:
            while True:
                await writer.write(b"x" * 100)
        finally:
            ended.append(trio.current_time())

    async def handler(request: Request) -> Answer:
        return StreamedResponse(200, (), write)

    async with in_memory(handler, limits=LIMITS, lockstep=True) as (peer, report):
        await peer.send(GET)
        await peer.until(b"\r\n\r\n")
        await trio.sleep(1000)
        assert ended == [about(30)]
        assert report.refusals == []


async def test_a_client_that_does_not_read_an_answer_is_dropped(
    autojump_clock: MockClock,
) -> None:
    async def handler(request: Request) -> Answer:
        return Response(200, (), b"x" * 300_000)

    async with in_memory(handler, limits=LIMITS, lockstep=True) as (peer, _):
        await peer.send(GET)
        assert len(await peer.stream.receive_some(65536)) == 65536
        await trio.sleep(10_000)
        # What it took of the first piece earned some time; then it was closed.
        with pytest.raises((trio.BrokenResourceError, trio.ClosedResourceError)):
            await peer.send(GET)


async def test_a_refused_client_has_a_moment_to_notice(autojump_clock: MockClock) -> None:
    async with in_memory(ok, limits=LIMITS) as (peer, _):
        await peer.send(b"nonsense\r\n\r\n")
        assert (await peer.answer()).status == 400
        with trio.move_on_after(1.5):
            while True:
                await peer.send(b"more nonsense")
                await trio.sleep(0.1)
        await trio.sleep(2)
        with pytest.raises(trio.BrokenResourceError):
            await peer.send(b"?")


async def test_who_comes_while_a_server_is_closing_has_a_moment(
    autojump_clock: MockClock,
) -> None:
    server = Server(ok, limits=LIMITS)
    server.end_keep_alive()
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        ours, theirs = memory_stream_pair()
        nursery.start_soon(server.serve_stream, theirs)
        peer = Peer(ours)
        await trio.sleep(1.5)
        await peer.send(GET)
        assert (await peer.answer()).headers["connection"] == "close"
        ours, theirs = memory_stream_pair()
        nursery.start_soon(server.serve_stream, theirs)
        assert await Peer(ours).rest() == b""
        assert trio.current_time() == about(1.5 + 2)
        nursery.cancel_scope.cancel()


async def test_many_slow_clients_are_noticed_one_by_one(autojump_clock: MockClock) -> None:
    async with in_memory(ok, limits=LIMITS) as (first, _):
        await first.send(b"G")
        await trio.sleep(3)
        async with in_memory(ok, limits=LIMITS) as (second, _):
            await second.send(b"G")
            assert (await first.answer()).status == 408
            assert trio.current_time() == about(10)
            assert (await second.answer()).status == 408
            assert trio.current_time() == about(13)
