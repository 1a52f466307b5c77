"""Flags that several programs of heddle have, and the types of their values.

`engine_options` are those that become `heddle.launch.RunOptions`: a parameter of each
name, so that a limit is declared here and there, and in no command.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from plugins_host import nearest

if TYPE_CHECKING:
    _Choice = click.Choice[str]
else:  # older ones are not generic
    _Choice = click.Choice

Command = TypeVar("Command", bound=Callable[..., Any])


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


class GuessedChoice(_Choice):
    """A choice of words that has a guess for one that it does not know."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """The word; says what was meant where it is none of them."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            guess = nearest(str(value), [str(each) for each in self.choices])
            if guess is None:
                raise
            self.fail(f"{error.message} Did you mean {guess!r}?", param, ctx)


MILLISECONDS: Final = Milliseconds()
COUNT: Final = Count()
VARIABLE: Final = Variable()


def plugin_settings_options(command: Command) -> Command:
    """What plugins are given: ``plugin_config`` and ``plugin_env``."""
    command = click.option(
        "--plugin-env",
        metavar="NAME",
        type=VARIABLE,
        multiple=True,
        help="A variable of the environment that plugins may see. Repeat it.",
    )(command)
    return click.option(
        "--plugin-config",
        metavar="TYPE=JSON|TYPE=@FILE",
        multiple=True,
        help="Settings of one middleware. Repeat it.",
    )(command)


def plugin_options(command: Command) -> Command:
    """Which plugins there are, ``plugins``, and what they are given."""
    return click.option(
        "--plugin",
        "plugins",
        metavar="FILE",
        multiple=True,
        type=click.Path(),
        help="A plugin's manifest or Python module. Repeat it: they are asked in order.",
    )(plugin_settings_options(command))


def format_option(command: Command) -> Command:
    """``--format``: how a document is written, whatever its extension says."""
    return click.option(
        "--format",
        "format_",
        metavar="NAME",
        help="How the flow is written: json, yaml, or what a plugin reads.  "
        "[default: by extension]",
    )(command)


def flow_format_option(command: Command) -> Command:
    """``--flow-format``: the same where ``--format`` is that of what comes out."""
    return click.option(
        "--flow-format",
        metavar="NAME",
        help="How the flow is written: json, yaml, or what a plugin reads.  "
        "[default: by extension]",
    )(command)


def components_option(
    text: str = "Components and values that the flow refers to. Repeat it.",
) -> Callable[[Command], Command]:
    """``--components``: what a document refers to and does not define."""
    return click.option(
        "--components", metavar="FILE", multiple=True, type=click.Path(), help=text
    )


def plugin_timeout_option(default: int) -> Callable[[Command], Command]:
    """``--plugin-timeout``, which is ``default`` milliseconds when it is not given."""
    return _time(
        "--plugin-timeout", default, "Silence after which a plugin call is given up."
    )


def engine_options(command: Command) -> Command:
    """What an engine is opened with: tools, plugins and limits."""
    for option in reversed(_ENGINE):
        command = option(command)
    return command


def limit_options(command: Command) -> Command:
    """The limits of a run, for what speaks of them and runs nothing."""
    for option in reversed((*_LIMITS, plugin_timeout_option(30_000))):
        command = option(command)
    return command


def _time(name: str, default: int, text: str) -> Callable[[Command], Command]:
    return click.option(
        name,
        metavar="MS",
        type=MILLISECONDS,
        default=default,
        show_default=True,
        help=text,
    )


def _count(name: str, default: int, text: str) -> Callable[[Command], Command]:
    return click.option(
        name, metavar="N", type=COUNT, default=default, show_default=True, help=text
    )


_LIMITS: Final[tuple[Callable[[Any], Any], ...]] = (
    _time("--tool-timeout", 30_000, "Time for one execution of a tool."),
    _time("--timeout", 300_000, "Time for a whole run."),
    _count("--max-iterations", 50, "Node executions in a run."),
    _count("--max-node-attempts", 3, "Attempts at a node each time a run arrives there."),
)

_ENGINE: Final[tuple[Callable[[Any], Any], ...]] = (
    click.option(
        "--tools-dir",
        metavar="DIR",
        type=click.Path(),
        help="Folder of tool executables; a tool is named as its file without extension.",
    ),
    click.option(
        "--max-tools",
        metavar="N",
        type=COUNT,
        help="Tools that run at a time.  [default: 4 for each core]",
    ),
    click.option(
        "--discover-tools",
        is_flag=True,
        help="Let plugins say themselves which tools they have.",
    ),
    *_LIMITS,
    plugin_options,
    plugin_timeout_option(30_000),
)
