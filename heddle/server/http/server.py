"""The server: accepts, bounds how many there are, and ends in an orderly way.

    server = Server(handler, bind("127.0.0.1", 4319))
    nursery.start_soon(server.run)
    …
    server.end_keep_alive()       every answer from now on is its connection's last
    server.stop(grace=30)         accept no more; what is open has 30 seconds

and then `run` returns.
"""

import errno
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

import trio
from trio.abc import Stream

from heddle.server.http.answers import Encoder
from heddle.server.http.connection import Connection, Phase, Report
from heddle.server.http.deadlines import Deadlines
from heddle.server.http.hangups import Hangups
from heddle.server.http.limits import Limits
from heddle.server.http.listen import Listener
from heddle.server.http.messages import Handler, Request
from heddle.server.http.refusals import Refusal
from heddle.server.http.wire import SocketWire, StreamWire, Wire

if TYPE_CHECKING:
    import ssl

# Accepted in a row before those who are connected get their turn.
_ACCEPTED_IN_A_ROW: Final = 64
# What accept says about the one connection that it would have accepted (accept(2)). All
# else, as that the machine has run out of something, will be said again when it is tried
# again at once.
_LOST: Final = frozenset(
    getattr(errno, name)
    for name in (
        *("ECONNABORTED", "EPROTO", "EPERM", "EINTR", "ENETDOWN", "ENOPROTOOPT"),
        *("EHOSTDOWN", "ENONET", "EHOSTUNREACH", "EOPNOTSUPP", "ENETUNREACH"),
    )
    if hasattr(errno, name)
)
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0
# Connections lost in a row before it looks like something that will not pass at once.
_LOST_IN_A_ROW: Final = 64
# Connections that a server that stops still takes from a listener.
_REST: Final = 1024
# Who makes room for others: who has had its answer, who wants nothing, and who has not
# even said yet what it wants. What a handler works on is never given up.
_MAKES_ROOM: Final = frozenset((Phase.LINGERING, Phase.IDLE, Phase.HEAD))
# How many of them at once: looking for them means looking at all.
_EVICTED: Final = 1 / 64


class _Guarded:
    """A report that can fail, as when the disk of a log is full, and ends nothing by it."""

    def __init__(self, report: Report | None) -> None:
        self.report = report

    def refused(self, refusal: Refusal, client: str) -> None:
        with suppress(Exception):
            if self.report is not None:
                self.report.refused(refusal, client)

    def crashed(self, request: Request | None, error: Exception) -> None:
        with suppress(Exception):
            if self.report is not None:
                self.report.crashed(request, error)

    def accept_failed(self, error: OSError) -> None:
        with suppress(Exception):
            if self.report is not None:
                self.report.accept_failed(error)


class Share(Protocol):
    """The part in all connections of one of the processes that accept them together."""

    def hold(self, count: int) -> None:
        """This process has so many."""

    def ahead(self) -> bool:
        """Whether another process should take the next one."""
        ...

    async def give_way(self) -> None:
        """Let it, for a moment."""


class Server:
    """An HTTP/1.1 server for one handler."""

    def __init__(
        self,
        handler: Handler,
        listeners: Sequence[Listener] = (),
        *,
        limits: Limits | None = None,
        report: Report | None = None,
        share: Share | None = None,
    ) -> None:
        """Make one; with a ``share`` other processes accept from its listeners too."""
        self._share = share
        self._in_a_row = _ACCEPTED_IN_A_ROW if share is None else 1
        self.handler = handler
        self.limits = Limits() if limits is None else limits
        self.report: Report = _Guarded(report)
        self.encoder = Encoder()
        self.hangups = Hangups()
        self.keeps_alive = True
        self._stopping = False
        self._listeners = listeners
        self._connections: set[Connection] = set()
        self._deadlines = Deadlines(self._connections)
        # Set while connections may be accepted; replaced when one must wait for room.
        self._room = trio.Event()
        self._room.set()
        self._accepting = trio.CancelScope()
        self._life = trio.CancelScope()

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._connections)

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve until `stop`, and close the listeners. Started when they accept."""
        try:
            async with trio.open_nursery() as watching:
                watching.start_soon(self.hangups.run)
                watching.start_soon(self._deadlines.run)
                with self._life:
                    async with trio.open_nursery() as clients:
                        with self._accepting:
                            async with trio.open_nursery() as accepting:
                                for listener in self._listeners:
                                    accepting.start_soon(self._accept, listener, clients)
                                task_status.started()
                                await trio.sleep_forever()
                        self._accept_the_rest(clients)
                        self._close_listeners()
                watching.cancel_scope.cancel()
        finally:
            self._close_listeners()
            self.hangups.close()

    def end_keep_alive(self) -> None:
        """Every answer from now on closes its connection; new ones are still accepted."""
        self._stopping = True
        self.keeps_alive = False

    def stop(self, *, grace: float) -> None:
        """Accept no more, let go who is idle, and cut off who isn't done in time.

        Args:
            grace: Seconds for what is open. Calling again with less shortens it.
        """
        self._life.deadline = min(self._life.deadline, trio.current_time() + grace)
        self.retire()

    async def serve_stream(self, stream: Stream, client: str = "") -> None:
        """Serve one client whose connection is already there."""
        wire = StreamWire(stream, self._deadlines, self.limits)
        await self._serve(self._connection(wire, client))

    async def serve_socket(self, sock: socket.socket, client: str = "") -> None:
        """The same of a client that is connected to this socket."""
        await self._serve(self._connection(self._wire(sock, None), client))

    def retire(self) -> None:
        """Accept no more, and let every connection go with the exchange it is at.

        `run` returns when the last one has; `stop` still says how long that may take.
        """
        self.end_keep_alive()
        self._accepting.cancel()
        for connection in tuple(self._connections):
            if connection.phase is Phase.IDLE:
                connection.leave()

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            listener.close()

    async def _accept(self, listener: Listener, clients: trio.Nursery) -> None:
        pause = _FIRST_PAUSE
        in_a_row = lost = 0
        while True:
            while self._full:
                await trio.lowlevel.wait_readable(listener.sock)
                if self._full:
                    await self._wait_for_room()
            if self._share is not None and self._share.ahead():
                await trio.lowlevel.wait_readable(listener.sock)
                await self._share.give_way()
                if self._share.ahead():
                    continue
            try:
                sock, address = listener.sock.accept()
            except BlockingIOError:
                in_a_row = 0
                await trio.lowlevel.wait_readable(listener.sock)
                continue
            except OSError as error:
                lost += 1
                if error.errno in _LOST and lost < _LOST_IN_A_ROW:
                    await trio.lowlevel.checkpoint()
                else:
                    self.report.accept_failed(error)
                    self._make_room()
                    await trio.sleep(pause)
                    pause = min(_LONGEST_PAUSE, pause * 2)
                continue
            pause = _FIRST_PAUSE
            lost = 0
            wire = self._wire(sock, listener.tls)
            clients.start_soon(self._serve, self._connection(wire, _name(address)))
            in_a_row += 1
            if in_a_row >= self._in_a_row:
                in_a_row = 0
                await trio.lowlevel.checkpoint()

    def _accept_the_rest(self, clients: trio.Nursery) -> None:
        """Those who are connected as far as they know: closing would cut them off. Where
        others accept from the same listeners, they will."""
        if self._share is not None:
            return
        for listener in self._listeners:
            for _ in range(_REST):
                try:
                    sock, address = listener.sock.accept()
                except OSError:
                    break
                wire = self._wire(sock, listener.tls)
                clients.start_soon(self._serve, self._connection(wire, _name(address)))

    @property
    def _full(self) -> bool:
        return len(self._connections) >= self.limits.connections

    async def _wait_for_room(self) -> None:
        """Until there may be room for a connection that waits to be accepted."""
        if self._make_room():
            await trio.lowlevel.checkpoint()
            return
        # All are at work. Whose turn comes next is for those who wait to decide, so the
        # first that is done with its request goes.
        self.keeps_alive = False
        if self._room.is_set():
            self._room = trio.Event()
        try:
            await self._room.wait()
        finally:
            self.keeps_alive = not self._stopping

    def _wire(self, sock: socket.socket, tls: "ssl.SSLContext | None") -> Wire:
        sock.setblocking(False)
        if tls is None:
            return SocketWire(sock, self._deadlines, self.limits)
        stream = trio.SSLStream(
            trio.SocketStream(trio.socket.from_stdlib_socket(sock)),
            tls,
            server_side=True,
            https_compatible=True,
        )
        return StreamWire(stream, self._deadlines, self.limits, sock)

    def _connection(self, wire: Wire, client: str) -> Connection:
        """A connection that counts from now on."""
        connection = Connection(wire, self, client, trio.current_time())
        self._connections.add(connection)
        self._counted()
        return connection

    async def _serve(self, connection: Connection) -> None:
        try:
            await connection.run()
        finally:
            self._connections.discard(connection)
            self._counted()
            self._room.set()

    def _counted(self) -> None:
        if self._share is not None:
            self._share.hold(len(self._connections))

    def _make_room(self) -> bool:
        """Close some that nobody works for, the longest waiting first; whether any."""
        some = [one for one in self._connections if one.phase in _MAKES_ROOM]
        some.sort(key=lambda one: one.since)
        wanted = max(1, int(len(self._connections) * _EVICTED))
        return sum(one.make_way() for one in some[:wanted]) > 0


def _name(address: object) -> str:
    """A client's address as text; nothing for one on this machine without any."""
    if not isinstance(address, tuple):
        return ""
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
