"""``heddle plugin``: what authors of plugins need."""

import click

from heddle.cli.commands import Commands, Listed


class PluginCommands(Commands):
    """What can follow ``heddle plugin``."""

    listed = {  # noqa: RUF012  never changed
        "check": Listed(
            "heddle.cli.plugin_check", "Ask a plugin all that its manifest promises."
        ),
        "new": Listed("heddle.cli.plugin_new", "Write a plugin, its manifest and a test."),
    }


@click.group("plugin", cls=PluginCommands)
def command() -> None:
    """Work on plugins."""
