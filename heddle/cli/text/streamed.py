"""One text of a model as it comes: rows that stay, and rows that may still change.

    text = Streamed()
    text.feed("# Title\n\nSome te")
    text.take(80)     [Title]: to be written once, above what is drawn again
    text.tail(80)     [], [Some te]: to be drawn again when there is more

However the text is cut into pieces, the rows that were taken, and then those of `finish`,
are the rows of the whole text. What is settled is not read again. Pure.

A block that grows very long is read again each time that it has doubled, and not with each
piece: a table of a thousand rows would be read a thousand times. Meanwhile the tail is its
newest text as it came. Of a block of more than `MOST_READ` characters the rest is shown as
it was written, and so is what is behind so many at the end: nobody is kept waiting.
"""

from typing import Final

from heddle.cli.text.as_written import AsWritten, rows_of
from heddle.cli.text.markdown import PLAIN, Row, TopBlock, prepared, top_blocks
from heddle.cli.text.markdown_lines import Span, wrapped

# Characters of a block that are read in a few milliseconds.
LONG: Final = 8 * 1024
# Characters that are read at once: a tenth of a second, for a table of them.
MOST_READ: Final = 16 * 1024
# Of the newest text of a longer one: more than a screen has.
NEWEST: Final = 4 * 1024


class Streamed:
    """Pieces in, rows out."""

    def __init__(self, text: str = "") -> None:
        self._pieces: list[str] = [text]
        # Of the text, the part whose rows were not all taken; and what came after it.
        self._open = ""
        self._new: list[str] = [text]
        # Characters of the former, when it was last read; and the tail made since.
        self._read = 0
        self._tail: tuple[int, list[Row]] | None = None
        # Rows of its first block that were taken, and how wide that block is.
        self._taken = 0
        self._width = 0
        # Whether rows are above it, and a blank line is.
        self._below = False
        self._apart = False
        # What the rest of a block is that is too long to be read.
        self._unread: AsWritten | None = None

    @property
    def text(self) -> str:
        """All of it, as it came."""
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    def feed(self, text: str) -> None:
        """Add a piece."""
        self._pieces.append(text)
        self._new.append(text)
        self._tail = None

    def discard(self, characters: int) -> bool:
        """Take so many characters from its end.

        Returns:
            Whether the rows that were taken still stand. If not, take those of a new one
            that begins with what `text` is now.
        """
        whole = self.text
        self._pieces = [whole[: max(len(whole) - characters, 0)]]
        left = self._joined()
        self._open = left[: max(len(left) - characters, 0)]
        self._read, self._tail = min(self._read, len(self._open)), None
        return not (self._below and (characters > len(left) or self._taken))

    def take(self, width: int) -> list[Row]:
        """The rows that are new and that nothing will change."""
        if self._unread is not None:
            return self._take_unread(self._unread, width)
        whole = self._joined()
        if len(whole) > LONG and len(whole) < 2 * self._read:
            return []
        ended = whole[: _last_line(whole)]
        blocks = top_blocks(prepared(ended), self._room(width))
        rows: list[Row] = []
        if len(blocks) <= 1 and len(whole) > MOST_READ:
            return self._begin_unread(ended, blocks, width)
        for each in blocks[:-1]:
            rows += self._rest(each, len(each.block.rows))
            self._taken = 0
            self._apart = False
        if blocks:
            last = blocks[-1]
            self._apart = self._apart or last.apart
            rows += self._rest(last, last.block.settled)
            self._width = self._room(width)
            self._taken = max(self._taken, last.block.settled)
            self._open = "\n".join(whole.split("\n")[last.line :])
        self._read = len(self._open) if len(whole) <= MOST_READ else 0
        if rows:
            self._tail = None
        return rows

    def _begin_unread(self, read: str, blocks: list[TopBlock], width: int) -> list[Row]:
        """Take what was read of a block, and no more of it as Markdown."""
        rows = [row for each in blocks for row in self._rest(each, len(each.block.rows))]
        self._open = self._joined()[len(read) :]
        self._taken, self._read, self._apart = 0, 0, False
        self._unread = AsWritten(blocks[-1].fence if blocks else "")
        return rows + self._take_unread(self._unread, width)

    def _take_unread(self, unread: AsWritten, width: int) -> list[Row]:
        """Take the lines of it that have ended, and what the one that goes on fills."""
        whole = self._joined()
        end = unread.end(whole)
        if end is not None:
            rows = unread.rows(whole[: end[0]], width) if end[0] else []
            self._open = whole[end[1] :]
            self._unread, self._apart, self._read = None, True, 0
        else:
            ended = whole.rfind("\n") + 1
            rows = unread.rows(whole[:ended], width) if ended else []
            full, self._open = unread.full_rows(whole[ended:], width)
            rows += full
        self._below = self._below or bool(rows)
        self._tail = None
        return rows

    def tail(self, width: int) -> list[Row]:
        """The rows below those that were taken, as they are now."""
        if self._tail is None or self._tail[0] != width:
            whole = self._joined()
            if self._unread is not None:
                rows = self._unread.rows(whole[-NEWEST:], width) if whole else []
            else:
                rows = self._rows(width) if len(whole) <= LONG else self._newest(width)
            self._tail = width, rows
        return self._tail[1]

    def _newest(self, width: int) -> list[Row]:
        # What was read of a block that rows were taken of may be among these.
        since = self._read if self._taken else 0
        newest = prepared(self._joined()[since:][-NEWEST:].expandtabs(4))
        return list(wrapped([Span(newest.strip("\n"), PLAIN)], width)) if newest else []

    def _rows(self, width: int) -> list[Row]:
        below, taken, apart = self._below, self._taken, self._apart
        rows: list[Row] = []
        for each in top_blocks(prepared(self._joined()), self._room(width)):
            rows += self._rest(each, len(each.block.rows))
            self._taken = 0
            self._apart = False
        self._below, self._taken, self._apart = below, taken, apart
        return rows

    def finish(self, width: int) -> list[Row]:
        """The rest: the text is over."""
        rows = [] if self._unread is None else self._take_unread(self._unread, width)
        whole = self._joined()
        if self._unread is None and len(whole) > MOST_READ:
            read = whole[: _last_line(whole)]
            blocks = top_blocks(prepared(read), self._room(width))
            for each in blocks[:-1]:
                rows += self._rest(each, len(each.block.rows))
                self._taken, self._apart = 0, False
            rows += self._begin_unread(read, blocks[-1:], width)
            whole = self._joined()
            if self._unread is None and whole:
                rows += [[], *rows_of(whole, width)]
                whole = self._open = ""
        if self._unread is not None:
            rows += self._unread.rows(whole, width) if whole else []
            self._open, self._unread = "", None
        rows += self._rows(width)
        self._below = self._below or bool(rows)
        self._open, self._taken, self._apart = "", 0, False
        self._read, self._tail = 0, None
        return rows

    def _joined(self) -> str:
        if self._new:
            self._open += "".join(self._new)
            self._new = []
        return self._open

    def _room(self, width: int) -> int:
        """A block that was begun is as wide to its end as it was at its beginning."""
        return self._width if self._taken else width

    def _rest(self, each: TopBlock, until: int) -> list[Row]:
        """Its rows from those that were taken on, with the blank one above."""
        rows = each.block.rows[self._taken : until]
        if not rows:
            return []
        apart = self._below and not self._taken and (each.apart or self._apart)
        self._below = True
        return [[], *rows] if apart else rows


def _last_line(text: str) -> int:
    """Where the last line ends that is read at once."""
    return text.rfind("\n", 0, MOST_READ) + 1
