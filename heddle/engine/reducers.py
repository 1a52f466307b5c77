"""What becomes of the outputs of a flow that ran for each item of a list.

One row a reducer. Pure functions over the collected values, in the order of the items.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from heddle.engine.faults import OutputMismatch
from heddle.spec import Reduction


def _append(values: Sequence[Any]) -> Any:
    return list(values)


def _average(values: Sequence[Any]) -> Any:
    return sum(values) / len(values)


REDUCERS: Final[Mapping[Reduction, Callable[[Sequence[Any]], Any]]] = {
    "append": _append,
    "sum": sum,
    "average": _average,
    "max": max,
    "min": min,
}

OF_NOTHING: Final = frozenset({"append", "sum"})
"""Reducers that have a value where there was no item: an empty list, and 0."""


def reduce(reduction: Reduction, values: Sequence[Any], *, name: str) -> Any:
    """Collect the values of the output ``name``.

    Raises:
        OutputMismatch: They are no numbers, none at all, or too large together.
    """
    collect = REDUCERS[reduction]
    if reduction == "append":
        return collect(values)
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise OutputMismatch(
                f"{name!r} has a value that is no number, and {reduction!r} takes numbers",
                fix="Append it, or return a number.",
            )
    if not values and reduction not in OF_NOTHING:
        raise OutputMismatch(
            f"there were no items, and nothing is the {reduction!r} of no {name!r}",
            fix="Give the node's output a default, or see that the list is not empty.",
        )
    try:
        found = collect(values)
    except OverflowError:
        found = math.inf
    if isinstance(found, float) and not math.isfinite(found):
        raise OutputMismatch(
            f"the {reduction!r} of {name!r} is too large for a number",
            fix="Append the values, or make them smaller.",
        )
    return found
