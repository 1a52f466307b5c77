"""The life of a plugin process as a table of phases, and when one may be started again.

    ABSENT ─spawned─▶ GREETING ─greeted─▶ READY ─retired─▶ RETIRING ─emptied─▶ ENDING
                                            └─stop asked─▶ LEAVING ─overdue──▶ ENDING
    every phase with a process ─exited─▶ GONE

A phase says what may be done with the process (`PHASES`), a signal what happened to it,
and `TRANSITIONS` what follows. `StartHistory` decides from earlier deaths whether to try
again now, later, or only to probe. All of it is data and functions; no process is here.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from msgspec import Struct


class Phase(Enum):
    """Where in its life a process is."""

    ABSENT = "absent"
    GREETING = "greeting"
    READY = "ready"
    RETIRING = "retiring"
    LEAVING = "leaving"
    DYING = "dying"
    ENDING = "ending"
    GONE = "gone"


class Signal(Enum):
    """What happened to it."""

    SPAWNED = "spawned"
    GREETED = "greeted"
    REFUSED = "refused"  # no process, no greeting in time, or another protocol
    RETIRED = "retired"  # it cannot be trusted with another call
    EMPTIED = "emptied"  # the last call in it has ended
    BROKE = "broke"  # its stdout is no protocol any more
    STOP_ASKED = "stop asked"
    OVERDUE = "overdue"  # it was asked to leave and did not
    HUNG_UP = "hung up"  # its stdout has ended, or it has: only last words are left
    EXITED = "exited"


class PhaseRow(Struct, frozen=True):
    """What a phase means: new calls are taken; answers to open ones are; it has a pid."""

    takes_calls: bool
    answers: bool
    runs: bool


PHASES: Final[Mapping[Phase, PhaseRow]] = {
    Phase.ABSENT: PhaseRow(takes_calls=False, answers=False, runs=False),
    Phase.GREETING: PhaseRow(takes_calls=False, answers=True, runs=True),
    Phase.READY: PhaseRow(takes_calls=True, answers=True, runs=True),
    Phase.RETIRING: PhaseRow(takes_calls=False, answers=True, runs=True),
    Phase.LEAVING: PhaseRow(takes_calls=False, answers=True, runs=True),
    Phase.DYING: PhaseRow(takes_calls=False, answers=True, runs=True),
    Phase.ENDING: PhaseRow(takes_calls=False, answers=False, runs=True),
    Phase.GONE: PhaseRow(takes_calls=False, answers=False, runs=False),
}

TRANSITIONS: Final[Mapping[Phase, Mapping[Signal, Phase]]] = {
    Phase.ABSENT: {
        Signal.SPAWNED: Phase.GREETING,
        Signal.REFUSED: Phase.GONE,
        Signal.STOP_ASKED: Phase.GONE,
    },
    Phase.GREETING: {
        Signal.GREETED: Phase.READY,
        Signal.REFUSED: Phase.ENDING,
        Signal.BROKE: Phase.ENDING,
        Signal.STOP_ASKED: Phase.ENDING,
        Signal.HUNG_UP: Phase.DYING,
        Signal.EXITED: Phase.GONE,
    },
    Phase.READY: {
        Signal.RETIRED: Phase.RETIRING,
        Signal.BROKE: Phase.ENDING,
        Signal.STOP_ASKED: Phase.LEAVING,
        Signal.HUNG_UP: Phase.DYING,
        Signal.EXITED: Phase.GONE,
    },
    Phase.RETIRING: {
        Signal.EMPTIED: Phase.ENDING,
        Signal.BROKE: Phase.ENDING,
        Signal.STOP_ASKED: Phase.ENDING,
        Signal.HUNG_UP: Phase.DYING,
        Signal.EXITED: Phase.GONE,
    },
    Phase.LEAVING: {
        Signal.OVERDUE: Phase.ENDING,
        Signal.BROKE: Phase.ENDING,
        Signal.HUNG_UP: Phase.DYING,
        Signal.EXITED: Phase.GONE,
    },
    Phase.DYING: {Signal.BROKE: Phase.ENDING, Signal.EXITED: Phase.GONE},
    Phase.ENDING: {Signal.EXITED: Phase.GONE},
    Phase.GONE: {},
}


def following(phase: Phase, signal: Signal) -> Phase:
    """The phase after a signal. One that says nothing new in this phase changes nothing."""
    return TRANSITIONS[phase].get(signal, phase)


# Five deaths in a row within a minute is a plugin that does not start, not one that met a
# passing fault.
MAX_DEATHS: Final = 5
WINDOW: Final = 60.0

# How often a plugin that does not start is tried again, so that it recovers without
# anybody restarting the server. Seconds.
PROBE_EVERY: Final = 5.0

# The rest after the first death at start, doubled with each further one. Seconds.
FIRST_REST: Final = 0.1
LONGEST_REST: Final = 2.0


class StartHistory(Struct, frozen=True):
    """The deaths at start since the last start that went well, oldest first.

    ``reason`` is what the last one died of. Instants are of any one clock, in seconds.
    """

    deaths: tuple[float, ...] = ()
    reason: str = ""

    def died(self, now: float, reason: str) -> "StartHistory":
        """The history with one more death; what is too old to count is forgotten."""
        recent = (*self.deaths, now)[-MAX_DEATHS:]
        return StartHistory(recent, reason)

    @property
    def given_up(self) -> bool:
        """Whether calls fail at once, and only a probe starts the plugin."""
        deaths = self.deaths
        return len(deaths) == MAX_DEATHS and deaths[-1] - deaths[0] <= WINDOW

    def next_start(self) -> float:
        """The earliest instant of the next start; minus infinity when there is no rest."""
        if not self.deaths:
            return float("-inf")
        if self.given_up:
            return self.deaths[-1] + PROBE_EVERY
        rest = FIRST_REST * 2.0 ** (len(self.deaths) - 1)
        return self.deaths[-1] + min(rest, LONGEST_REST)


WELL: Final = StartHistory()
