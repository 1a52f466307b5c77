"""Revisions of a repository, each in a folder and with an environment of its own.

head    the working tree as it is, with the Python that runs this
base    a `git worktree` in a temporary folder, set up by its own ``make .venv/ready``,
        and gone afterwards
"""

import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct

from bench.commands import Ran, ran

_READY: Final = ".venv/ready"
_TARGET: Final = re.compile(r"^\.venv/ready\s*:", re.MULTILINE)


class CompareError(Exception):
    """Two revisions can't be compared: says why, and what to do."""


class Side(Struct, frozen=True):
    """One of those that are compared.

    Attributes:
        name: "base" or "head".
        revision: The commit, in short.
        title: What its commit says that it is.
        changed: Whether its files are not those of the commit.
        folder: Where it is.
        python: The interpreter that runs it.
    """

    name: str
    revision: str
    title: str
    changed: bool
    folder: Path
    python: str

    @property
    def told(self) -> str:
        """For people."""
        changed = ", working tree with changes" if self.changed else ""
        return f"{self.revision} {self.title}{changed}"

    def bench(self, *arguments: str) -> Ran:
        """Run its benchmarks."""
        return ran(
            [self.python, "-m", "bench", *arguments], self.folder, self._environment()
        )

    def has(self, subject: str) -> bool:
        """Whether there is such a benchmark in it."""
        return (self.folder / "bench" / f"bench_{subject}.py").exists()

    def _environment(self) -> Mapping[str, str]:
        # Nothing of the other one's: neither its modules nor its programs.
        own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        scripts = Path(self.python).parent
        return {
            **own,
            "VIRTUAL_ENV": str(scripts.parent),
            "PATH": f"{scripts}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        }


def working_tree(repository: Path) -> Side:
    """The tree as it is, changes and all.

    Raises:
        CompareError: It is no repository.
    """
    revision, title = _described(repository, "HEAD")
    changed = bool(_git(repository, "status", "--porcelain").out.strip())
    return _checked(Side("head", revision, title, changed, repository, sys.executable))


@contextmanager
def checked_out(repository: Path, asked: str) -> Iterator[Side]:
    """A revision beside the tree, set up as it says itself, for as long as the block.

    Raises:
        CompareError: There is no such revision, or it can't be set up.
    """
    revision, title = _described(repository, asked)
    with tempfile.TemporaryDirectory(prefix="heddle-compare-") as scratch:
        tree = Path(scratch) / revision
        try:
            _asked(repository, "worktree", "add", "--quiet", "--detach", tree, revision)
            # Not resolved: it is the link that makes it this environment's.
            python = tree / ".venv" / "bin" / "python"
            side = _checked(Side("base", revision, title, False, tree, str(python)))
            _set_up(side)
            yield side
        finally:
            _git(repository, "worktree", "remove", "--force", tree)
            _git(repository, "worktree", "prune")


def _set_up(side: Side) -> None:
    makefile = side.folder / "Makefile"
    if not (makefile.exists() and _TARGET.search(makefile.read_text())):
        raise CompareError(
            f"{side.revision} has no Makefile that makes {_READY}: nothing says how it is"
            " set up. Name a later revision."
        )
    done = ran(["make", "--silent", _READY, f"PYTHON={sys.executable}"], side.folder)
    if done.status:
        raise CompareError(
            f"{side.revision} could not be set up: `make {_READY}` says: {done.last_words}"
        )


def _checked(side: Side) -> Side:
    if not (side.folder / "bench" / "__main__.py").exists():
        raise CompareError(
            f"{side.name} {side.revision} has no `python -m bench`. Name a revision that"
            " has one: git log -- bench/__main__.py"
        )
    return side


def _described(repository: Path, asked: str) -> tuple[str, str]:
    """The commit in short, and the first line of what it says."""
    # Not an option, whatever it looks like, and a commit, not a file of that name.
    named = _git(
        repository,
        "rev-parse",
        "--verify",
        "--quiet",
        "--end-of-options",
        f"{asked}^{{commit}}",
    )
    if named.status:
        raise CompareError(
            f"there is no revision {asked!r} in {repository}. Name a commit, a branch or"
            " a tag: git log --oneline"
        )
    told = _asked(repository, "show", "--no-patch", "--format=%h%x00%s", named.out.strip())
    revision, _, title = told.strip().partition("\0")
    return revision, title


def _asked(repository: Path, *arguments: "str | Path") -> str:
    done = _git(repository, *arguments)
    if done.status:
        raise CompareError(f"git {arguments[0]}: {done.last_words}")
    return done.out


def _git(repository: Path, *arguments: "str | Path") -> Ran:
    command: Sequence[str] = ["git", *map(str, arguments)]
    return ran(command, repository)
