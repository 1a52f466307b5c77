"""Text that is broken between words where a terminal would break it inside of one.

    x flow.json $.nodes[2]: 'llm_config' is missing.
      Is 'llm_confg' a misspelling of it?

What goes into a file or a pipe stays on one line, so that it can be searched.
"""

import os
from collections.abc import Iterator
from typing import Final

STDERR: Final = 2
NARROWEST: Final = 20
"""Columns below which nothing is broken between words: it would be a word a line."""


def width_of_stderr() -> int | None:
    """The columns of the terminal that stderr is; None where it is none."""
    try:
        return os.get_terminal_size(STDERR).columns or None
    except OSError:
        return None


def wrapped(text: str, width: int | None, *, indent: str = "  ") -> Iterator[str]:
    """The lines of a text, each broken where it is wider than ``width`` columns.

    Lines that go on begin with ``indent`` and with what the line itself is indented by. A
    word that is wider than a line is left to the terminal.
    """
    for line in text.split("\n"):
        if width is None or width < NARROWEST or columns(line) <= width:
            yield line
            continue
        body = line.lstrip(" ")
        margin = line[: len(line) - len(body)]
        row, used = margin, len(margin)
        is_empty = True
        for word in body.split(" "):
            wide = columns(word)
            if not is_empty and used + 1 + wide > width:
                yield row
                row, used, is_empty = margin + indent, len(margin + indent), True
            row += word if is_empty else f" {word}"
            used += wide + (not is_empty)
            is_empty = False
        yield row


def columns(text: str) -> int:
    """How many columns a text takes on a terminal."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
