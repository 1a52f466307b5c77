"""The events of one run in order: one writer, any number of readers, none of whom waits.

    sequence   1 … first-1   first … last-k   last-k+1 … last
               dropped       JSON             as reported, not encoded yet

Events are numbered from 1 without holes. They are kept as they were reported until the
first reader wants them, many have come together or the run ends; then each is encoded,
once for all readers. Beyond the limits the oldest are dropped, and `EventLog.first` says
so to whoever comes late. Readers (`heddle.server.event_reader`) are positions in the
log, so one that stands still costs nothing but its position.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

from msgspec import Struct

from heddle.events import Event
from heddle.server.endings import Completed, Conceal, Ending
from heddle.server.event_json import encode_events

MAX_PENDING: Final = 64
"""Events kept as reported. They hold on to the run's values, whose size nobody knows
before they are encoded; a short run that nobody follows has fewer and is encoded at its
end, in one go."""

BATCH_EVENTS: Final = 1024
BATCH_BYTES: Final = 256 * 1024
"""What a reader is given at once: a write that fills a socket's buffer, and no more, for
each reader may hold one such batch while it waits for its peer."""


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


class Waiting(Protocol):
    """A reader that has read everything and waits for more."""

    def wake(self) -> None:
        """There is more. Called once; the reader asks again when it wants to wait again."""
        ...


class Pace(Protocol):
    """Calls back later, for waking many readers less often than an event comes."""

    def now(self) -> float:
        """The time, in seconds."""
        ...

    def at(self, when: float, call: Callable[[], None]) -> None:
        """Call once, at that time."""
        ...


READER_SHARE: Final = 200e-6
"""Seconds between two wakings of a log's readers, for each of them but the first: some
three times what one reader costs, so that many leave the run most of the time. A hundred
hear from the run every 20 ms; who follows alone hears at once."""


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
        readers: How many read it. Kept by them.
        tally: Where they count, all logs together.
    """

    __slots__ = (
        "_conceal",
        "_due",
        "_gone",
        "_kept",
        "_limits",
        "_newest",
        "_pace",
        "_pending",
        "_planned",
        "_waiting",
        "ending",
        "first",
        "last",
        "readers",
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
        self.readers = 0
        self._limits = limits
        self._conceal = conceal
        self._pace = pace
        self.tally = Tally() if tally is None else tally
        self._pending: list[Event] = []
        # Dropped events leave empty places at the front, cleared away now and then.
        self._kept: list[bytes] = []
        self._gone = 0
        self._newest: Batch | None = None
        self._waiting: list[Waiting] = []
        self._planned = False
        self._due = 0.0

    # For the run

    def append(self, event: Event) -> None:
        """Add the next event. Never waits and never fails."""
        self.last += 1
        self._pending.append(event)
        if len(self._pending) >= MAX_PENDING:
            self._encode()
        if self._waiting and not self._planned:
            self._wake_in_turn()

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
            known = (result, ending.state)
        self._encode(known)
        self.ending = ending
        self._newest = None
        self._wake_all()

    # For readers

    def batch(self, after: int) -> Batch:
        """As much of what follows event ``after`` as is given at once; at least one."""
        newest = self._newest
        if newest is not None and newest.first == after + 1 and newest.last == self.last:
            return newest
        if self._pending:
            self._encode()
        kept = self._kept
        begin = end = self._gone + after + 1 - self.first
        most = min(len(kept), begin + BATCH_EVENTS)
        room = BATCH_BYTES - len(kept[begin])
        end += 1
        while end < most and (room := room - len(kept[end])) >= 0:
            end += 1
        batch = Batch(self.run, after + 1, kept[begin:end])
        if self.readers > 1 and end == len(kept):
            self._newest = batch
        return batch

    def tail(self, most_events: int, most_bytes: int) -> int:
        """The newest events that are within both limits, one at least: where they begin."""
        if self._pending:
            self._encode()
        kept = self._kept
        index = len(kept) - 1
        room = most_bytes - len(kept[index])
        lowest = max(self._gone, len(kept) - most_events)
        while index > lowest and (room := room - len(kept[index - 1])) >= 0:
            index -= 1
        return self.first + index - self._gone

    def bytes_after(self, after: int) -> int:
        """The size of what follows event ``after``."""
        if self._pending:
            self._encode()
        return sum(map(len, self._kept[self._gone + after + 1 - self.first :]))

    def wait(self, reader: Waiting) -> None:
        """Wake this reader with the next event, or the end."""
        self._waiting.append(reader)

    def wait_no_more(self, reader: Waiting) -> None:
        """This reader does not want to be woken any more."""
        if reader in self._waiting:
            self._waiting.remove(reader)

    # Itself

    def _encode(self, known: tuple[Mapping[str, Any], Any] | None = None) -> None:
        encoded = encode_events(self._pending, self._conceal, known)
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

    def _wake_in_turn(self) -> None:
        others = len(self._waiting) - 1
        if self._pace is None or not others:
            self._wake_all()
            return
        now = self._pace.now()
        if now >= self._due:
            self._due = now + others * READER_SHARE
            self._wake_all()
        else:
            self._planned = True
            self._pace.at(self._due, self._on_time)

    def _on_time(self) -> None:
        self._planned = False
        if self._waiting and self._pace is not None:
            self._due = self._pace.now() + (len(self._waiting) - 1) * READER_SHARE
            self._wake_all()

    def _wake_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        for reader in waiting:
            reader.wake()
