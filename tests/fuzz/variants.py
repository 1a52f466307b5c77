"""What an input becomes when one value of the JSON in it is another, or is not there.

    data: {"delta": "x", "n": [1]}    ->    data: {"delta": null, "n": [1]}
                                            data: {"n": [1]}
                                            data: {"delta": "x", "n": [{}]}   …

Changed bytes rarely are JSON still. Most of what is read wrongly is read from a value of
another kind than was thought of.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

OTHERS: Final = (None, True, 0, -1, 1.5, 10**30, "", "x", [], {}, [None], {"": None})
"""One of each kind, and some that are odd."""

_DECODER: Final = json.JSONDecoder()


def variants(data: bytes) -> Iterator[bytes]:
    """All of them, for every object or list in the bytes."""
    # Each byte as one character, so that what is no text stays as it is.
    text = data.decode("latin-1")
    at = 0
    while at < len(text):
        if text[at] in "{[":
            try:
                value, end = _DECODER.raw_decode(text, at)
            except ValueError:
                at += 1
                continue
            except RecursionError:
                # Nor would the next one be read, and the one behind it.
                return
            before, after = text[:at], text[end:]
            for other in _changed(value):
                written = json.dumps(other, separators=(",", ":"))
                yield (before + written + after).encode("latin-1")
            at = end
        else:
            at += 1


def _changed(value: Any) -> Iterator[Any]:
    """The value with one place in it changed, the whole of it first."""
    yield from OTHERS
    if isinstance(value, dict):
        for key, inner in value.items():
            yield {other: value[other] for other in value if other != key}
            for changed in _changed(inner):
                yield {**value, key: changed}
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield [*value[:index], *value[index + 1 :]]
            for changed in _changed(inner):
                yield [*value[:index], changed, *value[index + 1 :]]
