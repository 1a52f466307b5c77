"""Flags that the command line and the server share: fields of `RunOptions`."""

import click
from click.testing import CliRunner

from heddle.flags import engine_options
from heddle.launch import RunOptions

OF_EACH_RUN = {"inputs", "stream", "trace"}


def parsed(*arguments: str) -> RunOptions:
    """What the shared flags make of some arguments."""
    seen: list[RunOptions] = []

    @click.command()
    @engine_options
    def command(**engine: object) -> None:
        seen.append(RunOptions(**engine))  # type: ignore[arg-type]  the flags have the types

    done = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return seen[0]


def test_without_a_flag_an_engine_is_opened_as_a_program_would_open_it() -> None:
    assert parsed() == RunOptions()


def test_each_option_of_an_engine_has_its_flag() -> None:
    @click.command()
    @engine_options
    def command(**_: object) -> None:
        """Nothing."""

    flags = {parameter.name for parameter in command.params}
    assert flags == set(RunOptions.__struct_fields__) - OF_EACH_RUN


def test_times_are_written_in_milliseconds_and_kept_in_seconds() -> None:
    options = parsed("--timeout", "1500", "--tool-timeout", "20", "--plugin-timeout", "0.5")
    assert (options.timeout, options.tool_timeout, options.plugin_timeout) == (
        1.5,
        0.02,
        0.0005,
    )


def test_plugins_keep_the_order_of_their_flags() -> None:
    assert parsed("--plugin", "b.json", "--plugin", "a.json").plugins == (
        "b.json",
        "a.json",
    )
