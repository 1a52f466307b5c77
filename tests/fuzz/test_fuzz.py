"""Every target takes its seeds, and what resembles them; what breaks one is kept."""

import re
from functools import cache
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.__main__ import ROOT, main
from tests.fuzz.hunt import keeping
from tests.fuzz.target import Target, cut
from tests.fuzz.targets import ALL, CANARY, TARGETS
from tests.fuzz.variants import variants

MOST = 1000
"""Variants of one seed that are drawn from."""

# Stands in for atheris where there is none: the seeds, and each with a word before it.
FAKE = """
import sys, types
from contextlib import nullcontext
import re
from functools import cache
from itertools import islice
from pathlib import Path


def instrument_imports(include):
    assert "heddle" in include
    return nullcontext()


def Setup(arguments, one):
    global plan
    plan = one, [Path(each) for each in arguments if not each.startswith("-")]
    [words] = [each for each in arguments if each.startswith("-dict=")]
    plan = (*plan, Path(words.removeprefix("-dict=")).read_text().splitlines())


def Fuzz():
    one, folders, words = plan
    seeds = [file.read_bytes() for folder in folders[2:] for file in folder.iterdir()]
    made = [bytes.fromhex(word.strip('"').replace("\\\\x", "")) for word in words]
    try:
        for data in [*seeds, *(word + seed for seed in seeds for word in made)]:
            one(data)
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
        sys.exit(77)
    print(f"Done {len(seeds)} runs in 0 second(s)")
"""


@cache
def begun(seed: bytes) -> list[bytes]:
    """A seed and the first of its variants."""
    return [seed, *islice(variants(seed), MOST)]


@st.composite
def inputs(draw: st.DrawFn, target: Target) -> bytes:
    """A seed, or a variant of one, with pieces replaced by words, nonsense or seeds."""
    data = draw(st.sampled_from(target.seeds))
    data = draw(st.sampled_from(begun(data)))
    pieces = st.binary(max_size=4) | st.sampled_from([*target.words, *target.seeds])
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        gone = draw(st.integers(0, 12))
        data = data[:at] + draw(pieces) + data[at + gone :]
    return data[: target.longest]


@pytest.mark.parametrize("name", TARGETS)
def test_what_a_target_begins_with_breaks_nothing(name: str) -> None:
    seeds = TARGETS[name].seeds
    assert seeds
    for seed in seeds:
        assert len(seed) <= TARGETS[name].longest
        TARGETS[name].run(seed)


@pytest.mark.parametrize("name", TARGETS)
@settings(
    max_examples=settings.default.max_examples // 2,
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_what_resembles_it_breaks_nothing(name: str, data: st.DataObject) -> None:
    TARGETS[name].run(data.draw(inputs(TARGETS[name])))


def test_a_variant_has_one_value_changed_or_gone() -> None:
    made = list(variants(b'\xff{"a":[1],"b":"\xff"}!'))
    assert b'\xff{"a":[1]}!' in made
    assert b'\xff{"a":[],"b":"\\u00ff"}!' in made
    assert b'\xff{"a":[{}],"b":"\\u00ff"}!' in made
    assert b"\xffnull!" in made
    assert list(variants(b'{"a')) == []


def test_bytes_are_cut_as_the_first_of_them_says() -> None:
    assert cut(b"") == []
    assert cut(b"\x00abc") == [b"abc"]
    assert cut(b"\x02abc") == [b"ab", b"c"]


def test_an_input_that_breaks_a_target_is_in_a_file(tmp_path: Path) -> None:
    watched = keeping(ALL[CANARY].run, tmp_path)
    watched(b"air")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(AssertionError):
        watched(b"gas!")
    [file] = tmp_path.iterdir()
    assert file.read_bytes() == b"gas!"


def test_what_is_found_is_told_with_the_command_that_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "atheris.py").write_text(FAKE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = tmp_path / "found"
    assert main(["--target", CANARY, "--seed", "7", "--found", str(found)]) == 1
    told = capsys.readouterr().out
    assert "seed 7" in told
    assert "AssertionError: the canary has stopped singing" in told
    [kept] = (found / CANARY).iterdir()
    assert f"  make fuzz-replay FILE={kept}" in told

    with pytest.raises(AssertionError, match="stopped singing"):
        main(["--replay", str(kept)])


def test_a_target_that_holds_says_how_much_was_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "atheris.py").write_text(FAKE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert main(["--target", "event-streams", "--found", str(tmp_path / "found")]) == 0
    assert "event-streams: 15 runs" in capsys.readouterr().out
    assert list((tmp_path / "found" / "event-streams").iterdir()) == []


def test_an_input_of_no_target_is_asked_about(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "input"
    kept.write_bytes(b"{}")
    assert main(["--replay", str(kept)]) == 2
    assert "TARGET=" in capsys.readouterr().out
    assert main(["--replay", str(kept), "--target", "manifests"]) == 0
    assert "nothing is wrong" in capsys.readouterr().out


def test_an_input_that_is_not_there_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "frames" / "crash-0"
    assert main(["--replay", str(gone)]) == 2
    assert f"{gone} cannot be read: No such file or directory" in capsys.readouterr().out


def test_the_page_has_every_target() -> None:
    page = (ROOT / "docs" / "fuzzing.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE) == list(TARGETS)
