"""Folders of code on the disk: made whole or not at all, and removed."""

import errno
import os
import tempfile
from pathlib import Path

import pytest

from heddle.server.runs.folders import (
    PREFIX,
    CodeNotWritten,
    RunFolder,
    open_run_folders,
)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


async def test_a_full_disk_is_told_without_a_path_and_leaves_nothing(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self))

    monkeypatch.setattr(Path, "write_bytes", full)
    with open_run_folders() as folders:
        folder = RunFolder(folders.reserve(), {"tools/a/main.sh": "echo"})
        with pytest.raises(CodeNotWritten) as caught:
            async with folder.open():
                pytest.fail("it was not written")
        assert str(caught.value) == (
            "the server cannot keep the code of this request: its disk is full. Try again "
            "later, or tell whoever runs the server."
        )
        assert not list(Path(folders.path).iterdir())


async def test_a_folder_that_somebody_tidied_away_is_made_again(temporary: Path) -> None:
    with open_run_folders() as folders:
        Path(folders.path).rmdir()
        folder = RunFolder(folders.reserve(), {"tools/a/main.sh": "echo"})
        async with folder.open():
            assert (folder.path / "tools/a/main.sh").read_text() == "echo"
    assert not list(temporary.iterdir())


def test_only_folders_of_servers_that_are_gone_are_removed(temporary: Path) -> None:
    (temporary / f"{PREFIX}stale" / "run").mkdir(parents=True)
    (temporary / f"{PREFIX}file").write_text("no folder")
    (temporary / "elsewhere").mkdir()
    (temporary / f"{PREFIX}link").symlink_to(temporary / "elsewhere")
    with open_run_folders() as folders, open_run_folders() as others:
        assert Path(folders.path).is_dir()
        assert Path(others.path).is_dir()
        assert not (temporary / f"{PREFIX}stale").exists()
    left = {each.name for each in temporary.iterdir()}
    assert left == {f"{PREFIX}file", f"{PREFIX}link", "elsewhere"}


def test_no_folder_at_all_is_a_server_that_does_not_start(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(temporary / "none"))
    with pytest.raises(CodeNotWritten, match=r"TMPDIR"), open_run_folders():
        pytest.fail("there is none")
