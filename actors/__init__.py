"""Actors on trio: a mailbox, one task that empties it, a supervisor that decides.

    class Counter(Actor[Add | Read]): async def receive(self, message): …

    async with Supervisor("counters") as counters:
        ref = counters.start(Counter, name="counter 1", restart=Restart.TRANSIENT)
        await ref.cast(Add(2))
        total = await ref.call(Read())

Sending: `Ref`, `Call`, `Mailbox`; one answer: `ReplySlot`, `LateReply`; ending: `Ending`,
`Patience`, `end_all`; starting again: `Restart`, `Exit`, `RESTARTS`, `Intensity`,
`Backoff`; what goes wrong: `ActorFault` and below. `actors.testing` is for tests.

    actor       what one writes: a class that receives
    messages    what is sent, and what a `Call` is answered
    ref         a handle on an actor, as others hold it
    address     where it is reached: its `mailbox`, and the answers it owes
    slots       one answer that one task waits for; `late`: given after the message was left
    life        from the first message to the end; `endings`: how it is brought to one
    supervisor  who starts others; `restarts`: when again, as tables
    faults      what goes wrong, one class each
"""

from actors.actor import Actor
from actors.address import Ended
from actors.endings import ENDINGS, Ending, Finishes, Patience
from actors.faults import (
    ActorCalledItself,
    ActorCrashed,
    ActorFault,
    ActorGone,
    MailboxFull,
    SupervisorClosed,
)
from actors.late import LateReply
from actors.mailbox import MAILBOX_SIZE, Mailbox, MailboxClosed, MailboxWoken
from actors.messages import Call
from actors.ref import Ref
from actors.restarts import RESTARTS, Backoff, Exit, Intensity, Next, Restart
from actors.slots import ReplySlot
from actors.supervisor import ChildExited, Supervisor, end_all, log_crash

__all__ = [
    "ENDINGS",
    "MAILBOX_SIZE",
    "RESTARTS",
    "Actor",
    "ActorCalledItself",
    "ActorCrashed",
    "ActorFault",
    "ActorGone",
    "Backoff",
    "Call",
    "ChildExited",
    "Ended",
    "Ending",
    "Exit",
    "Finishes",
    "Intensity",
    "LateReply",
    "Mailbox",
    "MailboxClosed",
    "MailboxFull",
    "MailboxWoken",
    "Next",
    "Patience",
    "Ref",
    "ReplySlot",
    "Restart",
    "Supervisor",
    "SupervisorClosed",
    "end_all",
    "log_crash",
]
