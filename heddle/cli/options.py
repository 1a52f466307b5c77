"""``--debug``, which every command has, and what is known before a command runs."""

import click

from heddle.flags import Command


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
