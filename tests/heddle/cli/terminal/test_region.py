"""The picture at the bottom of a terminal, against a terminal that shows what it gets."""

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyte import HistoryScreen, Stream
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

from heddle.cli.terminal.region import Region, Row, cut

WIDTH, HEIGHT = 16, 6


class Terminal:
    """A screen with what scrolled off it."""

    def __init__(self, width: int = WIDTH, height: int = HEIGHT) -> None:
        self.screen = HistoryScreen(width, height, history=1000)
        self._stream = Stream(self.screen)

    def feed(self, data: bytes) -> None:
        self._stream.feed(data.decode())

    @property
    def lines(self) -> list[str]:
        """Everything that was ever shown and not erased, down to the cursor's line."""
        screen = self.screen
        gone = [
            "".join(line[column].data for column in range(screen.columns)).rstrip()
            for line in screen.history.top
        ]
        shown = [line.rstrip() for line in screen.display]
        assert not any(shown[screen.cursor.y :])
        assert screen.cursor.x == 0
        return [*gone, *shown[: screen.cursor.y]]


def row(text: str) -> Row:
    return [Segment(text)] if text else []


def cells(row: Row) -> int:
    return sum(cell_len(each.text) for each in row)


def text_of(row: Row) -> str:
    return "".join(each.text for each in row)


class Frame(NamedTuple):
    rows: Sequence[str]
    above: Sequence[str]


words = st.text("ab你é ", max_size=20).map(str.strip)
frames = st.lists(
    st.builds(Frame, st.lists(words, max_size=8), st.lists(st.text("xyz", max_size=9))),
    max_size=8,
)


@given(frames)
def test_the_screen_shows_what_scrolled_away_and_the_last_picture(
    frames: list[Frame],
) -> None:
    terminal, region = Terminal(), Region()
    above: list[str] = []
    expected: list[str] = []
    for frame in frames:
        terminal.feed(
            region.draw(
                [row(each) for each in frame.rows],
                above=[row(each) for each in frame.above],
                width=WIDTH,
                height=HEIGHT,
            )
        )
        above += frame.above
        picture = [text_of(cut(row(r), WIDTH - 1)) for r in frame.rows[: HEIGHT - 1]]
        expected = [*above, *(each.rstrip() for each in picture)]
        # A screen of cells has an empty cell behind each wide character.
        assert [line.replace(" ", "") for line in terminal.lines] == [
            line.replace(" ", "") for line in expected
        ]
    terminal.feed(region.clear(width=WIDTH, height=HEIGHT))
    assert terminal.lines == above


def test_rows_that_stay_the_same_are_not_written_again() -> None:
    region = Region()
    region.draw([row("one"), row("two"), row("three")], width=20, height=9)
    again = region.draw([row("one"), row("2"), row("three")], width=20, height=9)
    assert again == b"\x1b[2A\r2\x1b[K\r\n\x1b[1B"
    assert region.draw([row("one"), row("2"), row("three")], width=20, height=9) == b""


def test_a_terminal_made_narrower_has_wrapped_the_picture() -> None:
    region = Region()
    region.draw([row("x" * 19), row("y" * 5)], width=20, height=9)
    assert region.draw([row("z")], width=7, height=9).startswith(b"\x1b[4A\r\x1b[J")
    assert region.clear(width=0, height=0) == b"\r\x1b[J"


def test_a_picture_that_was_left_behind_is_not_overwritten() -> None:
    terminal, region = Terminal(), Region()
    terminal.feed(region.draw([row("old")], width=WIDTH, height=HEIGHT))
    region.forget()
    terminal.feed(b"$ fg\r\n" + region.draw([row("new")], width=WIDTH, height=HEIGHT))
    assert terminal.lines == ["old", "$ fg", "new"]


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        ("你好", 4, "你好"),
        ("你好吗", 4, "你…"),
        ("你好吗", 5, "你好…"),
        ("abc", 1, "…"),
        ("abc", 0, ""),
        ("", 0, ""),
        ("👩\u200d👧\ufe0f", 9, "👩👧"),
        ("e\u0301e\u0301", 2, "e\u0301e\u0301"),
        ("z" + "\u0301\u20dd" * 99 + "a", 2, "z\u0301\u20dd\u0301a"),
    ],
)
def test_a_row_is_cut_by_cells(text: str, width: int, shown: str) -> None:
    assert text_of(cut(row(text), width)) == shown


@given(st.lists(st.text(), max_size=4), st.integers(0, 12))
def test_a_cut_row_fits_and_is_left_alone_where_it_does(
    texts: list[str], width: int
) -> None:
    whole = [Segment("".join(ch for ch in text if ch.isprintable())) for text in texts]
    kept = cut(whole, width)
    assert cells(kept) <= width
    if text_of(whole).isascii() and cells(whole) <= width:
        assert text_of(kept) == text_of(whole)


def test_styles_colour_unless_that_is_not_wanted() -> None:
    loud = [[Segment("hot", Style.parse("bold red"))]]
    assert Region().draw(loud, width=9, height=9) == b"\x1b[1;31mhot\x1b[0m\r\n"
    plain = Region(colours=False).draw(loud, width=9, height=9)
    assert plain == b"\x1b[1mhot\x1b[0m\r\n"
