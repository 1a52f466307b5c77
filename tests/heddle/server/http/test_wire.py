"""Wires: what they say of a client that is gone, and of half a send."""

import socket
import struct
from math import inf

import pytest
import trio
from trio.testing import memory_stream_pair

from heddle.server.http import Gone, Limits
from heddle.server.http.deadlines import Deadlines
from heddle.server.http.wire import SocketWire, StreamWire

LIMITS = Limits()


def socket_wire() -> tuple[SocketWire, socket.socket]:
    """A wire and its other end."""
    listener = socket.create_server(("127.0.0.1", 0))
    theirs = socket.create_connection(listener.getsockname())
    ours, _ = listener.accept()
    listener.close()
    ours.setblocking(False)
    theirs.setblocking(False)
    return SocketWire(ours, Deadlines(()), LIMITS), theirs


def reset(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


async def test_a_reset_is_the_end_of_a_socket_wire_in_both_directions() -> None:
    for use in ("receive", "send", "end_sending"):
        wire, theirs = socket_wire()
        reset(theirs)
        with pytest.raises(Gone):
            if use == "receive":
                await wire.receive(inf)
            elif use == "send":
                await wire.send(b"x")
            else:
                await wire.end_sending()
        assert wire.quiet()
        await wire.abort()
        await wire.abort()
        await wire.close()


async def test_a_wait_that_was_for_nothing_goes_on() -> None:
    wire, theirs = socket_wire()
    received: list[bytes] = []

    class Hasty:
        """Said to be ready, and then it is not."""

        hasty = 2

        def fileno(self) -> int:
            assert wire.sock is not None
            return wire.sock.fileno()

        def recv(self, size: int) -> bytes:
            assert wire.sock is not None
            self.hasty -= 1
            if self.hasty >= 0:
                raise BlockingIOError
            return wire.sock.recv(size)

    wire._socket = Hasty()  # type: ignore[assignment]
    async with trio.open_nursery() as nursery:

        async def receive() -> None:
            received.append(await wire.receive(inf))

        nursery.start_soon(receive)
        theirs.send(b"x")
    assert received == [b"x"]
    theirs.close()
    assert wire.sock is not None
    wire.sock.close()


async def test_a_full_socket_tears_a_send_that_is_cancelled_and_not_one_that_ends() -> None:
    wire, theirs = socket_wire()
    with trio.move_on_after(0.01):
        await wire.send(b"x" * 20_000_000)
    assert wire.torn
    theirs.close()
    await wire.abort()

    wire, theirs = socket_wire()
    size = 20_000_000
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wire.send, b"x" * size)
        while size:
            await trio.lowlevel.wait_readable(theirs)
            size -= len(theirs.recv(1_000_000))
    assert not wire.torn
    theirs.close()
    await wire.close()


async def test_quiet_is_a_wire_that_no_request_waits_on() -> None:
    wire, theirs = socket_wire()
    assert wire.quiet()
    theirs.send(b"x")
    await trio.lowlevel.wait_readable(wire.sock)  # type: ignore[arg-type]
    assert not wire.quiet()
    assert await wire.receive(inf) == b"x"
    theirs.close()
    await trio.lowlevel.wait_readable(wire.sock)  # type: ignore[arg-type]
    assert wire.quiet()
    assert await wire.receive(inf) == b""
    await wire.close()


async def test_a_broken_stream_is_the_end_of_a_stream_wire() -> None:
    ours, theirs = memory_stream_pair()
    wire = StreamWire(ours, Deadlines(()), LIMITS)
    await wire.prepare(inf)
    await theirs.aclose()
    with pytest.raises(Gone):
        await wire.send(b"x")
    await ours.aclose()
    with pytest.raises(Gone):
        await wire.receive(inf)
    with pytest.raises(Gone):
        await wire.send(b"x")
    await wire.abort()
    await wire.close()
