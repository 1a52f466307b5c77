"""One life of an actor, from its first message to its end: the loop and what ends it."""

from typing import Any, Final

from trio.lowlevel import current_task

from actors.actor import Actor
from actors.address import Address
from actors.mailbox import MailboxClosed, MailboxWoken
from actors.restarts import Exit

# Messages that an actor handles before other tasks get a turn, when its mailbox does not
# run empty. A turn costs several times what a small message does: with 8 a turn it is
# no longer most of the work, and who else is runnable waits for 8 messages at most.
BURST: Final = 8


async def live(actor: Actor[Any], address: Address) -> Exit:
    """Run the actor until it ends, and say how; a crash is kept in ``address.error``.

    Contains every `Exception`. Cancellation from outside passes through, and so do
    errors like KeyboardInterrupt.
    """
    actor.attach(address)
    address.task = current_task()
    try:
        with address.interruptible() as scope:
            try:
                async with actor.living():
                    await _receive_all(actor, address)
                # What a life survives is no crash of it.
                address.error = None
            except Exception as error:  # noqa: BLE001  containing crashes is what it is for
                address.crash(error)
            except BaseExceptionGroup as group:
                # An actor's own nursery failed while it was being cancelled. The failure
                # is the actor's, the cancellation belongs to whoever cancelled.
                failure, rest = group.split(Exception)
                if failure is not None:
                    address.crash(failure)
                assert rest is not None  # Or it would be an ExceptionGroup.
                try:
                    raise rest from None
                finally:
                    # This frame is in the traceback of what it would keep.
                    del failure, rest
    finally:
        address.task = None
        address.refuse_open()
    if address.error is not None:
        return Exit.CRASHED
    return Exit.CANCELLED if scope.cancelled_caught else Exit.NORMAL


async def _receive_all(actor: Actor[Any], address: Address) -> None:
    mailbox = address.mailbox
    turns = BURST
    while True:
        if turns and mailbox:
            turns -= 1
            message, slot = mailbox.get_nowait()
        else:
            turns = BURST
            if address.finished:
                return
            try:
                message, slot = await mailbox.get()
            except MailboxWoken:
                continue
            except MailboxClosed:
                return
        try:
            if slot is None:
                await actor.receive(message)
            elif slot.open:
                address.in_hand = slot
                answer = await actor.receive(message)
                if address.in_hand is slot:
                    address.in_hand = None
                    slot.set(answer)
        except Exception as error:
            # Those who wait for an answer learn it now, however long the end takes.
            address.crash(error)
            raise
