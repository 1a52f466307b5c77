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


class Count(click.IntRange):
    """A whole number from 1."""

    name = "whole number"

    def __init__(self) -> None:
        super().__init__(min=1)


class Variable(click.ParamType[str]):
    """The name of a variable of the environment, without its value."""

    name = "variable"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """Refuse what no variable is called."""
        name = str(value)
        if not name or "=" in name:
            self.fail(
                f"{name!r} is not the name of a variable. Set it in the environment of "
                "heddle, and give its name alone.",
                param,
                ctx,
            )
        return name


MILLISECONDS: Final = Milliseconds()
COUNT: Final = Count()
VARIABLE: Final = Variable()
