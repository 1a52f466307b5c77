"""JSON of many megabytes, decoded in pieces so that nobody waits for all of it.

    [[…],[…],[…]]   ->   [ + "[…],[…]" + ]   extends the list, then the next piece

A decoder in C takes a tenth of a second and more for a million values, and no other thread
goes on meanwhile. This one looks for commas between values, and gives what is between them
to that decoder, some 64 KiB at a time; a value that is larger is taken apart in its turn.
It is slower as a whole, and is for threads.
"""

import re
from typing import Any, Final, NoReturn

import msgspec

PIECE: Final = 64 * 1024
"""Bytes that are decoded at once, in at most some 3 ms."""

_TOKENS: Final = re.compile(
    # A string that does not end goes on to the end, so that it is looked at once.
    rb'"[^"\\]*+(?:\\(?:.|\Z)[^"\\]*+)*+(?:"|\Z)|[\[{\]},]',
    re.DOTALL,
)
_BLANK: Final = b" \t\n\r"
_AT_BYTE: Final = re.compile(r"\(byte (\d+)\)")
_decode: Final = msgspec.json.Decoder().decode


class TooDeep(ValueError):
    """Values are nested beyond what was asked for."""


class TooMany(ValueError):
    """There are more values than were asked for."""


def decode(data: bytes, *, values: int, depth: int) -> Any:
    """What ``msgspec.json.decode`` makes of ``data``.

    Args:
        data: JSON.
        values: How many there may be in it. Short data is not counted.
        depth: How deep they may be nested. Short data may be deeper.

    Raises:
        TooDeep: They are deeper.
        TooMany: There are more.
        msgspec.DecodeError, UnicodeDecodeError, RecursionError: As by msgspec; where it
            tells a byte it is that of ``data``.
    """
    if len(data) <= PIECE:
        return _decode(data)
    begin = len(data) - len(data.lstrip(_BLANK))
    if data[begin : begin + 1] not in (b"[", b"{"):
        return _decode(data)
    return _Pieces(data, values, depth).decode(begin)


def has_more(data: bytes, values: int) -> bool:
    """Whether there are more values than that in JSON, or in text much like it."""
    most = data.count(b",") + data.count(b"[") + data.count(b"{")
    if most <= values:
        return False
    # Some are in strings.
    count = 0
    for token in _TOKENS.finditer(data):
        count += data[token.start()] in _COUNTED
        if count > values:
            return True
    return False


class _Pieces:
    """One decoding.

    Attributes:
        begin: Where the text begins that is in the innermost open container and is not
            decoded.
        comma: The last place in it at which a value has ended.
    """

    __slots__ = ("after_child", "begin", "comma", "data", "depth", "open", "values")

    def __init__(self, data: bytes, values: int, depth: int) -> None:
        self.data = data
        self.values = values
        self.depth = depth
        # The containers that are taken apart, each in the one before it.
        self.open: list[list[Any] | dict[str, Any]] = []
        self.begin = 0
        self.comma = 0
        # Whether the text begins behind one that was, where a comma must come.
        self.after_child = False

    def decode(self, first: int) -> Any:
        """All of it; ``first`` is where the outermost container begins."""
        root: Any = [] if self.data[first] == _LIST else {}
        self._enter(root, first, -1)
        # Where those begin that are not taken apart, outermost first, and the last place
        # in each at which a value has ended.
        whole: list[int] = []
        commas: list[int] = []
        count = 1
        for token in _TOKENS.finditer(self.data, first + 1):
            at = token.start()
            kind = self.data[at]
            if kind == _COMMA:
                count += 1
                if whole:
                    commas[-1] = at
                else:
                    self._value_ends(at)
            elif kind in _OPENING:
                count += 1
                whole.append(at)
                commas.append(-1)
                if len(whole) + len(self.open) > self.depth:
                    raise TooDeep
            elif kind in _CLOSING:
                if whole:
                    whole.pop()
                    commas.pop()
                else:
                    self._leave(at, kind)
                    if not self.open:
                        if self.data[at + 1 :].strip(_BLANK):
                            self._malformed("trailing characters", at + 1)
                        return root
            if count > self.values:
                raise TooMany
            while whole and at - self.begin > PIECE:
                self._take_apart(whole.pop(0), commas.pop(0))
        raise msgspec.DecodeError("Input data was truncated")

    def _enter(self, container: list[Any] | dict[str, Any], at: int, comma: int) -> None:
        self.open.append(container)
        self.begin = at + 1
        self.comma = comma
        self.after_child = False

    def _value_ends(self, at: int) -> None:
        """There is a comma in the innermost open container."""
        if self.after_child:
            self._blank(self.begin, at, "expected ','")
            self.after_child = False
            self.begin, self.comma = at + 1, at
            return
        self.comma = at
        if at - self.begin > PIECE:
            self._add(self.begin, at)
            self.begin = at + 1

    def _take_apart(self, at: int, comma: int) -> None:
        """The container that begins there is too large to be decoded at once."""
        if self.after_child:
            self._malformed("expected ','", self.begin)
        start = self.begin
        if self.comma > start:
            self._add(start, self.comma)
            start = self.comma + 1
        elif self.comma == start:
            self._malformed("expected a value", start)
        parent = self.open[-1]
        child: Any = [] if self.data[at] == _LIST else {}
        if isinstance(parent, list):
            self._blank(start, at, "expected ','")
            parent.append(child)
        else:
            # A list stands for the value: a digit would go on with one that precedes it.
            [key] = self._read(b"{", start, at, b"[]}")
            parent[key] = child
        self._enter(child, at, comma)

    def _leave(self, at: int, kind: int) -> None:
        """The innermost open container ends."""
        container = self.open.pop()
        if kind != (_LIST_END if isinstance(container, list) else _OBJECT_END):
            self._malformed("invalid character", at)
        if self.after_child:
            self._blank(self.begin, at, "expected ','")
        elif self.data[self.begin : at].strip(_BLANK):
            self.open.append(container)
            self._add(self.begin, at)
            self.open.pop()
        elif self.data[self.begin - 1] == _COMMA:
            self._malformed("trailing comma", self.begin - 1)
        self.begin = at + 1
        self.comma = -1
        self.after_child = True

    def _add(self, start: int, end: int) -> None:
        """Decode the values there."""
        container = self.open[-1]
        if isinstance(container, list):
            found = self._read(b"[", start, end, b"]")
            container += found
        else:
            found = self._read(b"{", start, end, b"}")
            container.update(found)
        if not found:
            self._malformed("expected a value", end)

    def _read(self, before: bytes, start: int, end: int, behind: bytes) -> Any:
        try:
            return _decode(b"%b%b%b" % (before, self.data[start:end], behind))
        except msgspec.DecodeError as error:
            place = start - len(before)
            told = _AT_BYTE.sub(lambda m: f"(byte {int(m[1]) + place})", str(error))
            raise msgspec.DecodeError(told) from None

    def _blank(self, start: int, end: int, otherwise: str) -> None:
        if self.data[start:end].strip(_BLANK):
            self._malformed(otherwise, start)

    def _malformed(self, what: str, at: int) -> NoReturn:
        raise msgspec.DecodeError(f"JSON is malformed: {what} (byte {at})")


_LIST, _LIST_END, _OBJECT, _OBJECT_END, _COMMA = b"[]{},"
_OPENING: Final = frozenset({_LIST, _OBJECT})
_COUNTED: Final = _OPENING | {_COMMA}
_CLOSING: Final = frozenset({_LIST_END, _OBJECT_END})
