"""Ways for bytes to and from one client: a socket, or any stream of trio's, as for TLS.

A socket is tried first and waited for second: most writes fit. How long it has been
waited is written on the wire, for `Deadlines` to see.
"""

import socket
import struct
from abc import ABC, abstractmethod
from contextlib import suppress
from math import inf
from typing import Final

import trio
from trio.abc import HalfCloseableStream, Stream

from heddle.http.bursts import SMALL, bursts_of_this_loop
from heddle.server.http.deadlines import Deadlines
from heddle.server.http.limits import Limits

# One read: a request with a body of ordinary size in one go.
READ: Final = 64 * 1024
_NOTHING: Final = memoryview(b"")
# What is written that found the socket ready so many times in a row lets others go first.
_IN_A_ROW: Final = 16
# Close by resetting: what the client has not taken by now it will not get.
_ABORT: Final = struct.pack("ii", 1, 0)


class Gone(Exception):
    """The client has broken the connection."""


class Wire(ABC):
    """What both kinds share: the deadlines of their waits, and a socket if there is one.

    ``torn`` says that a send was cancelled or has failed with only a part of it on its way,
    so that whatever is sent now arrives in the middle of something.
    """

    __slots__ = (
        "_deadlines",
        "_limits",
        "_rest",
        "_writes",
        "read_until",
        "sock",
        "torn",
        "write_until",
    )

    def __init__(
        self, deadlines: Deadlines, limits: Limits, sock: socket.socket | None
    ) -> None:
        self._deadlines = deadlines
        self._limits = limits
        self.sock = sock
        self.torn = False
        self._rest = _NOTHING
        self._writes = 0
        self.read_until = inf
        self.write_until = inf

    def wait_to_read(self, until: float) -> None:
        """Mark the wait that begins as one to be ended at ``until``."""
        self.read_until = until
        if until < self._deadlines.wakes_at:
            self._deadlines.sooner(until)

    def wait_to_write(self, until: float) -> None:
        """The same for a write."""
        self.write_until = until
        if until < self._deadlines.wakes_at:
            self._deadlines.sooner(until)

    @abstractmethod
    async def receive(self, until: float) -> bytes:
        """Some bytes, none at the end; always a schedule point.

        Args:
            until: When the wait has lasted too long.

        Raises:
            Gone: The connection was reset.
        """
        ...

    @abstractmethod
    def send_at_once(self, data: bytes) -> bool:
        """Send without waiting, if that can be.

        Returns:
            Whether all of it is sent. Else `finish_sending` must follow: for the rest, or
            because others have waited long enough for their turn.

        Raises:
            Gone: The client is.
        """
        ...

    @abstractmethod
    async def finish_sending(self) -> None:
        """Do what `send_at_once` could not; `Gone` when the client is."""
        ...

    def send_soon(self, data: bytes) -> bool:
        """`send_at_once`, or in this turn of the event loop together with what others send.

        What is done next on the wire must be `receive` or the end of the connection: those
        send what could not be sent then.
        """
        return self.send_at_once(data)

    async def send(self, data: bytes) -> None:
        """Send all of ``data``; `Gone` when the client is."""
        if not self.send_at_once(data):
            await self.finish_sending()

    @abstractmethod
    async def end_sending(self) -> None:
        """Say that nothing more will come, while what the client sends is still read."""
        ...

    def quiet(self) -> bool:
        """Whether nothing of a request is known to have arrived unread."""
        if self.sock is None:
            return True
        try:
            return not self.sock.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    @abstractmethod
    async def prepare(self, until: float) -> None:
        """What comes before the first byte; `Gone` when it fails."""
        ...

    @abstractmethod
    async def abort(self) -> None:
        """Close at once, so that the client sees a broken connection."""
        ...

    @abstractmethod
    async def close(self) -> None:
        """Close as a protocol asks for; what was sent still arrives."""
        ...


class SocketWire(Wire):
    """A wire on a raw non-blocking socket.

    What waits for others to be sent (`heddle.http.bursts`) and then does not go whole is
    left for the task that reads next, which is woken for it.
    """

    __slots__ = ("_bursts", "_left", "_socket", "_waiting")

    def __init__(self, sock: socket.socket, deadlines: Deadlines, limits: Limits) -> None:
        super().__init__(deadlines, limits, sock)
        self._socket = sock
        self._bursts = bursts_of_this_loop()
        self._waiting = b""
        self._left = False

    async def prepare(self, until: float) -> None:
        pass

    async def receive(self, until: float) -> bytes:
        sock = self._socket
        self.read_until = until
        if until < self._deadlines.wakes_at:
            self._deadlines.sooner(until)
        try:
            while True:
                if self._left:
                    await self._send_left(until)
                # A client has rarely sent the next thing by the time it is asked for, so
                # the wait comes first.
                try:
                    await trio.lowlevel.wait_readable(sock)
                except trio.ClosedResourceError:
                    if self._left and sock.fileno() >= 0:
                        continue
                    raise
                if self._left:
                    continue
                try:
                    data = sock.recv(READ)
                except BlockingIOError:
                    continue
                self._writes = 0
                return data
        except (OSError, trio.ClosedResourceError) as error:
            raise Gone from error
        finally:
            self.read_until = inf

    async def _send_left(self, until: float) -> None:
        # Whoever has not had its answer is not late with its next request.
        self.read_until = inf
        try:
            await self.finish_sending()
        except trio.Cancelled:
            self._left = True
            raise
        self.wait_to_read(until)

    def send_soon(self, data: bytes) -> bool:
        if self._bursts is None or self._waiting or self._left or len(data) > SMALL:
            return self.send_at_once(data)
        self._waiting = data
        self._bursts.add(self)
        return True

    def send_waiting(self) -> None:
        """Send what waits for others."""
        data, self._waiting = self._waiting, b""
        if not data:
            return
        sent = 0
        # What was wrong is met again by who sends what is left.
        with suppress(OSError):
            sent = self._socket.send(data)
        if sent < len(data):
            self.torn = sent > 0
            self._rest = memoryview(data)[sent:]
            self._left = True
            if self._bursts is not None:
                self._bursts.wake(self)

    def resume(self) -> None:
        """Wake the task that reads, if there is something left to be sent."""
        if self._left and self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)

    def send_at_once(self, data: bytes) -> bool:
        if self._waiting or self._left:
            data = b"".join((self._rest, self._waiting, data))
            self._waiting = b""
            self._left = False
        sent = 0
        if self._writes < _IN_A_ROW:
            try:
                sent = self._socket.send(data)
            except BlockingIOError:
                pass
            except OSError as error:
                raise Gone from error
            if sent == len(data):
                self._writes += 1
                self.torn = False
                self._rest = _NOTHING
                return True
        self.torn = self.torn or sent > 0
        self._rest = memoryview(data)[sent:]
        return False

    async def finish_sending(self) -> None:
        rest, self._rest = self._rest, _NOTHING
        self._left = False
        if self._writes >= _IN_A_ROW:
            self._writes = 0
            await trio.lowlevel.checkpoint()
        until = trio.current_time() + self._limits.write_timeout
        try:
            while rest:
                try:
                    sent = self._socket.send(rest)
                except BlockingIOError:
                    self.wait_to_write(until)
                    await trio.lowlevel.wait_writable(self._socket)
                    continue
                self.torn = True
                until += sent / self._limits.transfer_rate
                rest = rest[sent:]
            self.torn = False
        except (OSError, trio.ClosedResourceError) as error:
            raise Gone from error
        finally:
            self._rest = rest
            self.write_until = inf

    async def end_sending(self) -> None:
        self.send_waiting()
        if self._left:
            await self._send_left(inf)
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError as error:
            raise Gone from error

    async def abort(self) -> None:
        if self._socket.fileno() < 0:
            return
        self.send_waiting()
        with suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
        self._close()

    async def close(self) -> None:
        self.send_waiting()
        try:
            if self._left:
                # The deadlines of the connection are over with its task.
                with trio.move_on_after(self._limits.linger_timeout), suppress(Gone):
                    await self._send_left(inf)
        finally:
            self._close()

    def _close(self) -> None:
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()


class StreamWire(Wire):
    """A wire on a stream: of TLS, or of a test."""

    __slots__ = ("_stream",)

    def __init__(
        self,
        stream: Stream,
        deadlines: Deadlines,
        limits: Limits,
        sock: socket.socket | None = None,
    ) -> None:
        super().__init__(deadlines, limits, sock)
        self._stream = stream

    async def receive(self, until: float) -> bytes:
        self.wait_to_read(until)
        try:
            data = bytes(await self._stream.receive_some(READ))
            self._writes = 0
            return data
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise Gone from error
        finally:
            self.read_until = inf

    def send_at_once(self, data: bytes) -> bool:
        self._rest = memoryview(data)
        return False

    async def finish_sending(self) -> None:
        rest, self._rest = self._rest, _NOTHING
        until = trio.current_time() + self._limits.write_timeout
        try:
            while rest:
                self.torn = True
                self.wait_to_write(until)
                piece, rest = rest[:READ], rest[READ:]
                await self._stream.send_all(piece)
                until += len(piece) / self._limits.transfer_rate
            self.torn = False
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise Gone from error
        finally:
            self.write_until = inf

    async def end_sending(self) -> None:
        if isinstance(self._stream, HalfCloseableStream):
            try:
                await self._stream.send_eof()
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise Gone from error

    async def prepare(self, until: float) -> None:
        if isinstance(self._stream, trio.SSLStream):
            self.wait_to_read(until)
            try:
                await self._stream.do_handshake()
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise Gone from error
            finally:
                self.read_until = inf

    async def abort(self) -> None:
        await trio.aclose_forcefully(self._stream)

    async def close(self) -> None:
        with trio.move_on_after(self._limits.linger_timeout):
            await self._stream.aclose()
