"""Markdown that comes in pieces: what is shown for good is what the whole text shows."""

from collections.abc import Sequence

from hypothesis import example, given, settings
from hypothesis import strategies as st

from heddle.cli.markdown import Row, prepared, top_blocks
from heddle.cli.markdown_lines import cells
from heddle.cli.streamed import Streamed


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
