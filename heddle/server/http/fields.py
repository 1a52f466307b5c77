"""Names with values, in order, where a name may come more than once.

    Fields      the parameters of a query
    Headers     the headers of a message: names in any case, values as text

Both are made from what arrived and never changed.
"""

from collections.abc import Iterator, Sequence


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


class Headers:
    """Headers, decoded when they are asked for: most requests bring more than is read."""

    __slots__ = ("_first", "_pairs")

    def __init__(
        self, pairs: Sequence[tuple[bytes, bytes]], first: dict[bytes, bytes]
    ) -> None:
        """Wrap what the parser found.

        Args:
            pairs: Names in lower case and values.
            first: The same as a dictionary; of several values of a name, any one.
        """
        self._pairs = pairs
        self._first = first

    def get(self, name: str) -> str | None:
        """The value of ``name``, or None; several are joined by a comma."""
        key = name.lower().encode()
        value = self._first.get(key)
        if value is None:
            return None
        if len(self._first) != len(self._pairs):
            value = b", ".join(other for own, other in self._pairs if own == key)
        return value.decode("latin-1")

    def all(self, name: str) -> list[str]:
        """Every value of ``name``, one a line that arrived."""
        key = name.lower().encode()
        return [value.decode("latin-1") for own, value in self._pairs if own == key]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower().encode() in self._first

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for name, value in self._pairs:
            yield name.decode("ascii"), value.decode("latin-1")

    def __len__(self) -> int:
        return len(self._pairs)

    def __repr__(self) -> str:
        # Values may be credentials; whatever prints a request must not print them.
        return f"Headers({[name.decode('ascii') for name, _ in self._pairs]!r})"
