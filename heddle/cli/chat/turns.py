"""The turns of a chat so far: what the next run is told of them, and the last one again.

    turns.history()  user: Who wrote it?   assistant: Ann did.

Only turns that came to an answer are turns; one that failed or was cancelled leaves
nothing. Each message is there once: the words of the person, what the flow's nodes and
the person said to each other, the answer. Pure.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from heddle.events import MessageSaid
from plugins_host import Message


class Turn(Struct, frozen=True):
    """One exchange. ``result`` is all that the flow returned."""

    said: str
    messages: tuple[Message, ...]
    result: Mapping[str, Any]


class Turns:
    """All of them, in order."""

    def __init__(self) -> None:
        self._turns: list[Turn] = []
        self._said: str | None = None
        self._answered = False

    def history(self) -> list[Message]:
        """What was said, for the agents of the next run."""
        return [message for turn in self._turns for message in turn.messages]

    @property
    def result(self) -> Mapping[str, Any] | None:
        """What the flow returned last."""
        return self._turns[-1].result if self._turns else None

    def begin(self, said: str) -> None:
        """A turn begins."""
        self._said, self._answered = said, False

    def settle(
        self, answer: str, result: Mapping[str, Any], heard: Iterable[MessageSaid] = ()
    ) -> None:
        """It came to an answer. ``heard`` is what was said in between."""
        assert self._said is not None
        messages = [Message("user", self._said)]
        messages += [
            Message("assistant" if each.sender == "agent" else "user", each.message)
            for each in heard
        ]
        last = messages[-1]
        if answer and not (last.role == "assistant" and last.content == answer):
            messages.append(Message("assistant", answer))
        self._turns.append(Turn(self._said, tuple(messages), result))
        self._answered = True

    def take_back(self) -> str | None:
        """Forget the last turn if it was answered.

        Returns:
            What was said in it, to be said again; None before the first turn.
        """
        if self._answered:
            self._turns.pop()
            self._answered = False
        return self._said
