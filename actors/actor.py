"""What one writes to make an actor: a class that receives.

    class Counter(Actor[Add | Read]):
        def __init__(self) -> None:
            self.total = 0

        async def receive(self, message: Add | Read) -> object:
            match message:
                case Add(amount=amount):
                    self.total += amount
                    return None
                case Read():
                    return self.total
                case _:
                    assert_never(message)

Whatever it waits for longer than for a moment is better left to a task of its own, which
`living` starts and which tells the actor by `Actor.cast`.
"""

from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from typing import Any, Final, Generic, TypeVar

from trio.lowlevel import checkpoint, current_task

from actors.address import Address
from actors.endings import Ending
from actors.faults import ActorGone, MailboxFull
from actors.late import LateReply
from actors.ref import Ref

M = TypeVar("M")

_NOTHING: Final = nullcontext()


class Actor(ABC, Generic[M]):
    """State with one task: that task alone runs `receive`, one message at a time.

    An error that leaves `receive` or `living` is a crash: it ends this object, fails its
    open calls, and its supervisor may make another. An expected refusal is an answer.
    """

    __slots__ = ("_address",)

    _address: Address

    @abstractmethod
    async def receive(self, message: M) -> object:
        """Handle one message. What is returned answers a call; of a cast it is dropped."""

    def living(self) -> AbstractAsyncContextManager[object]:
        """What surrounds the actor's life: open a process, a nursery with helper tasks.

        Entered before the first message and left after the last one, however the life
        ends; when it is killed it is left cancelled, so that only what it shields still
        waits. A helper task's error is the actor's crash.
        """
        return _NOTHING

    @property
    def ref(self) -> Ref[M]:
        """This actor's own ref, for those whom it tells about itself."""
        return Ref(self._address)

    async def cast(self, message: M) -> None:
        """Tell itself something, from its task or one that `living` started.

        Unlike a cast by a ref it is handled while the actor drains, and dropped when it
        ends before. Waits for room; cancelled, it has not been sent.

        Raises:
            MailboxFull: It is the actor's own task that would wait for room: forever.
        """
        address = self._address
        if address.mailbox.full and address.task is current_task():
            raise MailboxFull(address.name, address.mailbox.capacity)
        try:
            await address.mailbox.put((message, None))
        except ActorGone:
            await checkpoint()

    def cast_nowait(self, message: M) -> None:
        """Tell itself something without waiting; else like `cast`.

        Raises:
            MailboxFull: There is no room.
        """
        with suppress(ActorGone):
            self._address.mailbox.put_nowait((message, None))

    def stop(self) -> None:
        """End after the message in hand; those that wait are refused."""
        self._address.leave(Ending.STOP)

    def answer_later(self) -> LateReply[Any]:
        """Promise the answer to the call in hand; what `receive` returns is dropped.

        For a message that was cast nobody waits: the promise is not ``open``.
        """
        return self._address.answer_later()

    def attach(self, address: Address) -> None:
        """For who runs the actor: say where it is reached."""
        self._address = address
