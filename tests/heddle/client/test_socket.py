"""What a socket's client makes of a server that says what no server should."""

import json
from typing import Any

import pytest
import trio
from trio_websocket import ConnectionClosed

from heddle.client.entries import RunResult
from heddle.client.faults import ClientFault, ProtocolBroken, Unreachable
from heddle.client.socket import RunSocket
from tests.heddle.client.scripted import FakeSocket

ACCEPTED = {"type": "accepted", "ref": "1", "run": "r1"}
ENDED = {"type": "end", "run": "r1", "status": "completed", "state": {"n": 1}}


async def result(*said: Any) -> RunResult | ClientFault:
    """What a run on a socket comes to that says this."""
    socket = RunSocket(
        FakeSocket([json.dumps(each).encode() for each in said]),  # type: ignore[arg-type]
        "here",
        refill=True,
    )
    found: list[RunResult | ClientFault] = []

    async def run() -> None:
        try:
            found.append(await (await socket.run({}, {})).result())
        except ClientFault as fault:
            found.append(fault)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        nursery.start_soon(socket.write)
        await socket.read()
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    [only] = found
    return only


async def test_a_run_that_is_accepted_twice_is_one_run() -> None:
    assert await result(ACCEPTED, ACCEPTED, ENDED) == RunResult("r1", "", {"n": 1})


async def test_a_run_whose_id_another_one_gets_fails() -> None:
    socket = RunSocket(FakeSocket([]), "here", refill=True)  # type: ignore[arg-type]
    faults: list[ClientFault] = []

    async def run() -> None:
        try:
            await (await socket.run({}, {})).result()
        except ClientFault as fault:
            faults.append(fault)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(socket.write)
        for ref in ("1", "2"):
            nursery.start_soon(run)
            await trio.testing.wait_all_tasks_blocked()
            socket._accepted(ref, "r1")
            await trio.testing.wait_all_tasks_blocked()
        await socket.read()
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert [type(fault) for fault in faults] == [ProtocolBroken, Unreachable]
    assert str(faults[0]) == (
        "run r1 at here: the server began another run under this id. "
        "This is a bug in the server."
    )


async def test_a_socket_that_is_cut_while_it_is_written_to_ends_every_wait() -> None:
    class Cut(FakeSocket):
        async def send_message(self, message: str) -> None:
            raise ConnectionClosed(None)

    socket = RunSocket(Cut([]), "here", refill=True)  # type: ignore[arg-type]
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(socket.write)
            nursery.start_soon(socket.read)
            with pytest.raises(Unreachable, match="the socket was cut"):
                await socket.run({}, {})


async def test_a_run_that_begins_before_who_starts_it_is_gone_is_cancelled() -> None:
    """The answer is read before the writing task comes to say that it has written."""
    told = trio.Event()

    class Slow(FakeSocket):
        async def send_message(self, message: str) -> None:
            await told.wait()
            await super().send_message(message)

    ws = Slow([])
    socket = RunSocket(ws, "here", refill=True)  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(socket.write)
        async with trio.open_nursery() as starting:
            starting.start_soon(socket.run, {}, {})
            await trio.testing.wait_all_tasks_blocked()
            socket._accepted("1", "r1")
            starting.cancel_scope.cancel()
        told.set()
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert not socket.runs
    assert json.loads(ws.sent[1]) == {"type": "cancel", "run": "r1"}


@pytest.mark.parametrize("state", [None, [1], "x"])
async def test_an_end_without_a_state_is_no_result(state: Any) -> None:
    found = await result(ACCEPTED, {**ENDED, "state": state})
    assert isinstance(found, ProtocolBroken)
    assert "the state that the run ended with can't be read" in str(found)
