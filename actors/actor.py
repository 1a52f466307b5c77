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
"""

from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Final, Generic, TypeVar

from actors.address import Address
from actors.endings import Ending
from actors.late import LateReply
from actors.ref import Ref

M = TypeVar("M")

_NOTHING: Final = nullcontext()


class Actor(ABC, Generic[M]):
    """State with one task: only that task runs these methods, one message at a time.

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
        ends. An actor that has none of this pays nothing for it.
        """
        return _NOTHING

    async def drained(self) -> None:
        """Wait for open work, once all messages of an actor that drains are handled.

        A stop cancels the wait. By itself it waits for the answers promised for later.
        """
        await self._address.wait_promises_kept()

    @property
    def ref(self) -> Ref[M]:
        """This actor's own ref, for those whom it tells about itself."""
        return Ref(self._address)

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
