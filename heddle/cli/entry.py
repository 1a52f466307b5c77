"""The way in and out of the command line: arguments in, exit status out.

Whatever a command raises ends here, told in one paragraph on stderr. A traceback is
shown only with ``--debug``.
"""

import os
import select
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper

import click

from heddle import standard_streams
from heddle.cli import first_light
from heddle.cli.commands import heddle
from heddle.cli.exits import Interrupted, WrongUsage, status_of, told
from heddle.cli.options import Settings
from heddle.cli.text.wording import fit
from heddle.cli.text.wrapping import width_of_stderr, wrapped
from plugins_host import shortage


def main(arguments: Sequence[str]) -> int:
    """Run one command; its exit status."""
    standard_streams.keep()
    for stream in (sys.stdout, sys.stderr):
        # A locale without the character at hand is no reason to fail.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    settings = Settings()
    try:
        return _run(arguments, settings)
    finally:
        first_light.clear()


def _run(arguments: Sequence[str], settings: Settings) -> int:
    try:
        result = heddle.main(
            list(arguments), prog_name="heddle", standalone_mode=False, obj=settings
        )
        sys.stdout.flush()
    except click.ClickException as error:
        # It gives up before it has read the options behind the one at fault.
        if settings.json or (arguments[:1] == ["run"] and "--json" in arguments):
            say(as_json(WrongUsage(error.format_message())))
        else:
            say(usage(error))
        return error.exit_code
    except SystemExit:  # completion, and click itself when nobody reads its help
        raise
    except BaseException as error:  # noqa: BLE001  the last handler there is
        return _end(only(error), settings)
    # a command's own status, or that of --help and --version
    return result if isinstance(result, int) else 0


def _end(error: BaseException, settings: Settings) -> int:
    if isinstance(error, click.exceptions.Abort):
        error = KeyboardInterrupt()
    if isinstance(error, OSError) and standard_streams.of_stdout(error):
        error = standard_streams.output_failed(error)
        standard_streams.give_up_stdout()
    if settings.debug:
        import traceback

        say("".join(traceback.format_exception(error)).rstrip())
    error = shortage(error) or error
    text = as_json(error) if settings.json else told(error, width_of_stderr())
    say(text, patience=0.2 if isinstance(error, Interrupted) else None)
    return status_of(error)


def as_json(error: BaseException) -> str:
    """An error as the last of the lines that ``--json`` is for."""
    from heddle.cli.reporting.frames import error_frame

    return error_frame(error).decode().rstrip("\n")


def only(error: BaseException) -> BaseException:
    """The exception that groups of one were put around."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def usage(error: click.ClickException) -> str:
    """What click has to say, with the way to more help."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return error.format_message()
    lines = []
    if isinstance(error, click.UsageError) and error.ctx is not None:
        lines = [error.ctx.get_usage(), f"Help: {error.ctx.command_path} --help"]
    said = wrapped(f"Error: {fit(error.format_message())}", width_of_stderr())
    return "\n".join((*lines, *said))


def say(text: str, *, patience: float | None = None) -> None:
    """Print to stderr, unless nobody reads it within ``patience`` seconds."""
    if sys.stderr is None:
        return
    if patience is not None and not select.select([], [2], [], patience)[1]:
        return
    first_light.clear()
    # Whatever cannot be told now may not be tried again when the interpreter ends.
    with suppress(OSError):
        os.write(2, (text + "\n").encode(errors="backslashreplace"))
