"""What waits for the end of a turn of the event loop is sent then, whole and in order."""

import socket
from collections.abc import Iterator
from math import inf

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from heddle.http import bursts as module
from heddle.http.bursts import SMALL, Bursts, bursts_of_this_loop, open_bursts
from heddle.http.transport import Connection
from heddle.http.wires import ConnectionBroken
from heddle.http.wires import SocketWire as AskingWire
from heddle.server.http import Gone, Limits
from heddle.server.http.deadlines import Deadlines
from heddle.server.http.wire import SocketWire


@pytest.fixture
async def together() -> Iterator[Bursts]:
    with open_bursts() as bursts:
        yield bursts


class Sent:
    """Says what is sent."""

    def __init__(self, name: str, told: list[str]) -> None:
        self.name = name
        self.told = told

    def send_waiting(self) -> None:
        self.told.append(self.name)

    def resume(self) -> None:
        self.told.append(f"{self.name} resumed")


def pair(*, room: int = 0) -> tuple[socket.socket, socket.socket]:
    """Two ends of a connection; ours takes about ``room`` bytes that nobody reads."""
    listener = socket.socket()
    if room:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    ours = socket.socket()
    if room:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, room)
    ours.connect(listener.getsockname())
    theirs, _ = listener.accept()
    listener.close()
    ours.setblocking(False)
    theirs.setblocking(False)
    return ours, theirs


def fill(ours: socket.socket) -> int:
    """Send until nothing goes any more; how many bytes did."""
    count = 0
    while True:
        try:
            count += ours.send(b"." * 65536)
        except BlockingIOError:
            return count


async def read(theirs: socket.socket, count: int) -> bytes:
    data = b""
    with trio.fail_after(10):
        while len(data) < count:
            await trio.lowlevel.wait_readable(theirs)
            got = theirs.recv(65536)
            assert got, "the end came before all had"
            data += got
    return data


def nothing(theirs: socket.socket) -> bool:
    try:
        theirs.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    return False


def served(ours: socket.socket, limits: Limits | None = None) -> SocketWire:
    return SocketWire(ours, Deadlines(()), limits or Limits())


def asking(ours: socket.socket) -> AskingWire:
    trios = trio.socket.from_stdlib_socket(ours)
    return AskingWire(trio.SocketStream(trios))


# ---- the turn


async def test_all_that_waits_is_sent_in_order_when_every_task_had_its_turn(
    together: Bursts,
) -> None:
    told: list[str] = []

    async def task(name: str) -> None:
        together.add(Sent(name, told))
        assert not told

    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(task, str(number))
    assert sorted(told) == ["0", "1", "2", "3", "4"]


async def test_so_many_that_they_need_not_wait_do_not(together: Bursts) -> None:
    told: list[str] = []
    for number in range(module._ENOUGH):
        assert not told
        together.add(Sent(str(number), told))
    assert told == [str(number) for number in range(module._ENOUGH)]
    await trio.lowlevel.checkpoint()
    assert len(told) == module._ENOUGH


async def test_what_waits_when_the_bursts_end_is_sent_and_wires_send_at_once_again(
    together: Bursts,
) -> None:
    told: list[str] = []
    with open_bursts() as inner:
        assert bursts_of_this_loop() is inner
        inner.add(Sent("last", told))
    assert told == ["last"]
    assert bursts_of_this_loop() is not inner


async def test_without_bursts_a_wire_sends_at_once(
    monkeypatch: pytest.MonkeyPatch, together: Bursts
) -> None:
    for bursts in (None, bursts_of_this_loop()):
        ours, theirs = pair()
        wire = served(ours)
        monkeypatch.setattr(wire, "_bursts", bursts)
        assert wire.send_soon(b"answer")
        assert nothing(theirs) is (bursts is not None)
        assert await read(theirs, 6) == b"answer"
        await wire.close()
        theirs.close()


# ---- answers


async def test_what_is_sent_after_what_waits_arrives_after_it(together: Bursts) -> None:
    ours, theirs = pair()
    wire = served(ours)
    assert wire.send_soon(b"one ")
    assert wire.send_soon(b"two ")
    assert wire.send_at_once(b"three ")
    assert wire.send_soon(b"four")
    assert await read(theirs, 18) == b"one two three four"
    await wire.close()
    theirs.close()


@pytest.mark.parametrize("end", ["close", "end_sending", "abort"])
async def test_what_waits_is_sent_before_the_end(end: str, together: Bursts) -> None:
    ours, theirs = pair()
    wire = served(ours)
    assert wire.send_soon(b"answer")
    await getattr(wire, end)()
    await trio.lowlevel.wait_readable(theirs)
    if end != "abort":
        assert theirs.recv(64) == b"answer"
    await wire.close()
    theirs.close()


async def test_a_long_answer_does_not_wait(together: Bursts) -> None:
    ours, theirs = pair()
    wire = served(ours)
    assert wire.send_soon(b"x" * (SMALL + 1))
    assert not nothing(theirs)
    await wire.close()
    theirs.close()


@pytest.mark.parametrize("ready", [False, True])
async def test_what_does_not_go_is_sent_by_who_reads_next(
    ready: bool, together: Bursts
) -> None:
    ours, theirs = pair(room=4096)
    wire = served(ours)
    filled = fill(ours)
    got: list[bytes] = []

    async def serve() -> None:
        assert wire.send_soon(b"a" * SMALL)
        got.append(await wire.receive(inf))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        if ready:
            # The next request is there already: it is not read before the answer is out.
            theirs.send(b"next")
        await wait_all_tasks_blocked()
        assert not got
        assert (await read(theirs, filled + SMALL))[filled:] == b"a" * SMALL
        if not ready:
            theirs.send(b"next")
    assert got == [b"next"]
    assert not wire.torn
    await wire.close()
    theirs.close()


async def test_a_client_that_never_takes_its_answer_is_late_with_reading_not_asking(
    together: Bursts,
) -> None:
    ours, theirs = pair(room=4096)
    wire = served(ours)
    fill(ours)
    assert wire.send_soon(b"a" * SMALL)
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wire.receive, trio.current_time() + 5)
            await wait_all_tasks_blocked()
            assert wire.read_until == inf
            assert wire.write_until < inf
            scope.cancel()
    await wire.abort()
    theirs.close()


async def test_a_client_that_is_gone_for_what_waits_is_gone_for_who_reads(
    together: Bursts,
) -> None:
    for use in ("receive", "send"):
        ours, theirs = pair()
        wire = served(ours)
        assert wire.send_soon(b"answer")
        ours.shutdown(socket.SHUT_WR)
        await wait_all_tasks_blocked()
        with pytest.raises(Gone), trio.fail_after(10):
            await (wire.receive(inf) if use == "receive" else wire.send(b"x"))
        await wire.close()
        theirs.close()


async def test_who_waits_is_told_that_the_client_is_gone(together: Bursts) -> None:
    ours, theirs = pair()
    wire = served(ours)

    async def serve() -> None:
        assert wire.send_soon(b"answer")
        ours.shutdown(socket.SHUT_WR)
        with pytest.raises(Gone):
            await wire.receive(inf)

    with trio.fail_after(10):
        await serve()
    await wire.abort()
    theirs.close()


async def test_the_end_waits_a_moment_for_who_does_not_read_and_no_longer(
    autojump_clock: MockClock, together: Bursts
) -> None:
    ours, theirs = pair(room=4096)
    limits = Limits()
    wire = served(ours, limits)
    fill(ours)
    assert wire.send_soon(b"a" * SMALL)
    began = trio.current_time()
    await wire.close()
    assert trio.current_time() - began == pytest.approx(limits.linger_timeout)
    assert ours.fileno() < 0
    theirs.close()


async def test_an_answer_whose_sending_is_cancelled_is_finished_by_the_end(
    together: Bursts,
) -> None:
    ours, theirs = pair(room=4096)
    wire = served(ours)
    filled = fill(ours)
    assert wire.send_soon(b"a" * SMALL)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wire.receive, inf)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wire.close)
        assert (await read(theirs, filled + SMALL))[filled:] == b"a" * SMALL
    theirs.close()


# ---- requests


async def test_a_request_of_a_call_that_ends_in_its_turn_is_never_sent(
    together: Bursts,
) -> None:
    ours, theirs = pair()
    connection = Connection(asking(ours), set())
    assert connection.begin_now(b"request") == b""
    connection.close()
    await trio.lowlevel.wait_readable(theirs)
    assert theirs.recv(64) == b""
    theirs.close()


async def test_what_of_a_request_does_not_go_is_sent_before_its_answer_is_read(
    together: Bursts,
) -> None:
    ours, theirs = pair(room=4096)
    filled = fill(ours)
    wire = asking(ours)
    connection = Connection(wire, set())
    assert connection.begin_now(b"r" * SMALL) == b""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.advance)
        await wait_all_tasks_blocked()
        assert (await read(theirs, filled + SMALL))[filled:] == b"r" * SMALL
        theirs.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    assert connection.complete
    connection.close()
    theirs.close()


async def test_an_answer_that_comes_early_is_not_read_before_its_request_is_sent(
    together: Bursts,
) -> None:
    ours, theirs = pair(room=4096)
    filled = fill(ours)
    connection = Connection(asking(ours), set())
    theirs.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    assert connection.begin_now(b"r" * SMALL) == b""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.advance)
        await wait_all_tasks_blocked()
        assert not connection.complete
        assert (await read(theirs, filled + SMALL))[filled:] == b"r" * SMALL
    assert connection.complete
    connection.close()
    theirs.close()


async def test_a_call_that_is_over_just_when_its_request_does_not_go_sends_no_more(
    together: Bursts,
) -> None:
    ours, theirs = pair(room=4096)
    fill(ours)
    wire = asking(ours)
    connection = Connection(wire, set())
    wire.mark()
    wire._drained = True

    async def ask() -> None:
        with pytest.raises(ConnectionBroken), trio.fail_after(10):
            await connection.advance()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        wire._waiting = b"r" * SMALL
        wire.send_waiting()
        wire.wake()
    connection.close()
    theirs.close()


async def test_a_call_that_is_over_is_woken_also_while_its_request_is_being_sent(
    together: Bursts,
) -> None:
    ours, theirs = pair(room=4096)
    fill(ours)
    wire = asking(ours)
    connection = Connection(wire, set())

    async def ask() -> None:
        with pytest.raises(ConnectionBroken):
            await connection.advance()

    for turns in range(4):
        wire.mark()
        wire._waiting = b"r" * SMALL
        wire.send_now(b"")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            for _ in range(turns):
                await trio.lowlevel.checkpoint()
            if not turns:
                await wait_all_tasks_blocked()
            with trio.move_on_after(10) as patience:
                wire.wake()
                while nursery.child_tasks:
                    wire.wake()
                    await trio.lowlevel.checkpoint()
            assert not patience.cancelled_caught
    connection.close()
    theirs.close()


async def test_a_request_that_nobody_can_be_told_is_known_to_be_undelivered(
    together: Bursts,
) -> None:
    ours, theirs = pair()
    wire = asking(ours)
    connection = Connection(wire, set())
    assert connection.begin_now(b"request") == b""
    wire._socket.shutdown(socket.SHUT_WR)
    with pytest.raises(ConnectionBroken) as caught, trio.fail_after(10):
        await connection.advance()
    assert connection.undelivered(caught.value)
    connection.close()
    theirs.close()


async def test_an_end_after_a_request_that_could_not_be_sent_is_told_as_that(
    together: Bursts,
) -> None:
    ours, theirs = pair()
    wire = asking(ours)
    connection = Connection(wire, set())
    assert connection.begin_now(b"request") == b""
    theirs.shutdown(socket.SHUT_WR)
    wire._socket.shutdown(socket.SHUT_WR)
    with pytest.raises(ConnectionBroken, match="reset"), trio.fail_after(10):
        await connection.advance()
    connection.close()
    theirs.close()


async def test_an_answer_to_a_request_that_could_not_be_sent_is_read(
    together: Bursts,
) -> None:
    ours, theirs = pair()
    wire = asking(ours)
    connection = Connection(wire, set())
    assert connection.begin_now(b"request") == b""
    theirs.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
    wire._socket.shutdown(socket.SHUT_WR)
    with trio.fail_after(10):
        await connection.advance()
    assert connection.status == 413
    connection.close()
    theirs.close()


def test_a_loop_without_bursts_has_none() -> None:
    async def main() -> Bursts | None:
        return bursts_of_this_loop()

    assert trio.run(main) is None
