import io
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from heddle.cli.exits import WrongUsage
from heddle.cli.reading.inputs import MAX_INPUT, misspelt, read_input
from heddle.spec import Property


def refused(text: str) -> str:
    with pytest.raises(WrongUsage) as caught:
        read_input(text)
    return str(caught.value)


def test_without_input_a_run_starts_from_nothing() -> None:
    assert read_input(None) == {}


def test_an_object_is_taken_from_the_command_line() -> None:
    assert read_input(' {"a": [1, null]} ') == {"a": [1, None]}


def test_an_object_is_taken_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    file.write_text('{"ä": 1}\n', "utf-8")
    assert read_input(f"@{file}") == {"ä": 1}


def test_an_object_is_taken_from_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"a": 1}')))
    assert read_input("-") == {"a": 1}


def test_stdin_that_is_closed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert refused("-") == "--input -: stdin is closed"


def test_malformed_json_is_told_with_its_line_and_column() -> None:
    told = refused('{"a":\n 1,}')
    assert told.startswith("--input: this is not JSON: line 2, column ")
    assert told.endswith("Take away the comma before '}'.")
    assert refused("{} 2").endswith("Keep one value in a document, and nothing behind it.")
    assert refused("[NaN]").endswith("""Give an object, such as '{"question": "why?"}'.""")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[1]", "this is an array, and a run starts from an object"),
        ('"x"', "this is a string"),
        ("3", "this is a number"),
        ("true", "this is a boolean"),
        ("null", "this is null"),
        ("", "it is empty"),
        ("  ", "it is empty"),
        ("hello", "this is not JSON: line 1, column 1: expecting value"),
        ('{"a": NaN}', "this is not JSON: invalid character"),
        ('{"a": "\\ud800"}', "half of a surrogate pair, such as \\ud800, stands alone"),
        ('{"a": 1e999}', "number out of range"),
        ('{"a":' * 201 + "1" + "}" * 201, "nested deeper than 200 levels"),
        ('{"a":' * 100_000, "nested deeper than 200 levels"),
        ("@/no/such/file", "--input @/no/such/file: cannot read it: No such file"),
        ("@/no/such/file", "There is no folder '/no/such'."),
        ("@/tmp", "cannot read it: Is a directory"),
        ("@", "cannot read it"),
        ("@\x00", "cannot read it"),
        ("@\x1b[2J", "--input @\\x1b[2J: cannot read it"),
        ("\udcff", "it is not UTF-8"),
    ],
)
def test_what_is_no_object_is_refused(text: str, says: str) -> None:
    assert says in refused(text)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_bytes(b'{"a": "\xff"}')
    assert "it is not UTF-8" in refused(f"@{tmp_path}/state.json")


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "state.json").open("wb") as file:
        file.truncate(MAX_INPUT + 1)
    assert "it is over 64 MiB" in refused(f"@{tmp_path}/state.json")


@given(st.text().filter(lambda text: not text.startswith(("@", "-"))))
@example("[" * 100_000)
def test_any_text_is_an_object_or_refused(text: str) -> None:
    with suppress(WrongUsage):
        assert isinstance(read_input(text), dict)


def declared(*titles: str) -> list[Property]:
    return [Property(each, {"title": each, "type": "string"}, "x") for each in titles]


@pytest.mark.parametrize(
    ("given", "guess"),
    [
        ({"txet": 1}, "text"),
        ({"Text": 1}, "text"),
        ({"other": 1}, None),
        ({"text": 1, "txet": 2}, None),
        ({}, None),
    ],
)
def test_an_input_that_is_probably_another_one_is_warned_of(
    given: dict[str, Any], guess: str | None
) -> None:
    told = list(misspelt(given, declared("text", "language")))
    assert [each.rpartition(" ")[2] for each in told] == ([f"'{guess}'?"] if guess else [])


def test_of_one_that_the_flow_needs_it_is_said_too() -> None:
    needed = Property("text", {"title": "text", "type": "string"})
    assert list(misspelt({"txet": 1}, [needed])) == [
        "--input: the flow has no input 'txet', and 'text' is not given. Did you mean "
        "'text'?"
    ]


def test_what_does_not_begin_as_an_object_is_told_what_one_is() -> None:
    assert refused("name=Ada").endswith(
        """Give an object, such as '{"question": "why?"}'."""
    )
