"""``heddle completion``: the script that makes a shell complete heddle's arguments."""

import click

from heddle.cli.commands import heddle
from heddle.cli.options import debug_option
from heddle.flags import GuessedChoice

SHELLS = ("bash", "zsh", "fish")


@click.command(
    "completion",
    short_help="Print a shell's completion script.",
    epilog="""\b
Examples:
  source <(heddle completion bash)
  heddle completion zsh > "${fpath[1]}/_heddle"
  heddle completion fish > ~/.config/fish/completions/heddle.fish
""",
)
@click.argument("shell", type=GuessedChoice(SHELLS))
@debug_option
def command(shell: str) -> None:
    """Print the script that completes heddle's arguments in SHELL."""
    from click.shell_completion import ShellComplete, get_completion_class

    complete = get_completion_class(shell)
    assert complete is not None
    # Past the class's own source(): that one starts bash to ask for its version.
    click.echo(ShellComplete.source(complete(heddle, {}, "heddle", "_HEDDLE_COMPLETE")))
