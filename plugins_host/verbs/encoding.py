"""A run's events on their way through an encoder: asked ahead, answered in order.

    async with encoder.encoding(run) as encoding:
        encoding.put(b'{"type":"flow_start"}')     asks, and does not wait
        encoding.finish()                           asks for the last frames
        while (frames := await encoding.next()) is not None:
            …                                       in the order of the events

One round trip an event would leave both processes waiting for each other, so up to
`WINDOW` questions are under way at a time. `finishEncode` is asked exactly once, whatever
ends the encoding: the last event, a failure of the encoder's own, or whoever leaves.
"""

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Final, Protocol, TypeAlias

import msgspec
import trio
from msgspec import Raw, Struct

from plugins_host.faults import Fault
from plugins_host.plugin_faults import PluginFault
from plugins_host.program import PATIENCE

# Questions under way: enough that neither side waits for the other while both are busy,
# and all of them fit into a pipe when events are tokens.
WINDOW: Final = 256

# Bytes of questions under way. One event alone may be larger.
WINDOW_BYTES: Final = 1024 * 1024

# What an encoder has for its last words when nobody will read them. Seconds.
LAST_WORDS: Final = 1.0


class EncodedFrame(Struct, frozen=True):
    """What an encoder made: ``data`` is any JSON, ``event`` a name without line breaks."""

    data: Raw
    event: str | None = None


Frames: TypeAlias = Sequence[EncodedFrame]

_decode_frames: Final = msgspec.json.Decoder(list[EncodedFrame]).decode
_encode: Final = msgspec.json.Encoder().encode

# What ends a line for somebody who reads Server-Sent Events.
_BREAKS: Final = ("\n", "\r")


class EncoderFailed(Fault):
    """An encoder made no frames of an event. Ends what it encodes, and no run."""


class Line(Protocol):
    """A way to ask one plugin in order: its process, or its handlers inside heddle."""

    @property
    def open(self) -> bool:
        """Whether there is anybody to ask."""
        ...

    def submit(self, verb: str, params: bytes, component_type: str, /) -> Any:
        """Ask; what stands for the answer until it is collected."""
        ...

    def settled(self, pending: Any, /) -> bool:
        """Whether collecting it would not wait."""
        ...

    async def collect(self, pending: Any, patience: float, /) -> object:
        """Wait for an answer: JSON text, or objects."""
        ...

    def abandon(self, pending: Any, /) -> None:
        """The answer is not needed any more."""
        ...


class HasLine(Protocol):
    """A plugin, as `PluginProcess` and `InProcessPlugin` are."""

    @property
    def name(self) -> str:
        """The plugin's name."""
        ...

    async def start(self) -> object:
        """See that it can be asked.

        Raises:
            PluginNotStarted: It does not start; says why.
        """
        ...

    def line(self) -> AbstractAsyncContextManager[Line]:
        """A way to ask it in order, in one and the same process."""
        ...


class Encoder(Struct, frozen=True):
    """One encoder that is installed.

    Attributes:
        protocol: What users choose it by.
        content_type: What it makes, as HTTP names it.
        component_type: What its plugin calls it.
        plugin: Who is asked.
        patience: How long it may be silent while it is asked something. Seconds.
    """

    protocol: str
    content_type: str
    component_type: str
    plugin: HasLine
    patience: float = PATIENCE

    @asynccontextmanager
    async def encoding(self, run: str) -> "AsyncIterator[Encoding]":
        """Encode the events of one run. Left, whatever is still open is ended.

        Args:
            run: What the encoder knows the run by.

        Raises:
            PluginFault: It does not start.
        """
        async with self.plugin.line() as line:
            encoding = Encoding(self, line, run)
            try:
                yield encoding
            finally:
                with trio.CancelScope(shield=True):
                    await encoding.close()


class Encoding:
    """The events of one run. One task puts, one takes; it may be the same.

    Attributes:
        made_of_last: How many frames came of the newest event that is answered, and of
            the end if that is.
    """

    def __init__(self, encoder: Encoder, line: Line, run: str) -> None:
        self._encoder = encoder
        self._line = line
        about = _encode({"componentType": encoder.component_type, "runId": run})
        self._finish_params = about
        self._before_event = about[:-1] + b',"event":'
        self.made_of_last = 0
        # Each question with its size, the oldest first. That for the end counts none.
        self._pending: deque[tuple[Any, int]] = deque()
        self._bytes = 0
        self._finish_asked = False
        self._over = False
        self._failure: EncoderFailed | None = None
        self._changed = trio.Event()

    @property
    def has_room(self) -> bool:
        """Whether another event may be put."""
        return len(self._pending) < WINDOW and self._bytes < WINDOW_BYTES

    def put(self, event: bytes) -> None:
        """Ask for the frames of the next event, a JSON object on one line.

        Look at `has_room` first.
        """
        assert not self._finish_asked
        params = b"%b%b}" % (self._before_event, event)
        self._ask("encode", params)

    def finish(self) -> None:
        """There are no more events."""
        if not self._finish_asked:
            self._finish_asked = True
            self._ask("finishEncode", self._finish_params)

    def _ask(self, verb: str, params: bytes) -> None:
        pending = self._line.submit(verb, params, self._encoder.component_type)
        size = len(params) if verb == "encode" else 0
        self._pending.append((pending, size))
        self._bytes += size
        self._tell()

    def _tell(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    async def wait_room(self) -> None:
        """Wait until another event may be put."""
        await trio.lowlevel.checkpoint()
        while not self.has_room:
            await self._changed.wait()

    async def next(self) -> Frames | None:
        """The frames of the oldest events that are answered; None when all were given.

        Raises:
            EncoderFailed: It made none of an event. Nothing follows.
        """
        if self._failure is not None:
            failure, self._failure = self._failure, None
            self._over = True
            raise failure
        while not self._pending:
            if self._over or self._finish_asked:
                return None
            await self._changed.wait()
        frames: list[EncodedFrame] = []
        line, pending = self._line, self._pending
        try:
            while True:
                question, size = pending.popleft()
                self._bytes -= size
                answer = await self._collect(question)
                made = self._read(answer)
                frames += made
                self.made_of_last = len(made) + (0 if size else self.made_of_last)
                if not (pending and line.settled(pending[0][0])):
                    break
        except Fault as fault:
            failure = self._failed(fault)
            if not frames:
                self._over = True
                raise failure from fault
            # What was made before it stands, and is given first.
            failure.__cause__ = fault
            self._failure = failure
        self._tell()
        return frames

    async def _collect(self, question: Any) -> object:
        try:
            return await self._line.collect(question, self._encoder.patience)
        except BaseException:
            self._line.abandon(question)
            raise

    async def close(self) -> None:
        """Let the encoder finish if it has not, and need none of its answers any more."""
        line = self._line
        if line.open:
            self.finish()
            if self._pending:
                last, _ = self._pending.pop()
                with suppress(Fault):
                    await line.collect(last, LAST_WORDS)
        for question, _ in self._pending:
            line.abandon(question)
        self._pending.clear()
        self._over = True
        self._tell()

    def _read(self, answer: object) -> Frames:
        try:
            raw = answer if isinstance(answer, Raw) else _encode(answer)
            frames = _decode_frames(raw)
        except (
            msgspec.DecodeError,
            RecursionError,
            TypeError,
            ValueError,
            OverflowError,
        ) as error:
            raise EncoderFailed(
                f"its answer is no list of frames: {error}",
                fix="Answer with [{event?, data}, …].",
            ) from error
        for frame in frames:
            if frame.event is not None and any(c in frame.event for c in _BREAKS):
                raise EncoderFailed(
                    f"the name of a frame has a line break in it: {frame.event[:80]!r}",
                    fix="Write 'event' on one line.",
                )
        return frames

    def _failed(self, fault: Fault) -> EncoderFailed:
        if isinstance(fault, PluginFault):
            about = f"plugin {fault.plugin!r}"
        else:
            about = f"plugin {self._encoder.plugin.name!r}"
        return EncoderFailed(
            fault.what, where=f"encoder {self._encoder.protocol!r} ({about})", fix=fault.fix
        )


Source: TypeAlias = Callable[[], Awaitable[Sequence[bytes]]]
"""The next events, some at a time; none when there are no more."""

Sink: TypeAlias = Callable[[Frames], Awaitable[None]]
"""Takes frames in order."""


async def encode_all(encoding: Encoding, source: Source, sink: Sink) -> None:
    """Encode all that ``source`` gives, and let ``sink`` have what comes of it.

    Raises:
        Exception: What the three of them raise; each of them ends the others.
    """
    stopped: list[Exception] = []

    async def feed() -> None:
        try:
            while events := await source():
                for event in events:
                    if not encoding.has_room:
                        await encoding.wait_room()
                    encoding.put(event)
            encoding.finish()
        except Exception as error:  # noqa: BLE001  raised below, without a group around it
            stopped.append(error)
            nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(feed)
        try:
            while (frames := await encoding.next()) is not None:
                if frames:
                    await sink(frames)
        except Exception as error:  # noqa: BLE001  the same
            stopped.append(error)
        nursery.cancel_scope.cancel()
    if stopped:
        raise stopped[0]
