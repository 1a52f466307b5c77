"""A reply slot: one task waits in it, another puts the one answer in.

    open ──set / fail──▶ settled      the answer wakes who waits, or is kept until then
    open ──cancelled───▶ withdrawn    the wait was cancelled: an answer goes nowhere

It parks the waiting task itself, which costs half of a channel that carries one value.
Settling never fails and never waits: whoever answers need not know whether the asker is
still there, only `open` and the return value of `ReplySlot.set` tell.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from outcome import Error, Value
from trio.lowlevel import (
    Abort,
    RaiseCancelT,
    Task,
    checkpoint,
    current_task,
    enable_ki_protection,
    reschedule,
    wait_task_rescheduled,
)

R = TypeVar("R")


class ReplySlot(Generic[R]):
    """Where one answer of type ``R`` is waited for, by one task, once.

    Attributes:
        open: Whether an answer would still reach somebody: neither settled nor withdrawn.
        on_withdrawn: Called when the slot is withdrawn, before the waiting task goes on.
            It must neither raise nor wait.
    """

    __slots__ = ("_answer", "_waiter", "on_withdrawn", "open")

    def __init__(self) -> None:
        self.open = True
        self.on_withdrawn: Callable[[], object] | None = None
        self._waiter: Task | None = None
        self._answer: Value[R] | Error | None = None

    def set(self, value: R) -> bool:
        """Answer. False when the slot was not open: the answer is dropped."""
        return self._settle(Value(value)) if self.open else False

    def fail(self, error: Exception) -> bool:
        """Answer with an error, raised where the slot is waited for; else like `set`.

        Raising changes an exception's traceback, so each slot is given one of its own.
        """
        return self._settle(Error(error)) if self.open else False

    def withdraw(self) -> None:
        """Nobody will wait here any more: from now on answers are dropped.

        Raises:
            RuntimeError: A task is waiting. Cancel its scope, which withdraws the slot.
        """
        if self._waiter is not None:
            msg = "a reply slot that is waited for is withdrawn by cancelling the wait"
            raise RuntimeError(msg)
        self._answer = None
        self._withdraw()

    @enable_ki_protection
    async def wait(self) -> R:
        """Wait for the answer and take it. Cancelled, it withdraws the slot.

        Raises:
            RuntimeError: Another task waits, or there is no answer left to wait for.
        """
        answer = self._answer
        if answer is not None:
            self._answer = None
            await checkpoint()
            return answer.unwrap()
        if not self.open or self._waiter is not None:
            msg = "a reply slot is waited for once, by one task"
            raise RuntimeError(msg)
        self._waiter = current_task()
        taken: R = await wait_task_rescheduled(self._forget)
        return taken

    @enable_ki_protection
    def _settle(self, answer: Value[R] | Error) -> bool:
        self.open = False
        waiter = self._waiter
        if waiter is None:
            self._answer = answer
        else:
            self._waiter = None
            reschedule(waiter, answer)
        return True

    def _forget(self, _: RaiseCancelT) -> Abort:
        # Trio wakes the cancelled task itself. Waking it again when an answer comes
        # would corrupt the scheduler, so the task must not be found here any more.
        self._waiter = None
        self._withdraw()
        return Abort.SUCCEEDED

    def _withdraw(self) -> None:
        if self.open:
            self.open = False
            if self.on_withdrawn is not None:
                self.on_withdrawn()
