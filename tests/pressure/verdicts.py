"""Whether what became of a run is its own doing, or that of a disturbance it has met.

`CAUSES` is the whole list: an error that is in no row of it, or in a row of which neither
the run's own script nor a disturbance at the right time gives the reason, is a finding.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec import Struct

from tests.pressure.cast import Does, policies
from tests.pressure.disturbances import Done
from tests.pressure.load import Fate
from tests.pressure.models import FAIL

AFTER: Final = 8.0
"""Seconds after its end in which a disturbance may still be felt: a policy's patience, the
wait before its next process is tried, the wait before a worker is replaced."""


def _nothing(_: Fate) -> bool:
    return False


def _model(fate: Fate) -> bool:
    return fate.mode in FAIL


class Cause(Struct, frozen=True):
    """Why a run may have ended otherwise than complete.

    Attributes:
        word: What reports call it.
        ending: Of `Fate`; empty for any.
        pattern: Found in class and message of its error.
        steps: Disturbances that give the reason.
        own: Whether the run's own script does.
    """

    word: str
    ending: str
    pattern: str
    steps: tuple[str, ...] = ()
    own: Callable[[Fate], bool] = _nothing


CAUSES: Final[tuple[Cause, ...]] = (
    Cause(
        "its policy threw",
        "failed",
        r"^PolicyFailed: .*'{who}'.* {nonce} throws",
        own=lambda fate: fate.does is Does.THROWS,
    ),
    Cause(
        "its policy answered garbage",
        "failed",
        r"^PolicyFailed: .*'{who}'.*'garbage-{nonce}'",
        own=lambda fate: fate.does is Does.GARBAGE,
    ),
    Cause(
        "its policy was killed",
        "failed",
        r"^PolicyFailed: .*SIGKILL",
        ("kill a policy", "stop a policy"),
    ),
    Cause(
        "its policy was silent",
        "failed",
        r"^PolicyFailed: .*(no answer|silen|within)",
        ("stop a policy", "stop a worker"),
        own=lambda fate: fate.does is Does.HANGS,
    ),
    Cause(
        "its model failed",
        "failed",
        r"^NodeFailed: node '(llm|agent)'",
        ("break the models", "silence the models"),
        own=_model,
    ),
    Cause(
        "its time was up",
        "failed",
        r"^RunTimedOut: ",
        ("silence the models", "stop a policy", "stop a worker", "slow the models"),
        own=lambda fate: _model(fate) or fate.does is Does.HANGS,
    ),
    Cause(
        "the disk was full",
        "",
        r"disk|No space|File too large|SIGXFSZ|status 3|cannot keep",
        ("fill the disk",),
    ),
    Cause("cancelled", "cancelled", "", own=lambda fate: fate.left),
    Cause("left", "left", "", own=lambda fate: fate.left),
    Cause("cut off", "unreachable", "", ("cut the sockets",)),
    Cause("cancelled when cut off", "cancelled", "", ("cut the sockets",)),
    Cause("lost with its worker", "lost", "", ("kill a worker",)),
    Cause("lost with its worker", "unreachable", "", ("kill a worker",)),
    Cause("its worker did not answer", "refused", "503|does not answer",
          ("kill a worker", "stop a worker")),
)  # fmt: skip


class Found(Struct):
    """A run that suffered what it should not have."""

    fate: Fate
    what: str


def judge(fate: Fate, done: Sequence[Done]) -> str:
    """What became of a run, in a word of `CAUSES` or "completed".

    Raises:
        AssertionError: It is not its own.
    """
    foreign = fate.marks - {fate.nonce}
    assert not foreign, f"it has data of {sorted(foreign)}"
    assert not fate.odd, "; ".join(fate.odd)
    assert fate.endings <= 1, f"{fate.endings} ends of it were told"
    if fate.ending == "completed":
        _check_state(fate)
        return "completed"
    told = ": ".join(fate.error)
    met = {each.step.kind for each in meeting(fate, done)}
    fits = []
    for cause in CAUSES:
        pattern = cause.pattern.format(who=fate.who, nonce=re.escape(fate.nonce))
        if cause.ending in ("", fate.ending) and re.search(pattern, told, re.DOTALL):
            if cause.own(fate) or met & set(cause.steps):
                return cause.word
            fits.append(cause.word)
    reason = f"without reason: {', '.join(fits)}" if fits else "that is in no row"
    raise AssertionError(f"it came to {fate.ending!r}, {reason}: {told}")


def _check_state(fate: Fate) -> None:
    state = fate.state or {}
    own = {each.lower() for each in policies()}
    assert all(state.get(each) == fate.nonce for each in own), f"a policy left it: {state}"
    assert fate.does in (Does.GOES_ON, Does.SLOW, Does.CALLS), "its policy said nothing"
    made = {"llm": "generated_text", "agent": "result"}.get(fate.flow)
    if made is not None:
        assert fate.nonce in str(state.get(made)), f"its model's answer is missing: {state}"
    elif fate.flow != "straight":
        said = state.get("echoed") or {}
        assert said.get("nonce") == fate.nonce, f"its tool's answer is missing: {state}"


def meeting(fate: Fate, done: Iterable[Done]) -> list[Done]:
    """The disturbances that a run may have felt."""
    return [
        each
        for each in done
        if each.began <= fate.ended and fate.began <= each.over + AFTER
    ]
