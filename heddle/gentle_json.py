"""JSON of values that may be long, encoded so that nobody waits for all of it.

    if is_long(value):
        data = await encode_gently(value)

An encoder in C takes a tenth of a second for a million values, and nothing else goes on
meanwhile. This one gives it some thousands of them at a time, and lets others have their
turn in between.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

AT_ONCE: Final = 8192
"""Values that are encoded at once, in at most some 2 ms."""

_NESTED: Final = (list, dict, tuple)
_encode: Final = msgspec.json.Encoder().encode


def is_long(value: Any) -> bool:
    """Whether there are more values in it than are encoded at once.

    Looks at no more of them than that. A text is one value, for texts are fast.
    """
    return isinstance(value, _NESTED) and _count(value) > AT_ONCE


def any_long(values: Mapping[str, Any]) -> bool:
    """Whether one of the values of a state is long."""
    for value in values.values():
        if isinstance(value, _NESTED) and _count(value) > AT_ONCE:
            return True
    return False


async def encode_gently(value: Any) -> bytes:
    """What ``msgspec.json.encode`` makes of ``value``, which nobody changes meanwhile.

    Raises:
        Exception: As that does, for what has no JSON.
    """
    # Documents are compiled with this module, and checked without trio.
    from trio.lowlevel import checkpoint

    pieces: list[bytes] = []
    for piece in _pieces(value):
        pieces.append(piece)
        await checkpoint()
    return b"".join(pieces)


def _count(value: Any) -> int:
    """How many values there are in it, itself among them; some more than `AT_ONCE` when
    there are more."""
    found = 0
    waiting = [value]
    while waiting and found <= AT_ONCE:
        each = waiting.pop()
        found += 1
        if not isinstance(each, _NESTED):
            continue
        found += len(each)
        inside = each.values() if isinstance(each, dict) else each
        if found <= AT_ONCE:
            nested = [one for one in inside if isinstance(one, _NESTED)]
            found -= len(nested)
            waiting += nested
    return found


def _pieces(value: Any) -> Iterator[bytes]:
    """The JSON of a value, each piece of no more than some `AT_ONCE` values."""
    if not is_long(value):
        yield _encode(value)
    elif isinstance(value, dict):
        yield b"{"
        yield from _separated(_entries(value))
        yield b"}"
    else:
        yield b"["
        yield from _separated(_items(value))
        yield b"]"


def _separated(groups: Iterator[Iterator[bytes]]) -> Iterator[bytes]:
    first = True
    for group in groups:
        if not first:
            yield b","
        first = False
        yield from group


def _items(values: list[Any] | tuple[Any, ...]) -> Iterator[Iterator[bytes]]:
    """The items, many short ones together."""
    begin = size = 0
    for at, each in enumerate(values):
        count = _count(each)
        if size + count > AT_ONCE:
            if begin < at:
                yield iter((_encode(values[begin:at])[1:-1],))
            begin, size = at, 0
            if count > AT_ONCE:
                yield _pieces(each)
                begin = at + 1
                continue
        size += count
    if begin < len(values):
        yield iter((_encode(values[begin:])[1:-1],))


def _entries(values: dict[Any, Any]) -> Iterator[Iterator[bytes]]:
    """The same of an object's keys and values."""
    together: dict[Any, Any] = {}
    size = 0
    for key, each in values.items():
        count = _count(each)
        if together and size + count > AT_ONCE:
            yield iter((_encode(together)[1:-1],))
            together, size = {}, 0
        if count > AT_ONCE:
            yield _named(key, each)
            continue
        together[key] = each
        size += count
    if together:
        yield iter((_encode(together)[1:-1],))


def _named(key: Any, value: Any) -> Iterator[bytes]:
    # The encoder knows how keys are written, which need not be texts.
    yield _encode({key: None})[1 : -len(b"null}")]
    yield from _pieces(value)
