"""What a plugin's process says on stderr, to its author and to whoever operates heddle."""

import os
import sys
from contextlib import suppress
from types import TracebackType
from typing import Any, Final

from plugins_host.authoring.handlers import (
    AnswerInvalid,
    HandlerMissing,
    about_error,
    describe_error,
)

_OURS: Final = __file__.rpartition(os.sep)[0] + os.sep


def complain(text: str) -> None:
    """Say something to whoever reads this process's stderr."""
    # Nobody may be reading, and answers matter more than complaints.
    with suppress(OSError, ValueError):
        sys.stderr.write(f"heddle.plugin: {text}\n")
        sys.stderr.flush()


def report(error: BaseException, label: str) -> None:
    """Write where a handler failed to stderr, for its author."""
    if isinstance(error, HandlerMissing | AnswerInvalid):
        complain(str(error))
        return
    import traceback

    trace = _below_us(error.__traceback__)
    lines = traceback.format_exception(type(error), error, trace)
    complain(f"{label} failed\n{''.join(lines)}")


def _below_us(trace: TracebackType | None) -> TracebackType | None:
    """The part of a traceback that the author can do something about."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    return trace


def described(error: BaseException, label: str) -> dict[str, Any]:
    """What heddle is told of an error: the ``error`` of a refusal."""
    name, message = describe_error(error, label)
    # A message is anybody's text; half a surrogate pair in it must not lose the answer.
    told = {"name": name, "message": message.encode(errors="replace").decode()}
    return {**told, **about_error(error)}
