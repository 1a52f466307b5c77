"""What was typed at chats before: a file of JSON strings, one a line, the newest last.

    "Who wrote it?"
    "And when?\\nBe exact."

Whatever is wrong with the file, or with where it should be, is told once and ends no
chat; what is typed is then remembered as long as the chat lasts.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from plugins_host import sentence

# Bytes of the file above which its older half is dropped: some thousand messages.
MOST: Final = 256 * 1024
# Bytes of a message that is kept. Whoever pastes a log wants it answered, not remembered.
LONGEST: Final = 16 * 1024

SWITCH: Final = "HEDDLE_HISTORY"
OFF: Final = ("0", "no", "off", "false")
NAME: Final = "chat_history.jsonl"


def history_file(environment: Mapping[str, str]) -> Path | None:
    """Where it is, by the XDG base directories; None when nothing is to be kept."""
    if environment.get(SWITCH, "1").lower() in OFF:
        return None
    state = environment.get("XDG_STATE_HOME", "")
    # The specification says that a relative path is to be ignored.
    if not state.startswith("/"):
        state = os.path.expanduser("~/.local/state")  # noqa: PTH111  never raises
    return Path(state) / "heddle" / NAME


class SaidBefore:
    """The messages, and the file that they are kept in.

    Args:
        path: The file; None to keep nothing.
        warn: Told once, in a sentence, why nothing is kept.
    """

    def __init__(self, path: Path | None, warn: Callable[[str], None]) -> None:
        self._path = path
        self._warn = warn
        self._newest = ""

    def load(self) -> list[str]:
        """The messages that are kept, the oldest first."""
        with self._forgiving():
            if self._path is not None:
                with _opened(self._path) as file:
                    return list(_messages(_read(file)))
        return []

    def add(self, text: str) -> None:
        """Keep a message, unless it is the one before again."""
        if not text.strip() or text == self._newest:
            return
        self._newest = text
        line = msgspec.json.encode(text) + b"\n"
        if len(line) > LONGEST:
            return
        with self._forgiving():
            if self._path is not None:
                with _opened(self._path) as file:
                    _append(file, line)

    @contextmanager
    def _forgiving(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            where, self._path = str(self._path), None
            self._warn(
                sentence(
                    f"what is typed is not kept: {error.strerror or error}",
                    where=where,
                    fix=f"Mend that, or keep nothing on purpose with {SWITCH}=0.",
                )
            )


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """The file, for nobody else meanwhile; made when it is not there."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # A pipe without anybody at its other end is not to be waited for.
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
    file = os.open(path, flags, 0o600)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(errno.EINVAL, "it is no file")
        os.fchmod(file, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file
    finally:
        os.close(file)


def _read(file: int) -> bytes:
    """The newest of what it holds; the oldest is dropped when it has grown too long."""
    size = os.fstat(file).st_size
    data = os.pread(file, MOST, max(size - MOST, 0))
    if size > MOST:
        # In place: what is left takes no room that a full disk has not got, and others
        # that append have the same file before and after.
        data = data[data.find(b"\n", len(data) // 2) + 1 :]
        os.ftruncate(file, os.pwrite(file, data, 0))
    return data


def _append(file: int, line: bytes) -> None:
    """Add a line, or nothing of it."""
    size = os.fstat(file).st_size
    if size and os.pread(file, 1, size - 1) != b"\n":
        line = b"\n" + line
    if os.pwrite(file, line, size) < len(line):
        os.ftruncate(file, size)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _messages(data: bytes) -> Iterator[str]:
    """What can be read; a line that a crash has cut is left out."""
    for line in data.split(b"\n"):
        try:
            yield msgspec.json.decode(line, type=str)
        except msgspec.DecodeError:
            continue
