"""The page of commands: what each is for, its arguments and every flag, from click."""

from collections.abc import Iterator
from typing import Final

import click

from heddle.cli.commands import Commands, heddle
from heddle.server.command import command as server

OPENING: Final = """\
# Commands and flags

{printed}

`--help` says the same, with examples. `heddle completion bash|zsh|fish` prints
completions for a shell.
"""


def page(printed: str) -> Iterator[str]:
    """The page, line by line."""
    yield OPENING.format(printed=printed)
    for name, each in _all("heddle", heddle):
        yield from _command(name, each)
    yield from _command("heddle-server", server)


def _all(name: str, group: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield name, group
    if isinstance(group, Commands):
        context = click.Context(group)
        for each in group.list_commands(context):
            found = group.get_command(context, each)
            assert found is not None
            yield from _all(f"{name} {each}", found)


def _command(name: str, each: click.Command) -> Iterator[str]:
    context = click.Context(each, info_name=name)
    pieces = " ".join(each.collect_usage_pieces(context))
    yield f"## `{name}`"
    yield ""
    yield f"`{name} {pieces}`".replace(" `", "`")
    yield ""
    for paragraph in (each.help or "").split("\n\n"):
        if text := " ".join(paragraph.replace("\b", "").split()):
            yield text
            yield ""
    records = [
        record
        for parameter in each.get_params(context)
        if (record := parameter.get_help_record(context)) is not None
    ]
    if records:
        yield "| flag | |"
        yield "|---|---|"
        for flag, text in records:
            yield f"| `{_escaped(flag)}` | {_cell(text)} |"
        yield ""


def _escaped(flag: str) -> str:
    return flag.replace("|", "\\|")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
