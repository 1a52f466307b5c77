import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import trio

from heddle.tools import Workspace, WorkspaceFailed, open_workspace
from heddle.tools.workspace import make_writable, remove_tree


async def test_a_workspace_that_nobody_uses_costs_no_folder() -> None:
    async with open_workspace():
        assert list(Path(tempfile.gettempdir()).iterdir()) == []


async def test_it_is_one_folder_for_its_whole_life_and_is_removed() -> None:
    async with open_workspace() as workspace:
        folder = Path(workspace.folder())
        assert folder.is_absolute()
        (folder / "deep" / "er").mkdir(parents=True)
        (folder / "deep" / "file").write_text("x")
        assert workspace.folder() == str(folder)
    assert not folder.exists()


async def test_it_is_its_users_alone() -> None:
    async with open_workspace() as workspace:
        assert Path(workspace.folder()).stat().st_mode & 0o777 == 0o700


async def test_it_is_removed_on_cancellation() -> None:
    with trio.CancelScope() as scope:
        async with open_workspace() as workspace:
            Path(workspace.folder(), "file").write_text("x")
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert list(Path(tempfile.gettempdir()).iterdir()) == []


async def test_a_folder_that_a_call_removed_is_made_anew() -> None:
    async with open_workspace() as workspace:
        first = workspace.folder()
        Path(first).rmdir()
        assert workspace.folder() == first
        assert Path(first).is_dir()


async def test_removing_does_not_follow_links(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o500)
    (tmp_path / "file").write_text("kept")
    async with open_workspace() as workspace:
        Path(workspace.folder(), "link").symlink_to(outside)
        Path(workspace.folder(), "file").symlink_to(tmp_path / "file")
    assert outside.stat().st_mode & 0o777 == 0o500
    assert (tmp_path / "file").read_text() == "kept"
    # What is done when the first attempt fails, as it never does for root.
    folder = tmp_path / "folder"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner").chmod(0o500)
    (folder / "link").symlink_to(outside)
    make_writable(str(folder))
    assert (folder / "inner").stat().st_mode & 0o777 == 0o700
    assert outside.stat().st_mode & 0o777 == 0o500


async def test_a_link_in_place_of_the_folder_is_removed_and_not_followed(
    tmp_path: Path,
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("kept")
    async with open_workspace() as workspace:
        folder = Path(workspace.folder())
        folder.rmdir()
        folder.symlink_to(outside)
    assert (outside / "file").read_text() == "kept"


async def test_a_file_in_place_of_the_folder_is_told_and_removed() -> None:
    async with open_workspace() as workspace:
        folder = Path(workspace.folder())
        folder.rmdir()
        folder.write_text("mine now")
        with pytest.raises(WorkspaceFailed, match="File exists"):
            workspace.folder()


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user, so root only")
def test_read_only_folders_are_removed_by_an_ordinary_user() -> None:
    # Root may remove anything, so the removal runs as a user who may not.
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as home:
        Path(home).chmod(0o777)
        code = """if True:
            import os, sys
            os.setgid(65534); os.setuid(65534)
            top = sys.argv[1] + "/top"
            os.makedirs(top + "/a/b/c")
            for folder in (top, top + "/a", top + "/a/b", top + "/a/b/c"):
                with open(folder + "/file", "w") as file:
                    file.write("x")
                os.chmod(folder + "/file", 0o400)
            for folder in ("/a/b/c", "/a/b", "/a", ""):
                os.chmod(top + folder, 0o000 if folder == "/a/b" else 0o500)
            remove_tree(top)
            assert not os.path.exists(top), os.listdir(sys.argv[1])
        """
        # Imported before the change of user: the packages may be in root's own folder.
        code = f"from heddle.tools.workspace import remove_tree\n{code}"
        done = subprocess.run(
            [sys.executable, "-c", code, home], capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr


def test_folders_are_made_writable_when_a_first_attempt_left_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o500)
    inner = tmp_path / "top" / "inner"
    inner.mkdir(parents=True)
    (inner / "link").symlink_to(outside)
    inner.chmod(0o500)
    removed: list[int] = []

    def refuse_and_look(path: str, **_: object) -> None:
        assert Path(path) == tmp_path / "top"
        removed.append(inner.stat().st_mode & 0o777)

    monkeypatch.setattr(shutil, "rmtree", refuse_and_look)
    remove_tree(str(tmp_path / "top"))
    assert removed == [0o500, 0o700]
    assert outside.stat().st_mode & 0o777 == 0o500


def test_what_cannot_be_removed_is_no_error(tmp_path: Path) -> None:
    remove_tree(str(tmp_path / "never was"))


async def test_a_full_disk_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: object) -> str:
        raise OSError(28, "No space left on device", "/tmp/heddle-x")

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    async with open_workspace() as workspace:
        with pytest.raises(WorkspaceFailed) as caught:
            workspace.folder()
    assert str(caught.value) == (
        "/tmp/heddle-x: no workspace can be made for a tool: No space left on device. "
        "Free some space there, or point $TMPDIR at another folder."
    )


async def test_removing_twice_is_removing_once() -> None:
    workspace = Workspace()
    workspace.folder()
    await workspace.remove()
    await workspace.remove()
