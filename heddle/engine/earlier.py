"""The turns before a run: as its state carries them, and as agents are sent them.

    {"_chat_history": [{"role": "user", "content": "Who wrote it?"},
                       {"role": "assistant", "content": "Ann did."}]}

The state is the one place where they are: agents read them from the input of their node,
templates by the name. What a run says and hears itself is its `Conversation`, and never
here, so that nothing is sent twice.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import msgspec

from heddle.engine.faults import InputMismatch
from heddle.engine.graph import CHAT_HISTORY
from plugins_host import Message


class Said(msgspec.Struct, frozen=True):
    """One message of an earlier turn, as the state has it."""

    role: Literal["user", "assistant"]
    content: str


_SAID: Final = list[Said]


def as_state(history: Iterable[Message]) -> list[dict[str, Any]]:
    """Messages as the state carries them."""
    return [{"role": each.role, "content": each.content} for each in history]


def earlier(given: Mapping[str, Any]) -> list[Message]:
    """The earlier turns in a node's input, as messages; none outside a conversation.

    Raises:
        InputMismatch: A policy made something else of them.
    """
    if CHAT_HISTORY not in given:
        return []
    try:
        said = msgspec.convert(given[CHAT_HISTORY], _SAID)
    except msgspec.ValidationError as error:
        raise InputMismatch(
            f"input {CHAT_HISTORY!r} is no list of messages: {error}",
            fix='Keep to {"role": "user" or "assistant", "content": text}.',
        ) from error
    return [Message(each.role, each.content) for each in said]


def handed_in(given: Mapping[str, Any]) -> dict[str, Any]:
    """What of a node's input a flow that shares its conversation is given as well."""
    return {CHAT_HISTORY: given[CHAT_HISTORY]} if CHAT_HISTORY in given else {}
