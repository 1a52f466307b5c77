"""Server-Sent Events: the events of a run as a browser's EventSource reads them.

    id: 3
    event: node_complete
    data: {"type":"node_complete",…}

The id is the sequence number, so a reader that lost its connection comes again with
``Last-Event-ID`` and misses nothing that is kept. After the last event of a run that did
not complete there is one frame of type ``error``; a reader that fell behind gets one of
type ``lagged``. While nothing happens a comment now and then keeps proxies awake.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
import trio

from heddle.server.endings import Cancelled, Completed, Failed
from heddle.server.following.log import Batch
from heddle.server.following.reader import Item, Lagged, Reader
from heddle.server.http import HeaderPairs, Writer

HEARTBEAT: Final = 15.0
"""Seconds. Proxies give up a silent answer after 30 to 60."""

HEADERS: Final[HeaderPairs] = (
    ("Content-Type", "text/event-stream; charset=utf-8"),
    ("Cache-Control", "no-store"),
    # Asks nginx not to hold events back until a buffer is full.
    ("X-Accel-Buffering", "no"),
)

COMMENT: Final = b":\n\n"
_TYPE_AT: Final = len(b'{"type":"')
_encode: Final = msgspec.json.Encoder().encode


def frames(_: str, first: int, events: Sequence[bytes]) -> bytes:
    """Events that follow one another, the first of them numbered ``first``."""
    return b"".join(
        [
            # As `event_type` has it, without a call for each.
            b"id: %d\nevent: %b\ndata: %b\n\n"
            % (
                number,
                event_type(event)
                if b"\\" in (name := event[_TYPE_AT : event.index(b'"', _TYPE_AT)])
                else name,
                event,
            )
            for number, event in enumerate(events, first)
        ]
    )


def event_type(event: bytes) -> bytes:
    """An encoded event's type, fit for a line of its own.

    It stands first in the JSON. A plugin chooses a part of it, so what JSON had to
    escape is taken out: a line end here would begin another frame.
    """
    name = event[_TYPE_AT : event.index(b'"', _TYPE_AT)]
    if b"\\" not in name:
        return name
    whole: str = msgspec.json.decode(event)["type"]
    return "".join(c if c.isprintable() else "_" for c in whole).encode()


def frame_of(item: Item) -> bytes:
    """What a reader took, as frames; nothing for a run's good end, which is an event."""
    match item:
        case Batch():
            return item.framed(frames)
        case Lagged(first=first, last=last):
            data = _encode({"type": "lagged", "missed": [first, last]})
            return b"event: lagged\ndata: %b\n\n" % data
        case Completed():
            return b""
        case Failed(error=error) | Cancelled(error=error):
            data = _encode({"type": "error", "error": error})
            return b"event: error\ndata: %b\n\n" % data
        case _:  # pragma: no cover  the base class has no instances
            raise AssertionError(item)


class Pulse:
    """Wakes streams in which nothing happens: one task for all of them."""

    def __init__(self, every: float = HEARTBEAT) -> None:
        self._every = every
        self._streams: set[EventStream] = set()

    async def run(self) -> None:
        """Go on until cancelled."""
        while True:
            await trio.sleep(self._every)
            for stream in tuple(self._streams):
                stream.pulse()

    def add(self, stream: "EventStream") -> None:
        """Wake this one too."""
        self._streams.add(stream)

    def remove(self, stream: "EventStream") -> None:
        """Wake it no more."""
        self._streams.discard(stream)


class EventStream:
    """Writes what ``reader`` reads, from ``item`` on if one was taken already."""

    __slots__ = ("_beats", "_item", "_pulse", "_reader", "_waits")

    def __init__(self, reader: Reader, pulse: Pulse, item: Item | None = None) -> None:
        self._reader = reader
        self._pulse = pulse
        self._item = item
        self._waits = False
        self._beats = 0

    def pulse(self) -> None:
        """A moment has passed; wakes who has been waiting since the one before it."""
        if self._waits:
            self._beats += 1
            if self._beats > 1:
                self._reader.nudge()

    async def write(self, writer: Writer) -> None:
        """Write all to the end of the run, and close the reader."""
        self._pulse.add(self)
        try:
            with self._reader:
                while True:
                    item = self._item or await self._next()
                    self._item = None
                    if item is None:
                        await writer.write(COMMENT)
                        continue
                    data = frame_of(item)
                    if isinstance(item, Batch) and self._reader.at_the_end:
                        # What the run told last and its end nearly always come together.
                        ending = self._reader.take()
                        assert ending is not None
                        item = ending
                        data += frame_of(item)
                    if not isinstance(item, (Batch, Lagged)):
                        writer.write_last(data)
                        return
                    await writer.write(data)
        finally:
            self._pulse.remove(self)

    async def _next(self) -> Item | None:
        """What comes next; None when nothing has for a while."""
        self._beats = 0
        self._waits = True
        try:
            return await self._reader.next_or_nudge()
        finally:
            self._waits = False
