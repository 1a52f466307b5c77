"""The numbers that the benchmarks tell."""

from collections.abc import Iterator

from bench.numbers import NUMBERS, Number
from bench.sizes import QUICK
from bench.subjects import about, module_of, subjects


def page(printed: str) -> Iterator[str]:
    """Its lines."""
    yield "# The numbers of the benchmarks"
    yield ""
    yield printed
    yield ""
    yield "What `python -m bench` tells, and how to read it, is on"
    yield "[a page of its own](../benchmarks.md). A limit is of the ratio of value and"
    yield "floor or, where it is in brackets, of the value itself. `<=` means that less is"
    yield "better."
    for subject in subjects():
        told = about(subject)
        yield ""
        yield f"## `{subject}`"
        yield ""
        yield told.title
        yield ""
        yield f"**Question:** {told.question}"
        yield ""
        yield f"**Workload:** {told.workload}"
        yield ""
        yield f"**Answer:** {told.answer}"
        yield ""
        yield "| number | what it says | floor | limit |"
        yield "|---|---|---|---|"
        for number in NUMBERS[subject]:
            yield f"| `{number.name}` | {number.says} | {number.floor} | {_limit(number)} |"
        yield ""
        module = module_of(subject)
        small = ", ".join(
            f"`{name}` {value} of {getattr(module, name)}"
            for name, value in QUICK[subject].items()
        )
        yield f"With `--quick`: {small}."


def _limit(number: Number) -> str:
    if number.limit is None:
        return ""
    sign = "<=" if number.better == "lower" else ">="
    shown = f"{sign} {number.limit:.3g}"
    return shown if number.of == "ratio" else f"({sign} {number.limit:,.6g})"
