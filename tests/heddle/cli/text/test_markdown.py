"""Markdown as rows of a terminal: one example of each kind of block."""

import pytest

from heddle.cli.text.markdown import prepared, shares, top_blocks


def shown(text: str, width: int = 40) -> list[str]:
    return [
        "".join(segment.text for segment in row)
        for block in top_blocks(prepared(text), width)
        for row in block.block.rows
    ]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("# Title", ["Title"]),
        ("one\ntwo", ["one", "two"]),
        ("**bold** *em* ~~gone~~ `code`", ["bold em gone code"]),
        ("[it](http://x) <http://y>", ["it (http://x) http://y"]),
        ("![a picture](p.png)", ["a picture (p.png)"]),
        ("- a\n  - b\n- c", ["• a", "  • b", "• c"]),
        ("3. a\n4. b", ["3. a", "4. b"]),
        ("> quoted\n> > twice", ["│ quoted", "│ │ twice"]),
        ("```py\nx = 1\n\n\ty\n```", ["    x = 1", "", "        y"]),
        ("---", ["─" * 40]),
        ("<b>html</b>", ["<b>html</b>"]),
        ("[a]: http://x", ["[a]: http://x"]),
        ("&rlm;x", ["\\u200fx"]),
    ],
)
def test_each_kind_of_block_is_shown_as_what_it_is(text: str, rows: list[str]) -> None:
    assert shown(text) == rows


def test_a_table_has_a_line_under_its_head_and_fits() -> None:
    table = "| name | what |\n|---|---|\n| a | a long cell of words |\n| 日本 | `x` |"
    assert shown(table, 40) == [
        "name │ what",
        "─────┼─────────────────────",
        "a    │ a long cell of words",
        "日本 │ x",
    ]
    assert shown(table, 16) == [
        *("name │ what", "─────┼──────────"),
        *("a    │ a long", "     │ cell of", "     │ words", "日本 │ x"),
    ]


def test_a_line_of_code_is_as_long_as_it_is() -> None:
    assert shown(f"    {'x' * 100}", 20) == [f"    {'x' * 100}"]


@pytest.mark.parametrize(
    ("wanted", "room", "given"),
    [
        ([3, 4], 10, [3, 4]),
        ([30, 4], 10, [6, 4]),
        ([30, 30], 10, [5, 5]),
        ([30, 20, 2], 12, [5, 5, 2]),
        ([5, 5], 1, [1, 1]),
        ([0], 5, [1]),
    ],
)
def test_columns_that_want_most_give_way(
    wanted: list[int], room: int, given: list[int]
) -> None:
    assert shares(wanted, room) == given
