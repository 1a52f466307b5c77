"""Many runs on one WebSocket, over a real server."""

import json
import signal
import socket as sockets
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import trio
from trio_websocket import (
    ConnectionClosed,
    WebSocketConnection,
    wrap_client_stream,
)

from tests.heddle.server.serving import (
    HANDSHAKE,
    LOOPING,
    PATIENCE,
    STRAIGHT,
    TALKATIVE,
    WAITING,
    Answered,
    Served,
    server,
    sse,
    write_tools,
)
from tests.support.flows import end, flow, prop, start

NEEDY = flow([start(inputs=[prop("name")]), end()], ["start", "end"])


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("sockets")
    flags = ("--tools-dir", write_tools(folder), "--max-concurrent", "100")
    with server(folder, *flags, "--max-body", "100000") as found:
        yield found


OPENING = b"".join(
    [
        b"GET /v1/stream HTTP/1.1\r\nHost: localhost\r\n",
        *(f"{name}: {value}\r\n".encode() for name, value in HANDSHAKE.items()),
        b"\r\n",
    ]
)


class Client:
    """A client of the socket: what it is told, object by object."""

    def __init__(self, ws: WebSocketConnection) -> None:
        self.ws = ws
        self._waiting: list[dict[str, Any]] = []

    async def say(self, **fields: Any) -> None:
        """Send an object."""
        await self.ws.send_message(json.dumps(fields))

    async def next(self) -> dict[str, Any]:
        """The next object."""
        with trio.fail_after(PATIENCE):
            while not self._waiting:
                told = json.loads(await self.ws.get_message())
                self._waiting += told if isinstance(told, list) else [told]
        return self._waiting.pop(0)

    async def until(self, **fields: Any) -> list[dict[str, Any]]:
        """All up to the first object with these fields."""
        seen = []
        while True:
            seen.append(await self.next())
            if fields.items() <= seen[-1].items():
                return seen

    async def run(self, ref: str = "a", flow: Any = STRAIGHT, **more: Any) -> str:
        """Begin a run; its id."""
        await self.say(type="run", ref=ref, flow=flow, **more)
        [*_, accepted] = await self.until(type="accepted", ref=ref)
        return str(accepted["run"])


@asynccontextmanager
async def connected(served: Served, **more: Any) -> AsyncIterator[Client]:
    """A socket."""
    more.setdefault("subprotocols", ["heddle.v1"])
    # The library's own way to connect forgets the socket when the server closes it.
    async with (
        await trio.open_tcp_stream("127.0.0.1", served.port) as stream,
        trio.open_nursery() as nursery,
    ):
        ws = await wrap_client_stream(nursery, stream, served.host, "/v1/stream", **more)
        yield Client(ws)
        with trio.move_on_after(5):
            await ws.aclose()
        nursery.cancel_scope.cancel()


async def in_thread(call: Any, *arguments: Any) -> Any:
    """What the black box's own client does, beside the socket."""
    return await trio.to_thread.run_sync(call, *arguments)


async def test_a_run_tells_its_events_without_holes_and_its_end(served: Served) -> None:
    async with connected(served) as client:
        assert client.ws.subprotocol == "heddle.v1"
        run = await client.run(inputs={"a": 1})
        [*events, end] = await client.until(type="end")
    assert [each["seq"] for each in events] == list(range(1, len(events) + 1))
    assert {each["run"] for each in events} == {run}
    assert end == {"type": "end", "run": run, "status": "completed", "state": {"a": 1}}
    body = served.ask("GET", f"/v1/runs/{run}/events").body
    assert [each["event"] for each in events] == [json.loads(f["data"]) for f in sse(body)]


async def test_many_runs_share_a_socket(served: Served) -> None:
    async with connected(served) as client:
        for n in range(50):
            await client.say(type="run", ref=str(n), flow=STRAIGHT, inputs={"n": n})
        refs: dict[str, str] = {}
        ends: dict[str, Any] = {}
        events: dict[str, list[int]] = {}
        while len(ends) < 50:
            told = await client.next()
            match told["type"]:
                case "accepted":
                    refs[told["run"]] = told["ref"]
                case "event":
                    events.setdefault(told["run"], []).append(told["seq"])
                case "end":
                    ends[told["run"]] = told["state"]
    assert {refs[run]: state for run, state in ends.items()} == {
        str(n): {"n": n} for n in range(50)
    }
    assert all(seen == [1, 2, 3, 4, 5, 6] for seen in events.values())


@pytest.mark.parametrize(
    ("message", "status", "words"),
    [
        ({"flow": {"component_type": "Flow"}}, 400, "flow"),
        ({}, 400, "no flow"),
        ({"flowPath": "x"}, 404, ""),
        ({"flow": STRAIGHT, "toolsDir": "/"}, 400, "toolsDir"),
        ({"flow": STRAIGHT, "tools": [{}]}, 400, "code"),
        ({"flow": STRAIGHT, "inputs": 3}, 400, "inputs"),
        ({"flow": NEEDY, "inputs": {}}, 400, "inputs: the flow needs input 'name'"),
        ({"flow": STRAIGHT, "detach": "yes"}, 400, "detach"),
        ({"flow": STRAIGHT, "trace": "yes"}, 400, "trace"),
        ({"flow": STRAIGHT, "trace": True}, 403, "--allow-trace"),
    ],
)
async def test_a_run_is_refused_with_the_status_of_http(
    served: Served, message: dict[str, Any], status: int, words: str
) -> None:
    async with connected(served) as client:
        await client.say(type="run", ref="r", **message)
        told = await client.next()
        assert (told["type"], told["ref"], told["status"]) == ("refused", "r", status)
        assert words in told["error"]["message"]
        await client.run()


@pytest.mark.parametrize(
    "message",
    [
        "",
        "nonsense",
        "[]",
        "3",
        "{}",
        '{"type": 3}',
        '{"type": "brew"}',
        '{"type": "subscribe"}',
        '{"type": "subscribe", "run": "never was"}',
        '{"type": "subscribe", "run": 7}',
        '{"type": "cancel", "run": "never was"}',
        '{"type": "ping", "n": "x"}',
        "[" * 50_000,
        '{"type": "run", "ref": "' + "x" * 300 + '"}',
        b"binary",
    ],
)
async def test_what_cannot_be_done_is_told_and_the_socket_stays(
    served: Served, message: str | bytes
) -> None:
    async with connected(served) as client:
        await client.ws.send_message(message)
        told = await client.next()
        assert told["type"] in {"error", "refused"}
        assert told["error"]["message"]
        await client.say(type="ping", n=7)
        assert await client.next() == {"type": "pong", "n": 7}


async def test_a_run_of_another_is_followed_from_where_one_likes(served: Served) -> None:
    run = (await in_thread(served.ask, "POST", "/v1/runs", {"flow": STRAIGHT})).json["run"]
    async with connected(served) as client:
        await client.say(type="subscribe", run=run, **{"from": 4})
        [*events, _] = await client.until(type="end", run=run)
        assert [each["seq"] for each in events] == [4, 5, 6]
        await client.say(type="subscribe", run=run)
        [*events, _] = await client.until(type="end", run=run)
        assert [each["seq"] for each in events] == [1, 2, 3, 4, 5, 6]


async def test_unsubscribing_is_silence_and_cancelling_an_end(served: Served) -> None:
    async with connected(served) as client, connected(served) as other:
        run = await client.run(flow=WAITING)
        await other.say(type="subscribe", run=run)
        await other.until(type="event", run=run, seq=3)
        await client.say(type="unsubscribe", run=run)
        await other.say(type="cancel", run=run)
        [*_, end] = await other.until(type="end")
        assert (end["status"], end["error"]["type"]) == ("cancelled", "RunCancelled")
        await other.say(type="cancel", run=run)
        assert (await other.next())["error"]["type"] == "conflict"
        await client.say(type="ping", n=1)
        assert (await client.until(type="pong"))[-1]["n"] == 1


@pytest.mark.parametrize("detach", [False, True])
async def test_closing_ends_what_was_not_detached(served: Served, *, detach: bool) -> None:
    async with connected(served) as client:
        run = await client.run(flow=WAITING, detach=detach)
        await client.until(type="event", run=run, seq=3)

    def status() -> str:
        return str(served.ask("GET", f"/v1/runs/{run}").json["status"])

    await in_thread(served.until, lambda: served.metric("heddle_sockets") == 0)
    if detach:
        assert await in_thread(status) == "running"
        assert served.ask("DELETE", f"/v1/runs/{run}").status == 202
    await in_thread(served.until, lambda: status() == "cancelled")


async def test_a_connection_that_breaks_ends_them_too(served: Served) -> None:
    stream = await trio.open_tcp_stream("127.0.0.1", served.port)
    async with trio.open_nursery() as nursery:
        ws = await wrap_client_stream(nursery, stream, served.host, "/v1/stream")
        run = await Client(ws).run(flow=WAITING)
        stream.socket.setsockopt(
            sockets.SOL_SOCKET, sockets.SO_LINGER, b"\x01\0\0\0\0\0\0\0"
        )
        await stream.aclose()
        nursery.cancel_scope.cancel()
    await in_thread(
        served.until,
        lambda: served.ask("GET", f"/v1/runs/{run}").json["status"] == "cancelled",
    )


async def test_a_message_over_the_limit_closes_with_1009(served: Served) -> None:
    async with connected(served) as client:
        with pytest.raises(ConnectionClosed) as closed:
            for _ in range(50):
                await client.ws.send_message("x" * 200_000)
                await client.next()
        assert closed.value.reason is not None
        assert closed.value.reason.code == 1009


KEY: Final = b"\0\0\0\0"

RUDE: Final[dict[str, tuple[bytes, int]]] = {
    "not masked": (b"\x81\x05hello", 1002),
    "an unknown opcode": (b"\x83\x80" + KEY, 1002),
    "an unknown control opcode": (b"\x8b\x80" + KEY, 1002),
    "reserved bits": (b"\xf1\x80" + KEY, 1002),
    "the rest of nothing": (b"\x80\x80" + KEY, 1002),
    "a message inside another": (b"\x01\x80" + KEY + b"\x81\x80" + KEY, 1002),
    "a ping in pieces": (b"\x09\x80" + KEY, 1002),
    "a long ping": (b"\x89\xfe\0\x7e" + KEY + b"x" * 126, 1002),
    "a length of 2^63": (b"\x81\xff" + b"\xff" * 8 + KEY, 1002),
    "a length in more bytes than it needs": (b"\x81\xfe\0\x05" + KEY + b"hello", 1002),
    "a close with half a code": (b"\x88\x81" + KEY + b"x", 1002),
    "a close with a code of nobody's": (b"\x88\x82" + KEY + b"\x03\xed", 1002),
    "no UTF-8": (b"\x81\x81" + KEY + b"\xff", 1007),
    "no UTF-8 across two pieces": (
        b"\x01\x81" + KEY + b"\xe2" + b"\x80\x81" + KEY + b"\x28",
        1007,
    ),
    "half a character at the end": (b"\x81\x81" + KEY + b"\xe2", 1007),
    "a frame without end": (
        b"\x81\xff" + (2**62).to_bytes(8) + KEY + b"x" * 1_000_000,
        1009,
    ),
    "pieces without end": (
        b"\x01\x80" + KEY + (b"\x00\xfe\x10\x00" + KEY + b"x" * 4096) * 200,
        1009,
    ),
    "empty pieces without end": (
        b"\x01\x80" + KEY + (b"\x00\x80" + KEY) * 50_000,
        1009,
    ),
}
"""What no client that keeps to the protocol sends, and the code that it is closed with."""

FLOOD: Final = b"\x89\x80" + KEY


def answered(served: Served, data: bytes) -> bytes:
    """The frames that a client is sent who says this behind its handshake."""
    with sockets.create_connection(("127.0.0.1", served.port), PATIENCE) as client:
        client.sendall(OPENING + data)
        told = b""
        while piece := client.recv(65536):
            told += piece
    head, _, frames = told.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101")
    return frames


@pytest.mark.parametrize("what", RUDE)
def test_what_breaks_the_protocol_is_told_with_its_code(served: Served, what: str) -> None:
    data, code = RUDE[what]
    frames = answered(served, data)
    assert frames[0] == 0x88
    assert len(frames) == 2 + frames[1]
    assert int.from_bytes(frames[2:4]) == code


async def test_who_breaks_the_protocol_harms_nobody_else(served: Served) -> None:
    before = served.metric("process_resident_memory_bytes")
    async with connected(served) as client:
        run = await client.run(flow=WAITING)
        async with trio.open_nursery() as nursery:
            for data, _ in [*RUDE.values()] * 2:
                nursery.start_soon(in_thread, answered, served, data)
            for n in range(20):
                with trio.fail_after(10):
                    await client.say(type="ping", n=n)
                    await client.until(type="pong", n=n)
        assert served.ask("GET", f"/v1/runs/{run}").json["status"] == "running"
    assert served.metric("process_resident_memory_bytes") - before < 30e6


async def test_a_flood_of_pings_is_answered_and_slows_nobody_much(served: Served) -> None:
    count = 5_000

    def flood() -> int:
        """How many pongs came."""
        with sockets.create_connection(("127.0.0.1", served.port), PATIENCE) as client:
            client.sendall(OPENING)
            told = b""
            for _ in range(100):
                client.sendall(FLOOD * (count // 100))
                told += client.recv(65536)
            while told.count(b"\x8a\x00") < count:
                piece = client.recv(65536)
                assert piece
                told += piece
        return told.count(b"\x8a\x00")

    async with connected(served) as client, trio.open_nursery() as nursery:

        async def check() -> None:
            assert await in_thread(flood) == count
            nursery.cancel_scope.cancel()

        nursery.start_soon(check)
        while True:
            with trio.fail_after(5):
                await client.say(type="ping", n=1)
                await client.until(type="pong", n=1)
            await trio.sleep(0.02)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 426),
        ({"Connection": "Upgrade", "Upgrade": "websocket"}, 426),
        ({"Connection": "Upgrade", "Upgrade": "h2c"}, 426),
        ({**HANDSHAKE, "Sec-WebSocket-Key": "short"}, 400),
    ],
)
def test_what_is_no_handshake_is_refused(
    served: Served, headers: dict[str, str], status: int
) -> None:
    assert served.ask("GET", "/v1/stream", headers=headers).status == status


@pytest.mark.parametrize(
    ("origin", "open_"), [("https://evil.example", False), ("null", False), (None, True)]
)
async def test_a_page_of_another_origin_gets_no_socket(
    served: Served, origin: str | None, *, open_: bool
) -> None:
    given = f"http://{served.host}" if origin is None else origin
    headers = [(b"Origin", given.encode())]
    if open_:
        async with connected(served, extra_headers=headers) as client:
            await client.run()
        return
    refusal = await in_thread(shake_hands, served, {"Origin": given})
    assert refusal.status == 403


def shake_hands(served: Served, headers: dict[str, str]) -> Answered:
    """Ask for a socket that is refused; the client library leaks its own then."""
    return served.ask("GET", "/v1/stream", headers={**HANDSHAKE, **headers})


async def test_a_reader_that_stops_is_told_what_it_missed_and_the_run_goes_on(
    tmp_path: Path,
) -> None:
    """Case 29, for the socket: a run of 4,000 events of 32 KiB, nobody reading."""
    flags = ("--max-iterations", "2000")
    with server(tmp_path, *flags) as served:
        async with connected(served) as client:
            run = await client.run(flow=LOOPING, inputs=TALKATIVE)
            shown = await in_thread(
                served.until,
                lambda: (
                    found
                    if (found := served.ask("GET", f"/v1/runs/{run}").json)["status"]
                    != "running"
                    else None
                ),
            )
            assert shown["status"] == "failed"
            told = await client.until(type="end")
        seen: list[int] = []
        missed = 0
        for each in told:
            match each["type"]:
                case "event":
                    seen.append(each["seq"])
                case "lagged":
                    seen += range(each["missed"][0], each["missed"][1] + 1)
                    missed += 1
        assert seen == list(range(1, shown["events"] + 1))
        assert missed
        assert served.metric("process_resident_memory_bytes") < 200e6
        assert served.metric("heddle_stream_lags_total") == missed


async def test_a_crowd_that_follows_one_run_is_told_everything(tmp_path: Path) -> None:
    told: list[list[dict[str, Any]]] = []
    flags = ("--max-iterations", "800")
    with server(tmp_path, *flags) as served:

        async def follow(client: Client, run: str) -> None:
            await client.say(type="subscribe", run=run)
            told.append(await client.until(type="end"))

        async with AsyncExitStack() as stack:
            crowd = [await stack.enter_async_context(connected(served)) for _ in range(6)]
            inputs = {"branching_mapping_key": "on"}
            run = await crowd[0].run(flow=LOOPING, inputs=inputs, detach=True)
            async with trio.open_nursery() as nursery:
                for client in crowd[1:]:
                    nursery.start_soon(follow, client, run)
                told.append(await crowd[0].until(type="end"))
    assert len(told) == 6
    assert len(told[0]) > 1600
    assert all(each == told[0] for each in told)
    assert [each["seq"] for each in told[0][:-1]] == list(range(1, len(told[0])))


async def test_a_socket_says_who_it_is(tmp_path: Path) -> None:
    with server(tmp_path, "--auth-token", "right") as served:
        async with connected(served) as client:
            await client.say(type="auth", token="right")
            await client.run()
        header = [(b"Authorization", b"Bearer right")]
        async with connected(served, extra_headers=header) as client:
            await client.run()
        for first in (
            {"type": "auth", "token": "wrong"},
            {"type": "auth"},
            {"type": "run", "ref": "a", "flow": STRAIGHT},
        ):
            async with connected(served) as client:
                await client.say(**first)
                told = await client.next()
                assert told["error"]["type"] == "unauthorized"
                with pytest.raises(ConnectionClosed) as closed:
                    await client.next()
                assert closed.value.reason is not None
                assert closed.value.reason.code == 1008
        wrong = {"Authorization": "Bearer wrong"}
        assert (await in_thread(shake_hands, served, wrong)).status == 401
        assert served.ask("GET", "/v1/runs").status == 401


async def test_a_drain_is_told_and_closes_with_1001_when_the_runs_have_ended(
    tmp_path: Path,
) -> None:
    with server(tmp_path, "--tools-dir", write_tools(tmp_path)) as served:
        async with connected(served) as client:
            run = await client.run(flow=WAITING)
            await client.until(type="event", run=run, seq=3)
            served.signal()
            await client.until(type="draining")
            await client.say(type="run", ref="b", flow=STRAIGHT)
            [*_, told] = await client.until(type="refused", ref="b")
            assert told["status"] == 503
            await client.say(type="cancel", run=run)
            await client.until(type="end", run=run)
            with pytest.raises(ConnectionClosed) as closed:
                await client.next()
            assert closed.value.reason is not None
            assert closed.value.reason.code == 1001
        assert (await in_thread(served.ended)) == 0


async def test_who_watches_is_told_the_status_and_sees_a_drain_to_its_end(
    tmp_path: Path,
) -> None:
    with server(tmp_path, "--tools-dir", write_tools(tmp_path)) as served:
        body = {"flow": WAITING}
        started = await in_thread(served.ask, "POST", "/v1/runs?detach=true", body)
        run = started.json["run"]
        async with connected(served) as client:
            await client.say(type="watch")
            whole = await client.next()
            assert whole["runs"][run]["status"] == "running"
            assert (whole["server"]["active"], whole["server"]["status"]) == (1, "ok")
            await client.say(type="unwatch")
            await client.say(type="watch")
            assert (await client.next())["runs"][run]["flow"] == "flow"
            served.signal()
            await client.until(type="draining")
            told = await client.next()
            while "server" not in told or "status" not in told["server"]:
                told = await client.next()
            assert told["server"]["status"] == "draining"
            await client.say(type="cancel", run=run)
            with pytest.raises(ConnectionClosed) as closed:
                while True:
                    await client.next()
            assert closed.value.reason is not None
            assert closed.value.reason.code == 1001
        assert (await in_thread(served.ended)) == 0


DEAF: Final = "#!/bin/sh\ntrap '' TERM\ntouch {begun}\nsleep 60\n"


@pytest.mark.parametrize("slowly", [False, True])
async def test_a_second_signal_does_not_wait_for_sockets_but_tells_how_runs_ended(
    tmp_path: Path, *, slowly: bool
) -> None:
    tools = write_tools(tmp_path)
    if slowly:
        (tmp_path / "tools" / "wait").write_text(DEAF.format(begun=tmp_path / "begun"))
    with server(tmp_path, "--tools-dir", tools) as served:
        async with connected(served) as client:
            run = await client.run(flow=WAITING)
            await in_thread(served.until, (tmp_path / "begun").exists)
            served.signal(signal.SIGINT)
            await client.until(type="draining")
            served.signal(signal.SIGINT)
            [*_, end] = await client.until(type="end", run=run)
            assert end["error"]["message"] == "the server is stopping"
        assert (await in_thread(served.ended)) == 0
