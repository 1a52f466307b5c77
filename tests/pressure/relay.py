"""A way to the server that can be cut: every connection over it at once, as a reset."""

import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import trio

READ: Final = 65536


class Relay:
    """Connections to one port, by way of another."""

    def __init__(self, to: int) -> None:
        self._to = to
        self._open: set[trio.SocketStream] = set()
        self.port = 0

    def cut(self) -> int:
        """Reset all connections, at both ends; how many there were."""
        count = len(self._open) // 2
        for each in self._open:
            with suppress(OSError):
                linger = struct.pack("ii", 1, 0)
                each.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            each.socket.close()
        self._open.clear()
        return count

    async def serve(self, near: trio.SocketStream) -> None:
        """One connection, until an end of it is gone."""
        with suppress(OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            far = await trio.open_tcp_stream("127.0.0.1", self._to)
            both = {near, far}
            self._open |= both
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._pass_on, near, far, nursery.cancel_scope)
                    nursery.start_soon(self._pass_on, far, near, nursery.cancel_scope)
            finally:
                self._open -= both
                for each in both:
                    await trio.aclose_forcefully(each)

    async def _pass_on(
        self, source: trio.SocketStream, sink: trio.SocketStream, scope: trio.CancelScope
    ) -> None:
        with suppress(OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            while data := await source.receive_some(READ):
                await sink.send_all(data)
        # The server closes both directions at a time, and so do the clients here.
        scope.cancel()


@asynccontextmanager
async def open_relay(to: int) -> AsyncIterator[Relay]:
    """A relay to a port of this machine, while the block is open."""
    relay = Relay(to)
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(
            lambda task_status: trio.serve_tcp(
                relay.serve, 0, host="127.0.0.1", task_status=task_status
            )
        )
        relay.port = listeners[0].socket.getsockname()[1]
        yield relay
        nursery.cancel_scope.cancel()
