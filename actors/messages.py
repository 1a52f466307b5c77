"""What is sent to an actor: any frozen struct. A `Call` also says what is answered.

Messages stay in the module of their actor; what others see is a client with methods.

    class Append(Call[int | TurnConflict], frozen=True):  await ref.call(Append(…)) -> …
        turn: Turn

    class Forget(Struct, frozen=True):                    await ref.cast(Forget(…))
        upto: int
"""

from typing import Generic, TypeVar

from msgspec import Struct

R_co = TypeVar("R_co", covariant=True)


class Call(Struct, Generic[R_co], frozen=True):
    """Base of every message that is answered, with an ``R``.

    The type checkers read the reply's type here; at run time nothing is checked.
    """
