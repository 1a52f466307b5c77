"""The types of values on a command line, for all programs of heddle."""

import math
from typing import Any, Final

import click


class Milliseconds(click.ParamType[float]):
    """A length of time above 0, as seconds once it is read."""

    name = "milliseconds"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read it. A default is written in milliseconds too."""
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not 0 < number < math.inf:
            self.fail(f"{value!r} is not a number of milliseconds above 0.", param, ctx)
        return number / 1000


MILLISECONDS: Final = Milliseconds()
COUNT: Final = click.IntRange(min=1)
