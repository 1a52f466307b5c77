"""What is wrong with a document: every problem at once, each where its author finds it.

A problem's path leads through the document as it was written, references not followed:
``$.nodes[2].llm_config.url``. Paths are kept as linked steps, `Path`, and only written
out when somebody reads them.
"""

import re
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from msgspec import Struct

from plugins_host import Fault, sentence

# A screen of problems is what a person works through before looking again.
SHOWN_PROBLEMS: Final = 20

# From the innermost step outwards; None is the whole document.
Path: TypeAlias = "tuple[Path, str | int] | None"

_PLAIN_KEY: Final = re.compile(r"[$\w-]+")
_KEY_SHOWN: Final = 80
_STEPS_SHOWN: Final = 40


class Problem(Struct, frozen=True):
    """One thing that is wrong: where in the document, what, and what to do about it."""

    path: str
    what: str
    fix: str = ""

    def __str__(self) -> str:
        return sentence(self.what, where=self.path, fix=self.fix)


class DocumentError(Fault):
    """A document can't be used. Its author has to change it.

    ``problems`` holds all of them, in document order as far as it was read; ``str()``
    shows the first `SHOWN_PROBLEMS`.
    """

    def __init__(self, problems: Iterable[Problem], *, name: str) -> None:
        self.problems = tuple(problems)
        self.name = name
        first = self.problems[0]
        where = f"{name} {first.path}" if first.path else name
        super().__init__(first.what, where=where, fix=first.fix)

    def __str__(self) -> str:
        if len(self.problems) == 1:
            return super().__str__()
        lines = [f"{self.name} has {len(self.problems)} problems:"]
        lines += [f"  {problem}" for problem in self.problems[:SHOWN_PROBLEMS]]
        hidden = len(self.problems) - SHOWN_PROBLEMS
        if hidden > 0:
            lines.append(f"  and {hidden} more")
        return "\n".join(lines)


def write_path(path: Path) -> str:
    """A path as text: ``$.nodes[0]['a key']``, without the middle of a very long one."""
    steps: list[str] = []
    while path is not None:
        path, step = path
        if isinstance(step, int):
            steps.append(f"[{step}]")
        elif _PLAIN_KEY.fullmatch(step) and len(step) <= _KEY_SHOWN:
            steps.append(f".{step}")
        else:
            steps.append(f"[{shown(step, _KEY_SHOWN)}]")
    steps.reverse()
    if len(steps) > _STEPS_SHOWN:
        steps[_STEPS_SHOWN // 2 : -_STEPS_SHOWN // 2] = ["…"]
    return "$" + "".join(steps)


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
            return repr(value) if abs(value) < 1e40 else "a very large number"
        case list() | tuple():
            return "a list" if value else "an empty list"
        case dict():
            return "an object" if value else "an empty object"
        case _:
            return type(value).__name__
