"""What a campaign tells: what was done, what came of the runs, what is wrong and how to see
it again."""

from collections import Counter
from typing import Final

from msgspec import Struct

from tests.pressure.disturbances import Done
from tests.pressure.plan import Plan
from tests.pressure.verdicts import Found

SHOWN: Final = 20
"""Findings that are told in full."""


class Report(Struct):
    """All that is known at the end.

    Attributes:
        plan: What was planned.
        began: When the load began, in seconds of trio's clock.
        done: The disturbances in order.
        words: What became of the runs of the clients, by `tests.pressure.verdicts`.
        ways: How those were begun.
        logged: Endings of all runs in the server's log, those of rude clients too.
        found: Runs that suffered what they should not have.
        wrong: What is wrong with the server.
        said: What there was no occasion for, and why.
    """

    plan: Plan
    began: float
    done: list[Done]
    words: Counter[str]
    ways: Counter[str]
    logged: Counter[str]
    found: list[Found]
    wrong: list[str]
    said: list[str]

    @property
    def bad(self) -> bool:
        """Whether anything is wrong."""
        return bool(self.found or self.wrong)

    @property
    def again(self) -> str:
        """The command that does the same again."""
        return f"make chaos SEED={self.plan.seed} SECONDS={self.plan.seconds:g}"

    def text(self) -> str:
        """All of it for a reader."""
        lines = [
            f"seed {self.plan.seed}, {self.plan.seconds:g} s, {self.plan.clients} clients"
        ]
        lines += [f"  {each}" for each in self.said]
        lines += ["", "what was done"]
        lines += [self._step(each) for each in self.done]
        lines += _table("what became of the runs", self.words)
        lines += _table("how they were begun", self.ways)
        lines += _table("endings in the server's log, rude clients' runs too", self.logged)
        if not self.bad:
            return "\n".join([*lines, "", "Nothing was found.", ""])
        lines += ["", f"found: {len(self.found) + len(self.wrong)}"]
        lines += [f"  the server: {each}" for each in self.wrong[:SHOWN]]
        for each in self.found[:SHOWN]:
            lines += self._finding(each)
        return "\n".join([*lines, "", f"The same again: {self.again}", ""])

    def _step(self, done: Done) -> str:
        step = done.step
        length = f"{done.over - done.began:6.2f} s" if step.seconds else " " * 8
        return f"  {done.began - self.began:7.2f} s  {length}  {step.kind}: {done.hit}"

    def _finding(self, found: Found) -> list[str]:
        fate = found.fate
        return [
            f"  run {fate.run or '(its id is not known)'}, {fate.nonce}, from "
            f"{fate.began - self.began:.2f} s to {fate.ended - self.began:.2f} s",
            f"      {found.what}",
            f"      {fate.way}, flow {fate.flow!r}; {fate.who} should {fate.does.value!r}, "
            f"the model is {fate.mode!r}"
            + (f"; its client should {fate.leaves!r}" if fate.leaves else "")
            + ("; over the relay" if fate.relayed else ""),
        ]


def _table(title: str, counts: Counter[str]) -> list[str]:
    return ["", title, *(f"  {count:6}  {name}" for name, count in counts.most_common())]
