"""What a run of benchmarks prints: JSON lines for programs, a table for people.

{"machine": {"python", "system", "processor", "cores", "trio", …}}
{"about": {"subject", "title", "question", "workload", "answer"}}
{"name", "value", "unit", "floor", "ratio", "limit", "better", "detail"}   and so on
{"failed", "reason"}   in place of what a benchmark could not tell any more
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from bench.harness import Answer
from bench.subjects import About

_VERDICTS: Final[Mapping[bool | None, str]] = {True: "met", False: "MISSED", None: ""}


def line(what: Struct | Mapping[str, Mapping[str, str]]) -> str:
    """One JSON line."""
    shown = {"about": what} if isinstance(what, About) else what
    return msgspec.json.encode(shown).decode() + "\n"


def table(answers: Iterable[Answer]) -> str:
    """The answers as aligned lines: value, floor, ratio, limit and whether it is met."""
    return "\n".join(_row(answer) for answer in answers)


def section(about: About, answers: Iterable[Answer]) -> str:
    """What is asked, and the answers below it."""
    return f"\n{about.subject}: {about.question}\n{table(answers)}\n"


def summary(answers: Iterable[Answer]) -> str:
    """How many limits there are, and which were missed."""
    limits = [answer for answer in answers if answer.met is not None]
    missed = [answer.name for answer in limits if not answer.met]
    told = f"{len(limits) - len(missed)} of {len(limits)} limits met"
    return f"\n{told}{'; missed: ' if missed else ''}{', '.join(missed)}\n"


def _row(answer: Answer) -> str:
    measured = f"{answer.value:12.4g} {answer.unit}"
    floor = "" if answer.floor is None else f"floor {answer.floor:.4g}"
    ratio = "" if answer.ratio is None else f"{answer.ratio:.2f} x"
    sign = "<=" if answer.better == "lower" else ">="
    limit = "" if answer.limit is None else f"{sign} {answer.limit:.4g}"
    columns = (
        f"  {answer.name:44}",
        f"{measured:33} ",
        f"{floor:17}",
        f"{ratio:>9}  ",
        f"{limit:10}",
        f"{_VERDICTS[answer.met]:7}",
        " ".join(_details(answer)),
    )
    return "".join(columns).rstrip()


def _details(answer: Answer) -> Iterator[str]:
    for name, value in answer.detail.items():
        shown = f"{value:.4g}" if isinstance(value, float) else f"{value}"
        yield f"{name}={shown}"
