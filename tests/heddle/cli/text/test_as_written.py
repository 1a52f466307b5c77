"""Answers that are too long to be read as Markdown: shown as written, and nobody waits."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.cli.text import streamed
from heddle.cli.text.as_written import WORDS, rows_of
from heddle.cli.text.markdown import Row, TopBlock, top_blocks
from heddle.cli.text.markdown_lines import cells
from heddle.cli.text.streamed import MOST_READ, Streamed

HEAD = "| id | name |\n|---|---|\n"
MANY = 3_000
TABLE = HEAD + "".join(f"| {n} | name *{n}* |\n" for n in range(MANY))
LIST = "".join(f"- item *{n}*\n" for n in range(MANY))
PARAGRAPHS = "".join(f"line *{n}*\n\n" for n in range(MANY))
LINE = "".join(f"word{n} " for n in range(MANY))
CODE = "```py\n" + "".join(f"line *{n}*\n\n" for n in range(MANY)) + "```\n"
LONG = {"table": TABLE, "list": LIST, "paragraphs": PARAGRAPHS, "line": LINE, "code": CODE}


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many characters were read as Markdown, each time."""
    sizes: list[int] = []

    def noting(text: str, width: int) -> list[TopBlock]:
        sizes.append(len(text))
        return top_blocks(text, width)

    monkeypatch.setattr(streamed, "top_blocks", noting)
    return sizes


def shown(rows: Sequence[Row]) -> list[str]:
    return ["".join(segment.text for segment in row) for row in rows]


def in_pieces(text: str, size: int, width: int = 80) -> list[str]:
    stream = Streamed()
    rows: list[Row] = []
    for at in range(0, len(text), size):
        stream.feed(text[at : at + size])
        rows += stream.take(width)
        stream.tail(width)
    return shown(rows + stream.finish(width))


@pytest.mark.parametrize("size", [4000, 1 << 30])
@pytest.mark.parametrize("name", LONG)
def test_no_more_is_read_at_once_than_takes_a_moment_and_nothing_is_lost(
    read: list[int], name: str, size: int
) -> None:
    found = "\n".join(in_pieces(LONG[name], size)).replace("*", "")
    assert read
    assert max(read) <= MOST_READ
    if size == 1 << 30:
        assert sum(read) <= 3 * MOST_READ
    if name == "line":
        assert found.replace("\n", "").replace(" ", "") == LINE.replace(" ", "")
        return
    numbers = [each.strip("│| ").rpartition(" ")[2] for each in found.split("\n")]
    expected = [str(n) for n in range(MANY)]
    assert [each for each in numbers if each.isdecimal()] == expected


def test_the_beginning_of_a_long_table_is_a_table_and_the_rest_is_as_written() -> None:
    rows = in_pieces(f"{TABLE}\nAn *end*.", 2000)
    assert rows[0].split() == ["id", "│", "name"]
    assert "│" in rows[100]
    assert rows[-4] == "| 2998 | name *2998* |"
    assert rows[-3:] == ["| 2999 | name *2999* |", "", "An end."]


def test_long_code_is_code_to_its_fence_and_not_to_its_first_blank_line() -> None:
    rows = in_pieces(f"{CODE}An *end*.", 2000)
    assert rows[0] == "    line *0*"
    assert rows[-4:] == ["    line *2999*", "", "", "An end."]


def test_what_comes_after_a_long_block_is_read_again() -> None:
    rows = in_pieces(f"{LIST}\n# Title\n\n- *one*\n", 3000)
    assert rows[-4:] == ["", "Title", "", "• one"]


@settings(deadline=None, max_examples=30)
@given(
    st.lists(
        st.sampled_from(["a\n", "b c\n", "\n", "| d |\n", "```\n", "é語" * 90]), max_size=60
    )
)
def test_what_is_taken_and_what_is_left_is_all_of_it(pieces: list[str]) -> None:
    """With a bound that is met all the time; what is special to Markdown is left out."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streamed, "MOST_READ", 12)
        patch.setattr(streamed, "LONG", 6)
        stream = Streamed()
        rows: list[Row] = []
        for piece in pieces:
            stream.feed(piece)
            rows += stream.take(40)
            stream.tail(40)
        rows += stream.finish(40)
    for letter in "abcdé語":
        assert "".join(shown(rows)).count(letter) == "".join(pieces).count(letter)
    assert all(cells(row) <= 44 or row[0].text.startswith("    ") for row in rows)


def test_lines_are_broken_between_words_unless_they_are_very_long() -> None:
    assert shown(rows_of("one two three", 8)) == ["one two", "three"]
    assert shown(rows_of("x" * (WORDS + 1), 300)) == ["x" * 300, "x" * (WORDS - 299)]
    assert shown(rows_of("a\n\nb\x1b[2J\n", 20)) == ["a", "", "b\\x1b[2J"]


def test_a_line_without_an_end_is_shown_while_it_grows() -> None:
    stream = Streamed()
    taken: list[Row] = []
    for _ in range(100):
        stream.feed("x" * 1000)
        taken += stream.take(80)
    assert len(taken) > 1000
    assert len(stream.tail(80)) == 1
