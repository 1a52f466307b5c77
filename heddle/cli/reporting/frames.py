"""``--protocol`` and ``--json``: a run's events as frames, one JSON object a line.

The last frame is ``flow_complete``, or says why the run did not get there:

    {"type": "error", "error": {"name": "RunTimedOut", "message": "the run took …"}}

With ``--json`` also what is no event: {"type": "remark", "message": "[gate] loaded"}.
"""

from typing import Final

import msgspec

from heddle.cli.text.wording import fit_json
from heddle.events import ErrorInfo, Event
from plugins_host import shortage


class ErrorFrame(msgspec.Struct, frozen=True, tag_field="type", tag="error"):
    """The last frame of a run that failed."""

    error: ErrorInfo


class Remark(msgspec.Struct, frozen=True, tag_field="type", tag="remark"):
    """A line that a plugin printed, or that was said about one."""

    message: str


_ENCODER: Final = msgspec.json.Encoder()


def frame(event: Event | ErrorFrame | Remark) -> bytes:
    """One event as one line."""
    return fit_json(_ENCODER.encode(event)) + b"\n"


def error_frame(error: BaseException) -> bytes:
    """The frame that ends a failed run."""
    error = shortage(error) or error
    return frame(ErrorFrame(ErrorInfo(type(error).__name__, str(error))))
