"""The paths that a manifest names: files in the plugin's folder, places in a workspace."""

import os
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Protocol

from plugins_host.manifests.words import shown


class Refuse(Protocol):
    """Where what is wrong is noted."""

    def __call__(self, path: str, what: str, fix: str = "") -> None:
        """Note a problem at a JSON path of the manifest."""


class ManifestPaths:
    """Checks the paths of one manifest, and that no two files have one destination."""

    def __init__(self, folder: Path, refuse: Refuse) -> None:
        self._folder = folder
        self._refuse = refuse
        self._taken: dict[PurePosixPath, str] = {}

    def check_file(self, written: str, path: str) -> None:
        """A file that is copied from has to be there."""
        real = self._inside(written, path)
        if real is not None and not real.is_file():
            kind = "is no file" if real.exists() else "is not there"
            fix = "Name a file below the manifest's own folder."
            self._refuse(path, f"{written!r} {kind}", fix)

    def check_executable(self, written: str, path: str) -> None:
        """A tool has to be there, and executable."""
        real = self._inside(written, path)
        if real is None:
            return
        if not real.is_file():
            self._refuse(path, f"there is no file {written!r}", "Check the path.")
        elif not os.access(real, os.X_OK):
            self._refuse(path, f"{written!r} is not executable", f"Run chmod +x {written}.")

    def check_destination(self, written: str, path: str) -> None:
        """A place inside a workspace, which no other file has or lies in."""
        taken = self._taken
        dest = PurePosixPath(written)
        if dest.is_absolute() or ".." in dest.parts or "\0" in written or not dest.parts:
            self._refuse(
                path,
                f"{shown(written)} is not a place inside a workspace",
                "Write a relative path without '..'.",
            )
        elif dest in taken:
            self._refuse(
                path,
                f"{written!r} is the destination of {taken[dest]} already",
                "Give each file a destination of its own.",
            )
        elif clash := next((each for each in taken if nested(each, dest)), None):
            self._refuse(
                path,
                f"{written!r} and the destination of {taken[clash]} lie inside each other",
                "Give each file a place beside the others.",
            )
        else:
            taken[dest] = path.removesuffix(".dest")

    def _inside(self, written: str, path: str) -> Path | None:
        """The real path of a file of the plugin's; None with a problem when it is not."""
        try:
            folder = self._folder.resolve()
            real = (folder / written).resolve()
            # A name that the file system cannot have is none, whoever may look.
            with suppress(FileNotFoundError, NotADirectoryError):
                real.stat()
        except (OSError, ValueError, RuntimeError) as error:
            why = getattr(error, "strerror", None) or error
            self._refuse(path, f"{shown(written)} is not a path: {why}", "Check the path.")
            return None
        if real.is_relative_to(folder) and real != folder:
            return real
        self._refuse(
            path,
            f"{shown(written)} is not inside the plugin's folder",
            "Name a file below the manifest's own folder; links out of it do not count.",
        )
        return None


def nested(one: PurePosixPath, other: PurePosixPath) -> bool:
    """Whether one lies inside the other, or they are the same."""
    return one.is_relative_to(other) or other.is_relative_to(one)
