"""A connection that speaks another protocol, as a stream."""

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf

import trio
from trio.abc import Stream

from heddle.server.http.wire import READ, Gone, Wire


class UpgradedStream(Stream):
    """The connection as a stream, beginning with the bytes of the request.

    More tasks than one may send: what each of them sends arrives in one piece.
    """

    def __init__(self, wire: Wire, replay: bytes) -> None:
        self._wire = wire
        self._kept = replay
        self._closed = False
        self._sending = trio.Lock()
        # Whether the wire has a rest of what was sent at once, and whether that failed.
        self._left = False
        self._gone = False
        # The waits that closing ends.
        self._waits: set[trio.CancelScope] = set()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of ``data``, after what others are sending."""
        try:
            self._sending.acquire_nowait()
        except trio.WouldBlock:
            await self._sending.acquire()
        try:
            if self._closed:
                raise trio.ClosedResourceError
            if self._left:
                self._left = False
                with self._waiting():
                    await self._wire.finish_sending()
            if self._wire.torn or self._gone:
                raise trio.BrokenResourceError
            if data and not self._wire.send_at_once(bytes(data)):
                with self._waiting():
                    await self._wire.finish_sending()
        except Gone as error:
            raise trio.BrokenResourceError from error
        finally:
            self._sending.release()

    @property
    def free(self) -> bool:
        """Whether something may be sent at once: nobody is sending, and nothing is left."""
        return not (
            self._closed
            or self._left
            or self._gone
            or self._wire.torn
            or self._sending.locked()
        )

    def send_at_once(self, data: bytes) -> bool:
        """Send without waiting, which is to be `free`.

        Returns:
            Whether all of it is sent. Else `send_all` must follow, if only of nothing: the
            rest goes before what it sends, and what has failed is raised there.
        """
        try:
            sent = self._wire.send_at_once(data)
        except Gone:
            self._gone = True
            return False
        self._left = not sent
        return sent

    async def wait_send_all_might_not_block(self) -> None:
        """Let others go first; the wire can't tell more than that."""
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Some bytes, none at the end."""
        if self._closed:
            raise trio.ClosedResourceError
        if self._kept:
            await trio.lowlevel.checkpoint()
        else:
            try:
                with self._waiting():
                    self._kept = await self._wire.receive(inf)
            except Gone as error:
                raise trio.BrokenResourceError from error
        most = READ if max_bytes is None else max_bytes
        data, self._kept = self._kept[:most], self._kept[most:]
        return data

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        """A wait, which ends with `trio.ClosedResourceError` when the stream is closed."""
        with trio.CancelScope() as scope:
            self._waits.add(scope)
            try:
                yield
            finally:
                self._waits.discard(scope)
        if scope.cancelled_caught:
            raise trio.ClosedResourceError

    async def aclose(self) -> None:
        """Neither send nor receive any more; the connection ends with its protocol."""
        self._closed = True
        for scope in tuple(self._waits):
            scope.cancel()
        await trio.lowlevel.checkpoint()
