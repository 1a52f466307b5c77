"""What a comparison prints: JSON lines for programs, a table for people.

{"compare": {"base": {"revision", "title", "changed"}, "head": {…}, "rounds", "quick"}}
{"subject", "number": {"name", "kind", "unit"},
 "base": {"median", "lowest", "highest", "rounds"}, "head": {…}, "change", "beyond"}
{"subject", "problem"}
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from bench.compare import Compared, How, Problem, Spread
from bench.worktrees import Side

_BEYOND: Final = "beyond noise"
_WIDE: Final = 50
_SPREAD: Final = 34


def header_line(base: Side, head: Side, how: How) -> str:
    """The JSON line that says what is compared."""
    sides = {
        side.name: {
            "revision": side.revision,
            "title": side.title,
            "changed": side.changed,
        }
        for side in (base, head)
    }
    return _line({"compare": {**sides, "rounds": how.rounds, "quick": how.quick}})


def line(result: Compared | Problem) -> str:
    """One result as a JSON line."""
    return _line(result)


def header(base: Side, head: Side, how: How) -> str:
    """The same for people, and what the columns are."""
    noise = (
        f"{_BEYOND}: the ranges do not overlap; by chance alone 1 number in {how.chance}"
    )
    if how.rounds == 1:
        noise = "one round says nothing about noise: ask for more with --rounds"
    small = ", small sizes" if how.quick else ""
    return (
        f"base  {base.told}\nhead  {head.told}\n"
        f"{how.rounds} rounds in turns{small}: median [lowest, highest]\n"
        f"{noise}\n"
    )


def section(subject: str, results: Iterable[Compared | Problem]) -> str:
    """What became of the numbers of one benchmark. Details are in the JSON lines alone."""
    rows = "".join(f"  {row}\n" for result in results for row in _rows(result))
    return f"\n{subject}\n{rows}"


def _rows(result: Compared | Problem) -> Iterator[str]:
    if isinstance(result, Problem):
        yield f"not compared: {result.problem}"
        return
    number, base, head = result.number, result.base, result.head
    if number.kind == "detail":
        return
    name = "  of its floor" if number.kind == "ratio" else number.name
    unit = "x" if number.kind == "ratio" else number.unit
    change = "" if result.change is None else f"{result.change:+.1%}"
    told = _BEYOND if result.beyond else ""
    if base is None or head is None:
        told = f"only {'head' if base is None else 'base'} tells it"
    columns = (
        f"{name:{_WIDE}} ",
        f"{_shown(base):{_SPREAD}} ",
        f"{_shown(head):{_SPREAD}} ",
        f"{unit:13}",
        f"{change:>8}  ",
        told,
    )
    yield "".join(columns).rstrip()


def _shown(spread: Spread | None) -> str:
    if spread is None:
        return "-"
    return f"{spread.median:.4g} [{spread.lowest:.4g}, {spread.highest:.4g}]"


def _line(what: object) -> str:
    return msgspec.json.encode(what).decode() + "\n"
