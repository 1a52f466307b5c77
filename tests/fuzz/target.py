"""What a target is, and what targets share: bytes in pieces, coroutines without a loop."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from msgspec import Struct

T = TypeVar("T")


class Target(Struct, frozen=True):
    """Something that reads what strangers send.

    Args:
        run: Reads the bytes, and raises when something else than a declared error comes
            out, or a law is broken. It keeps nothing from one call to the next.
        seeds: Inputs to begin with: what is usual, and what was once read wrongly.
        words: Pieces that inputs are likely to be made of.
        longest: Bytes of an input that are worth trying.
    """

    run: Callable[[bytes], None]
    seeds: tuple[bytes, ...]
    words: tuple[bytes, ...] = ()
    longest: int = 4096


def cut(data: bytes) -> list[bytes]:
    """The bytes behind the first, cut as that one says; 0 leaves them whole."""
    if not data:
        return []
    width, rest = data[0], data[1:]
    if not width:
        return [rest]
    return [rest[at : at + width] for at in range(0, len(rest), width)]


def finish(work: Coroutine[Any, Any, T]) -> T:
    """What comes of a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    raise AssertionError("it waits, and nothing here would wake it")
