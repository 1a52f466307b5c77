"""Options that change how errors are told, which is known before a command runs."""

import click

from heddle.flags import Command


class Settings:
    """What is known before a command runs, for whoever tells its errors."""

    debug: bool = False
    json: bool = False


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


def json_option(command: Command) -> Command:
    """``--json``: what goes to stderr is JSON, an error that ends the program too."""

    def remember(ctx: click.Context, _: click.Parameter, value: bool) -> bool:
        if isinstance(settings := ctx.find_root().obj, Settings):
            settings.json = value
        return value

    return click.option(
        "--json",
        "as_json",
        is_flag=True,
        is_eager=True,
        callback=remember,
        help="Write events to stderr as JSON lines, for scripts.",
    )(command)


def is_debugging() -> bool:
    """Whether the command that runs was given ``--debug``."""
    settings = click.get_current_context().find_root().obj
    return isinstance(settings, Settings) and settings.debug
