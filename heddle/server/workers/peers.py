"""What a worker asks its siblings, in HTTP over connections that come by mail.

Which worker has a run is in the run's id: ``3.`` before the part that nobody can guess.
A client never sees which worker it met: what this one does not have, it asks for there.
"""

import socket
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from urllib.parse import quote, urlencode

import httptools
import trio

from heddle.server.http import (
    HeaderPairs,
    Refusal,
    Request,
    Response,
    StreamedResponse,
    Writer,
)
from heddle.server.workers.board import Board, Room
from heddle.server.workers.ledger import Ledger
from heddle.server.workers.mail import Mailboxes
from heddle.server.workers.share import Share

PATIENCE: Final = 10.0
"""Seconds for a sibling to begin its answer. It has nothing to wait for."""

SOON: Final = 1.0
"""Seconds for all siblings to answer what nobody should wait for long: who is stuck is left
out, and those who answer are heard."""

_READ: Final = 65536
_NOT_RELAYED: Final = frozenset(
    ("connection", "content-length", "date", "server", "transfer-encoding")
)
_RELAYED: Final = ("last-event-id", "accept")


class Unreachable(Refusal):
    """The worker that has what is asked for is gone, or does not answer."""

    def __init__(self) -> None:
        super().__init__(503, "the worker that has this does not answer", fix="Try again.")


class Incoming:
    """An answer as it comes."""

    def __init__(self, sock: socket.socket) -> None:
        self._stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
        self._parser = httptools.HttpResponseParser(self)
        self._body: list[bytes] = []
        self._headed = False
        self._over = False
        self._headers: list[tuple[str, str]] = []
        self.status = 0
        self.streamed = False

    # For the parser

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header."""
        lower = name.lower().decode("latin-1")
        if lower == "transfer-encoding":
            self.streamed = True
        if lower not in _NOT_RELAYED:
            self._headers.append((name.decode("latin-1"), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        """The head is there."""
        self._headed = True
        self.status = self._parser.get_status_code()

    def on_body(self, data: bytes) -> None:
        """A part of the body."""
        self._body.append(data)

    def on_message_complete(self) -> None:
        """That was all."""
        self._over = True

    # For who asks

    @property
    def headers(self) -> HeaderPairs:
        """Those that are handed on."""
        return tuple(self._headers)

    async def begin(self, request: bytes) -> None:
        """Ask, and read to the end of the head.

        Raises:
            Unreachable: It can't be had.
        """
        with trio.move_on_after(PATIENCE):
            try:
                await self._stream.send_all(request)
            except trio.BrokenResourceError:
                raise Unreachable from None
            while not self._headed:
                await self._more()
        if not self._headed:
            raise Unreachable

    async def next(self) -> bytes:
        """The next part of the body; nothing at its end.

        Raises:
            Unreachable: There was to be more.
        """
        while not self._body and not self._over:
            await self._more()
        data = b"".join(self._body)
        self._body.clear()
        return data

    async def _more(self) -> None:
        try:
            data = await self._stream.receive_some(_READ)
        except trio.BrokenResourceError:
            data = b""
        if not data:
            raise Unreachable
        self._parser.feed_data(data)

    def close(self) -> None:
        """Want no more of it."""
        self._stream.socket.close()


class Heard(NamedTuple):
    """What siblings said, and the rows of those who should have and did not."""

    bodies: list[bytes]
    silent: list[int]


class Peers:
    """The siblings of the worker of ``row``."""

    def __init__(
        self,
        board: Board,
        mail: Mailboxes,
        ledger: Ledger,
        row: int,
        most: int,
        started: float = 0.0,
    ) -> None:
        """Make them; ``started`` is when the server was, by the clock."""
        self.started = started
        self.board = board
        self.ledger = ledger
        self.row = row
        self.most = most
        self.room = Room(board, row, most)
        self.share = Share(board, row)
        self._mail = mail

    @property
    def prefix(self) -> str:
        """What the ids of this worker's runs begin with."""
        return f"{self.row}."

    def elsewhere(self, run: str) -> int | None:
        """The row of the sibling that has this run, if it is one's; None for our own."""
        number, dot, _ = run.partition(".")
        if not (dot and number.isascii() and number.isdigit() and len(number) < 5):
            return None
        row = int(number)
        return row if row != self.row and row in self.board.present() else None

    def others(self) -> list[int]:
        """The rows of all siblings."""
        return [row for row in self.board.present() if row != self.row]

    async def receive(self) -> socket.socket:
        """A connection from a sibling that has something to ask."""
        return await self._mail.receive(self.row)

    async def open(
        self,
        row: int,
        method: str,
        path: str,
        query: Iterable[tuple[str, str]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> Incoming:
        """Ask one; the head of its answer is there. To be closed.

        Raises:
            Unreachable: It is gone, or says nothing.
        """
        incoming = Incoming(await self._connect(row))
        try:
            asked = urlencode(tuple(query))
            target = f"{quote(path)}?{asked}" if asked else quote(path)
            lines = [f"{method} {target} HTTP/1.1", "Host: heddle", "Connection: close"]
            lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
            await incoming.begin("\r\n".join((*lines, "", "")).encode("latin-1"))
        except BaseException:
            incoming.close()
            raise
        return incoming

    async def _connect(self, row: int) -> socket.socket:
        with trio.move_on_after(PATIENCE):
            return await self._mail.connect(row)
        raise Unreachable

    async def ask(
        self, row: int, method: str, path: str, query: Iterable[tuple[str, str]] = ()
    ) -> Response:
        """Ask one, and wait for all of its answer; raises as `open`."""
        incoming = await self.open(row, method, path, query)
        try:
            return await _whole(incoming, head_only=method == "HEAD")
        finally:
            incoming.close()

    async def ask_all(
        self,
        method: str,
        path: str,
        query: Iterable[tuple[str, str]] = (),
        *,
        patience: float = SOON,
    ) -> "Heard":
        """What all siblings say; one that is just going, or says nothing, is left out."""
        bodies: list[bytes] = []
        silent: list[int] = []

        async def one(row: int) -> None:
            with trio.move_on_after(patience) as scope:
                try:
                    answer = await self.ask(row, method, path, query)
                except Unreachable:
                    return
                if answer.status == 200:
                    bodies.append(answer.body)
            if scope.cancelled_caught:
                silent.append(row)

        async with trio.open_nursery() as nursery:
            for row in self.others():
                nursery.start_soon(one, row)
        return Heard(bodies, sorted(silent))

    async def relay(self, row: int, request: Request) -> Response | StreamedResponse:
        """The answer of a sibling to a request that has no body."""
        headers = {
            name: value
            for name in _RELAYED
            if (value := request.headers.get(name)) is not None
        }
        incoming = await self.open(
            row, request.method, request.path, tuple(request.query), headers
        )
        if not incoming.streamed or request.method == "HEAD":
            try:
                whole = await _whole(incoming, head_only=request.method == "HEAD")
            finally:
                incoming.close()
            if not incoming.streamed:
                return whole

            async def nothing(_: Writer) -> None:
                """Who asked for the head alone gets no body."""

            return StreamedResponse(whole.status, whole.headers, nothing)

        async def write(writer: Writer) -> None:
            try:
                while data := await incoming.next():
                    await writer.write(data)
            finally:
                incoming.close()

        return StreamedResponse(incoming.status, incoming.headers, write)


async def _whole(incoming: Incoming, *, head_only: bool) -> Response:
    parts = []
    if not head_only:
        while data := await incoming.next():
            parts.append(data)
    return Response(incoming.status, incoming.headers, b"".join(parts))
