"""The stream under a socket: whole frames of two that write to it, and a patient reader.

trio-websocket writes its own frames, as pongs and closes, and the session (see
`heddle.server.sockets.session`) those with data. Neither cuts into what the other sends.
"""

from contextlib import suppress
from typing import Final

import trio
from trio.abc import Stream
from trio_websocket import WebSocketConnection

from heddle.server.http import UpgradedStream
from heddle.server.sockets import frames
from heddle.server.sockets.input import MAX_PIECES, Incoming

HANDSHAKE: Final = 10.0
"""Seconds until a client must have said who it is, and until it takes a last word."""

GOING_AWAY: Final = 1001
PROTOCOL_ERROR: Final = 1002
NO_TEXT: Final = 1007
POLICY_VIOLATION: Final = 1008
TOO_BIG: Final = 1009
NO_ANSWER: Final = 1011
"""Close codes of RFC 6455, 7.4; the last one as other servers use it when no pong comes."""

_HEAD_END: Final = b"\r\n\r\n"


class SharedStream(Stream):
    """A stream that two write to: whole frames, one after the other.

    It is read no further than the handshake before `opened` is called: the library would
    keep what a hasty client sends behind it, and look at it with what comes after only.
    Behind it a client is cut off whose message never ends; see `Incoming`.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._turn = trio.Lock()
        self._rest: bytes | None = None
        self._opened = trio.Event()
        self._incoming = Incoming()
        self._over = False
        self._at_once = stream if isinstance(stream, UpgradedStream) else None
        self._connection: WebSocketConnection | None = None

    def opened(self, connection: WebSocketConnection) -> None:
        """The handshake is over."""
        self._connection = connection
        self._opened.set()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of ``data`` when it is its turn."""
        # Who sends much lets others go first now and then; see the stream.
        try:
            self._turn.acquire_nowait()
        except trio.WouldBlock:
            await self._turn.acquire()
        try:
            if self._over:
                raise trio.BrokenResourceError
            self._over = data[:1] == frames.CLOSING
            await self._stream.send_all(data)
        finally:
            self._turn.release()

    @property
    def free(self) -> bool:
        """Whether `send_at_once` may be called now."""
        stream = self._at_once
        return (
            stream is not None
            and stream.free
            and not self._over
            and not self._turn.locked()
        )

    def send_at_once(self, data: bytes) -> bool:
        """Send whole frames without waiting, where that is `free`.

        Returns:
            Whether all of it is sent. Else `send_all` must follow, if only of nothing.
        """
        assert self._at_once is not None
        return self._at_once.send_at_once(data)

    async def end(self, code: int, reason: str) -> None:
        """Tell the client why nothing more comes, and send nothing more."""
        with (
            trio.move_on_after(HANDSHAKE),
            suppress(trio.BrokenResourceError, trio.ClosedResourceError),
        ):
            await self.send_all(frames.close(code, reason))
        self._over = True

    async def end_broken(self) -> None:
        """Tell a client whose frames are none, which the library does not."""
        closed = None if self._connection is None else self._connection.closed
        if closed is not None and closed.code in (PROTOCOL_ERROR, NO_TEXT):
            await self.end(closed.code, closed.reason or "")

    async def wait_send_all_might_not_block(self) -> None:
        """As of the stream."""
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """As of the stream; the handshake by itself."""
        if self._rest is None:
            # The front has read it to its end, and hands it on in one piece.
            data = bytes(await self._stream.receive_some(max_bytes))
            end = data.index(_HEAD_END) + len(_HEAD_END)
            self._rest = data[end:]
            return data[:end]
        if not self._opened.is_set():
            await self._opened.wait()
        if self._rest:
            await trio.lowlevel.checkpoint()
            data, self._rest = self._rest, b""
        else:
            data = await self._receive(max_bytes)
        incoming = self._incoming
        incoming.feed(data)
        if incoming.too_many:
            await self.end(TOO_BIG, f"a message in more than {MAX_PIECES} pieces")
            raise trio.BrokenResourceError
        return data

    async def _receive(self, max_bytes: int | None) -> bytes:
        """What comes next, if it comes in time."""
        incoming = self._incoming
        if incoming.complete:
            return bytes(await self._stream.receive_some(max_bytes))
        began = trio.current_time()
        with trio.move_on_after(incoming.patience):
            data = bytes(await self._stream.receive_some(max_bytes))
            incoming.waited(trio.current_time() - began)
            return data
        await self.end(POLICY_VIOLATION, "a message took too long to arrive")
        raise trio.BrokenResourceError

    async def aclose(self) -> None:
        """As of the stream."""
        await self.end_broken()
        await self._stream.aclose()
