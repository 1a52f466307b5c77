"""Markdown that comes in pieces: what is shown for good is what the whole text shows."""

from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from heddle.cli.text import streamed
from heddle.cli.text.markdown import Row, TopBlock, prepared, top_blocks
from heddle.cli.text.markdown_lines import cells
from heddle.cli.text.streamed import Streamed


def shown(rows: Sequence[Row]) -> list[str]:
    return ["".join(segment.text for segment in row) for row in rows]


def whole(text: str, width: int = 80) -> list[str]:
    return shown(Streamed(text).finish(width))


LINES = st.sampled_from(
    [
        *("", "", "text", "two words", "- item", "  more", "    deep", "* other", "1. one"),
        *("2. two", "7) seven", "  - inner", "> quoted", ">", "> - in it", "# head", "---"),
        *("===", "```", "```py", "~~~", "  ```", "x = 1", "\tif x:", "a | b", "--- | ---"),
        *("1 | 2", "**bold", "end**", "`code", "[a]: http://b", "[a]", "[a](http://c)"),
        *(
            "<div>",
            "<b>x</b>",
            "&#27;[2J",
            "\x1b[31m",
            "日本語",
            "-",
            "1.",
            "\\",
            "a  ",
            "* * *",
        ),
    ]
)
TEXTS = st.one_of(
    st.lists(LINES, max_size=12).map("\n".join), st.text("-*#>` ab1.|\n~_[]()", max_size=60)
)


@settings(deadline=None)
@given(TEXTS, st.lists(st.integers(0, 12), max_size=20), st.sampled_from([7, 20, 80]))
@example("- a\n---x", [4, 4], 20)
@example("a\n===", [1], 20)
@example("- a\n\n  b\n\n\nc", [2, 2, 2], 20)
@example("```\na\n\nb\n```\n\nc", [5, 1, 1, 1], 7)
def test_however_it_is_cut_all_rows_are_those_of_the_whole_text(
    text: str, cuts: list[int], width: int
) -> None:
    stream = Streamed()
    rows: list[Row] = []
    at = 0
    for cut in cuts:
        stream.feed(text[at : at + cut])
        at += cut
        rows += stream.take(width)
        # What is on the screen now is the text so far.
        assert shown([*rows, *stream.tail(width)]) == whole(text[:at], width)
    stream.feed(text[at:])
    rows += stream.take(width)
    assert shown([*rows, *stream.finish(width)]) == whole(text, width)
    assert stream.text == text


@settings(deadline=None)
@given(TEXTS, st.integers(1, 30))
def test_no_row_of_text_is_wider_than_the_terminal_and_none_acts_on_it(
    text: str, width: int
) -> None:
    for block in top_blocks(prepared(text), width):
        for row in block.block.rows:
            said = "".join(segment.text for segment in row)
            assert "\x1b" not in said
            assert "\n" not in said
            is_code = any(segment.text.startswith("    ") for segment in row)
            assert is_code or cells(row) <= max(width, 12)


@pytest.mark.parametrize(
    "text",
    [
        "|a|b|\n|-|-|\n" + "|cell|other|\n" * 60,
        "- item of a list\n" * 60,
        "```\n" + "x = 1\n" * 60 + "```\n\nbelow",
        "word " * 200,
    ],
)
def test_a_long_block_is_read_seldom_and_ends_as_it_should(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    def counted(text: str, width: int) -> list[TopBlock]:
        read.append(len(text))
        return top_blocks(text, width)

    monkeypatch.setattr(streamed, "top_blocks", counted)
    monkeypatch.setattr(streamed, "LONG", 100)
    stream = Streamed()
    rows: list[Row] = []
    for at in range(0, len(text), 5):
        stream.feed(text[at : at + 5])
        rows += stream.take(40)
        tail = shown(stream.tail(40))
        assert max(map(len, tail), default=0) <= 40
        if at > 200:
            assert tail or text.startswith(("```", "-"))  # its rows may all be taken
    assert shown([*rows, *stream.finish(40)]) == whole(text, 40)
    assert sum(read) < 30 * len(text)


def test_what_has_not_changed_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Streamed("some text")
    stream.take(40)
    tail = stream.tail(40)
    monkeypatch.setattr(streamed, "top_blocks", lambda *_: pytest.fail("it is read"))
    assert stream.tail(40) is tail
