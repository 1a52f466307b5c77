"""What a socket owes to time and numbers: clients that are silent, deaf or greedy."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.abc import Stream
from trio.testing import (
    MockClock,
    lockstep_stream_pair,
    memory_stream_pair,
    wait_all_tasks_blocked,
)
from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_client_stream

from heddle.events import TokenDelta
from heddle.server.runs.handle import RunHandle
from heddle.server.runs.registry import Runs
from heddle.server.settings import Settings
from heddle.server.sockets import input as socket_input
from heddle.server.sockets import opening, outgoing
from heddle.server.sockets import session as socket
from heddle.server.sockets import stream as socket_stream
from tests.heddle.server.serving import HANDSHAKE
from tests.heddle.server.works import PREPARED, Scripted, hang

OPENING = b"".join(
    [
        b"GET /v1/stream HTTP/1.1\r\nHost: localhost\r\n",
        *(f"{name}: {value}\r\n".encode() for name, value in HANDSHAKE.items()),
        b"\r\n",
    ]
)
PING = b'{"type":"ping"}'
FRAMED_PING = bytes((0x81, 0x80 | len(PING), 0, 0, 0, 0)) + PING


class Served:
    """One socket, and whether it has ended."""

    def __init__(self, client: Stream, stream: Stream, runs: Runs) -> None:
        self.client = client
        self.close = stream.aclose
        self.runs = runs
        self.ended = trio.Event()


@asynccontextmanager
async def served(
    pair: Any = memory_stream_pair, *, token: str | None = None
) -> AsyncIterator[Served]:
    """A socket whose runs wait for ever; the client is bytes."""
    client, stream = pair()
    async with Runs(Scripted(hang)) as runs, trio.open_nursery() as nursery:

        async def read_fields(_: Any) -> None:
            return None

        async def start(
            _: Any, *, stream: bool, detached: bool, request: str, trace: bool
        ) -> RunHandle:
            assert not request
            assert not trace
            return runs.start(PREPARED, {}, stream=stream, detached=detached, flow="f")

        service: Any = SimpleNamespace(
            settings=Settings(auth_token=token),
            runs=runs,
            conceal=str,
            draining=trio.Event(),
            leaving=trio.Event(),
            peers=None,
            read_fields=read_fields,
            start=start,
        )
        found = Served(client, stream, runs)

        async def serve() -> None:
            shared = socket_stream.SharedStream(stream)
            await opening.serve_socket(service, shared, known=token is None)
            found.ended.set()

        nursery.start_soon(serve)
        yield found
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def speaking(found: Served) -> AsyncIterator[WebSocketConnection]:
    """A client that speaks the protocol."""
    async with trio.open_nursery() as nursery:
        yield await wrap_client_stream(nursery, found.client, "localhost", "/v1/stream")
        nursery.cancel_scope.cancel()


async def told(ws: WebSocketConnection) -> list[dict[str, Any]]:
    """All that has been said until nothing more is."""
    await ws.send_message('{"type":"ping","n":1}')
    seen: list[dict[str, Any]] = []
    while not seen or seen[-1]["type"] != "pong":
        message = json.loads(await ws.get_message())
        seen += message if isinstance(message, list) else [message]
    return seen


async def test_who_never_says_who_it_is_is_not_waited_for(
    autojump_clock: MockClock,
) -> None:
    async with served(token="right") as found, speaking(found) as ws:
        told = json.loads(await ws.get_message())
        assert told["error"]["type"] == "unauthorized"
        with pytest.raises(ConnectionClosed):
            await ws.get_message()
        await found.ended.wait()
        assert trio.current_time() == socket_stream.HANDSHAKE


async def closed_with(client: Stream) -> int:
    """The code of the frame that a server ends with; it has sent nothing else."""
    data = b""
    while piece := await client.receive_some():
        data += bytes(piece)
    frames = data.partition(b"\r\n\r\n")[2]
    while frames[0] != 0x88:
        assert frames[0] in (0x89, 0x8A)
        frames = frames[2 + frames[1] :]
    return int.from_bytes(frames[2:4])


HALF = {
    "one byte": b"\x81",
    "half a head": b"\x81\xfe\x10",
    "half a frame": b"\x81\x89\0\0\0\0half",
    "half a message": b"\x01\x84\0\0\0\0half",
    "half a ping": b"\x89\x84\0\0\0\0hal",
}


@pytest.mark.parametrize("half", HALF.values(), ids=list(HALF))
async def test_half_a_message_and_silence_is_not_waited_for_without_end(
    half: bytes, autojump_clock: MockClock
) -> None:
    async with served() as found:
        await found.client.send_all(OPENING + half)
        await found.ended.wait()
        assert trio.current_time() == pytest.approx(socket_input.PATIENCE, abs=0.1)
        await found.close()
        assert await closed_with(found.client) == 1008


async def test_answering_pings_buys_no_time_for_a_message_that_never_ends(
    autojump_clock: MockClock,
) -> None:
    async with served() as found, trio.open_nursery() as nursery:
        await found.client.send_all(OPENING + b"\x01\x84\0\0\0\0half")

        async def trickle() -> None:
            while True:
                await trio.sleep(1)
                await found.client.send_all(b"\x8a\x80\0\0\0\0" + b"\x00\x81\0\0\0\0x")

        nursery.start_soon(trickle)
        await found.ended.wait()
        assert trio.current_time() == pytest.approx(socket_input.PATIENCE, abs=1)
        nursery.cancel_scope.cancel()


async def test_who_answers_no_ping_is_gone_and_its_runs_end(
    autojump_clock: MockClock,
) -> None:
    async with served() as found:
        run = b'{"type":"run","ref":"a"}'
        frame = bytes((0x81, 0x80 | len(run), 0, 0, 0, 0)) + run
        await found.client.send_all(OPENING + frame)
        await wait_all_tasks_blocked()
        assert found.runs.active == 1
        await found.ended.wait()
        assert trio.current_time() == 2 * opening.PING_EVERY
        await found.runs.wait_empty()
        await found.close()
        data = bytes(await found.client.receive_some())
        assert data.endswith(b"\x88\x0e\x03\xf3no pong came")


async def test_who_answers_pings_may_be_silent_for_an_hour(
    autojump_clock: MockClock,
) -> None:
    async with served() as found, speaking(found) as ws:
        await trio.sleep(3600)
        assert [each["type"] for each in await told(ws)] == ["pong"]


async def test_a_socket_follows_so_many_runs_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket, "MAX_FOLLOWED", 2)
    async with served() as found, speaking(found) as ws:
        other = found.runs.start(PREPARED, {}, stream=True, detached=True, flow="f")

        async def say(**fields: Any) -> list[dict[str, Any]]:
            await ws.send_message(json.dumps(fields))
            return [
                each for each in await told(ws) if each["type"] not in ("event", "pong")
            ]

        for ref in "ab":
            [accepted] = await say(type="run", ref=ref)
        [refused] = await say(type="run", ref="c")
        assert (refused["type"], refused["status"]) == ("refused", 429)
        assert found.runs.active == 3
        [error] = await say(type="subscribe", run=other.id)
        assert error["error"]["message"] == (
            "this socket follows 2 runs, which is the most. Unsubscribe from some."
        )
        assert not await say(type="subscribe", run=accepted["run"])
        assert not await say(type="unsubscribe", run=accepted["run"])
        assert not await say(type="subscribe", run=other.id)
        assert other.log.readers == 1


async def test_who_pings_without_end_and_never_reads_is_not_listened_to() -> None:
    async with served(lockstep_stream_pair) as found, trio.open_nursery() as nursery:
        await found.client.send_all(OPENING)
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += bytes(await found.client.receive_some())
        sent = 0

        async def flood() -> None:
            nonlocal sent
            while True:
                await found.client.send_all(b"\x89\x80\0\0\0\0" * 1000)
                sent += 1000

        nursery.start_soon(flood)
        await wait_all_tasks_blocked()
        assert sent <= 2 * opening.ENVELOPE / 6
        nursery.cancel_scope.cancel()


async def test_who_asks_and_never_reads_is_not_listened_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outgoing, "MAX_UNREAD", 4)
    async with served(lockstep_stream_pair) as found, trio.open_nursery() as nursery:
        await found.client.send_all(OPENING)
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += bytes(await found.client.receive_some())
        sent = 0

        async def ask() -> None:
            nonlocal sent
            for _ in range(100):
                await found.client.send_all(FRAMED_PING)
                sent += 1

        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        assert 4 <= sent < 20
        pongs = 0
        while pongs < 100:
            pongs += bytes(await found.client.receive_some()).count(b'"pong"')
        assert sent == 100


async def test_short_messages_share_a_write_and_a_long_one_has_its_own() -> None:
    writes: list[bytes] = []

    def recorded() -> tuple[Stream, Stream]:
        client, stream = memory_stream_pair()

        async def record() -> None:
            writes.append(bytes(stream.send_stream.get_data_nowait()))
            client.receive_stream.put_data(writes[-1])

        stream.send_stream.send_all_hook = record
        return client, stream

    async with served(recorded) as found, speaking(found) as ws:
        first, second, third = (
            found.runs.start(PREPARED, {}, stream=True, detached=True, flow="f")
            for _ in range(3)
        )
        # Each tells of its beginning first, when its task has its turn.
        await wait_all_tasks_blocked()
        for run in (first, second, third):
            await ws.send_message(json.dumps({"type": "subscribe", "run": run.id}))
        await wait_all_tasks_blocked()
        await told(ws)

        async def written(*sizes: int) -> list[int]:
            """How often each run is told of in each write, when all have an event."""
            await wait_all_tasks_blocked()
            writes.clear()
            for run, size in zip((first, second, third), sizes, strict=True):
                run.log.append(TokenDelta("ask", "x" * size))
            await wait_all_tasks_blocked()
            return [each.count(b'"type":"event"') for each in writes]

        long = 2 * outgoing.ALONE_BYTES
        assert await written(10, 10, 10) == [3]
        assert await written(10, long, 10) == [1, 1, 1]
        assert await written(10, 10, long) == [2, 1]
        seen = [each["run"] for each in await told(ws) if each["type"] == "event"]
        assert seen == [first.id, second.id, third.id] * 3
