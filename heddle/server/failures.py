"""What callers are told when something fails: statuses as a table over error classes.

    {"error": {"type": "DocumentError", "message": "flow has 2 problems: …"}}

The type is the error's class, or one of a few words for requests that never got so far
(`heddle.server.http.ERROR_TYPES`).
"""

from collections.abc import Mapping
from typing import Final

from heddle.engine.faults import InputsRefused, RunTimedOut
from heddle.installation import NotServedYet, TypeTaken
from heddle.launch import ToolsMissing
from heddle.server.endings import (
    Conceal,
    RunCancelled,
    ShownError,
    Stop,
    forget_frames,
    shown,
)
from heddle.server.http import JSON, HeaderPairs, Refusal, Response, error_body
from heddle.server.runs.history import LIMITS
from heddle.server.runs.registry import Draining, TooManyRuns
from heddle.spec import DocumentError, EffortExceeded
from plugins_host import Fault, ManifestError, PluginRefused


class SubmissionRefused(Fault):
    """What a caller sent asks for what only the operator may have or do."""


STATUSES: Final[Mapping[type[Fault], int]] = {
    Fault: 500,
    DocumentError: 400,
    ToolsMissing: 400,
    InputsRefused: 400,
    SubmissionRefused: 400,
    EffortExceeded: 400,
    ManifestError: 400,
    NotServedYet: 400,
    PluginRefused: 400,
    TypeTaken: 400,
    RunCancelled: 409,
    TooManyRuns: 429,
    Draining: 503,
    RunTimedOut: 504,
}
"""Anything that is not here is the status of its nearest base."""


def status_of(error: Fault) -> int:
    """The HTTP status that tells of an error."""
    if isinstance(error, Refusal):
        return error.status
    if isinstance(error, RunCancelled) and error.stop is Stop.DRAINED:
        return 503
    return next(STATUSES[each] for each in type(error).__mro__ if each in STATUSES)


def told(error: Fault, conceal: Conceal) -> ShownError:
    """An error as callers see it, who are the last to need it.

    What was sent is in the frames that it came through, and those lead back to it: it would
    be kept until the collector comes by, and that counts objects, not megabytes.
    """
    forget_frames(error)
    if isinstance(error, Refusal):
        return ShownError(error.type, conceal(str(error)))
    return shown(error, conceal)


def unknown_run() -> Refusal:
    """There is no such run, or there is none any more."""
    return Refusal(
        404,
        "no such run is in memory",
        fix="GET /v1/runs lists those that are. Of runs that have ended the last "
        f"{LIMITS.runs:,} are kept, until the server stops.",
    )


def headers_of(error: Fault) -> HeaderPairs:
    """What goes with an error beside its sentence."""
    match error:
        case Refusal():
            return error.headers
        case TooManyRuns():
            return (("Retry-After", str(error.retry_after)),)
        case _:
            return ()


def failure_response(error: Fault, conceal: Conceal) -> Response:
    """An error as an answer."""
    seen = told(error, conceal)
    return Response(
        status_of(error), JSON + headers_of(error), error_body(seen.type, seen.message)
    )
