"""One life of an actor, from its first message to its end: the loop and what ends it."""

from typing import Any, Final

from trio.lowlevel import current_task

from actors.actor import Actor
from actors.address import Address
from actors.endings import Ending
from actors.mailbox import MailboxClosed
from actors.restarts import Exit

# Messages that an actor handles before other tasks get a turn, when its mailbox does not
# run empty. A turn costs about as much as a small message: at 8 it is an eighth of the
# work, and who else is runnable waits for 8 messages at most.
BURST: Final = 8


async def live(actor: Actor[Any], address: Address) -> Exit:
    """Run the actor until it ends, and say how; a crash is kept in ``address.error``.

    Contains every `Exception`. Cancellation from outside passes through, and so do
    errors like KeyboardInterrupt.
    """
    crashed = False
    actor.attach(address)
    address.task = current_task()
    try:
        with address.interruptible() as scope:
            try:
                async with actor.living():
                    await _receive_all(actor, address)
            except Exception as error:  # noqa: BLE001  containing crashes is what it is for
                crashed = True
                address.crash(error)
            except BaseExceptionGroup as group:
                # An actor's own nursery failed while it was being cancelled. The failure
                # is the actor's, the cancellation belongs to whoever cancelled.
                failure, rest = group.split(Exception)
                if failure is not None:
                    crashed = True
                    address.crash(failure)
                if rest is not None:
                    raise rest from None
    finally:
        address.task = None
        if not crashed:
            address.leave_calls()
    if crashed:
        return Exit.CRASHED
    return Exit.CANCELLED if scope.cancelled_caught else Exit.NORMAL


async def _receive_all(actor: Actor[Any], address: Address) -> None:
    mailbox = address.mailbox
    turns = BURST
    try:
        while True:
            if turns and len(mailbox):
                turns -= 1
                message, slot = mailbox.get_nowait()
            else:
                turns = BURST
                message, slot = await mailbox.get()
            if slot is None:
                await actor.receive(message)
            elif slot.open:
                address.in_hand = slot
                answer = await actor.receive(message)
                if address.in_hand is slot:
                    address.in_hand = None
                    slot.set(answer)
    except MailboxClosed:
        pass
    except Exception as error:
        # Those who wait for an answer learn it now, however long the end takes.
        address.crash(error)
        raise
    if address.asked is Ending.DRAIN:
        with address.until_stopped():
            await actor.drained()
