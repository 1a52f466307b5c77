"""A run's events as an encoder renders them: `?protocol=` of a streamed run.

    content type text/event-stream     event: <event>, data: <data>, a frame each
    any other                          a text as it is; other data as JSON on a line

The encoder is shown what all who follow the run are, and last, of a run that did not
complete, `{"type": "error", "error": {"name", "message"}}`. Should it make no frame of
that, or fail itself, the stream ends with that object as a frame of heddle's own: nobody
mistakes a stream that broke off for one that ended. The run does not depend on any of it.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
import trio

from heddle.server.endings import Cancelled, Completed, Conceal, Failed, ShownError, shown
from heddle.server.following.log import Batch
from heddle.server.following.reader import Item, Lagged, Reader
from heddle.server.following.sse import COMMENT, HEADERS, HEARTBEAT
from heddle.server.http import HeaderPairs, Writer
from plugins_host import EncodedFrame, Encoder, Fault, encode_all

SSE: Final = "text/event-stream"
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


class EncoderBehind(Fault):
    """The encoder was slower than the run for longer than events are kept."""


def is_sse(content_type: str) -> bool:
    """Whether a content type is that of Server-Sent Events."""
    return content_type.partition(";")[0].strip().lower() == SSE


def headers_of(encoder: Encoder) -> HeaderPairs:
    """What goes before the stream."""
    return (("Content-Type", encoder.content_type), *HEADERS[1:])


def sse_bytes(frames: Sequence[EncodedFrame]) -> bytes:
    """Frames as Server-Sent Events. Each line of a text is a ``data`` line."""
    return b"".join(map(_sse_frame, frames))


def _sse_frame(frame: EncodedFrame) -> bytes:
    name = b"" if frame.event is None else b"event: %b\n" % frame.event.encode()
    data = bytes(frame.data)
    if data[:1] == b'"':
        text: str = _decode(data)
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        data = "\ndata: ".join(lines).encode()
    elif b"\n" in data or b"\r" in data:
        # JSON of a plugin that puts it on several lines.
        data = _encode(_decode(data))
    return b"%bdata: %b\n\n" % (name, data)


def plain_bytes(frames: Sequence[EncodedFrame]) -> bytes:
    """Frames of any other content type: what they are called has no place in it."""
    return b"".join(map(_plain_frame, frames))


def _plain_frame(frame: EncodedFrame) -> bytes:
    data = bytes(frame.data)
    if data[:1] == b'"':
        text: str = _decode(data)
        return text.encode()
    if b"\n" in data or b"\r" in data:
        data = _encode(_decode(data))
    return data + b"\n"


class EncodedStream:
    """Writes what ``encoder`` makes of a run's events.

    Args:
        encoder: Renders them.
        reader: Has them.
        conceal: Applied to errors.
        left: Called when whoever reads the stream has gone.
        item: What was taken of the reader already.

    Attributes:
        failure: Why the stream ended before the run did, once it has.
    """

    def __init__(
        self,
        encoder: Encoder,
        reader: Reader,
        *,
        conceal: Conceal,
        left: Callable[[], object],
        item: Item | None = None,
    ) -> None:
        self.failure: Fault | None = None
        self._encoder = encoder
        self._reader = reader
        self._conceal = conceal
        self._left = left
        self._item = item
        self._sse = is_sse(encoder.content_type)
        self._owed: ShownError | None = None
        self._told = False
        self._beat_at = 0.0

    async def write(self, writer: Writer) -> None:
        """Write all to the end of the run or of the encoder, and close the reader."""
        broken: Exception | None = None
        with self._reader:
            try:
                broken = await self._write_frames(writer)
            except* Fault as group:
                # The encoder does not start. One that was started fails in there.
                self.failure = _first(group)
            if broken is not None:
                raise broken
            if self.failure is not None:
                await writer.write(self._own_frame(shown(self.failure, self._conceal)))
            elif self._owed is not None and not self._told:
                await writer.write(self._own_frame(self._owed))

    async def _write_frames(self, writer: Writer) -> Exception | None:
        """Write what the encoder makes; what was raised when that could not be written."""
        broken: Exception | None = None
        writing = trio.Lock()

        async def sink(frames: Sequence[EncodedFrame]) -> None:
            nonlocal broken
            data = sse_bytes(frames) if self._sse else plain_bytes(frames)
            async with writing:
                self._beat_at = trio.current_time() + HEARTBEAT
                try:
                    await writer.write(data)
                except Exception as error:
                    broken = error
                    raise

        async with (
            self._encoder.encoding(self._reader.log.run) as encoding,
            trio.open_nursery() as nursery,
        ):
            if self._sse:
                nursery.start_soon(self._keep_alive, writer, writing)
            try:
                await encode_all(encoding, self._next, sink)
                self._told = encoding.made_of_last > 0
            except Exception as error:
                if broken is not None:
                    self._left()
                elif isinstance(error, Fault):
                    self.failure = error
                else:
                    raise
            except BaseException:
                # Cancelled. Nothing of the run waits for the encoder's last words.
                self._left()
                raise
            nursery.cancel_scope.cancel()
        return broken

    async def _next(self) -> Sequence[bytes]:
        """The next events for the encoder; none after the last."""
        item, self._item = self._item, None
        if item is None:
            if self._owed is not None:
                return ()
            item = await self._reader.next()
        match item:
            case Batch(events=events):
                return events
            case Lagged(first=first, last=last):
                raise EncoderBehind(
                    f"events {first} to {last} were gone before it could take them",
                    where=f"encoder {self._encoder.protocol!r}",
                    fix="Make it faster, or read the stream faster.",
                )
            case Completed():
                return ()
            case Failed(error=error) | Cancelled(error=error):
                self._owed = error
                told = {"name": error.type, "message": error.message}
                return (_encode({"type": "error", "error": told}),)
            case _:  # pragma: no cover  the base class has no instances
                raise AssertionError(item)

    def _own_frame(self, error: ShownError) -> bytes:
        frame = EncodedFrame(
            msgspec.Raw(_encode({"type": "error", "error": error})), "error"
        )
        return sse_bytes([frame]) if self._sse else plain_bytes([frame])

    async def _keep_alive(self, writer: Writer, writing: trio.Lock) -> None:
        """A comment whenever nothing was written for a while, for proxies."""
        self._beat_at = trio.current_time() + HEARTBEAT
        while True:
            await trio.sleep_until(self._beat_at)
            if trio.current_time() >= self._beat_at:
                async with writing:
                    self._beat_at = trio.current_time() + HEARTBEAT
                    await writer.write(COMMENT)


def _first(group: BaseExceptionGroup[Any]) -> Fault:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, Fault)
    return error
