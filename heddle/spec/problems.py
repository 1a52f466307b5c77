"""What is wrong with a document: every problem at once, each where its author finds it.

A problem's path leads through the document as it was written, references not followed:
``$.nodes[2].llm_config.url``. Paths are kept as linked steps, `Path`, and only written
out when somebody reads them. What was supplied from another file has a path through that
file, which begins with its name: ``model.json $.$referenced_components.model.url``.
"""

import re
from collections.abc import Collection, Iterable
from typing import Any, Final, TypeAlias

from msgspec import Struct

from plugins_host import Fault, nearest, sentence

# A screen of problems is what a person works through before looking again.
SHOWN_PROBLEMS: Final = 20

# Reading stops here. A document this far off is of another kind, and each problem costs
# more time and memory than the few bytes that cause it.
MAX_PROBLEMS: Final = 200

# From the innermost step outwards; None is the whole document. An `InFile` is outermost.
Path: TypeAlias = "tuple[Path, str | int] | None"

_PLAIN_KEY: Final = re.compile(r"[$\w-]+")
_KEY_SHOWN: Final = 80
_STEPS_SHOWN: Final = 40


class InFile(str):
    """The outermost step of a path through another file than the document: its name."""

    __slots__ = ()


def is_supplied(path: Path) -> bool:
    """Whether this is where a file of components defines one of them."""
    match path:
        case (((None, InFile()), _), _):
            return True
        case _:
            return False


class Problem(Struct, frozen=True):
    """One thing that is wrong: where in the document, what, and what to do about it.

    ``file`` is the one that ``path`` leads through, when it is not the document itself.
    ``key`` is the path of the key that is at fault, where it is one: its place in the text
    is that of the word, not that of the value behind it.
    """

    path: str
    what: str
    fix: str = ""
    file: str = ""
    key: str = ""

    def __str__(self) -> str:
        where = f"{self.file} {self.path}" if self.file else self.path
        return sentence(self.what, where=where, fix=self.fix)


class DocumentError(Fault):
    """A document can't be used. Its author has to change it.

    ``problems`` holds all of them, ``str()`` shows the first `SHOWN_PROBLEMS`.
    ``warnings`` is what would have been worth a look all the same.
    """

    def __init__(
        self, problems: Iterable[Problem], *, name: str, warnings: Iterable[Problem] = ()
    ) -> None:
        self.problems = tuple(problems)
        self.warnings = tuple(warnings)
        self.name = name
        first = self.problems[0]
        file = first.file or name
        where = f"{file} {first.path}" if first.path else file
        super().__init__(first.what, where=where, fix=first.fix)

    def __str__(self) -> str:
        if len(self.problems) == 1:
            return super().__str__()
        more = " or more" if len(self.problems) >= MAX_PROBLEMS else ""
        lines = [f"{self.name} has {len(self.problems)} problems{more}:"]
        lines += [f"  {problem}" for problem in self.problems[:SHOWN_PROBLEMS]]
        hidden = len(self.problems) - SHOWN_PROBLEMS
        if hidden > 0:
            lines.append(f"  and {hidden} more")
        return "\n".join(lines)


class Broken:
    """Stands where a component would, had it no problems; ``values`` are its fields."""

    __slots__ = ("values",)

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values


class TooManyProblems(Exception):
    """`MAX_PROBLEMS` were found. Never leaves this package."""


class Problems:
    """Collects what is wrong while a document is read, and ``warnings`` beside it."""

    def __init__(self) -> None:
        self.found: list[Problem] = []
        self.warnings: list[Problem] = []
        # How often something was noted, what was told before as well.
        self.noted = 0
        # Where objects are written that references stand for, by their identity.
        self.defined: dict[int, Path] = {}
        self._told: set[Path] = set()

    def __len__(self) -> int:
        return len(self.found)

    def add(self, path: Path, what: str, fix: str = "", *, key: Path = None) -> None:
        """Note a problem; ``key`` is the path of the key that is at fault.

        Raises:
            TooManyProblems: It is the last that is taken.
        """
        word = "" if key is None else write_path(key)
        self.noted += 1
        self.found.append(Problem(write_path(path), what, fix, key=word))
        if len(self.found) >= MAX_PROBLEMS:
            raise TooManyProblems

    def add_once(self, value: object, path: Path, what: str, fix: str) -> None:
        """Note a problem of a value: where a reference's is written, and once for all.

        Raises:
            TooManyProblems: It is the last that is taken.
        """
        there = self.defined.get(id(value), path)
        if there not in self._told:
            self._told.add(there)
            self.add(there, what, fix)
        else:
            self.noted += 1

    def warn(self, path: Path, what: str, fix: str = "", *, key: Path = None) -> None:
        """Note what can be used all the same. The first `MAX_PROBLEMS` are enough."""
        if len(self.warnings) < MAX_PROBLEMS:
            word = "" if key is None else write_path(key)
            self.warnings.append(Problem(write_path(path), what, fix, key=word))

    def warn_unknown(
        self, keys: Collection[str], known: Collection[str], path: Path
    ) -> None:
        """Warn of the keys that nothing reads."""
        for key in keys:
            if key not in known and len(self.warnings) < MAX_PROBLEMS:
                guess = nearest(key, known)
                self.warn(
                    (path, key),
                    "this is not a field that is known here, and is ignored",
                    f"Did you mean {guess!r}?" if guess else "",
                    key=(path, key),
                )


def misspelt(name: str, keys: Collection[str]) -> str:
    """A fix where a key is missing: which of these was meant for it, or ""."""
    guess = nearest(name, keys)
    return f"Is {guess!r} a misspelling of {name!r}?" if guess else ""


def write_path(path: Path) -> str:
    """A path as text: ``$.nodes[0]['a key']``, without the middle of a very long one."""
    steps: list[str] = []
    file = ""
    while path is not None:
        path, step = path
        if path is None and isinstance(step, InFile):
            file = f"{step} "
        elif isinstance(step, int):
            steps.append(f"[{step}]")
        elif _PLAIN_KEY.fullmatch(step) and len(step) <= _KEY_SHOWN:
            steps.append(f".{step}")
        else:
            steps.append(f"[{shown(step, _KEY_SHOWN)}]")
    steps.reverse()
    if len(steps) > _STEPS_SHOWN:
        steps[_STEPS_SHOWN // 2 : -_STEPS_SHOWN // 2] = ["…"]
    return f"{file}$" + "".join(steps)


def shown(value: Any, limit: int = 60) -> str:
    """A value as a sentence quotes it: short, on one line, whatever it holds."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return repr(value if len(value) <= limit else value[: limit - 1] + "…")
        case int() | float():
            # Writing out a number of many digits takes longer than anybody reads.
            digits = isinstance(value, float) or abs(value) < 10**40
            return repr(value) if digits else "a very large number"
        case list() | tuple():
            return "a list" if value else "an empty list"
        case dict():
            return "an object" if value else "an empty object"
        case _:
            return type(value).__name__
