"""Where an actor is reached: its mailbox, the answers it owes, and how it stands.

It is what an actor's refs and the task that runs it have in common. Refs use it to send,
to ask for an end and to wait for it; the runner to receive and to tell the end. It
outlives the actor, and stays the same when a supervisor starts the actor again.
"""

from typing import Any

import trio
from msgspec import Struct

from actors.endings import ENDINGS, Ending
from actors.faults import ActorCrashed, ActorGone, sole_cause
from actors.late import LateReply, Promises
from actors.mailbox import Mailbox
from actors.restarts import Exit
from actors.slots import ReplySlot

Envelope = tuple[Any, "ReplySlot[Any] | None"]
"""A message, and the slot of who waits for its answer."""


class Ended(Struct, frozen=True):
    """How an actor ended for good; ``error`` is what it crashed with."""

    exit: Exit
    error: Exception | None = None


class Address:
    """Where the actor called ``name`` is reached.

    Attributes:
        asked: The ending that somebody asked for; None while nobody did. From then on
            refs send nothing; a mailbox that is still open is the actor's own.
        ended: How it ended; None while it lives or is about to be started again.
        error: What it crashed with, from the crash until it is started again.
        in_hand: The slot of the call that is being handled.
        promises: Answers that it owes for later; None until it first promised one.
        task: The task it runs in, while it runs.
    """

    __slots__ = (
        "_gone",
        "_resting",
        "_scope",
        "asked",
        "ended",
        "error",
        "in_hand",
        "mailbox",
        "name",
        "promises",
        "task",
    )

    def __init__(self, name: str, capacity: int) -> None:
        self.name = name
        self.mailbox: Mailbox[Envelope] = Mailbox(name, capacity)
        self.asked: Ending | None = None
        self.ended: Ended | None = None
        self.error: Exception | None = None
        self.in_hand: ReplySlot[Any] | None = None
        self.promises: Promises | None = None
        self.task: trio.lowlevel.Task | None = None
        self._scope: trio.CancelScope | None = None
        self._resting = False
        self._gone: trio.Event | None = None

    # For refs

    def end(self, ending: Ending) -> None:
        """Ask the actor to end this way. Less than was asked before changes nothing."""
        if self.ended is None and (self.asked is None or self.asked < ending):
            self.asked = ending
            self.leave(ending)

    async def wait_ended(self) -> Ended:
        """Wait until it has ended for good, and is not started again."""
        if self.ended is None:
            if self._gone is None:
                self._gone = trio.Event()
            await self._gone.wait()
            assert self.ended is not None
        else:
            await trio.lowlevel.checkpoint()
        return self.ended

    def refusal(self) -> Exception:
        """A new error for one sender or caller that gets nothing from this actor."""
        if self.error is not None:
            return ActorCrashed(self.name, self.error)
        return ActorGone(self.name, "has ended" if self.ended else "is ending")

    # For the actor and for who runs it

    @property
    def finished(self) -> bool:
        """Whether an actor that drains has nothing left to do."""
        return self.asked is Ending.DRAIN and not self.mailbox and not self.promises

    def leave(self, ending: Ending) -> None:
        """End this way: turn away what is not finished, and wake who shall end."""
        finishes = ENDINGS[ending]
        # First of all, or an idle actor would end for the closed mailbox, as if by itself.
        if self._scope is not None and (self._resting or not finishes.in_hand):
            self._scope.cancel()
        if finishes.waiting:
            self.mailbox.wake()
            return
        self.mailbox.close(self.refusal)
        if finishes.in_hand:
            self._refuse_waiting()
        else:
            self.refuse_open()

    def answer_later(self) -> LateReply[Any]:
        """Take the answer to the call in hand out of the hands of the message loop."""
        if self.promises is None:
            self.promises = Promises(self.mailbox.wake)
        slot = self.in_hand
        if slot is None:  # A cast: nobody waits.
            slot = ReplySlot()
            slot.withdraw()
        self.in_hand = None
        return LateReply(self.promises, slot)

    def interruptible(self) -> trio.CancelScope:
        """The scope that the actor runs in: left at once when it is killed."""
        self._scope = trio.CancelScope()
        if self.asked is Ending.KILL:
            self._scope.cancel()
        return self._scope

    async def rest(self, seconds: float) -> bool:
        """Wait before another start. False: it was asked to end meanwhile."""
        self.error = None
        self.mailbox.reopen()
        self._resting = True
        with trio.CancelScope() as self._scope:
            await trio.sleep(seconds)
        self._resting = False
        return self.asked is None

    def crash(self, error: Exception) -> None:
        """It failed: tell everybody who waits for an answer."""
        self.error = sole_cause(error)
        self.refuse_open()

    def finish(self, ended: Ended) -> None:
        """It has ended for good: tell everybody who waits for that, or for an answer."""
        self.ended = ended
        self.error = ended.error
        self.mailbox.close(self.refusal)
        self.refuse_open()
        self._scope = None
        if self._gone is not None:
            self._gone.set()

    def refuse_open(self) -> None:
        """Fail every call that was accepted and not answered."""
        if self.in_hand is not None:
            self.in_hand.fail(self.refusal())
            self.in_hand = None
        if self.promises is not None:
            self.promises.fail(self.refusal)
        self._refuse_waiting()

    def _refuse_waiting(self) -> None:
        for _, slot in self.mailbox.clear(self.refusal):
            if slot is not None:
                slot.fail(self.refusal())
