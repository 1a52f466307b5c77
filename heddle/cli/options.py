"""Options that several commands have, and the types of their values."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from heddle.flags import COUNT, MILLISECONDS, VARIABLE

__all__ = [
    "COUNT",
    "MILLISECONDS",
    "Settings",
    "debug_option",
    "is_debugging",
    "plugin_options",
    "plugin_settings_options",
    "plugin_timeout_option",
]

Command = TypeVar("Command", bound=Callable[..., Any])


class Settings:
    """What is known before a command runs, for whoever tells its errors."""

    debug: bool = False


def debug_option(command: Command) -> Command:
    """``--debug``, which every command has."""

    def remember(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        if isinstance(settings := ctx.find_root().obj, Settings):
            settings.debug = value

    return click.option(
        "--debug",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=remember,
        help="Show a traceback with an error.",
    )(command)


def is_debugging() -> bool:
    """Whether the command that runs was given ``--debug``."""
    settings = click.get_current_context().find_root().obj
    return isinstance(settings, Settings) and settings.debug


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
        help="A plugin's manifest or Python module. Repeat it: they are asked in order.",
    )(plugin_settings_options(command))


def plugin_timeout_option(default: int) -> Callable[[Command], Command]:
    """``--plugin-timeout``, which is ``default`` milliseconds when it is not given."""
    return click.option(
        "--plugin-timeout",
        metavar="MS",
        type=MILLISECONDS,
        default=default,
        show_default=True,
        help="Silence after which a plugin call is given up.",
    )
