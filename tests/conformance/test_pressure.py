"""Hundreds of runs on shared policies in both languages, disturbed at random for a moment.

``make chaos`` does the same for half a minute.
"""

import os
import shutil
from pathlib import Path

import pytest

from heddle.engine.faults import PolicyFailed, RunTimedOut
from heddle.server.endings import Status
from tests.pressure.crowd import Fate, Kill, Plan, press, verdict

pytestmark = pytest.mark.skipif(not shutil.which("node"), reason="needs Node.js")

SEED = int(os.environ.get("HEDDLE_SEED", "1"))


async def test_no_run_suffers_from_what_becomes_of_another(tmp_path: Path) -> None:
    plan = Plan(SEED, seconds=2.0, at_once=200, kill_every=0.8, patience=3.0)
    tally = await press(plan, tmp_path)
    assert sum(tally.values()) >= 200
    failures = {f"its policy failed ({does})" for does in ("throw", "garbage")}
    assert {"completed", "cancelled", "timed out", *failures} <= set(tally)


class Ended:
    """A run that came to an error."""

    status = Status.FAILED
    ending = None

    def __init__(self, error: Exception) -> None:
        self.error = error


def policy_failed(text: str) -> PolicyFailed:
    error = PolicyFailed.__new__(PolicyFailed)
    error.what, error.where, error.fix = text, "", ""
    return error


@pytest.mark.parametrize(
    ("fate", "error"),
    [
        (Fate(1, "py", "go on", "nothing", 0, 0, 9), RunTimedOut(0.1, where="flow 'f'")),
        (Fate(1, "py", "go on", "nothing", 0, 0, 9), policy_failed("'Py' was silent")),
        (
            Fate(1, "py", "throw", "nothing", 0, 0, 9),
            policy_failed("'Py': number 2 throws"),
        ),
        (
            Fate(1, "py", "throw", "nothing", 0, 0, 9),
            policy_failed("'Js': number 1 throws"),
        ),
        (Fate(1, "py", "hang", "nothing", 0, 8, 9), policy_failed("'Py' was silent")),
        (Fate(1, "py", "go on", "nothing", 0, 0, 1), policy_failed("'js' died of SIGKILL")),
    ],
    ids=["deadline", "silence", "number", "policy", "too soon", "too early"],
)
def test_what_would_be_another_run_s_is_seen(fate: Fate, error: Exception) -> None:
    with pytest.raises(AssertionError, match="came to"):
        verdict(fate, Ended(error), [Kill("js", 5.0), Kill("py", 0.5)], 0.1, 2.0)  # type: ignore[arg-type]
