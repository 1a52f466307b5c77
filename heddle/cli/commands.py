"""The commands there are. Each lives in a module that is imported when it is named."""

import importlib
from collections.abc import Mapping
from typing import Final, NamedTuple

import click

import heddle as package
from plugins_host import nearest


class Listed(NamedTuple):
    """A command as help lists it, without importing it."""

    module: str
    summary: str


class Commands(click.Group):
    """A group that knows its commands by a table, ``listed``."""

    listed: Mapping[str, Listed] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """In the order of the table: the most used first."""
        return list(self.listed)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command."""
        if cmd_name not in self.listed:
            return None
        command = importlib.import_module(self.listed[cmd_name].module).command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Refuse an unknown command with a guess."""
        name = args[0]
        if name not in self.listed and not name.startswith("-"):
            guess = nearest(name, self.listed)
            fix = (
                f"Did you mean {guess!r}?"
                if guess
                else f"Choose from: {', '.join(self.listed)}."
            )
            ctx.fail(f"No such command {name!r}. {fix}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List them from the table, so that help imports none of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.summary) for name, each in self.listed.items()])


class TopCommands(Commands):
    """What can follow ``heddle``."""

    listed = {  # noqa: RUF012  never changed
        "run": Listed("heddle.cli.run", "Run a flow and print its result as JSON."),
        "validate": Listed(
            "heddle.cli.validate", "Say everything that is wrong with a flow."
        ),
        "graph": Listed("heddle.cli.graph", "Draw a flow, and where policies are asked."),
        "explain": Listed(
            "heddle.cli.explain", "Say who is asked where, and with which settings."
        ),
        "init": Listed("heddle.cli.init", "Write a flow and a tool to start from."),
        "plugin": Listed("heddle.cli.plugin", "Work on plugins."),
        "completion": Listed("heddle.cli.completion", "Print a shell's completion script."),
    }


HELP: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 92}


@click.group(
    cls=TopCommands,
    context_settings=HELP,
    epilog="""\b
Examples:
  heddle init demo
  heddle run flow.json --input '{"question": "why?"}' --tools-dir tools
  heddle run flow.json | jq .result
  heddle validate flow.yaml
  heddle graph flow.yaml -o flow.svg
  heddle explain flow.json --plugin gate.json
""",
)
@click.version_option(package.__version__, message="heddle %(version)s")
def heddle() -> None:
    """Run agent workflows (Agent Spec documents) under an operator's control."""
