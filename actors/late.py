"""Answers that an actor promised and gives after it has returned from the message.

    late = self.answer_later()      in receive: the caller goes on waiting
    late.set(answer)                when there is one, from any task of the actor

The actor's `Promises` are what it still owes, so that its end leaves nobody waiting.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from actors.slots import ReplySlot

R = TypeVar("R")


class Promises:
    """The late answers of one actor that somebody still waits for.

    Args:
        on_kept: Called whenever nothing is owed any more.
    """

    __slots__ = ("_on_kept", "_open")

    def __init__(self, on_kept: Callable[[], object]) -> None:
        self._on_kept = on_kept
        self._open: dict[ReplySlot[Any], None] = {}

    def __len__(self) -> int:
        """How many answers are owed."""
        return len(self._open)

    def add(self, slot: ReplySlot[Any]) -> None:
        """The answer to this open slot is owed from now on."""
        self._open[slot] = None
        slot.on_withdrawn = lambda: self.discard(slot)

    def discard(self, slot: ReplySlot[Any]) -> None:
        """It is owed no more: it was given, or nobody waits for it."""
        if slot in self._open:
            del self._open[slot]
            slot.on_withdrawn = None
            if not self._open:
                self._on_kept()

    def fail(self, refusal: Callable[[], Exception]) -> None:
        """Answer all that is owed with an error, a new one each."""
        for slot in tuple(self._open):
            slot.fail(refusal())
            self.discard(slot)


class LateReply(Generic[R]):
    """The answer to a call, given after `Actor.receive` has returned.

    Should the actor end first, the caller is told that it is gone.
    """

    __slots__ = ("_promises", "_slot")

    def __init__(self, promises: Promises, slot: ReplySlot[R]) -> None:
        self._promises = promises
        self._slot = slot
        if slot.open:
            promises.add(slot)

    @property
    def open(self) -> bool:
        """Whether somebody still waits for it."""
        return self._slot.open

    def set(self, value: R) -> bool:
        """Answer. False when nobody waits any more."""
        self._promises.discard(self._slot)
        return self._slot.set(value)

    def fail(self, error: Exception) -> bool:
        """Answer with an error, raised where the call was made; else like `set`."""
        self._promises.discard(self._slot)
        return self._slot.fail(error)
