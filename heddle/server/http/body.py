"""The body of a request, read when the handler asks for it and no sooner.

Until then the client is not told to go on (``Expect: 100-continue``), and what it sends
waits in the socket.
"""

from typing import Final, Protocol

import trio
from msgspec import Struct

from heddle.server.http.chunks import ChunkedBody, too_long
from heddle.server.http.head import Head
from heddle.server.http.limits import Limits
from heddle.server.http.wire import READ

# A body that nobody wanted is read over when it is short, so that the connection can be
# kept; a longer one costs more than a new connection.
_SKIPPED: Final = 64 * 1024


class Source(Protocol):
    """Where a body comes from."""

    def take(self, most: int) -> bytes:
        """Up to ``most`` bytes that have arrived; none when none have."""
        ...

    def give_back(self, rest: bytes) -> None:
        """Return the end of what was taken last."""
        ...

    async def wait(self, until: float) -> None:
        """Wait until something has arrived. A client that is gone cancels the caller."""
        ...

    async def go_on(self) -> None:
        """Tell the client that its body is wanted."""
        ...


class Body(Struct):
    """A request's body.

    Args:
        source: Where it comes from.
        limits: Of its length and the time it may take.
        length: What the client announced; None in chunks.
        finished: Whether all of it has been read.
    """

    source: Source
    limits: Limits
    length: int | None
    finished: bool
    _left: int = 0
    _chunks: ChunkedBody | None = None
    _expected: bool = False
    _received: int = 0
    _waited: float = 0.0

    async def receive(self) -> bytes:
        """The next piece; none at the end.

        Raises:
            Refusal: The body is malformed or too long. Let it pass.
        """
        if self.finished:
            return b""
        if self._chunks is not None:
            return await self._receive_chunks(self._chunks)
        piece = self.source.take(self._left)
        while not piece:
            await self._wait()
            piece = self.source.take(self._left)
        self._left -= len(piece)
        self._received += len(piece)
        self.finished = not self._left
        return piece

    async def _receive_chunks(self, chunks: ChunkedBody) -> bytes:
        piece = b""
        while not (piece or self.finished):
            data = self.source.take(READ)
            if not data:
                await self._wait()
                continue
            piece = chunks.feed(data)
            self._received += len(piece)
            if chunks.finished:
                self.finished = True
                self.source.give_back(chunks.rest)
        return piece

    def read_at_once(self) -> bytes | None:
        """All of it, where nothing of it has been read and it has arrived; else None, and
        nothing has happened."""
        if self.finished or self._chunks is not None or self._left > self.limits.body:
            return None
        piece = self.source.take(self._left)
        if len(piece) < self._left:
            self.source.give_back(piece)
            return None
        self._left = 0
        self.finished = True
        return piece

    async def read(self, limit: int | None = None) -> bytes:
        """All of it that is still to come.

        Args:
            limit: Bytes, where fewer are wanted than the front admits.

        Raises:
            Refusal: 413 when it is longer, 400 when it is malformed. Let it pass.
        """
        if self.finished:
            return b""
        most = self.limits.body if limit is None else limit
        if self._left > most:
            raise too_long(most)
        whole = bytearray()
        if self._chunks is None:
            first = self.source.take(self._left)
            self._left -= len(first)
            if not self._left:
                self.finished = True
                return first
            self._received += len(first)
            whole += first
        while not self.finished and len(whole) <= most:
            whole += await self.receive()
        if len(whole) > most:
            raise too_long(most)
        return bytes(whole)

    @property
    def skippable(self) -> bool:
        """Whether what nobody read of it is worth reading over."""
        if self.finished:
            return True
        return not self._expected and self._chunks is None and self._left <= _SKIPPED

    async def skip(self) -> None:
        """Read over what nobody read."""
        while not self.finished:
            await self.receive()

    async def _wait(self) -> None:
        if self._expected:
            self._expected = False
            await self.source.go_on()
        began = trio.current_time()
        earned = self._received / self.limits.transfer_rate
        await self.source.wait(began + self.limits.body_timeout + earned - self._waited)
        self._waited += trio.current_time() - began


def body_of(head: Head, source: Source, limits: Limits) -> Body:
    """The body that a head announces."""
    length = head.content_length or 0
    if not head.chunked:
        return Body(source, limits, length, not length, length, None, head.expects_continue)
    chunks = ChunkedBody(most=limits.body, trailers=limits.head)
    return Body(source, limits, None, False, 0, chunks, head.expects_continue)
