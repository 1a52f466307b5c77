"""What ``python -m bench`` prints, and that every benchmark says what it is about."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TypeGuard

import msgspec
import pytest

from bench import __main__ as command
from bench import alone
from bench.alone import Failed, answers_of
from bench.commands import INTERRUPTED
from bench.harness import Answer, against_floor
from bench.numbers import NUMBERS, Number
from bench.report import summary, table
from bench.sizes import QUICK, quick
from bench.subjects import About, about, module_of, subjects


@pytest.fixture(scope="module")
def every() -> list[str]:
    found = subjects()
    assert len(found) >= 16
    return found


def test_every_benchmark_states_its_question_its_workload_and_its_answer(
    every: list[str],
) -> None:
    for subject in every:
        told = about(subject)
        assert told.question, subject
        assert told.workload, subject
        assert told.answer, subject


def test_every_benchmark_has_small_sizes_of_constants_that_there_are(
    every: list[str],
) -> None:
    assert set(QUICK) == set(every)
    for subject, small in QUICK.items():
        for name, value in small.items():
            assert type(getattr(module_of(subject), name)) is type(value), (subject, name)


def test_small_sizes_last_as_long_as_they_are_asked_for() -> None:
    module = module_of("cli")
    before = module.ROUNDS
    with quick("cli", module):
        assert before > module.ROUNDS
    assert before == module.ROUNDS


MET = against_floor("fake.met", 3.0, "µs", floor=2.0, limit=2.0, detail={"p99": 4.5})
MISSED = against_floor("fake.missed", 1.0, "/s", floor=2.0, limit=0.6, better="higher")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Benchmarks that measure nothing: one misses its limit, and one fails."""

    told = {"good": MET, "bad": MISSED, "ill": Failed("ill", "ValueError: no luck")}

    def answers_of(subject: str, *, small: bool) -> Iterator[Answer | Failed]:
        yield told[subject]

    rows = {
        "good": (Number("fake.met", "", "a floor", 2.0),),
        "bad": (Number("fake.missed", "", "a floor", 0.6, better="higher"),),
    }
    for name, numbers in rows.items():
        monkeypatch.setitem(NUMBERS, name, numbers)
    monkeypatch.setattr(command, "subjects", lambda: list(told))
    monkeypatch.setattr(command, "answers_of", answers_of)
    monkeypatch.setattr(
        command, "about", lambda name: About(name, "t", "is it fast?", "w", "a")
    )


@pytest.mark.usefixtures("fake")
def test_answers_are_json_lines_on_stdout_and_a_table_on_stderr(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command.main(["good"]) == 0

    out, err = capsys.readouterr()
    machine, told, answer = map(msgspec.json.decode, out.splitlines())
    assert {"python", "cores", "trio"} <= set(machine["machine"])
    assert told["about"]["question"] == "is it fast?"
    assert answer["name"] == "fake.met"
    assert answer["detail"] == {"p99": 4.5}
    assert "good: is it fast?" in err
    assert "1 of 1 limits met" in err


@pytest.mark.usefixtures("fake")
def test_a_missed_limit_is_status_1_and_with_quick_no_verdict(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command.main(["good", "bad"]) == 1
    assert command.main(["good", "bad", "--quick"]) == 0
    assert capsys.readouterr().err.count("1 of 2 limits met; missed: fake.missed") == 2


@pytest.mark.usefixtures("fake")
def test_a_number_that_the_table_tells_otherwise_is_status_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(NUMBERS, "good", ())
    assert command.main(["good"]) == 2
    shown = capsys.readouterr().err
    assert shown.endswith("\nfake.met: bench/numbers.py has no row of it\n")


@pytest.mark.usefixtures("fake")
def test_a_benchmark_that_fails_is_told_and_the_others_go_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command.main(["ill", "good", "--quick"]) == 2
    out, err = capsys.readouterr()
    assert '{"failed":"ill","reason":"ValueError: no luck"}\n' in out
    assert '"name":"fake.met"' in out
    assert err.endswith("1 of 1 limits met\nill failed: ValueError: no luck\n")


def test_a_benchmark_runs_in_a_process_of_its_own_and_is_told_as_it_goes() -> None:
    names = [answer.name for answer in answers_of("provider", small=True) if _met(answer)]
    assert names == ["provider.batch of 8 chunks", "provider.chunks at once"]


def _met(answer: Answer | Failed) -> TypeGuard[Answer]:
    assert isinstance(answer, Answer), answer
    return True


def test_a_process_that_ends_by_itself_is_a_failure() -> None:
    (failed,) = answers_of("nothing", small=False)
    assert failed == Failed("nothing", "its process has ended with status 1")


def test_an_interrupt_ends_it_and_what_it_measures_though_a_shell_has_it_ignored() -> None:
    line = f"trap '' INT; exec {sys.executable} -m bench server_start"
    with subprocess.Popen(["sh", "-c", line], stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        assert "machine" in started.stdout.readline()
        assert "about" in started.stdout.readline()
        started.send_signal(signal.SIGINT)
        rest, _ = started.communicate(timeout=30)
    assert (started.returncode, rest) == (INTERRUPTED, "")


def test_what_goes_wrong_in_a_benchmark_is_told_with_its_last_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run() -> Iterator[Answer]:
        yield MET
        raise ValueError("no\nluck")

    module = ModuleType("fake")
    module.__dict__["run"] = run
    monkeypatch.setattr(alone, "module_of", {"fake": module}.__getitem__)
    assert alone.main(["fake"]) == 0
    met, failed = map(msgspec.json.decode, capsys.readouterr().out.splitlines())
    assert met["name"] == "fake.met"
    assert failed == {"failed": "fake", "reason": "ValueError: no luck"}


def test_a_row_has_value_floor_ratio_limit_and_verdict() -> None:
    met, missed = table([MET, MISSED]).splitlines()
    assert met.split() == [
        "fake.met",
        "3",
        "µs",
        "floor",
        "2",
        "1.50",
        "x",
        "<=",
        "2",
        "met",
        "p99=4.5",
    ]
    assert missed.split() == [
        "fake.missed",
        "1",
        "/s",
        "floor",
        "2",
        "0.50",
        "x",
        ">=",
        "0.6",
        "MISSED",
    ]


def test_an_answer_without_a_limit_is_there_to_be_read() -> None:
    assert summary([Answer("fake.read", 1.0, "s")]) == "\n0 of 0 limits met\n"


def test_the_page_names_flags_and_benchmarks_that_there_are() -> None:
    page = (Path(__file__).parents[2] / "docs" / "benchmarks.md").read_text()
    lines = re.findall(r"^\$ python -m bench (.*?)(?: +#.*)?$", page, re.MULTILINE)
    assert len(lines) == 8
    for line in lines:
        command._parser().parse_args(line.split())
