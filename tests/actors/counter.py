"""A counter: the actor of these tests, and its messages."""

from typing import Any, assert_never

from msgspec import Struct

from actors import Actor, Call


class Add(Struct, frozen=True):
    amount: int = 1


class Read(Call[int], frozen=True):
    pass


class Swap(Call[int | str], frozen=True):
    """Answered with the old total, or a refusal when the new one is negative."""

    total: int


class Fail(Call[None], frozen=True):
    """Answered by crashing with ValueError."""


class Leave(Call[str], frozen=True):
    """Answered, and then the counter stops by itself."""


Message = Add | Read | Swap | Fail | Leave


class Counter(Actor[Message]):
    def __init__(self) -> None:
        self.total = 0

    async def receive(self, message: Message) -> object:
        match message:
            case Add(amount=amount):
                self.total += amount
                return None
            case Read():
                return self.total
            case Swap(total=total):
                if total < 0:
                    return f"{total} is negative"
                old, self.total = self.total, total
                return old
            case Fail():
                raise ValueError("asked to fail")
            case Leave():
                self.stop()
                return "bye"
            case _:
                assert_never(message)


def by_name(value: Any) -> str:
    """A readable id for a parametrised case."""
    return getattr(value, "name", str(value)).lower()
