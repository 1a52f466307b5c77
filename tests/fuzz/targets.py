"""The table of all targets, by the names that ``make fuzz TARGET=…`` takes."""

from collections.abc import Mapping
from typing import Final

from tests.fuzz.event_streams import EVENT_STREAMS
from tests.fuzz.frames import FRAMES
from tests.fuzz.manifests import MANIFESTS
from tests.fuzz.target import Target
from tests.fuzz.tool_answers import TOOL_ANSWERS
from tests.fuzz.verdicts import VERDICTS

TARGETS: Final[Mapping[str, Target]] = {
    "event-streams": EVENT_STREAMS,
    "frames": FRAMES,
    "manifests": MANIFESTS,
    "tool-answers": TOOL_ANSWERS,
    "verdicts": VERDICTS,
}


def _sing(data: bytes) -> None:
    assert not data.startswith(b"gas"), "the canary has stopped singing"


CANARY: Final = "canary"
"""A target that breaks on purpose: with it anyone can see that what is broken is found.
It is run when it is asked for, and no other time."""

ALL: Final[Mapping[str, Target]] = {
    **TARGETS,
    CANARY: Target(_sing, (b"air",), words=(b"gas",)),
}
