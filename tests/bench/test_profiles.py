"""Pictures of a server under load, and of benchmarks."""

import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree as ET

import pytest

from bench import __main__ as command
from bench import bench_server_crowd, profiles
from bench.flame import boxes
from bench.harness import Answer


def names_in(collapsed: str) -> set[str]:
    return {
        frame.partition(" ")[0]
        for line in collapsed.splitlines()
        if not line.startswith("#")
        for frame in line.rpartition("@")[0].split(";")
    }


def test_what_a_server_does_for_runs_and_for_their_readers_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiles, "READERS", 20)
    monkeypatch.setattr(bench_server_crowd, "EVENTS", 1_000)  # nobody falls behind
    chosen = ["server.buffered", "server.fan-out"]

    lines = list(profiles.write(tmp_path / "new", chosen, seconds=0.1))

    assert len(lines) == 2
    for name, line in zip(chosen, lines, strict=True):
        picture = tmp_path / "new" / f"{name}.svg"
        assert line.startswith(f"{picture}  {name}: ")
        ET.fromstring(picture.read_text())
        assert boxes(picture.with_suffix(".txt").read_text()).times > 0
    for name in chosen:
        # On a busy machine there are few samples; trio's loop is in each of them.
        found = names_in((tmp_path / "new" / f"{name}.txt").read_text())
        assert "unrolled_run" in found


def test_of_a_benchmark_the_process_that_runs_it_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run() -> Iterator[Answer]:
        until = time.process_time() + 0.1
        while time.process_time() < until:
            pass
        yield Answer("fake", 1.0, "")

    module = ModuleType("fake")
    module.__dict__["run"] = run
    monkeypatch.setattr(profiles, "module_of", {"fake": module}.__getitem__)

    (line,) = profiles.write(tmp_path, ["fake"])

    assert line.startswith(f"{tmp_path / 'fake'}.svg  fake: ")
    assert line.endswith(" s of this process\n")
    found = names_in((tmp_path / "fake.txt").read_text())
    assert any(each.endswith("drawn.run") for each in found)


def test_loads_and_benchmarks_are_named_in_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[object] = []

    def write(folder: Path, names: list[str], *, small: bool) -> Iterator[str]:
        told.extend((folder, names, small))
        yield "drawn\n"

    monkeypatch.setattr(profiles, "write", write)
    line = ["--quick", "--profile", str(tmp_path), "server.fan-out", "engine"]
    assert command.main(line) == 0
    assert command.main(["--profile", str(tmp_path)]) == 0
    assert told[:3] == [tmp_path, ["server.fan-out", "engine"], True]
    assert told[4] == profiles.NAMES
    assert capsys.readouterr().out == "drawn\n" * 2
    with pytest.raises(SystemExit):
        command.main(["--profile", str(tmp_path), "server.fan"])
