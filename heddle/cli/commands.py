"""The commands there are. Each lives in a module that is imported when it is named."""

import importlib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import click

import heddle as package
from plugins_host import nearest


class Settings:
    """What is known before a command runs, for whoever tells its errors."""

    debug: bool = False


class Listed(NamedTuple):
    """A command as ``heddle --help`` lists it, without importing it."""

    module: str
    summary: str


COMMANDS: Final[Mapping[str, Listed]] = {
    "run": Listed("heddle.cli.run", "Run a flow and print its result as JSON."),
    "validate": Listed("heddle.cli.validate", "Say everything that is wrong with a flow."),
    "init": Listed("heddle.cli.init", "Write a flow and a tool to start from."),
    "completion": Listed("heddle.cli.completion", "Print a shell's completion script."),
}


class Commands(click.Group):
    """A group that knows its commands by a table."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """In the order of the table: the most used first."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(COMMANDS[cmd_name].module).command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Refuse an unknown command with a guess."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            guess = nearest(name, COMMANDS)
            fix = (
                f"Did you mean {guess!r}?"
                if guess
                else f"Choose from: {', '.join(COMMANDS)}."
            )
            ctx.fail(f"No such command {name!r}. {fix}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List them from the table, so that help imports none of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.summary) for name, each in COMMANDS.items()])


def debug_option(function: Any) -> Any:
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
    )(function)


HELP: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 92}


@click.group(
    cls=Commands,
    context_settings=HELP,
    epilog="""\b
Examples:
  heddle init demo
  heddle run flow.json --input '{"question": "why?"}' --tools-dir tools
  heddle run flow.json | jq .result
  heddle validate flow.yaml
""",
)
@click.version_option(package.__version__, message="heddle %(version)s")
def heddle() -> None:
    """Run agent workflows (Agent Spec documents) under an operator's control."""
