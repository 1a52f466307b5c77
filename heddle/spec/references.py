"""What references of one document lead to: its definitions, noted and found by id.

    "$referenced_components": {"model": {…}}     noted by `define`, where reading meets it
    {"$component_ref": "model"}                  found by `find`, read by who follows it

Reading a definition is the reader's. This says which one is meant, when references lead in
a circle, and, once all is read, what was meant by those that lead nowhere.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from heddle.spec.problems import (
    SHOWN_PROBLEMS,
    Path,
    Problems,
    misspelt,
    shown,
    write_path,
)
from heddle.spec.supplied import Supplied
from plugins_host import nearest, one_of

TYPE: Final = "component_type"
REF: Final = "$component_ref"
DEFINITIONS: Final = "$referenced_components"

# More ids than this say nothing to who looks for the right one.
_LISTED_DEFINITIONS: Final = 30

# A guess among these takes some ten milliseconds.
_COMPARED_DEFINITIONS: Final = 2000

_CIRCLE_SHOWN: Final = 8

_SUPPLY: Final = "supply it with --components."


class Definition:
    """An entry of ``$referenced_components``: read when first referred to."""

    __slots__ = ("path", "raw", "read", "value")

    def __init__(self, raw: Any, path: Path) -> None:
        self.raw = raw
        self.path = path
        self.read = False
        self.value: Any = None


class References:
    """The definitions of one document, and the references that lead nowhere."""

    def __init__(self, supplied: Supplied, problems: Problems) -> None:
        self.definitions: dict[str, Definition] = {}
        self._supplied = supplied
        self._problems = problems
        self._document: dict[str, Any] = {}
        self._scanned = False
        self._unreadable = False
        # The ids of definitions that are being read, the outermost first.
        self._open: list[str] = []
        self._dangling: list[tuple[str, Path]] = []

    def look_in(self, document: dict[str, Any]) -> None:
        """Take the document as the one in which `find` looks."""
        self._document = document

    def raw(self, identity: str) -> Any:
        """A definition as it is written."""
        return self.definitions[identity].raw

    def unread(self) -> list[str]:
        """The ids of the definitions that nothing has followed yet."""
        return [key for key, one in self.definitions.items() if not one.read]

    def define(self, definitions: Any, path: Path) -> None:
        """Note the entries of a ``$referenced_components``."""
        if type(definitions) is not dict:
            # Of definitions that nobody can read all references would be wrong.
            self._unreadable = True
            self._problems.add(
                path,
                f"this maps ids to components, not {shown(definitions)}",
                "Write an object.",
            )
            return
        for identity, raw in definitions.items():
            there = (path, identity)
            known = self.definitions.get(identity)
            if known is not None and known.raw is raw and known.path == there:
                # An earlier look for nested definitions came by here.
                continue
            if known is not None:
                self._problems.add(
                    there,
                    f"the id {shown(identity)} is defined twice: it is also at "
                    f"{write_path(known.path)}",
                    "Keep one definition.",
                )
                continue
            self.definitions[identity] = Definition(raw, there)

    def find(self, identity: str, path: Path) -> Definition | None:
        """What a reference at ``path`` means. None is noted: it leads nowhere, so far."""
        known = self.definitions.get(identity)
        if known is not None:
            return known
        if not self._scanned:
            self._find_nested_definitions()
        if identity not in self.definitions and identity in self._supplied.values:
            raw = self._supplied.values[identity]
            supplied = Definition(raw, self._supplied.path_of(identity))
            self.definitions[identity] = supplied
        if identity not in self.definitions:
            self._dangling.append((identity, path))
        return self.definitions.get(identity)

    def enter(self, identity: str, path: Path) -> bool:
        """Begin to read a definition; False, a problem, when it is being read already."""
        if identity not in self._open:
            self._open.append(identity)
            return True
        circle = [*self._open[self._open.index(identity) :], identity]
        if len(circle) > _CIRCLE_SHOWN:
            circle[_CIRCLE_SHOWN // 2 : -_CIRCLE_SHOWN // 2] = ["…"]
        self._problems.add(
            path,
            "references lead in a circle: " + " → ".join(key[:40] for key in circle),
            "A component can't contain itself.",
        )
        return False

    def leave(self) -> None:
        """End the reading that was begun last."""
        self._open.pop()

    def report_dangling(self, ids: Mapping[str, Path]) -> None:
        """Say of every reference that led nowhere what may have been meant.

        ``ids`` are all that components have, and where they have them.
        """
        if self._unreadable:
            return
        if self._dangling and not self.definitions:
            fix = misspelt(DEFINITIONS, self._document)
            if fix:
                what = f"{shown(self._dangling[0][0])} is not defined in this document"
                self._problems.add(self._dangling[0][1], what, fix)
                return
        for identity, path in self._dangling:
            owner, _, field = identity.rpartition(".")
            what = f"{shown(identity)} is not defined in this document"
            place = ids.get(identity)
            if place is not None and place[0] is not None and place[0][1] == DEFINITIONS:
                fix = f"It is defined under another name: refer to {shown(place[1])}."
            elif place is not None:
                what = (
                    f"{shown(identity)} can't be referred to: it is written in place at "
                    f"{write_path(place)}"
                )
                fix = f"Move it to '{DEFINITIONS}' and refer to it in both places."
            elif owner in ids or owner in self.definitions:
                what = f"{shown(identity)} is to be supplied from outside, and isn't"
                fix = f"Write the value of '{field}' in its place, or {_SUPPLY}"
            elif self.definitions:
                fix = self._guess(identity)
            else:
                fix = f"Define it in '{DEFINITIONS}', or {_SUPPLY}"
            self._problems.add(path, what, fix)

    def _find_nested_definitions(self) -> None:
        """Note definitions deeper in the document, which a reference may come before."""
        self._scanned = True
        waiting: list[tuple[Any, Path]] = [(self._document, None)]
        while waiting:
            value, path = waiting.pop()
            if type(value) is dict:
                if DEFINITIONS in value and type(value[DEFINITIONS]) is dict:
                    for identity, raw in value[DEFINITIONS].items():
                        self.definitions.setdefault(
                            identity, Definition(raw, ((path, DEFINITIONS), identity))
                        )
                waiting += [
                    (inner, (path, key))
                    for key, inner in value.items()
                    if key != "metadata" and (type(inner) is dict or type(inner) is list)
                ]
            else:
                waiting += [
                    (inner, (path, index))
                    for index, inner in enumerate(value)
                    if type(inner) is dict or type(inner) is list
                ]

    def _guess(self, identity: str) -> str:
        """Which definition was meant: looking for it takes its time, among thousands."""
        if len(self._problems) >= SHOWN_PROBLEMS:
            return ""
        if len(self.definitions) <= _LISTED_DEFINITIONS:
            return one_of(identity, self.definitions)
        guess = nearest(identity, islice(self.definitions, _COMPARED_DEFINITIONS))
        return f"Did you mean {guess!r}?" if guess else ""
