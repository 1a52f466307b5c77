"""The file of what was typed at chats: kept, bounded, private, and never in the way."""

import errno
import os
import stat
from pathlib import Path

import pytest

from heddle.cli.chat import said_before
from heddle.cli.chat.said_before import MOST, SaidBefore, history_file


def kept(path: Path | None) -> tuple[SaidBefore, list[str]]:
    warnings: list[str] = []
    return SaidBefore(path, warnings.append), warnings


def test_what_one_chat_added_the_next_one_loads(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "history"
    one, warnings = kept(path)
    for text in ("one", "two\nlines", "two\nlines", "  ", "日本語"):
        one.add(text)
    assert kept(path)[0].load() == ["one", "two\nlines", "日本語"]
    assert warnings == []


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "state" / "history"
    kept(path)[0].add("one")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.chmod(0o644)
    kept(path)[0].load()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_it_is_bounded_and_the_newest_stay(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_text("".join(f'"message {n}"\n' for n in range(MOST // 10)))
    assert path.stat().st_size > MOST
    loaded = kept(path)[0].load()
    assert loaded[-1] == f"message {MOST // 10 - 1}"
    assert path.stat().st_size <= MOST // 2
    assert kept(path)[0].load() == loaded


def test_a_very_long_message_is_not_kept(tmp_path: Path) -> None:
    one, warnings = kept(tmp_path / "history")
    one.add("x" * said_before.LONGEST)
    assert one.load() == warnings == []


def test_lines_that_were_cut_or_are_no_text_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_bytes(b'"one"\n{"a": 1}\n\n\xff\n"tw\n"three"\n"fo')
    one, _ = kept(path)
    one.add("four")
    assert one.load() == ["one", "three", "four"]


def test_two_chats_at_once_keep_what_both_were_told(tmp_path: Path) -> None:
    path = tmp_path / "history"
    (one, _), (other, _) = kept(path), kept(path)
    one.add("one")
    other.add("other")
    one.add("one again")
    assert other.load() == ["one", "other", "one again"]


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_what_is_no_file_is_told_once_and_ends_nothing(
    tmp_path: Path, make: object
) -> None:
    path = tmp_path / "history"
    assert callable(make)
    make(path)
    one, warnings = kept(path)
    assert one.load() == []
    one.add("one")
    one.add("two")
    (warning,) = warnings
    assert warning.startswith(f"{path}: what is typed is not kept: ")
    assert warning.endswith("Mend that, or keep nothing on purpose with HEDDLE_HISTORY=0.")


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("in the way")
    one, warnings = kept(tmp_path / "state" / "history")
    one.add("one")
    assert len(warnings) == 1


@pytest.mark.parametrize("room", [0, 3])
def test_a_full_disk_is_told_and_leaves_no_half_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    path = tmp_path / "history"
    one, warnings = kept(path)
    one.add("one")
    write = os.pwrite

    def full(file: int, data: bytes, at: int) -> int:
        if not room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, data[:room], at)

    monkeypatch.setattr(os, "pwrite", full)
    one.add("two")
    one.add("three")
    assert len(warnings) == 1
    assert "No space left on device" in warnings[0]
    monkeypatch.undo()
    assert path.read_text() == '"one"\n'


def test_where_it_is_follows_the_base_directories_and_a_switch() -> None:
    assert history_file({"XDG_STATE_HOME": "/s"}) == Path("/s/heddle/chat_history.jsonl")
    home = Path("~/.local/state/heddle/chat_history.jsonl").expanduser()
    assert history_file({}) == history_file({"XDG_STATE_HOME": "relative"}) == home
    assert history_file({"HEDDLE_HISTORY": "0"}) is None
    nothing, warnings = kept(None)
    nothing.add("one")
    assert nothing.load() == warnings == []
