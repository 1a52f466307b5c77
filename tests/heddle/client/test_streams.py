"""A followed run is whole: cut, behind or renewed, no event is lost unnoticed."""

import pytest
import trio

from heddle import client as heddle_client
from heddle.client import (
    Missed,
    ProtocolBroken,
    Refused,
    RunCancelled,
    RunFailed,
    UnknownEvent,
    Unreachable,
    connect,
)
from heddle.events import PluginEmitted, TokenDelta
from tests.heddle.client.scripted import (
    END,
    HEAD,
    answer,
    chunk,
    complete,
    frame,
    lagged,
    scripted,
    tokens,
)

FOLLOW = "GET /v1/runs/r1/events"


async def test_a_cut_connection_is_had_again_behind_the_last_event() -> None:
    async with (
        scripted(
            HEAD + tokens(1, 3) + b"9\r\nhalf",
            answer(503, '{"error":{"type":"Draining","message":"stopping"}}'),
            HEAD + tokens(4, 4),
            HEAD + tokens(5, 6) + complete(7),
        ) as server,
        connect(server.url) as client,
    ):
        stream = client.follow("r1")
        assert [entry.seq async for entry in stream] == [1, 2, 3, 4, 5, 6, 7]
        assert (await stream.result()).state == {"n": 1}
    assert server.asked() == [f"{FOLLOW} {n}" for n in (0, 3, 3, 4)]


async def test_a_run_that_ends_with_its_connection_does_not_come_again() -> None:
    async with (
        scripted(HEAD + tokens(1, 2), HEAD + tokens(1, 1) + END) as server,
        connect(server.url) as client,
    ):
        for last in (2, 1):
            seen = []
            with pytest.raises(Unreachable):
                async for entry in client.stream({}):
                    seen.append(entry.seq)  # noqa: PERF401  what came before the error
            assert seen == list(range(1, last + 1))
    assert server.asked() == ["POST /v1/runs?stream=true"] * 2


async def test_a_polite_end_of_a_run_that_goes_on_is_a_cut_too() -> None:
    running = (
        '{"run":"r1","flow":"f","status":"running","startedAt":1,"seconds":1,'
        '"nodes":1,"events":9}'
    )
    async with (
        scripted(
            HEAD + tokens(1, 1) + END, answer(200, running), HEAD + complete(2)
        ) as server,
        connect(server.url) as client,
    ):
        assert [entry.seq async for entry in client.follow("r1")] == [1, 2]


async def test_what_was_missed_is_fetched_beside_the_stream() -> None:
    async with (
        scripted(
            HEAD + tokens(1, 2) + lagged(3, 5) + tokens(6, 6) + complete(7),
            HEAD + tokens(3, 9),
        ) as server,
        connect(server.url) as client,
    ):
        seen = [entry async for entry in client.stream({})]
    assert [entry.seq for entry in seen] == [1, 2, 3, 4, 5, 6, 7]
    assert seen[3].event == TokenDelta("a", "4")
    assert server.asked() == ["POST /v1/runs?stream=true", f"{FOLLOW} 2"]


@pytest.mark.parametrize("gone", [3, 4, 5, 8])
async def test_what_is_gone_is_told(gone: int) -> None:
    """The server let go of a part of what was missed, of all, or of more."""
    async with (
        scripted(
            HEAD + tokens(1, 2) + lagged(3, 5) + tokens(6, 6) + complete(7),
            HEAD + lagged(3, gone) + tokens(gone + 1, 9),
        ) as server,
        connect(server.url) as client,
    ):
        seen = [entry async for entry in client.stream({})]
    last = min(gone, 5)
    told = [entry.event for entry in seen if isinstance(entry.event, Missed)]
    assert told == [Missed(3, last)]
    assert [entry.seq for entry in seen] == [1, 2, *range(last, 8)]


async def test_nothing_is_fetched_for_who_does_not_want_it() -> None:
    async with (
        scripted(HEAD + lagged(1, 5) + complete(6)) as server,
        connect(server.url) as client,
    ):
        seen = [entry async for entry in client.follow("r1", refill=False)]
    assert next(entry.event for entry in seen) == Missed(1, 5)


@pytest.mark.parametrize(
    "script",
    [
        tokens(1, 2) + tokens(4, 4),
        tokens(2, 2),
        tokens(1, 2) + tokens(2, 2),
        tokens(1, 2) + lagged(5, 6),
        tokens(1, 2) + lagged(3, 2),
        frame(1, '{"type":"token_delta","nodeName":"a"}'),
        frame(1, "nonsense"),
        frame(1, "[]"),
        frame(1, '{"nodeName":"a"}'),
        chunk(b"event: lagged\ndata: {}\n\n"),
        b"no chunk",
    ],
)
async def test_a_hole_or_nonsense_is_an_error(script: bytes) -> None:
    async with scripted(HEAD + script + END) as server, connect(server.url) as client:
        with pytest.raises(ProtocolBroken):
            async for _ in client.follow("r1"):
                pass


async def test_types_and_fields_that_are_newer_than_the_client_are_kept() -> None:
    async with (
        scripted(
            HEAD
            + frame(1, '{"type":"node_dream","depth":3}')
            + frame(2, '{"type":"token_delta","nodeName":"a","delta":"x","mood":"good"}')
            + frame(3, '{"type":"plugin:T:n","nodeName":"a","nodeType":"b","data":[1]}')
            + complete(4)
        ) as server,
        connect(server.url) as client,
    ):
        first, second, third, _ = [entry async for entry in client.follow("r1")]
    assert first.event == UnknownEvent("node_dream", {"type": "node_dream", "depth": 3})
    assert second.event == TokenDelta("a", "x")
    assert second.fields["mood"] == "good"
    assert third.event == PluginEmitted("plugin:T:n", "a", "b", [1])


@pytest.mark.parametrize(
    ("name", "kind"), [("RunCancelled", RunCancelled), ("LimitReached", RunFailed)]
)
async def test_a_run_that_failed_raises_where_it_ended(
    name: str, kind: type[RunFailed]
) -> None:
    told = f'{{"type":"error","error":{{"type":"{name}","message":"so it is"}}}}'
    last = chunk(f"event: error\ndata: {told}\n\n".encode())
    async with (
        scripted(HEAD + tokens(1, 1) + last + END) as server,
        connect(server.url) as client,
    ):
        stream = client.follow("r1")
        assert (await anext(stream)).seq == 1
        with pytest.raises(kind, match="so it is") as failed:
            await anext(stream)
        assert (failed.value.type, failed.value.run) == (name, "r1")
        with pytest.raises(StopAsyncIteration):
            await anext(stream)


async def test_refusals_say_all_that_the_server_said() -> None:
    body = '{"error":{"type":"TooManyRuns","message":"full. Try again in 3 s."}}'
    async with (
        scripted(
            answer(429, body, "Retry-After: 3"),
            answer(302, "<html>elsewhere</html>", "Location: http://example.com"),
            answer(200, "<html>no heddle</html>"),
        ) as server,
        connect(server.url, token="secret-token") as client,
    ):
        with pytest.raises(Refused) as refused:
            await client.run({})
        fault = refused.value
        assert (fault.status, fault.type, fault.retry_after) == (429, "TooManyRuns", 3)
        assert str(fault) == f"POST {server.url}/v1/runs: full. Try again in 3 s."
        with pytest.raises(Refused, match="not from a heddle-server"):
            await client.run({})
        with pytest.raises(ProtocolBroken):
            await client.run({})
        assert "secret" not in str(fault)
    assert "Authorization: Bearer secret-token\r\n" in server.heads[0]


async def test_a_run_that_is_unknown_is_not_tried_again() -> None:
    body = '{"error":{"type":"not_found","message":"no such run"}}'
    async with (
        scripted(HEAD + tokens(1, 1), answer(404, body)) as server,
        connect(server.url) as client,
    ):
        stream = client.follow("r1")
        await anext(stream)
        with pytest.raises(Refused, match="no such run"):
            await anext(stream)


async def test_no_server_says_what_to_check() -> None:
    async with connect("http://127.0.0.1:1") as client:
        with pytest.raises(Unreachable) as refused:
            await client.follow("r1").result()
    assert str(refused.value) == (
        "GET http://127.0.0.1:1/v1/runs/r1/events: no connection: Connection refused. "
        "Check that heddle-server runs, and that this is its address."
    )
    async with connect("unix:/nowhere/heddle.sock") as client:
        with pytest.raises(Unreachable, match="No such file"):
            await client.capabilities()


@pytest.mark.parametrize(
    "url",
    [
        "ftp://a",
        "127.0.0.1:4319",
        "http://",
        "http://me:secret@host",
        "http://host:port",
        "http://host/?a=secret",
        "http://ho st",
        "http://a..b",
        "unix:",
    ],
)
async def test_an_address_that_is_none_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(heddle_client.AddressInvalid) as refused:
        async with connect(url):
            pass
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("turns", range(12))
async def test_cancelled_anywhere_nothing_is_lost_and_no_connection_stays(
    turns: int,
) -> None:
    async with (
        scripted(*[HEAD + tokens(1, 4) + complete(5)] * 9) as server,
        connect(server.url) as client,
    ):
        stream = client.stream({})
        seen = []
        async with trio.open_nursery() as nursery:

            async def read() -> None:
                async for entry in stream:
                    seen.append(entry.seq)
                    await trio.lowlevel.checkpoint()

            nursery.start_soon(read)
            for _ in range(turns):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        if stream.run:
            seen += [entry.seq async for entry in stream]
            assert seen == [1, 2, 3, 4, 5]
        stream.close()
        # One that was read to its end is kept for the next request.
        assert client.open_connections == (1 if stream.run else 0)
