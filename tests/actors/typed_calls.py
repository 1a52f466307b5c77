"""Read by type checkers, never run: what is known of the answer to a call.

Each ``type: ignore`` is itself checked: without the error it would be an unused one.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import assert_type

from msgspec import Struct

from actors import (
    Actor,
    Call,
    Ended,
    LateReply,
    Mailbox,
    Ref,
    ReplySlot,
    Restart,
    Supervisor,
)


class Conflict(Struct, frozen=True):
    expected: int


class Append(Call[int | Conflict], frozen=True):
    text: str


class Forget(Struct, frozen=True):
    upto: int


class Transcript(Actor[Append | Forget]):
    async def receive(self, message: Append | Forget) -> object:
        late = self.answer_later()
        late.set(1)
        return None

    @asynccontextmanager
    async def living(self) -> AsyncIterator[None]:
        self.ref.cast_nowait(Forget(1))
        yield


async def a_call_has_the_type_of_its_answer(ref: Ref[Append | Forget]) -> None:
    answer = await ref.call(Append("hello"))
    assert_type(answer, int | Conflict)
    answer.bit_count()  # type: ignore[union-attr]
    await ref.call(Forget(3))  # type: ignore[arg-type]
    await ref.call(Append(3))  # type: ignore[arg-type]


async def a_cast_is_a_message_of_the_actor(ref: Ref[Append | Forget]) -> None:
    await ref.cast(Forget(3))
    ref.cast_nowait(Append("hello"))
    await ref.cast("hello")  # type: ignore[arg-type]
    ref.cast_nowait(3)  # type: ignore[arg-type]


async def takes_a_narrow_ref(ref: Ref[Forget]) -> None:
    await ref.cast(Forget(1))
    await ref.cast(Append("hello"))  # type: ignore[arg-type]
    await takes_a_wide_ref(ref)  # type: ignore[arg-type]


async def takes_a_wide_ref(ref: Ref[Append | Forget]) -> None:
    await takes_a_narrow_ref(ref)


async def starting_gives_a_ref_for_the_actors_messages(supervisor: Supervisor) -> None:
    ref = supervisor.start(Transcript, name="t 1", restart=Restart.TRANSIENT)
    assert_type(ref, Ref[Append | Forget])
    assert_type(await ref.wait_ended(), Ended)
    supervisor.start(int, name="t 2", restart=Restart.TRANSIENT)  # type: ignore[arg-type]


async def slots_and_mailboxes_are_typed(slot: ReplySlot[int], box: Mailbox[str]) -> None:
    assert_type(await slot.wait(), int)
    slot.set("hello")  # type: ignore[arg-type]
    assert_type(await box.get(), str)
    await box.put(3)  # type: ignore[arg-type]


def a_late_reply_is_typed(late: LateReply[int]) -> None:
    late.set(3)
    late.set("three")  # type: ignore[arg-type]
