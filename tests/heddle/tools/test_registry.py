import os
from pathlib import Path

import pytest

from heddle.tools import ToolFolderInvalid, find_tools


def make(folder: Path, *names: str, mode: int = 0o755) -> None:
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(mode)


def test_a_tool_is_named_as_its_file_without_the_extension(tools: Path) -> None:
    make(tools, "search.py", "send_mail", "a.b.sh", "größe.sh")
    found = find_tools(tools)
    assert list(found) == ["a.b", "größe", "search", "send_mail"]
    assert found["search"].path == str(tools / "search.py")
    assert not any(program.problem for program in found.values())


def test_what_no_operator_means_as_a_tool_is_left_out(tools: Path) -> None:
    make(
        tools, ".hidden", "x~", "#x#", "x.bak", "x.orig", "x.rej", "x.tmp", ".x.swp", "x.py"
    )
    (tools / "__pycache__").mkdir()
    (tools / "folder").symlink_to(tools)
    os.mkfifo(tools / "pipe")
    (tools / os.fsdecode(b"\xff")).touch()
    assert list(find_tools(tools)) == ["x"]


def test_an_empty_folder_has_no_tools(tools: Path) -> None:
    assert dict(find_tools(tools)) == {}


def test_two_files_with_one_name_are_refused_naming_both(tools: Path) -> None:
    make(tools, "search.py", "search.sh", "fine")
    with pytest.raises(ToolFolderInvalid) as caught:
        find_tools(tools)
    assert str(caught.value) == (
        f"{tools}: 'search.py' and 'search.sh' would both be the tool 'search'. "
        "Rename them, or move what is no tool into a folder."
    )


def test_every_clash_is_told_at_once(tools: Path) -> None:
    make(tools, "a", "a.b", "a.c", "z.1", "z.2")
    with pytest.raises(ToolFolderInvalid, match=r"'a', 'a.b' and 'a.c' would all be"):
        find_tools(tools)
    with pytest.raises(ToolFolderInvalid, match=r"'z.1' and 'z.2' would both be"):
        find_tools(tools)


def test_a_file_that_is_not_executable_is_kept_with_the_reason(tools: Path) -> None:
    make(tools, "search.py", mode=0o644)
    program = find_tools(tools)["search"]
    assert program.problem == f"{tools}/search.py is not executable"
    assert program.fix == f"Run: chmod +x {tools}/search.py"


def test_links_are_followed_and_keep_their_own_name(tools: Path) -> None:
    (tools / "shell").symlink_to("/bin/sh")
    (tools / "nothing.sh").symlink_to(tools / "absent")
    found = find_tools(tools)
    assert found["shell"].path == str(tools / "shell")
    assert found["shell"].problem == ""
    assert found["nothing"].problem == f"{tools}/nothing.sh is a link to nothing"


def test_a_relative_folder_gives_absolute_paths(
    tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tools, "search")
    monkeypatch.chdir(tools.parent)
    assert find_tools(Path("tools"))["search"].path == str(tools / "search")


def test_a_folder_that_is_not_there_or_none_is_told(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for path, what in (
        (tmp_path / "no", "the tools folder does not exist"),
        (file, "is not a folder"),
    ):
        with pytest.raises(ToolFolderInvalid, match=what):
            find_tools(path)


def test_a_folder_that_may_not_be_read_is_told(
    tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched, pytest.raises(ToolFolderInvalid) as caught:
        patched.setattr(os, "scandir", refuse)
        find_tools(tools)
    assert str(caught.value) == (
        f"{tools}: the tools folder may not be read by this user. Run: chmod u+rx on it."
    )


def test_other_errors_of_the_folder_are_told_in_the_words_of_the_system(
    tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        raise OSError(5, "Input/output error")

    says = "cannot be read: Input/output error"
    with monkeypatch.context() as patched, pytest.raises(ToolFolderInvalid, match=says):
        patched.setattr(os, "scandir", refuse)
        find_tools(tools)
