"""The table of the numbers is that of the benchmarks, and the page has each of them."""

from pathlib import Path

import pytest

from bench import __main__ as command
from bench.harness import Answer, against_floor
from bench.numbers import NUMBERS, Number, undeclared
from bench.subjects import subjects

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "benchmarks.md"


def test_every_benchmark_has_rows_and_no_number_has_two() -> None:
    assert list(NUMBERS) == subjects()
    names = [number.name for rows in NUMBERS.values() for number in rows]
    assert len(names) == len(set(names)) >= 70


def test_all_that_the_list_prints_is_on_the_page(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command.main(["--list"]) == 0

    page = PAGE.read_text()
    lines = capsys.readouterr().out.splitlines()
    listed = [line.split()[0] for line in lines if not line.startswith(" ")]
    rows = [line.strip().partition(": ")[0] for line in lines if line.startswith(" " * 16)]
    assert listed == subjects()
    assert len(rows) == sum(map(len, NUMBERS.values()))
    assert [name for name in listed if f"\n## `{name}`\n" not in page] == []
    assert [name for name in rows if f"\n| `{name}` |" not in page] == []


FAKE = (
    Number("fake.ratio", "", "a floor", 2.0),
    Number("fake.value", "", "", 5.0, "value", "higher"),
    Number("fake.read", ""),
)
HELD = (
    against_floor("fake.ratio", 3.0, "s", floor=2.0, limit=2.0),
    Answer("fake.value", 3.0, "s", limit=5.0, better="higher"),
    Answer("fake.read", 3.0, "s"),
)


def test_answers_that_the_table_tells_are_no_problem(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(NUMBERS, "fake", FAKE)
    assert undeclared("fake", HELD) == []
    # What this machine lacks, as Node, is not told.
    assert undeclared("fake", HELD[1:]) == []


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Answer("fake.new", 3.0, "s"), "bench/numbers.py has no row of it"),
        (Answer("fake.read", 3.0, "s", limit=1.0), "tells another floor or limit"),
        (Answer("fake.ratio", 3.0, "s", limit=2.0), "tells another floor or limit"),
        (Answer("fake.ratio", 3.0, "s", 1.0, limit=2.0), "has its limit of another"),
        (Answer("fake.value", 3.0, "s", limit=5.0), "tells another direction"),
    ],
)
def test_an_answer_that_the_table_tells_otherwise_is_one(
    answer: Answer, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(NUMBERS, "fake", FAKE)
    (told,) = undeclared("fake", [answer])
    assert told.startswith(f"{answer.name}: ")
    assert problem in told
