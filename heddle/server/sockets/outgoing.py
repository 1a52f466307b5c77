"""What waits for the client of one socket, of all its runs, and the task that writes it.

    said       answers, as JSON objects     first, and all of them
    status     of who watches it            when a message is due
    followed   run ──▶ its reader           a part of each in turn

What is short is collected into one write; the task writes as the client takes it.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import trio
from trio_websocket import WebSocketConnection

from heddle.server.following.log import Batch
from heddle.server.following.reader import Lagged, Reader
from heddle.server.runs.handle import RunHandle
from heddle.server.sockets import frames
from heddle.server.sockets.stream import GOING_AWAY, SharedStream
from heddle.server.status.watch import StatusWatch

if TYPE_CHECKING:
    from heddle.server.workers import Remote

MAX_UNREAD: Final = 1024
"""Answers that wait for the client. Beyond them none of its messages is read."""

WRITE_BYTES: Final = 256 * 1024
"""Collected for one write, before a client that reads slowly holds more."""

ALONE_BYTES: Final = 16 * 1024
"""A message this long is written by itself: to copy it costs more than another write."""


class Outgoing:
    """What one client is owed.

    Args:
        more: Whether there will be more to tell although nobody is followed.

    Attributes:
        followed: Who reads for this client, by run. In here until the run's end is told.
        watch: The status that this client watches, if it does.
    """

    def __init__(
        self,
        socket: WebSocketConnection,
        stream: SharedStream,
        more: Callable[[], bool],
    ) -> None:
        self.followed: dict[str, Reader | Remote] = {}
        self.watch: StatusWatch | None = None
        self._socket = socket
        self._stream = stream
        self._more = more
        self._outbox: deque[bytes] = deque()
        self._ready: deque[Reader | Remote] = deque()
        self._to_write = trio.Event()
        self._room = trio.Event()
        self._leaving = False
        # Whether the writing task has nothing to do, and whether a part of what was sent
        # for it waits for the client.
        self._resting = False
        self._unsent = False

    def look(self) -> None:
        """Have the task that writes look at what there is."""
        self._to_write.set()

    async def wait_room(self) -> None:
        """Wait while the client leaves too many answers unread."""
        while len(self._outbox) >= MAX_UNREAD:
            self._room = trio.Event()
            await self._room.wait()

    def follow(self, run: RunHandle, start: int) -> None:
        """Have the events of a run sent, from number ``start`` on, and its end."""
        reader = Reader(
            run.log,
            start,
            ready=lambda: self.is_ready(reader),
            turn=lambda: self.has_turn(reader),
        )
        self.followed[run.id] = reader
        self.is_ready(reader)

    def unfollow(self, run: str) -> None:
        """Send no more of a run; nothing happens when it is not followed."""
        reader = self.followed.pop(run, None)
        if reader is not None:
            reader.close()
            if reader in self._ready:
                self._ready.remove(reader)
        self._to_write.set()

    def leave(self) -> None:
        """Close the socket once there is nothing more to tell."""
        self._leaving = True

    def end(self) -> None:
        """The socket is closed: nobody reads here any more."""
        for reader in self.followed.values():
            reader.close()
        self.followed.clear()
        self._ready.clear()

    def say(self, text: bytes) -> None:
        """Have one JSON object sent, before all that is read of runs after it."""
        self._outbox.append(text)
        self._to_write.set()

    def is_ready(self, reader: "Reader | Remote") -> None:
        """Have the task that writes read what this reader has."""
        self._ready.append(reader)
        self._to_write.set()

    def has_turn(self, reader: Reader) -> None:
        """Write what this reader may read now, at once if nothing is in the way.

        Of a crowd that follows one run, each would cost it a switch between tasks.
        """
        self._ready.append(reader)
        if (
            not self._resting
            or self._to_write.is_set()
            or not self._stream.free
            or self._leaving
            or self._socket.closed is not None
        ):
            self._to_write.set()
            return
        data = b"".join(self._collect())
        if data:
            self._unsent = not self._stream.send_at_once(data)
        if self._unsent or self._ready:
            self._to_write.set()

    async def write(self) -> None:
        """Write what there is, as the client takes it."""
        while True:
            # What is left of a write that could not be whole at once goes first.
            parts = [b""] if self._unsent else self._collect()
            if parts:
                self._unsent = False
                for part in parts:
                    if self._socket.closed is None:
                        await self._stream.send_all(part)
                self._room.set()
            elif self._leaving and not (self.followed or self._more()):
                await self._socket.aclose(GOING_AWAY, "draining")
                return
            else:
                self._to_write = trio.Event()
                self._resting = True
                await self._to_write.wait()
                self._resting = False

    def _collect(self) -> list[bytes]:
        """What waits for the client, a part of each run's in turn; each is a write."""
        parts: list[bytes] = []
        short: list[bytes] = []
        size = 0
        while True:
            # What was said about a run comes before what is read of it.
            if self._outbox:
                short.append(frames.message(tuple(self._outbox)))
                self._outbox.clear()
            if self.watch is not None and self.watch.due:
                short.append(frames.frame(self.watch.message()))
            if not self._ready or size >= WRITE_BYTES:
                break
            part = self._next(self._ready.popleft())
            size += len(part)
            if len(part) < ALONE_BYTES:
                short.append(part)
                continue
            parts.append(b"".join(short))
            short.clear()
            parts.append(part)
        parts.append(b"".join(short))
        return [part for part in parts if part]

    def _next(self, reader: "Reader | Remote") -> bytes:
        """The next message of a run; nothing when its reader has to wait."""
        if not isinstance(reader, Reader):
            part = reader.take()
            if reader.over:
                self.followed.pop(reader.run, None)
            return part
        run = reader.log.run
        match reader.take():
            case None:
                return b""
            case Batch() as batch:
                self._ready.append(reader)
                return batch.framed(frames.events)
            case Lagged(first=first, last=last):
                self._ready.append(reader)
                text = frames.plain(type="lagged", run=run, missed=[first, last])
                return frames.frame(text)
            case ending:
                self.followed.pop(run).close()
                return frames.frame(frames.ended(run, ending))
