"""The client against a real server: all that it can ask, over HTTP and on a socket."""

import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final

import pytest
import trio

from heddle.client import (
    Client,
    Entry,
    ProtocolBroken,
    Refused,
    RunCancelled,
    RunFailed,
    ServedFlow,
    Unreachable,
    connect,
    socket_run,
)
from heddle.events import FlowCompleted, FlowStarted, NodeStarted, StateShown
from tests.heddle.server.serving import (
    LOOPING,
    STRAIGHT,
    TALKATIVE,
    WAITING,
    Served,
    server,
    write_tools,
)
from tests.support.flows import document

BAD: Final = {"component_type": "Flow"}
ROUNDS: Final = 120


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("client")
    (folder / "straight.json").write_bytes(document(STRAIGHT))
    flags = ("--tools-dir", write_tools(folder), "--flows-root", str(folder))
    with server(
        folder,
        *flags,
        "--auth-token",
        "open-sesame",
        "--max-concurrent",
        "50",
        "--max-iterations",
        str(ROUNDS),
        "--allow-trace",
    ) as found:
        yield found


def connected(served: Served) -> AbstractAsyncContextManager[Client]:
    """A client that has the token."""
    return connect(served.address, token="open-sesame")


async def none_runs(client: Client) -> None:
    """Wait until no run is going on."""
    with trio.fail_after(60):
        while await client.runs(status="running"):  # noqa: ASYNC110  in another process
            await trio.sleep(0.02)


async def at_node(client: Client, run: str) -> None:
    """Wait until a run is at its waiting node."""
    async with client.follow(run) as stream:
        async for entry in stream:
            if isinstance(entry.event, NodeStarted) and entry.event.node_name == "wait":
                return


async def test_runs_are_run_streamed_started_followed_listed_and_cancelled(
    served: Served,
) -> None:
    async with connected(served) as client:
        for flow in (STRAIGHT, document(STRAIGHT).decode(), ServedFlow("straight.json")):
            result = await client.run(flow, {"a": 1})
            assert (result.flow, result.state) == ("flow", {"a": 1})
        info = await client.get(result.run)
        assert (info.status, info.state, info.node) == ("completed", {"a": 1}, "end")
        entries = [entry async for entry in client.stream(STRAIGHT, {"b": 2})]
        assert [entry.seq for entry in entries] == [1, 2, 3, 4, 5, 6]
        assert isinstance(entries[0].event, FlowStarted)
        assert entries[-1].event == FlowCompleted({"b": 2})

        run = await client.start(WAITING, detach=True)
        await at_node(client, run)
        [running] = await client.runs(status="running", limit=5)
        assert (running.run, running.node, running.detached) == (run, "wait", True)
        await client.cancel(run)
        with pytest.raises(RunCancelled):
            await client.follow(run).result()
        with pytest.raises(RunCancelled):
            await client.follow(run, after=(await client.get(run)).events).result()
        with pytest.raises(Refused) as refused:
            await client.cancel(run)
        assert (refused.value.status, refused.value.type) == (409, "conflict")
        assert (await client.capabilities())["limits"]["maxConcurrent"] == 50
        assert client.open_connections <= 2


async def test_a_run_is_traced_where_that_is_asked_for(served: Served) -> None:
    async with connected(served) as client, client.socket() as socket:

        async def states(entries: AsyncIterator[Entry]) -> list[dict[str, Any]]:
            return [
                entry.event.state
                async for entry in entries
                if isinstance(entry.event, StateShown)
            ]

        plain = client.stream(STRAIGHT, {"a": 1})
        assert await states(aiter(plain)) == []
        for traced in (
            client.stream(STRAIGHT, {"a": 1}, trace=True),
            client.follow(await client.start(STRAIGHT, {"a": 1}, detach=True, trace=True)),
            await socket.run(ServedFlow("straight.json"), {"a": 1}, trace=True),
        ):
            assert await states(aiter(traced)) == [{"a": 1}, {"a": 1}]


async def test_a_flow_is_validated_and_a_bad_one_is_an_answer(served: Served) -> None:
    async with connected(served) as client:
        good, bad = await client.validate(STRAIGHT), await client.validate(BAD)
        assert (good.valid, good.flow) == (True, "flow")
        assert not bad.valid
        assert bad.problems[0].what == "'name' is missing"
        with pytest.raises(Refused) as refused:
            await client.run(BAD)
        assert (refused.value.status, refused.value.type) == (400, "DocumentError")
        with pytest.raises(RunFailed) as failed:
            await client.run(LOOPING, {"branching_mapping_key": "x"})
        assert (failed.value.status, failed.value.type) == (500, "LimitReached")


async def test_leaving_a_stream_or_a_run_ends_what_it_began(served: Served) -> None:
    async with connected(served) as client:
        async with client.stream(WAITING) as stream:
            assert (await anext(stream)).seq == 1
        with trio.move_on_after(0.2):
            await client.run(WAITING)
        await none_runs(client)
        assert (await client.get(stream.run)).status == "cancelled"


@pytest.mark.parametrize("token", [None, "close-sesame"])
async def test_who_has_not_the_token_is_refused(served: Served, token: str | None) -> None:
    async with connect(served.address, token=token) as client:
        with pytest.raises(Refused) as refused:
            await client.runs()
        assert refused.value.status == 401
        with pytest.raises(Refused) as refused:
            async with client.socket() as socket:
                await socket.ping()
        assert refused.value.type == "unauthorized"


async def test_a_socket_carries_many_runs_and_each_is_whole(served: Served) -> None:
    async with connected(served) as client:
        async with client.socket() as socket:
            runs = [await socket.run(STRAIGHT, {"n": n}) for n in range(30)]
            for n, run in enumerate(runs):
                assert [entry.seq async for entry in run] == [1, 2, 3, 4, 5, 6]
                assert (await run.result()).state == {"n": n}
            assert await socket.ping() >= 0
            again = await socket.follow(runs[0].run, after=4)
            assert [entry.seq async for entry in again] == [5, 6]
            assert not socket.runs
            waiting = await socket.run(WAITING)
            other = await socket.run(WAITING, detach=True)
            await waiting.cancel()
            with pytest.raises(RunCancelled):
                await waiting.result()
            await other.unfollow()
            assert [entry async for entry in other] == []
            for refusing, status in (
                (lambda: socket.cancel("never was"), 404),
                (lambda: socket.follow("never was"), 404),
                (lambda: socket.cancel(waiting.run), 409),
                (lambda: socket.run(BAD), 400),
            ):
                with pytest.raises(Refused) as refused:
                    await refusing()
                assert refused.value.status == status
            ends = await socket.run(WAITING)
        assert (await client.get(other.run)).running
        await client.cancel(other.run)
        with pytest.raises(RunCancelled):
            await client.follow(ends.run).result()
        with pytest.raises(Unreachable):
            await socket.run(STRAIGHT)


async def test_a_run_that_nobody_reads_keeps_no_other_waiting(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_run, "MAX_WAITING", 10)
    async with connected(served) as client, client.socket() as socket:
        unread = await socket.run(LOOPING, {"branching_mapping_key": "on"})
        for _ in range(3):
            await (await socket.run(STRAIGHT)).result()
        seen = []
        with pytest.raises(RunFailed):
            async for entry in unread:
                seen.append(entry.seq)  # noqa: PERF401  what came before the error
        assert len(unread._items) <= 10
    assert seen == list(range(1, 2 * ROUNDS + 2))


async def test_what_a_slow_reader_missed_is_asked_for_again(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader takes nothing until the run has ended: 240 events of 32 KiB."""
    monkeypatch.setattr(socket_run, "MAX_WAITING", 3)
    async with connected(served) as client, client.socket() as socket:
        run = await socket.run(LOOPING, TALKATIVE)
        await none_runs(client)
        seen = []
        with pytest.raises(RunFailed):
            async for entry in run:
                seen.append(entry.seq)  # noqa: PERF401
    assert seen == list(range(1, 2 * ROUNDS + 2))


@pytest.mark.parametrize("turns", [0, 1, 3, 6, 12])
async def test_a_run_whose_start_is_cancelled_does_not_go_on(
    served: Served, turns: int
) -> None:
    started: list[socket_run.SocketRun] = []

    async def start() -> None:
        started.append(await socket.run(WAITING))

    async with connected(served) as client, client.socket() as socket:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(start)
            for _ in range(turns):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        await socket.ping()
        for run in started:  # the server was faster
            await run.cancel()
            with pytest.raises(RunCancelled):
                await run.result()
        await none_runs(client)
        assert not socket.runs


async def test_an_error_in_the_block_of_a_socket_is_raised_as_it_is(
    served: Served,
) -> None:
    async with connected(served) as client:
        with pytest.raises(ZeroDivisionError):
            async with client.socket():
                raise ZeroDivisionError
        with trio.move_on_after(0) as scope:
            async with client.socket():
                await trio.sleep_forever()
        assert scope.cancelled_caught


async def test_a_server_that_stops_says_so(tmp_path: Path) -> None:
    # A path of a Unix socket is short.
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/s"
        flags = ("--tools-dir", write_tools(tmp_path), "--socket", path)
        with server(tmp_path, *flags, port=None) as served:
            async with connect(f"unix:{path}") as client:
                assert (await client.run(STRAIGHT, {"u": 1})).state == {"u": 1}
                async with client.socket() as socket:
                    run = await socket.run(WAITING)
                    await anext(run)
                    served.signal(signal.SIGTERM)
                    with trio.fail_after(30):
                        await socket.draining.wait()
                    with pytest.raises(Refused) as refused:
                        await socket.run(STRAIGHT)
                    assert refused.value.status == 503
                    await socket.cancel(run.run)
                    with pytest.raises(RunCancelled):
                        await run.result()
                    with pytest.raises(Unreachable), trio.fail_after(30):
                        while True:
                            await socket.ping()
                with pytest.raises((Unreachable, ProtocolBroken)), trio.fail_after(30):
                    # What came before it had closed its port is answered still.
                    while True:
                        await client.runs()
            assert await trio.to_thread.run_sync(served.ended) == 0
