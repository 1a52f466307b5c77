"""Two revisions side by side: rounds of the same benchmarks that take turns, and what
became of each number.

    round 1   base  head
    round 2   head  base        what warms up, slows down or wakes up hits both alike
    round 3   base  head

A number is known by its name. Where it is told against a floor, what it is of the floor is
a number of its own, and so is each detail.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import comb
from statistics import median
from typing import Final

import msgspec
from msgspec import Struct

from bench.commands import Ran
from bench.harness import Answer
from bench.worktrees import CompareError, Side

_TRACEBACK: Final = "Traceback (most recent call last)"


class How(Struct, frozen=True):
    """How it is compared.

    Attributes:
        rounds: How often each benchmark is run in each side, 1 at least.
        quick: Whether with small sizes.
    """

    rounds: int = 5
    quick: bool = False

    @property
    def chance(self) -> int:
        """Of so many numbers that are the same on both sides, one seems to differ.

        That all of ``rounds`` values are above all of as many others is one of the ways
        to share out places, and that they are below another.
        """
        return max(1, comb(2 * self.rounds, self.rounds) // 2)

    @property
    def flags(self) -> tuple[str, ...]:
        """What `python -m bench` is told beside the benchmark."""
        return ("--quick",) if self.quick else ()


class Number(Struct, frozen=True):
    """One that a benchmark told.

    Attributes:
        kind: "value", "ratio" (of its floor) or "detail".
    """

    name: str
    kind: str
    unit: str


class Spread(Struct, frozen=True):
    """What one side measured."""

    median: float
    lowest: float
    highest: float
    rounds: int


class Compared(Struct, frozen=True, omit_defaults=True):
    """What became of a number; a side that does not tell it is None.

    Attributes:
        change: Of the head's median against the base's: 0.1 is a tenth more. None where
            one side does not tell it, or the base's is nothing.
        beyond: Whether all that the head measured lies on one side of all that the base
            did, in two rounds at least.
    """

    subject: str
    number: Number
    base: Spread | None = None
    head: Spread | None = None
    change: float | None = None
    beyond: bool = False


class Problem(Struct, frozen=True):
    """A benchmark that was not compared, and why."""

    subject: str
    problem: str


class _Failed(Exception):
    """A round of a benchmark did not work."""


_Measured = dict[Number, list[float]]


def compare(
    base: Side,
    head: Side,
    subjects: Sequence[str],
    how: How,
    *,
    say: Callable[[str], object] = lambda _: None,
) -> Iterator[Compared | Problem]:
    """Measure one benchmark after the other, and tell what became of its numbers.

    Args:
        base: What it is compared with.
        head: What is compared.
        subjects: Benchmarks, in their order.
        how: How often, and with which sizes.
        say: Told a line at the beginning of each round.

    Raises:
        CompareError: A side does not know small sizes.
    """
    for side in (base, head):
        if how.quick and "--quick" not in side.bench("--help").out:
            raise CompareError(
                f"{side.name} {side.revision}: its `python -m bench` does not know"
                " --quick. Leave it out, or name a later revision."
            )
    for subject in subjects:
        without = [side for side in (base, head) if not side.has(subject)]
        if without:
            those = " and ".join(f"{side.name} {side.revision}" for side in without)
            yield Problem(subject, f"there is no such benchmark in {those}")
            continue
        try:
            yield from _compared(subject, base, head, how, say)
        except _Failed as failed:
            yield Problem(subject, str(failed))


def _compared(
    subject: str,
    base: Side,
    head: Side,
    how: How,
    say: Callable[[str], object],
) -> Iterator[Compared]:
    measured: Mapping[str, _Measured] = {base.name: {}, head.name: {}}
    for number in range(how.rounds):
        say(f"{subject}: round {number + 1} of {how.rounds}\n")
        for side in (base, head) if number % 2 == 0 else (head, base):
            for told, value in _numbers(_answers(side, subject, how)):
                measured[side.name].setdefault(told, []).append(value)
    ours, theirs = measured[head.name], measured[base.name]
    # In the order in which they are told; what only the base knows behind.
    for each in [*ours, *(one for one in theirs if one not in ours)]:
        yield _change(subject, each, theirs.get(each), ours.get(each))


def _change(
    subject: str,
    number: Number,
    theirs: Sequence[float] | None,
    ours: Sequence[float] | None,
) -> Compared:
    base = _spread(theirs) if theirs else None
    head = _spread(ours) if ours else None
    if base is None or head is None:
        return Compared(subject, number, base, head)
    change = (head.median - base.median) / abs(base.median) if base.median else None
    apart = head.lowest > base.highest or head.highest < base.lowest
    # Two single values are always apart.
    beyond = apart and min(base.rounds, head.rounds) > 1
    return Compared(subject, number, base, head, change, beyond)


def _spread(values: Sequence[float]) -> Spread:
    return Spread(median(values), min(values), max(values), len(values))


def _answers(side: Side, subject: str, how: How) -> list[Answer]:
    """What one round of it tells.

    Raises:
        _Failed: It did not work, or told nothing.
    """
    done = side.bench(subject, *how.flags)
    answers = list(_told(done))
    # A missed limit is status 1, and no failure; a crash is status 1 too.
    crashed = _TRACEBACK in done.err and done.status == 1
    if done.status not in (0, 1) or crashed or not answers:
        raise _Failed(
            f"`python -m bench {' '.join([subject, *how.flags])}` failed in {side.name}"
            f" {side.revision}: {done.last_words}"
        )
    return answers


def _told(done: Ran) -> Iterator[Answer]:
    """The answers among its lines; other revisions print other lines between them."""
    for line in done.out.splitlines():
        try:
            yield msgspec.json.decode(line, type=Answer)
        except msgspec.DecodeError:
            continue


def _numbers(answers: Sequence[Answer]) -> Iterator[tuple[Number, float]]:
    for answer in answers:
        yield Number(answer.name, "value", answer.unit), answer.value
        if answer.ratio is not None:
            yield Number(answer.name, "ratio", "of its floor"), answer.ratio
        for name, value in answer.detail.items():
            if isinstance(value, int | float):
                yield Number(f"{answer.name}: {name}", "detail", ""), float(value)
