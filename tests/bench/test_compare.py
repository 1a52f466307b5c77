"""Two revisions side by side, in a throw-away repository whose benchmark costs nothing."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from bench import __main__ as command
from bench import comparing
from bench.commands import INTERRUPTED
from bench.compare import Compared, How, Number, Spread
from bench.compare_report import section

# Tells its numbers from a file, one row a round; says in a log that it ran, and how.
WORKLOAD = """
import json, os, sys
from pathlib import Path
here = Path(__file__).parent
with Path(os.environ["LOG"]).open("a") as log:
    log.write(f"{here.parent.name} {' '.join(sys.argv[1:])}\\n")
if "--help" in sys.argv:
    print("usage: python -m bench [--list]")
    raise SystemExit
known = json.loads((here / "numbers.json").read_text())
if known == "crash":
    print(json.dumps({"name": "fake.half", "value": 1, "unit": "s"}))
    raise ValueError("no luck")
if known == "wait":
    import time
    print("waiting", flush=True)
    time.sleep(60)
rounds = here / "round"
number = int(rounds.read_text()) if rounds.exists() else 0
rounds.write_text(str(number + 1))
print(json.dumps({"machine": {"python": "3"}}))
for name, values in known.items():
    value = values[number % len(values)]
    print(json.dumps({"name": name, "value": value, "unit": "µs", "floor": 2.0,
                      "ratio": value / 2, "detail": {"p99": value * 3, "how": "well"}}))
"""
MAKEFILE = ".venv/ready:\n\tmkdir -p .venv/bin && ln -s $(PYTHON) .venv/bin/python\n"


class Repository:
    """One with a benchmark called "fake"."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.git("init", "-q", "-b", "main")
        self.write(".gitignore", ".venv\n__pycache__\nround\nbench/round\n")
        self.write("Makefile", MAKEFILE)
        self.write("bench/__init__.py", "")
        self.write("bench/__main__.py", WORKLOAD)
        self.write("bench/bench_fake.py", "")

    def git(self, *arguments: str) -> str:
        names = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        return subprocess.run(
            ["git", *names, *arguments],
            cwd=self.folder,
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def tells(self, numbers: object) -> None:
        self.write("bench/numbers.json", json.dumps(numbers))

    def commit(self, title: str) -> None:
        self.git("add", "--all")
        self.git("commit", "-q", "-m", title)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """With one commit, which tells 10 to 12 µs."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "scratch").mkdir()
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    made = Repository(tmp_path / "tree")
    made.tells({"fake.call": [10, 12, 11]})
    made.commit("Begin")
    return made


@pytest.fixture
def compared(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, list[Any], str]]:
    """Compare: the exit status, the JSON lines, and what people see."""

    def compare(
        base: str = "HEAD", subjects: tuple[str, ...] = ("fake",), **how: Any
    ) -> tuple[int, list[Any], str]:
        status = comparing.main(base, subjects, How(**how), repository.folder)
        out, err = capsys.readouterr()
        return status, [json.loads(line) for line in out.splitlines()], err

    return compare


Comparing = Callable[..., tuple[int, list[Any], str]]


def test_numbers_are_matched_by_name_and_told_with_ranges_and_change(
    repository: Repository, compared: Comparing
) -> None:
    repository.tells({"fake.call": [14, 13, 15]})
    repository.commit("Get slower")

    status, (about, value, ratio, detail), shown = compared("HEAD~1", rounds=3)

    assert status == 0
    assert about["compare"]["base"]["title"] == "Begin"
    assert about["compare"]["head"]["title"] == "Get slower"
    assert about["compare"]["rounds"] == 3
    assert value == {
        "subject": "fake",
        "number": {"name": "fake.call", "kind": "value", "unit": "µs"},
        "base": {"median": 11, "lowest": 10, "highest": 12, "rounds": 3},
        "head": {"median": 14, "lowest": 13, "highest": 15, "rounds": 3},
        "change": pytest.approx(3 / 11),
        "beyond": True,
    }
    assert ratio["number"]["kind"] == "ratio"
    assert ratio["head"]["median"] == 7
    assert detail["number"] == {"name": "fake.call: p99", "kind": "detail", "unit": ""}
    call, floor = shown.splitlines()[-2:]
    assert re.split(r"  +", call.strip()) == [
        "fake.call",
        "11 [10, 12]",
        "14 [13, 15]",
        "µs",
        "+27.3%",
        "beyond noise",
    ]
    assert floor.split()[:3] == ["of", "its", "floor"]


def test_ranges_that_overlap_are_not_beyond_noise(
    repository: Repository, compared: Comparing
) -> None:
    repository.tells({"fake.call": [9, 11]})
    repository.commit("Get faster, perhaps")

    _, (_, value, *_), shown = compared("HEAD~1", rounds=2)

    assert value["change"] < 0
    assert not value.get("beyond")
    assert not any(line.endswith("beyond noise") for line in shown.splitlines())


def test_rounds_take_turns_and_each_second_one_begins_with_the_head(
    repository: Repository, compared: Comparing, tmp_path: Path
) -> None:
    compared(rounds=3)

    revision = repository.git("rev-parse", "--short", "HEAD").strip()
    ran = (tmp_path / "log").read_text().splitlines()
    base, head = f"{revision} fake", "tree fake"
    assert ran == [base, head, head, base, base, head]


def test_the_head_is_the_working_tree_and_its_changes_are_said(
    repository: Repository, compared: Comparing
) -> None:
    repository.tells({"fake.call": [5]})

    _, (about, value, *_), shown = compared(rounds=1)

    assert about["compare"]["base"]["changed"] is False
    assert about["compare"]["head"]["changed"] is True
    assert re.search(r"^head  \w+ Begin, working tree with changes$", shown, re.MULTILINE)
    assert (value["base"]["median"], value["head"]["median"]) == (10, 5)


def test_a_number_that_one_side_tells_alone_is_told_as_such(
    repository: Repository, compared: Comparing
) -> None:
    repository.tells({"fake.new": [1], "fake.call": [11]})

    status, _, shown = compared(rounds=1)
    repository.commit("Tell more")
    repository.tells({"fake.call": [11]})
    _, _, less = compared(rounds=1)

    assert status == 0
    (new,) = [line for line in shown.splitlines() if "fake.new" in line]
    assert new.split()[1] == "-"
    assert new.endswith("only head tells it")
    (gone,) = [line for line in less.splitlines() if "fake.new" in line]
    assert gone.endswith("only base tells it")


def test_nothing_of_it_stays_behind(
    repository: Repository, compared: Comparing, tmp_path: Path
) -> None:
    compared(rounds=1)

    assert list((tmp_path / "scratch").iterdir()) == []
    assert len(repository.git("worktree", "list").splitlines()) == 1
    assert repository.git("status", "--porcelain") == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_stays_behind_of_one_that_is_interrupted(
    repository: Repository, tmp_path: Path, number: signal.Signals
) -> None:
    repository.tells("wait")
    repository.commit("Wait")
    code = (
        "import sys; from pathlib import Path; from bench import comparing;"
        "from bench.compare import How;"
        "sys.exit(comparing.main('HEAD', ['fake'], How(), Path(sys.argv[1])))"
    )
    scratch = {"TMPDIR": str(tmp_path / "scratch")}
    with subprocess.Popen(
        [sys.executable, "-c", code, str(repository.folder)],
        env=os.environ | scratch,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as started:
        log = tmp_path / "log"
        while not log.exists():
            assert started.poll() is None
            time.sleep(0.005)
        started.send_signal(number)
        _, said = started.communicate(timeout=30)

    if number is signal.SIGINT:
        assert started.returncode == INTERRUPTED
        assert said.endswith("interrupted; what was set up is gone again\n")
    else:
        assert started.returncode == 128 + number
    assert list((tmp_path / "scratch").iterdir()) == []
    assert len(repository.git("worktree", "list").splitlines()) == 1


def test_a_benchmark_that_fails_is_named_with_its_revision_and_last_words(
    repository: Repository, compared: Comparing
) -> None:
    repository.write("bench/bench_other.py", "")
    repository.tells("crash")

    status, (_, failed, other), shown = compared(subjects=("fake", "other"), rounds=2)

    assert status == 1
    revision = repository.git("rev-parse", "--short", "HEAD").strip()
    why = f"`python -m bench fake` failed in head {revision}: ValueError: no luck"
    assert failed == {"subject": "fake", "problem": why}
    assert f"  not compared: {why}\n" in shown
    assert other["problem"] == f"there is no such benchmark in base {revision}"


def test_a_missed_limit_is_no_failure(repository: Repository, compared: Comparing) -> None:
    missed = WORKLOAD + "\nraise SystemExit(1)\n"
    repository.write("bench/__main__.py", missed)

    status, _, shown = compared(rounds=1)

    assert status == 0
    assert "fake.call" in shown


def test_a_revision_that_there_is_not_is_an_error(
    repository: Repository, compared: Comparing
) -> None:
    said = "Name a commit, a branch or a tag: git log --oneline\n"
    where = f"in {repository.folder}"
    for name in ("nowhere", "--help", "Makefile"):
        status, lines, shown = compared(name)
        assert (status, lines) == (1, [])
        assert shown.endswith(f"there is no revision {name!r} {where}. {said}")


def test_a_revision_that_does_not_know_small_sizes_is_an_error(
    repository: Repository, compared: Comparing
) -> None:
    revision = repository.git("rev-parse", "--short", "HEAD").strip()
    status, _, shown = compared(quick=True)
    assert status == 1
    assert shown.endswith(
        f"base {revision}: its `python -m bench` does not know --quick."
        " Leave it out, or name a later revision.\n"
    )


def test_a_revision_that_nobody_can_set_up_is_an_error(
    repository: Repository, compared: Comparing, tmp_path: Path
) -> None:
    repository.write("Makefile", ".venv/ready:\n\t@echo 'no index' >&2; exit 1\n")
    repository.commit("Be hard to set up")
    status, _, shown = compared()
    assert status == 1
    assert shown.endswith("could not be set up: `make .venv/ready` says: no index\n")

    repository.write("Makefile", "test:\n")
    repository.commit("Say nothing")
    assert "nothing says how it is set up. Name a later revision.\n" in compared()[2]

    repository.git("rm", "-q", "bench/__main__.py")
    repository.commit("Have no benchmarks")
    repository.write("bench/__main__.py", WORKLOAD)
    assert "has no `python -m bench`. Name a revision that has one:" in compared()[2]
    assert list((tmp_path / "scratch").iterdir()) == []


def test_the_command_passes_on_what_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []

    def main(*arguments: object) -> int:
        told.extend(arguments)
        return 7

    monkeypatch.setattr(comparing, "main", main)
    line = ["--compare", "main~3", "--rounds", "2", "--quick", "cli", "http"]
    assert command.main(line) == 7
    assert told == ["main~3", ["cli", "http"], How(2, quick=True)]


@pytest.mark.parametrize("line", [["--rounds", "3"], ["--compare", "a", "--rounds", "0"]])
def test_rounds_are_one_at_least_and_of_a_comparison(
    line: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        command.main(line)
    assert "--rounds" in capsys.readouterr().err


def test_one_round_says_nothing_about_noise(
    repository: Repository, compared: Comparing
) -> None:
    repository.tells({"fake.call": [50]})

    _, (_, value, *_), shown = compared(rounds=1)

    assert value["change"] == 4
    assert not value.get("beyond")
    assert "one round says nothing about noise: ask for more with --rounds\n" in shown


@pytest.mark.parametrize(("rounds", "chance"), [(1, 1), (2, 3), (3, 10), (5, 126)])
def test_how_often_a_range_is_apart_by_chance_is_told(rounds: int, chance: int) -> None:
    # Of all ways to deal 2n different values to two sides, in how many are they apart?
    places = range(2 * rounds)
    dealt = list(combinations(places, rounds))
    apart = [one for one in dealt if max(one) < rounds or min(one) >= rounds]
    assert How(rounds).chance == chance == len(dealt) // len(apart)


def test_what_was_nothing_has_no_change_in_percent() -> None:
    nothing, much = Spread(0, 0, 0, 1), Spread(5, 5, 5, 1)
    number = Number("fake.errors", "value", "")
    (_, _, row) = section("fake", [Compared("fake", number, nothing, much)]).splitlines()
    assert "%" not in row
