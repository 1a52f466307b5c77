"""Names with values, in order, where a name may come more than once.

    Fields      the parameters of a query
    Headers     the headers of a message: names in any case, values as text

Both are made from what arrived and never changed.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct

_BLANKS: Final = b" \t"


class Fields:
    """Parameters in the order of their arrival."""

    __slots__ = ("_pairs",)

    def __init__(self, pairs: Sequence[tuple[str, str]] = ()) -> None:
        self._pairs = pairs

    def get(self, name: str) -> str | None:
        """The first value of ``name``, or None."""
        for key, value in self._pairs:
            if key == name:
                return value
        return None

    def all(self, name: str) -> list[str]:
        """Every value of ``name``."""
        return [value for key, value in self._pairs if key == name]

    def __contains__(self, name: object) -> bool:
        return any(key == name for key, _ in self._pairs)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)

    def __repr__(self) -> str:
        return f"Fields({list(self._pairs)!r})"


@lru_cache(maxsize=128)
def _key(name: str) -> bytes:
    """A name as it is looked up: those that are asked for are a few."""
    return name.lower().encode()


class Headers(Struct):
    """Headers, decoded when they are asked for: most requests bring more than is read.

    Args:
        by_name: Names in lower case with their values, which may end in blanks.
        pairs: All lines, where a name comes more than once; else None.
    """

    by_name: dict[bytes, bytes]
    pairs: Sequence[tuple[bytes, bytes]] | None = None

    def raw(self, name: bytes) -> list[bytes]:
        """Every value of ``name``, given in lower case, one a line that arrived."""
        if self.pairs is not None:
            return [value.rstrip(_BLANKS) for own, value in self.pairs if own == name]
        value = self.by_name.get(name)
        return [] if value is None else [value.rstrip(_BLANKS)]

    def get(self, name: str) -> str | None:
        """The value of ``name``, or None; several are joined by a comma."""
        key = _key(name)
        value = self.by_name.get(key)
        if value is None:
            return None
        if self.pairs is not None:
            value = b", ".join(self.raw(key))
        return value.rstrip(_BLANKS).decode("latin-1")

    def all(self, name: str) -> list[str]:
        """Every value of ``name``, one a line that arrived."""
        return [value.decode("latin-1") for value in self.raw(_key(name))]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and _key(name) in self.by_name

    def __iter__(self) -> Iterator[tuple[str, str]]:
        pairs = self.by_name.items() if self.pairs is None else self.pairs
        for name, value in pairs:
            yield name.decode("ascii"), value.rstrip(_BLANKS).decode("latin-1")

    def __len__(self) -> int:
        return len(self.by_name if self.pairs is None else self.pairs)

    def __repr__(self) -> str:
        # Values may be credentials; whatever prints a request must not print them.
        return f"Headers({[name for name, _ in self]!r})"
