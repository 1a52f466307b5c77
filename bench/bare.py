"""A floor over sockets: one task a connection, httptools, a socket tried first, no more.

No limits, no time-outs, no errors, no watch for clients that leave.
"""

import contextlib
import socket
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable

import httptools
import trio


async def receive(sock: socket.socket) -> bytes:
    """What is there, or comes next; nothing at the end."""
    while True:
        try:
            return sock.recv(65536)
        except BlockingIOError:
            await trio.lowlevel.wait_readable(sock)


class Bare(ABC):
    """One connection of a caller."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.pieces: list[bytes] = []
        self.url = b""
        self.complete = False
        self.parser = httptools.HttpRequestParser(self)

    def on_url(self, url: bytes) -> None:
        """Where a request goes."""
        self.url = url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Each header is handed over, as to a server."""
        del name, value

    def on_body(self, piece: bytes) -> None:
        """A piece of its body."""
        self.pieces.append(piece)

    def on_message_complete(self) -> None:
        """It is there."""
        self.complete = True

    async def run(self) -> None:
        """Answer until the caller leaves."""
        while data := await receive(self.sock):
            self.parser.feed_data(data)
            if not self.complete:
                continue
            self.complete = False
            body = b"".join(self.pieces)
            self.pieces.clear()
            await self.answer(body)
        self.sock.close()

    @abstractmethod
    async def answer(self, body: bytes) -> None:
        """Write the answer to a request to `url`."""


async def serve(connection: Callable[[socket.socket], Bare]) -> None:
    """Say the port on standard output, and serve whoever connects, without an end."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listener.setblocking(False)
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    async with trio.open_nursery() as nursery:
        while True:
            await trio.lowlevel.wait_readable(listener)
            with contextlib.suppress(BlockingIOError):
                while True:
                    sock, _ = listener.accept()
                    sock.setblocking(False)
                    nursery.start_soon(connection(sock).run)
