"""What a typed line means at a chat."""

import pytest

from heddle.cli.chat.commands import (
    COMMANDS,
    OTHER_NAMES,
    Command,
    Message,
    help_text,
    read,
)
from heddle.cli.exits import WrongUsage


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_one_and_is_told(name: str) -> None:
    assert read(name) == Command(name)
    assert f"  {name}" in help_text({})


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
    with pytest.raises(WrongUsage, match="Choose from: /help, /retry, /new, /state, /exit"):
        read("/tmp is full")


def test_nothing_goes_after_a_command() -> None:
    with pytest.raises(WrongUsage, match="nothing goes after '/retry'"):
        read("/retry that")


def test_help_has_the_commands_and_the_keys_below_each_other() -> None:
    lines = help_text({"Alt-Enter": "begin a new line"}).splitlines()
    assert lines[0] == "  /help      tell what can be typed"
    assert lines[-2:] == ["", "  Alt-Enter  begin a new line"]
    assert help_text({}).splitlines()[-1] == "  /exit   leave"
