"""What may be typed at a chat: its commands, and how they are told from messages.

    /retry          a command
    /retyr          none: refused, with a guess
    //usr is full   the message ``/usr is full``
    /usr/bin/env    a message: no command has a second slash

Pure.
"""

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from heddle.cli.exits import WrongUsage
from plugins_host import one_of

COMMANDS: Final[Mapping[str, str]] = {
    "/help": "tell what can be typed",
    "/retry": "take the last turn back and ask again",
    "/new": "forget the turns so far: a new conversation begins",
    "/state": "show the last result, and what the next turn begins with",
    "/exit": "leave",
}
"""What is typed → what it does, as `/help` tells it."""

OTHER_NAMES: Final = {"/quit": "/exit", "/?": "/help"}

_COMMAND: Final = re.compile(r"(/(?:\w+|\?))(?:\s+(.*))?", re.DOTALL)


class Message(Struct, frozen=True):
    """Something for the flow."""

    text: str


class Command(Struct, frozen=True):
    """Something for the chat itself; one of `COMMANDS`."""

    name: str


def read(typed: str) -> Message | Command:
    """What was typed, as what it means.

    Raises:
        WrongUsage: It looks like a command, and is none.
    """
    if typed.startswith("//"):
        return Message(typed[1:])
    found = _COMMAND.fullmatch(typed)
    if found is None:
        return Message(typed)
    word, rest = found[1], found[2]
    name = OTHER_NAMES.get(word, word)
    if name not in COMMANDS:
        raise WrongUsage(
            f"there is no command {word!r}",
            fix=f"{one_of(word, COMMANDS)} A message may begin with //.",
        )
    if rest:
        raise WrongUsage(f"nothing goes after {word!r}", fix=f"Type {word} alone.")
    return Command(name)


def help_text(keys: Mapping[str, str]) -> str:
    """What can be typed, as text: the commands, and what ``keys`` do."""
    width = max(map(len, (*COMMANDS, *keys)))
    tables = (COMMANDS, keys) if keys else (COMMANDS,)
    return "\n\n".join(
        "\n".join(f"  {name:{width}}  {does}" for name, does in table.items())
        for table in tables
    )
