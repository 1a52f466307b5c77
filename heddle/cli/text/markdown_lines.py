"""Text of several styles, wrapped into rows of so many cells.

    [("Read ", plain), ("the manual", bold)], 8 cells  →  [Read the]  [manual]

Breaks where there is a space, around wide characters, and inside words that fit no row.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from rich.cells import cell_len, get_character_cell_size
from rich.segment import Segment
from rich.style import Style

# A word with the spaces after it, spaces alone, or the end of a line. Characters of two
# cells, those of Chinese and Japanese, may stand at either side of a break.
_WIDE: Final = "\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\uff00-\uff60"
_PIECE: Final = re.compile(rf"\n|[{_WIDE}] *|[^\s{_WIDE}]+ *| +")


class Span(NamedTuple):
    """Text of one style."""

    text: str
    style: Style


def wrapped(spans: Sequence[Span], width: int) -> list[list[Segment]]:
    """The rows; at least one, and none of more than ``width`` cells.

    A newline in the text ends a row. Spaces at the ends of rows are left out.
    """
    width = max(width, 1)
    rows: list[list[Segment]] = [[]]
    used = 0
    for word in _words(spans):
        if word[0].text == "\n":
            rows.append([])
            used = 0
            continue
        needed = sum(cell_len(part.text) for part in word)
        shown = needed - _blanks(word[-1].text)
        if used and used + shown > width:
            rows.append([])
            used = 0
        for part in word:
            for text in _chopped(part.text, width, used):
                if text is None:
                    rows.append([])
                    used = 0
                    continue
                rows[-1].append(Segment(text, part.style or None))
                used += cell_len(text)
    return [_trimmed(row) for row in rows]


def cells(row: Sequence[Segment]) -> int:
    """How wide a row is."""
    return sum(cell_len(segment.text) for segment in row)


def _words(spans: Sequence[Span]) -> Iterator[list[Span]]:
    """What stays on one row if it can: a word may have parts of several styles."""
    word: list[Span] = []
    for text, style in spans:
        for found in _PIECE.finditer(text):
            piece = found[0]
            before = word[-1].text if word else ""
            if word and (piece == "\n" or before == "\n" or _parts(before, piece)):
                yield word
                word = []
            word.append(Span(piece, style))
    if word:
        yield word


def _parts(before: str, piece: str) -> bool:
    """Whether a row may end between the two."""
    if piece[0] == " ":
        return False
    return before[-1] == " " or _is_wide(before[-1]) or _is_wide(piece[0])


def _is_wide(character: str) -> bool:
    return re.match(f"[{_WIDE}]", character) is not None


def _blanks(text: str) -> int:
    return len(text) - len(text.rstrip(" "))


def _chopped(text: str, width: int, used: int) -> Iterator[str | None]:
    """The text in pieces that fit; None where a row ends."""
    if used + cell_len(text.rstrip(" ")) <= width:
        yield text[: len(text.rstrip(" ")) + max(width - used, 0)]
        return
    begin, filled = 0, used
    for at, character in enumerate(text):
        size = get_character_cell_size(character)
        if filled + size > width and filled:
            if character == " ":  # they end a row that is full
                yield text[begin:at]
                return
            if at > begin:
                yield text[begin:at]
            yield None
            begin, filled = at, 0
        filled += size
    yield text[begin:]


def _trimmed(row: list[Segment]) -> list[Segment]:
    """Without the spaces at its end, and with neighbours of one style as one."""
    merged: list[Segment] = []
    for segment in row:
        if merged and merged[-1].style == segment.style:
            merged[-1] = Segment(merged[-1].text + segment.text, segment.style)
        else:
            merged.append(segment)
    while merged:
        text = merged[-1].text.rstrip(" ")
        if text:
            merged[-1] = Segment(text, merged[-1].style)
            break
        merged.pop()
    return merged
