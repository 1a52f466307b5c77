"""What became of a run, by its result and by what its task was ended with."""

import logging
from collections.abc import Mapping
from typing import Any, Final

import trio

from heddle.engine.faults import timed_out
from heddle.server.endings import (
    Cancelled,
    Completed,
    Conceal,
    Ending,
    Failed,
    RunBroke,
    RunCancelled,
    Stop,
    shown,
)
from heddle.server.runs.handle import RunHandle
from plugins_host import Fault, Shortage, shortage

_LOG: Final = logging.getLogger("heddle.server")

_PASSING: Final = (trio.Cancelled, KeyboardInterrupt, GeneratorExit)


def split(raised: BaseException) -> tuple[BaseException | None, BaseException | None]:
    """What is the run's own failure, and what is for those around it."""
    if isinstance(raised, _PASSING):
        return None, raised
    if isinstance(raised, BaseExceptionGroup):
        passing, error = raised.split(_PASSING)
        return error, passing
    return raised, None


def only_cancelled(raised: BaseException) -> bool:
    """Whether it is a cancellation, and nothing else."""
    if isinstance(raised, BaseExceptionGroup):
        return all(map(only_cancelled, raised.exceptions))
    return isinstance(raised, trio.Cancelled)


def judge(
    run: RunHandle,
    result: Mapping[str, Any] | None,
    raised: BaseException | None,
    unasked: Stop,
    *,
    conceal: Conceal,
    timeout: float,
) -> tuple[Ending, Fault | None]:
    """How a run ended, as all are told, and its error.

    Args:
        run: The run.
        result: What it came to; None when it did not come to an end of its own.
        raised: Its own failure, from `split`.
        unasked: Why it was cancelled, where nobody asked for that.
        conceal: Strikes out what no caller may see.
        timeout: Seconds that it had.
    """
    if raised is None and result is not None:
        try:
            return Completed(run.log.encode_result(result)), None
        except Exception as no_json:  # noqa: BLE001  a result of an odd plugin or tool
            raised = no_json
    error = None if raised is None else _fault(run, raised)
    if error is None and run.stop is None and run.overdue:
        error = timed_out(timeout, run.node, run.flow)
    if run.stop is not None or error is None:
        stopped = RunCancelled(run.stop or unasked)
        return Cancelled(shown(stopped, conceal)), stopped
    return Failed(shown(error, conceal)), error


def _fault(run: RunHandle, raised: BaseException) -> Fault:
    while isinstance(raised, BaseExceptionGroup) and len(raised.exceptions) == 1:
        raised = raised.exceptions[0]
    if isinstance(raised, Fault):
        return raised
    _LOG.error("run %s of %r broke", run.id, run.flow, exc_info=raised)
    short = shortage(raised)
    fault = Shortage(short.what, fix=short.fix) if short else RunBroke(run.id, raised)
    fault.__cause__ = raised
    return fault
