"""The body of a request, read when the handler asks for it and no sooner.

Until then the client is not told to go on (``Expect: 100-continue``), and what it sends
waits in the socket.
"""

from typing import Final, Protocol

import trio

from heddle.server.http.chunks import ChunkedBody, too_long
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


class Body:
    """A request's body. ``length`` is what the client announced, None in chunks."""

    __slots__ = (
        "_chunks",
        "_expected",
        "_left",
        "_limits",
        "_received",
        "_source",
        "_waited",
        "finished",
        "length",
    )

    def __init__(
        self,
        source: Source,
        limits: Limits,
        *,
        length: int | None,
        chunked: bool,
        expected: bool,
    ) -> None:
        """Describe a body.

        Args:
            source: Where it comes from.
            limits: Of its length and the time it may take.
            length: As announced, or None.
            chunked: Whether it comes in chunks.
            expected: Whether the client waits to be told that it is wanted.
        """
        self._source = source
        self._limits = limits
        self._expected = expected
        self._left = 0 if length is None else length
        self._chunks: ChunkedBody | None = None
        self._received = 0
        self._waited = 0.0
        self.length = None if chunked else self._left
        if chunked:
            self._chunks = ChunkedBody(most=limits.body, trailers=limits.head)
        self.finished = not (chunked or self._left)

    async def receive(self) -> bytes:
        """The next piece; none at the end.

        Raises:
            Refusal: The body is malformed or too long. Let it pass.
        """
        if self.finished:
            return b""
        if self._chunks is not None:
            return await self._receive_chunks(self._chunks)
        piece = self._source.take(self._left)
        while not piece:
            await self._wait()
            piece = self._source.take(self._left)
        self._left -= len(piece)
        self._received += len(piece)
        self.finished = not self._left
        return piece

    async def _receive_chunks(self, chunks: ChunkedBody) -> bytes:
        piece = b""
        while not (piece or self.finished):
            data = self._source.take(READ)
            if not data:
                await self._wait()
                continue
            piece = chunks.feed(data)
            self._received += len(piece)
            if chunks.finished:
                self.finished = True
                self._source.give_back(chunks.rest)
        return piece

    async def read(self, limit: int | None = None) -> bytes:
        """All of it that is still to come.

        Args:
            limit: Bytes, where fewer are wanted than the front admits.

        Raises:
            Refusal: 413 when it is longer, 400 when it is malformed. Let it pass.
        """
        most = self._limits.body if limit is None else limit
        if self._left > most:
            raise too_long(most)
        first = await self.receive()
        if self.finished and len(first) <= most:
            return first
        whole = bytearray(first)
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
            await self._source.go_on()
        began = trio.current_time()
        earned = self._received / self._limits.transfer_rate
        await self._source.wait(began + self._limits.body_timeout + earned - self._waited)
        self._waited += trio.current_time() - began
