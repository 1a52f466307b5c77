import shutil
import subprocess
from collections.abc import Iterator

import click
import pytest

from heddle.cli.commands import heddle as command
from tests.heddle.cli.conftest import Heddle


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(heddle: Heddle, shell: str) -> None:
    done = heddle("completion", shell)
    assert done.status == 0
    assert f"_HEDDLE_COMPLETE={shell}_complete" in done.stdout


def test_another_shell_is_refused(heddle: Heddle) -> None:
    done = heddle("completion", "tcsh")
    assert done.status == 2
    assert "'bash', 'zsh', 'fish'" in done.stderr


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_the_script_is_one_that_bash_reads(heddle: Heddle) -> None:
    script = heddle("completion", "bash").stdout
    read = subprocess.run(["bash", "-n"], input=script.encode(), check=False)
    assert read.returncode == 0


def complete(heddle: Heddle, *words: str) -> list[str]:
    done = heddle(
        environment={
            "_HEDDLE_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(words),
            "COMP_CWORD": str(len(words) - 1),
        }
    )
    assert done.status == 0
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


def options(command: click.Command) -> Iterator[click.Option]:
    """Those of a command and of all below it."""
    yield from (each for each in command.params if isinstance(each, click.Option))
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from options(found)


def test_files_and_folders_are_completed_where_one_is_asked_for() -> None:
    asked = [each for each in options(command) if each.metavar in {"FILE", "DIR"}]
    assert len(asked) > 10
    plain = [each.opts[0] for each in asked if not isinstance(each.type, click.Path)]
    assert plain == []


def test_commands_and_options_are_completed(heddle: Heddle) -> None:
    assert complete(heddle, "heddle", "va") == ["validate"]
    assert complete(heddle, "heddle", "run", "--max-i") == ["--max-iterations"]
