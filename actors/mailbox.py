"""A bounded queue that many tasks put into and one task takes from.

Messages come out in the order they went in. Who finds no room waits in line, and nobody
overtakes the line. Everything here that does not wait is an ordinary function.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from outcome import Error, Value
from trio.lowlevel import (
    Abort,
    RaiseCancelT,
    Task,
    cancel_shielded_checkpoint,
    checkpoint,
    checkpoint_if_cancelled,
    current_task,
    enable_ki_protection,
    reschedule,
    wait_task_rescheduled,
)

from actors.faults import MailboxFull

M = TypeVar("M")

# A small message costs an actor some 10 µs, so with a full mailbox it is half a
# millisecond behind. Who is further ahead of it should wait, and costs it no memory.
MAILBOX_SIZE: Final = 64

Refusal = Callable[[], Exception]
"""Makes the error that one sender is refused with: a new one each time."""


class MailboxClosed(Exception):
    """The mailbox is closed and empty: nothing is left to take. For the receiver only."""


class MailboxWoken(Exception):
    """The wait for a message was ended without one. For the receiver only."""


class Mailbox(Generic[M]):
    """The queue of the actor called ``name``, for at most ``capacity`` messages.

    One message more may be on its way to a receiver that was waiting for it.
    """

    __slots__ = ("_messages", "_receiver", "_refusal", "_senders", "capacity", "name")

    def __init__(self, name: str, capacity: int = MAILBOX_SIZE) -> None:
        if capacity < 1:
            raise ValueError(f"a mailbox holds at least one message, not {capacity}")
        self.name = name
        self.capacity = capacity
        self._messages: deque[M] = deque()
        # Waiting in line: whose message gets a place next. Most mailboxes never have one.
        self._senders: OrderedDict[Task, M] | None = None
        self._receiver: Task | None = None
        self._refusal: Refusal | None = None

    def __len__(self) -> int:
        """How many messages wait in it, not counting those of senders in line."""
        return len(self._messages)

    @property
    def full(self) -> bool:
        """Whether `put_nowait` would refuse for lack of room."""
        return len(self._messages) >= self.capacity

    @enable_ki_protection
    def put_nowait(self, message: M) -> None:
        """Leave a message.

        Raises:
            MailboxFull: There is no room.
            Exception: The mailbox is closed; the error is the one given to `close`.
        """
        if self._refusal is not None:
            raise self._refusal()
        receiver = self._receiver
        if receiver is not None:
            self._receiver = None
            reschedule(receiver, Value(message))
        elif len(self._messages) < self.capacity:
            self._messages.append(message)
        else:
            raise MailboxFull(self.name, self.capacity)

    @enable_ki_protection
    async def put(self, message: M) -> None:
        """Leave a message, waiting for room. Cancelled, it has not been left.

        Raises:
            Exception: The mailbox is closed; the error is the one given to `close`.
        """
        if len(self._messages) < self.capacity:
            await checkpoint_if_cancelled()
            self.put_nowait(message)
            await cancel_shielded_checkpoint()
            return
        if self._refusal is not None:
            raise self._refusal()
        if self._senders is None:
            self._senders = OrderedDict()
        task = current_task()
        senders = self._senders
        senders[task] = message

        def leave_the_line(_: RaiseCancelT) -> Abort:
            del senders[task]
            return Abort.SUCCEEDED

        await wait_task_rescheduled(leave_the_line)

    @enable_ki_protection
    def get_nowait(self) -> M:
        """Take the oldest message; the first sender in line gets its place.

        Raises:
            IndexError: The mailbox is empty. ``len`` tells before.
        """
        message = self._messages.popleft()
        if self._senders:
            sender, waiting = self._senders.popitem(last=False)
            self._messages.append(waiting)
            reschedule(sender)
        return message

    @enable_ki_protection
    async def get(self) -> M:
        """Take the oldest message, waiting for one. Cancelled, nothing was taken.

        Raises:
            MailboxClosed: The mailbox is closed, and everything was taken.
            MailboxWoken: `wake` was called.
            RuntimeError: Another task is waiting for a message.
        """
        if self._messages:
            await checkpoint()
            # Only this task takes, but whoever ran meanwhile may have cleared the mailbox.
            if self._messages:
                return self.get_nowait()
        if self._receiver is not None:
            msg = f"two tasks take from the mailbox of {self.name!r}"
            raise RuntimeError(msg)
        if self._refusal is not None:
            await checkpoint()
            raise MailboxClosed
        self._receiver = current_task()
        message: M = await wait_task_rescheduled(self._forget)
        return message

    @enable_ki_protection
    def close(self, refusal: Refusal) -> None:
        """Take nothing in any more; what is in it can still be taken.

        Args:
            refusal: Makes the error for each sender, those in line included.
        """
        self._refusal = refusal
        self._refuse_the_line(refusal)
        self._end_wait(MailboxClosed())

    def wake(self) -> None:
        """End the receiver's wait, if it waits, so that it can look at something else."""
        self._end_wait(MailboxWoken())

    def reopen(self) -> None:
        """Take messages in again."""
        self._refusal = None

    @enable_ki_protection
    def clear(self, refusal: Refusal) -> list[M]:
        """Take everything out at once, and refuse the senders in line."""
        messages = list(self._messages)
        self._messages.clear()
        self._refuse_the_line(refusal)
        return messages

    @enable_ki_protection
    def _end_wait(self, error: Exception) -> None:
        receiver = self._receiver
        if receiver is not None:
            self._receiver = None
            reschedule(receiver, Error(error))

    def _refuse_the_line(self, refusal: Refusal) -> None:
        senders = self._senders
        while senders:
            sender, _ = senders.popitem(last=False)
            reschedule(sender, Error(refusal()))

    def _forget(self, _: RaiseCancelT) -> Abort:
        self._receiver = None
        return Abort.SUCCEEDED
