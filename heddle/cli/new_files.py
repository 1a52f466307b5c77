"""The files of a new project: all of them are written, or none."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from heddle.cli.exits import WrongUsage
from heddle.cli.text.wording import line
from plugins_host import Fault


class CannotWrite(Fault):
    """A file of a new project cannot be written."""


class NewFile(NamedTuple):
    """What is to be written, and its permissions where they are not left to the system."""

    name: str
    data: bytes
    mode: int | None = None


def write_project(folder: Path, files: Iterable[NewFile]) -> None:
    """Write all files into a folder, which is made, or none where one is in the way.

    Raises:
        WrongUsage: The folder is there and not empty, or is a file.
        CannotWrite: A file cannot be written; those written before are removed.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise WrongUsage(
            "it exists already, and nothing is overwritten",
            where=line(str(folder)),
            fix="Choose another name, or remove it first.",
        )
    made: list[Path] = []
    try:
        for new in files:
            file = folder / new.name
            make(file.parent, made)
            # "x" refuses a file that appeared since we looked; it is not ours to remove.
            with file.open("xb") as out:
                made.append(file)
                out.write(new.data)
            if new.mode is not None:
                file.chmod(new.mode)
    except OSError as error:
        undo(made)
        raise CannotWrite(
            f"cannot be written: {error.strerror or error}",
            where=line(str(error.filename or folder)),
        ) from error


def make(folder: Path, made: list[Path]) -> None:
    """Make a folder and those it is in, noting each that was not there."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir()
        made.append(each)


def undo(made: list[Path]) -> None:
    """Remove what was made, in reverse."""
    for path in reversed(made):
        with suppress(OSError):
            path.rmdir() if path.is_dir() else path.unlink()
