"""The events of one run in order: one writer, any number of readers, none of whom waits.

    sequence   1 … first-1   first … last-k   last-k+1 … last
               dropped       JSON             as reported, not encoded yet

Events are numbered from 1 without holes. They are kept as they were reported until the
first reader wants them, many have come together or the run ends; then each is encoded,
once for all readers. Beyond the limits the oldest are dropped, and `EventLog.first` says
so to whoever comes late. Readers (`heddle.server.following.reader`) are positions in the
log, so one that stands still costs nothing but its position.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from msgspec import Raw, Struct

from heddle.events import Event
from heddle.server.endings import Completed, Conceal, Ending
from heddle.server.following.as_json import LARGE, EventEncoder, Known
from heddle.server.following.turns import Pace, Turns

MAX_PENDING: Final = 64
"""Events kept as reported. They hold on to the run's values, whose size nobody knows
before they are encoded; a short run that nobody follows has fewer and is encoded at its
end, in one go."""

BATCH_EVENTS: Final = 1024
BATCH_BYTES: Final = 256 * 1024
"""What a reader is given at once: a write that fills a socket's buffer, and no more, for
each reader may hold one such batch while it waits for its peer."""


SHARED_BYTES: Final = 2 * 1024 * 1024
"""Of batches that readers share, for each of a run that several follow. Readers who are
farther apart are few or slow."""


class LogLimits(Struct, frozen=True):
    """How much of a run is kept. An event that is larger than all is kept alone."""

    events: int = 16_384
    bytes: int = 8 * 1024 * 1024


LIMITS: Final = LogLimits()

Framing: TypeAlias = Callable[[str, int, Sequence[bytes]], bytes]
"""Makes of a run's id, a first sequence number and events from there what is sent."""


class Batch:
    """Events that follow one another, as JSON. Readers who are level share one.

    Attributes:
        run: Whose events they are.
        first: The sequence number of the first one.
        events: One JSON object each.
    """

    __slots__ = ("_framed", "events", "first", "run")

    def __init__(self, run: str, first: int, events: list[bytes]) -> None:
        self.run = run
        self.first = first
        self.events: Sequence[bytes] = events
        self._framed: dict[Framing, bytes] | None = None

    @property
    def last(self) -> int:
        """The sequence number of the last one."""
        return self.first + len(self.events) - 1

    def framed(self, framing: Framing) -> bytes:
        """The batch as one kind of reader sends it; made once for all of that kind."""
        if self._framed is None:
            self._framed = {}
        data = self._framed.get(framing)
        if data is None:
            data = self._framed[framing] = framing(self.run, self.first, self.events)
        return data


class Tally:
    """Counts those who follow runs.

    Attributes:
        readers: How many there are now.
        lagged: How often one fell behind.
        missed: How many events they missed in all.
    """

    __slots__ = ("lagged", "missed", "readers")

    def __init__(self) -> None:
        self.readers = 0
        self.lagged = 0
        self.missed = 0


class EventLog:
    """The events of the run called ``run``.

    Attributes:
        run: Its id.
        first: The oldest event that is kept; ``last + 1`` when there is none.
        last: The newest event; 0 before the first.
        ending: How the run ended; None while it goes on.
        size: Bytes of the events that are kept and encoded.
        tally: Where readers count themselves, all logs together.
    """

    __slots__ = (
        "_encoder",
        "_gone",
        "_kept",
        "_limits",
        "_pace",
        "_pending",
        "_shared",
        "_shared_bytes",
        "_together",
        "_turns",
        "ending",
        "first",
        "last",
        "run",
        "size",
        "tally",
    )

    def __init__(
        self,
        run: str,
        *,
        limits: LogLimits = LIMITS,
        conceal: Conceal = str,
        pace: Pace | None = None,
        tally: Tally | None = None,
    ) -> None:
        self.run = run
        self.first = 1
        self.last = 0
        self.ending: Ending | None = None
        self.size = 0
        self.tally = Tally() if tally is None else tally
        self._limits = limits
        self._encoder: EventEncoder | None = EventEncoder(conceal)
        self._pace = pace
        self._pending: list[Event] = []
        # Dropped events leave empty places at the front, cleared away now and then.
        self._kept: list[bytes] = []
        self._gone = 0
        # All of them, of a short run: lines.
        self._together: bytes | None = None
        # The batches that were made last, by what was asked for: those who follow a run are
        # level, or go through what they have not read one after the other.
        self._shared: dict[tuple[int, int], Batch] | None = None
        self._shared_bytes = 0
        self._turns: Turns | None = None

    @property
    def readers(self) -> int:
        """How many read it."""
        return 0 if self._turns is None else self._turns.readers

    # For the run

    def append(self, event: Event) -> None:
        """Add the next event. Never waits and never fails; after the end it is dropped."""
        if self.ending is not None:
            return
        self.last += 1
        pending = self._pending
        pending.append(event)
        if len(pending) >= MAX_PENDING:
            self._encode()
        turns = self._turns
        if turns is not None:
            if turns.waiting:
                turns.came(self.last)
            else:
                turns.last = self.last

    def finish(self, ending: Ending, result: Mapping[str, Any] | None = None) -> None:
        """Nothing follows any more.

        Args:
            ending: How the run ended.
            result: The state that is JSON already in ``ending``, so that the event that
                carries it need not be encoded.
        """
        assert self.ending is None
        known = None
        if result is not None and isinstance(ending, Completed):
            state = ending.state
            # What is short is encoded sooner than put in.
            known = (result, state) if memoryview(state).nbytes > LARGE else None
        assert self._encoder is not None
        together = None
        if known is None and self._turns is None and not self._kept:
            # Few, and nobody follows them.
            together = self._encoder.encode_together(self._pending)
        most = self._limits
        if together is None or len(together) > most.bytes or self.last > most.events:
            self._encode(known)
        else:
            self._together = together
            self.size = len(together) - len(self._pending)
            self._pending.clear()
        self.ending = ending
        self._encoder = None
        if self._turns is not None:
            self._turns.end()

    async def learn(self, state: Mapping[str, Any]) -> None:
        """Get ready for a state in which something is long."""
        if self._encoder is not None:
            await self._encoder.learn(state)

    def encode_result(self, result: Mapping[str, Any]) -> Raw:
        """A run's result as JSON.

        Raises:
            Exception: It has none.
        """
        assert self._encoder is not None
        return self._encoder.encode_result(result)

    # For readers

    def left(self) -> None:
        """One of them reads no more; nobody shares anything with the last one."""
        if not self.readers:
            self._shared = None

    def turns(self) -> Turns:
        """When readers may read."""
        if self._turns is None:
            self._turns = Turns(self._pace, self.last)
        return self._turns

    def encode(self) -> None:
        """Make JSON of all that was reported, before anything below is asked; `first`
        may move with it."""
        if self._pending:
            self._encode()
        elif self._together is not None:
            self._kept = self._together.splitlines()
            self._together = None

    def batch(self, after: int, upto: int) -> Batch:
        """Events after ``after``, to ``upto`` or as many as are given at once."""
        shared = self._shared
        if shared is not None:
            known = shared.get((after, upto))
            if known is not None:
                return known
        kept = self._kept
        begin = end = self._gone + after + 1 - self.first
        last = upto
        if upto - after > BATCH_EVENTS:
            # Wherever they began, all come to the same places, and share what follows.
            last = (after + BATCH_EVENTS) // BATCH_EVENTS * BATCH_EVENTS
        most = self._gone + last + 1 - self.first
        room = BATCH_BYTES - len(kept[begin])
        end += 1
        while end < most and (room := room - len(kept[end])) >= 0:
            end += 1
        batch = Batch(self.run, after + 1, kept[begin:end])
        if self.readers > 1:
            self._share((after, upto), batch, BATCH_BYTES - room)
        return batch

    def bytes_after(self, after: int) -> int:
        """The size of what follows event ``after``."""
        return sum(map(len, self._kept[self._gone + after + 1 - self.first :]))

    def tail(self, most_events: int, most_bytes: int) -> int:
        """The newest events that are within both limits, one at least: where they begin."""
        kept = self._kept
        index = len(kept) - 1
        room = most_bytes - len(kept[index])
        lowest = max(self._gone, len(kept) - most_events)
        while index > lowest and (room := room - len(kept[index - 1])) >= 0:
            index -= 1
        return self.first + index - self._gone

    # Itself

    def _share(self, asked: tuple[int, int], batch: Batch, size: int) -> None:
        shared = self._shared
        if shared is None or self._shared_bytes + size > SHARED_BYTES:
            shared = self._shared = {}
            self._shared_bytes = 0
        shared[asked] = batch
        self._shared_bytes += size

    def _encode(self, known: Known | None = None) -> None:
        assert self._encoder is not None
        encoded = self._encoder.encode(self._pending, known)
        self._pending = []
        self._kept += encoded
        self.size += sum(map(len, encoded))
        if self.size > self._limits.bytes or (
            len(self._kept) - self._gone > self._limits.events
        ):
            self._drop()

    def _drop(self) -> None:
        kept, gone, size = self._kept, self._gone, self.size
        fewest = len(kept) - self._limits.events
        while gone < len(kept) - 1 and (gone < fewest or size > self._limits.bytes):
            size -= len(kept[gone])
            kept[gone] = b""
            gone += 1
        self.first += gone - self._gone
        self.size = size
        if 2 * gone > len(kept):
            del kept[:gone]
            gone = 0
        self._gone = gone
