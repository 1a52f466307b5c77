"""The files of ``heddle init`` and ``heddle plugin new``: all are written, or none."""

from pathlib import Path

import pytest

from heddle.cli import new_files
from heddle.cli.new_files import CannotWrite, NewFile, make, undo, write_project


def test_files_are_written_with_the_folders_that_they_are_in(tmp_path: Path) -> None:
    files = [NewFile("a.txt", b"a"), NewFile("in/it/b", b"b", 0o755)]
    write_project(tmp_path / "demo", files)
    assert (tmp_path / "demo" / "a.txt").read_bytes() == b"a"
    written = tmp_path / "demo" / "in" / "it" / "b"
    assert (written.read_bytes(), written.stat().st_mode & 0o777) == (b"b", 0o755)


def test_what_was_made_is_removed_again_and_nothing_else(tmp_path: Path) -> None:
    made: list[Path] = []
    make(tmp_path / "a" / "b", made)
    (tmp_path / "a" / "mine").touch()
    (tmp_path / "a" / "b" / "file").touch()
    undo([*made, tmp_path / "a" / "b" / "file", tmp_path / "a" / "b" / "never was"])
    assert [each.name for each in (tmp_path / "a").iterdir()] == ["mine"]


def test_a_file_that_appears_meanwhile_is_not_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make_and_be_overtaken(folder: Path, made: list[Path]) -> None:
        make(folder, made)
        if folder.name == "tools":
            (folder / "count").write_text("another's")

    monkeypatch.setattr(new_files, "make", make_and_be_overtaken)
    files = [NewFile("flow.json", b"{}"), NewFile("tools/count", b"ours")]
    with pytest.raises(CannotWrite, match="tools/count: cannot be written: File exists"):
        write_project(tmp_path / "demo", files)
    left = [each for each in (tmp_path / "demo").rglob("*") if each.is_file()]
    assert [each.read_text() for each in left] == ["another's"]
