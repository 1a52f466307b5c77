"""How a run ended, as those who asked for it are told.

    {"status": "completed", "state": {…}}
    {"status": "failed", "error": {"type": "RunTimedOut", "message": "…"}}
    {"status": "cancelled", "error": {"type": "RunCancelled", "message": "…"}}

What is shown of an error is its class and its sentence, with the server's own folders
struck out. An exception that is no `Fault` is a bug, and its text is for the log alone.
"""

import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Final, TypeAlias

from msgspec import Raw, Struct

from plugins_host import Fault

Conceal: TypeAlias = Callable[[str], str]
"""Strikes out of a sentence what no caller may see."""


class Status(StrEnum):
    """How a run stands."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class ShownError(Struct, frozen=True):
    """An error as callers see it."""

    type: str
    message: str


class Ended(Struct, frozen=True, tag_field="status"):
    """Base of the ways in which a run ends. The tag is its status."""


class Completed(Ended, frozen=True, tag=Status.COMPLETED.value):
    """It reached its end with this state, which is JSON already."""

    state: Raw


class Failed(Ended, frozen=True, tag=Status.FAILED.value):
    """It did not."""

    error: ShownError


class Cancelled(Ended, frozen=True, tag=Status.CANCELLED.value):
    """It was stopped on purpose."""

    error: ShownError


Ending: TypeAlias = Completed | Failed | Cancelled


class Stop(StrEnum):
    """Why a run is cancelled, in the words that those who follow it read."""

    ASKED = "it was cancelled on request"
    CALLER_LEFT = "its caller went away"
    DRAINED = "the server is stopping"


class RunCancelled(Fault):
    """A run was stopped on purpose; ``stop`` says why."""

    def __init__(self, stop: Stop) -> None:
        super().__init__(stop.value)
        self.stop = stop


class RunBroke(Fault):
    """A run ended by a bug, of heddle's or of what is installed beside it."""

    def __init__(self, run: str, cause: BaseException) -> None:
        super().__init__(
            f"heddle itself failed ({type(cause).__name__})",
            fix=f"This is a bug in heddle; the server's log says more under run {run}.",
        )
        self.run = run


def shown(error: Fault, conceal: Conceal) -> ShownError:
    """An error as callers see it."""
    return ShownError(type(error).__name__, conceal(str(error)))


CONCEALED: Final = "…"


def concealing(folders: Iterable[str]) -> Conceal:
    """Strike these folders out of sentences; "…" stands for each.

    Args:
        folders: Absolute paths. Those that would strike out half of a sentence, such as
            ``/``, are left alone.
    """
    known = sorted({each.rstrip("/") for each in folders} - {""}, key=len, reverse=True)
    if not known:
        return str
    # A folder's name ends where it ends: /srv/app is not the beginning of /srv/apple.
    pattern = re.compile(f"(?:{'|'.join(map(re.escape, known))})(?![\\w.-])")
    return lambda text: pattern.sub(CONCEALED, text)


def forget_frames(error: BaseException) -> None:
    """Let go of what an exception and its causes hold of the code that raised them.

    A traceback keeps every frame alive, with the run's whole state in it.
    """
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        each.__traceback__ = None
        waiting += (each.__cause__, each.__context__)
        if isinstance(each, BaseExceptionGroup):
            waiting += each.exceptions
