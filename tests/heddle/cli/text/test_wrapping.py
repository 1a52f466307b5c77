"""Long messages on a terminal are broken between words."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.cli.text.wrapping import NARROWEST, columns, wrapped
from tests.heddle.cli.conftest import COMMAND, Heddle, WriteFlow, surroundings
from tests.support.screen import Screen


def test_a_line_is_broken_between_words_and_goes_on_indented() -> None:
    assert list(wrapped("x flow.json: one two three four", 20)) == [
        "x flow.json: one two",
        "  three four",
    ]


def test_each_line_of_a_text_keeps_its_own_indentation() -> None:
    assert list(wrapped("two:\n  aaaa bbbb cccc dddd eeee", 20)) == [
        "two:",
        "  aaaa bbbb cccc",
        "    dddd eeee",
    ]


def test_wide_characters_count_for_two() -> None:
    assert list(wrapped("日本語日本語 日本語日本語", 20)) == [
        "日本語日本語",
        "  日本語日本語",
    ]


def test_what_does_not_fit_at_all_is_left_to_the_terminal() -> None:
    assert list(wrapped("a " + "b" * 30 + " c", 20)) == ["a", "  " + "b" * 30, "  c"]
    assert list(wrapped("one two three four five six", 10)) == [
        "one two three four five six"
    ]


def test_nothing_is_broken_where_there_is_no_terminal() -> None:
    assert list(wrapped("word " * 50, None)) == ["word " * 50]


@given(st.text(alphabet="ab語 \n"), st.integers(NARROWEST, 40))
def test_no_word_is_lost_and_none_is_broken(text: str, width: int) -> None:
    rows = list(wrapped(text, width))
    assert " ".join(rows).split() == text.split()
    for row in rows:
        assert columns(row) <= width or len(row.split()) == 1 or row in text.split("\n")


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize("command", ["validate", "run", "graph"])
def test_on_a_terminal_no_problem_and_no_line_of_the_document_is_broken_in_a_word(
    heddle: Heddle, flow: WriteFlow, tmp_path: Path, width: int, command: str
) -> None:
    name = flow()
    text = (tmp_path / name).read_text().replace('"EndNode"', '"EndNodd"')
    (tmp_path / name).write_text(json.dumps(json.loads(text)))  # on one line
    piped = heddle(command, name).stderr
    with Screen(
        [*COMMAND, command, name],
        cwd=tmp_path,
        env=surroundings(tmp_path),
        columns=width,
    ) as screen:
        assert screen.ended() == 1
        rows = [row.rstrip() for row in screen.text.splitlines() if row.strip()]
    begin = next(n for n, row in enumerate(rows) if "-->" in row)
    assert " ".join(row.strip() for row in rows[:begin]) == piped.splitlines()[0]
    assert begin > 1
    # The line that is quoted, its mark, and the count; none takes a second row.
    assert len(rows) == begin + 4
    quoted, mark = rows[begin + 1 : begin + 3]
    assert quoted[mark.index("^") :].startswith('"EndNodd"')
    assert mark.count("^") == len('"EndNodd"')


def test_the_error_of_a_run_is_broken_between_words_too(
    heddle: Heddle, tmp_path: Path
) -> None:
    name = "a/long/path/to/where/no/flow/is/flow.json"
    piped = heddle("run", name).stderr
    with Screen(
        [*COMMAND, "run", name], cwd=tmp_path, env=surroundings(tmp_path), columns=60
    ) as screen:
        assert screen.ended() == 1
        rows = [row.strip() for row in screen.text.splitlines() if row.strip()]
    assert len(rows) > 1
    assert " ".join(rows) == piped.strip()
