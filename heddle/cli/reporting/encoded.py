"""``--protocol`` of an encoder: what it makes of a run's events, one frame a line.

    {"event": "token", "data": {"text": "Hi"}}

The run goes on whatever becomes of the encoder; what became of it is told when the run is
over. The encoder is shown the run's failure as `{"type": "error", "error": {…}}`, last. A
stream that the encoder could not bring to its end has a last line of heddle's own:

    {"event": "error", "data": {"type": "error", "error": {"name": …, "message": …}}}
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from secrets import token_urlsafe
from typing import Any, Final

import msgspec
import trio

from heddle.cli.reporting.frames import error_frame, frame
from heddle.cli.reporting.plain import warning
from heddle.cli.reporting.readers import FRAMES_WAITING, LineWriter
from heddle.cli.terminal.outlet import Outlet
from heddle.cli.text.wording import fit_json
from heddle.events import Event
from heddle.standard_streams import output_failed
from plugins_host import EncodedFrame, Encoder, Fault, encode_all

# Lines that wait for stdout before the encoder waits too. Bytes.
OUTLET_WAITING: Final = 1024 * 1024

_encode: Final = msgspec.json.Encoder().encode


class EncoderBehind(Fault):
    """The encoder was so much slower than the run that its events were given up."""


class _Line(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    event: str | None = None
    data: msgspec.Raw


def line(each: EncodedFrame) -> bytes:
    """A frame as a line."""
    data = bytes(each.data)
    if b"\n" in data or b"\r" in data:
        data = _encode(msgspec.json.decode(data))
    return fit_json(_encode(_Line(event=each.event, data=msgspec.Raw(data)))) + b"\n"


class Encoded:
    """Events to an encoder and its frames to stdout; remarks as lines on stderr.

    Attributes:
        failure: Why the stream ended before the run did.
    """

    animate: Callable[[], Awaitable[None]] | None = None

    def __init__(self, stop: Callable[[Exception], None], stdout: int) -> None:
        self.failure: Fault | None = None
        self._stop = stop
        self._outlet = Outlet(stdout, most=FRAMES_WAITING, broken=self._broken)
        self._lines = LineWriter()
        self.outlets: Iterable[Outlet] = (self._outlet, self._lines.outlet)
        self._events: deque[bytes] = deque()
        self._bytes = 0
        self._closed = False
        self._changed = trio.Event()

    # --- as a reader --------------------------------------------------------------------

    def see(self, event: Event, /) -> None:
        """Have it encoded when its turn comes."""
        self._put(frame(event)[:-1])

    def remark(self, text: str, /) -> None:
        """Write it."""
        self._lines.write(text)

    def ended(self, error: Exception | None, /) -> None:
        """Nothing: it was told while the encoder was there."""

    def _broken(self) -> None:
        assert self._outlet.error is not None
        self._stop(output_failed(self._outlet.error))

    # --- the work of the encoder ----------------------------------------------------------

    async def run(self, encoder: Encoder, execute: Callable[[], Awaitable[Any]]) -> Any:
        """Carry out ``execute`` and encode what it reports, to the end of both.

        Raises:
            Exception: What ``execute`` raises; else why the stream ended before it.
        """
        results: list[Any] = []
        failure: Exception | None = None
        async with (
            encoder.encoding(token_urlsafe(16)) as encoding,
            trio.open_nursery() as nursery,
        ):

            async def encode() -> None:
                try:
                    await encode_all(encoding, self._next, self._write)
                except Fault as fault:
                    self._fail(fault)

            nursery.start_soon(encode)
            try:
                results.append(await execute())
            except Exception as error:  # noqa: BLE001  raised below, outside the nursery
                failure = error
                self._put(error_frame(error)[:-1])
            self._close()
        if self.failure is not None:
            self._own(error_frame(self.failure)[:-1])
        elif failure is not None and not encoding.made_of_last:
            self._own(error_frame(failure)[:-1])
        if failure is not None:
            if self.failure is not None:
                self.remark(warning(str(self.failure)))
            raise failure
        if self.failure is not None:
            raise self.failure
        return results[0]

    def _fail(self, fault: Fault) -> None:
        self.failure = fault
        self._events.clear()
        self._closed = True

    def _put(self, event: bytes) -> None:
        if self._closed:
            return
        if self._bytes + len(event) > FRAMES_WAITING:
            self._fail(
                EncoderBehind(
                    f"over {FRAMES_WAITING // 2**20} MiB of events wait for it",
                    where="--protocol",
                    fix="Make the encoder faster, or read stdout faster.",
                )
            )
        else:
            self._events.append(event)
            self._bytes += len(event)
        self._tell()

    def _close(self) -> None:
        self._closed = True
        self._tell()

    def _tell(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    async def _next(self) -> Sequence[bytes]:
        await trio.lowlevel.checkpoint()
        while not self._events:
            if self.failure is not None:
                raise self.failure
            if self._closed:
                return ()
            await self._changed.wait()
        events = tuple(self._events)
        self._events.clear()
        self._bytes = 0
        return events

    async def _write(self, frames: Sequence[EncodedFrame]) -> None:
        await trio.lowlevel.checkpoint()
        for each in frames:
            await self._write_line(line(each))

    async def _write_line(self, data: bytes) -> None:
        if self._outlet.waiting > OUTLET_WAITING:
            await self._outlet.drained()
        self._outlet.put(data)

    def _own(self, told: bytes) -> None:
        self._outlet.put(line(EncodedFrame(msgspec.Raw(told), "error")))
