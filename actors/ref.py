"""A ref: what the rest of the program holds of an actor."""

from typing import Generic, TypeVar

from trio.lowlevel import current_task

from actors.address import Address, Ended
from actors.endings import Ending
from actors.faults import ActorCalledItself, MailboxFull
from actors.messages import Call
from actors.slots import ReplySlot

M_contra = TypeVar("M_contra", contravariant=True)
R = TypeVar("R")


class Ref(Generic[M_contra]):
    """The address of an actor that understands messages of type ``M``.

    It stays valid when the actor is started again; what is sent while that is awaited is
    kept for the new one. It may be held after the end: then all sending raises
    `ActorGone`. Refs to one actor are equal.
    """

    __slots__ = ("_address", "_mailbox")

    def __init__(self, address: Address) -> None:
        self._address = address
        self._mailbox = address.mailbox

    @property
    def name(self) -> str:
        """What the actor and its task are called."""
        return self._address.name

    @property
    def ended(self) -> Ended | None:
        """How it ended; None while it lives or is about to be started again."""
        return self._address.ended

    async def call(self, message: Call[R]) -> R:
        """Send a message and wait for its answer, and for room in the mailbox before.

        Type checkers know the answer from the message, but not whether this actor takes
        that message: keep the messages of an actor in its module.

        Cancelled, the call is withdrawn: the actor skips a message that it has not yet
        begun, and drops the answer to one that it has. What must happen either way is
        a `cast`.

        Raises:
            ActorGone: The actor has ended, or ends before it answers.
            ActorCrashed: It failed before it answered; ``__cause__`` says how.
            ActorCalledItself: The caller is the actor's own task.
        """
        address = self._address
        if address.task is current_task():
            raise ActorCalledItself(address.name)
        if address.asked is not None:
            raise address.refusal()
        slot: ReplySlot[R] = ReplySlot()
        mailbox = self._mailbox
        if mailbox.full:
            await mailbox.put((message, slot))
        else:
            mailbox.put_nowait((message, slot))
        return await slot.wait()

    async def cast(self, message: M_contra) -> None:
        """Send a message, waiting for room. Cancelled, it has not been sent.

        A `Call` that is cast is handled; its answer goes nowhere.

        Raises:
            ActorGone: The actor has ended or is ending, or ended before there was room.
            MailboxFull: It is the actor's own task that would wait for room: forever.
        """
        address = self._address
        if address.asked is not None:
            raise address.refusal()
        if self._mailbox.full and address.task is current_task():
            raise MailboxFull(address.name, self._mailbox.capacity)
        await self._mailbox.put((message, None))

    def cast_nowait(self, message: M_contra) -> None:
        """Send a message without waiting.

        Raises:
            MailboxFull: There is no room.
            ActorGone: The actor has ended or is ending.
        """
        if self._address.asked is not None:
            raise self._address.refusal()
        self._mailbox.put_nowait((message, None))

    def end(self, ending: Ending) -> None:
        """Ask the actor to end; see `Ending`. It is not started again.

        Does not wait: `wait_ended` does. A greater ending overrules a lesser one.
        """
        self._address.end(ending)

    async def wait_ended(self) -> Ended:
        """Wait until the actor has ended and is not started again."""
        return await self._address.wait_ended()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ref) and other._address is self._address

    def __hash__(self) -> int:
        return hash(self._address)

    def __repr__(self) -> str:
        return f"<Ref {self.name!r}>"
