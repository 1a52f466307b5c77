"""What a typed line means at a chat."""

import pytest

from heddle.cli.chat_commands import (
    COMMANDS,
    OTHER_NAMES,
    Command,
    Message,
    commands_told,
    read,
)
from heddle.cli.exits import WrongUsage


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_one_and_is_told(name: str) -> None:
    assert read(name) == Command(name)
    assert f"  {name}" in commands_told()


@pytest.mark.parametrize(("name", "stands_for"), OTHER_NAMES.items())
def test_other_names_stand_for_commands(name: str, stands_for: str) -> None:
    assert stands_for in COMMANDS
    assert read(name) == Command(stands_for)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("hello", "hello"),
        ("a /retry", "a /retry"),
        ("/usr/bin/env", "/usr/bin/env"),
        ("/etc/passwd is\nlong", "/etc/passwd is\nlong"),
        ("//retry", "/retry"),
        ("///", "//"),
        ("/", "/"),
        ("/ retry", "/ retry"),
        ("/*", "/*"),
    ],
)
def test_anything_else_is_a_message(typed: str, said: str) -> None:
    assert read(typed) == Message(said)


def test_a_typo_gets_a_guess_and_anything_else_the_choices() -> None:
    with pytest.raises(WrongUsage) as caught:
        read("/retyr")
    assert str(caught.value) == (
        "there is no command '/retyr'. Did you mean '/retry'? A message may begin with //."
    )
    with pytest.raises(WrongUsage, match="Choose from: /help, /retry, /state, /exit"):
        read("/tmp is full")


def test_nothing_goes_after_a_command() -> None:
    with pytest.raises(WrongUsage, match="nothing goes after '/retry'"):
        read("/retry that")
