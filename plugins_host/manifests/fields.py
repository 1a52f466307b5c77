"""The fields of objects in a manifest, each read by its type, and all that is wrong.

    reading = FieldReading()
    values = reading.values(raw, "$.tools[0]", known_fields(ToolEntry))
    reading.problems      what is wrong, with its place; all of it
    reading.warnings()    what is there and nobody reads

What one field means beside another is not known here.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import FieldInfo, fields

from plugins_host.faults import nearest, one_of
from plugins_host.manifests.manifest import KINDS, Manifest
from plugins_host.manifests.problems import ManifestProblem
from plugins_host.manifests.words import enum_in, shown, wanted
from plugins_host.seams import SEAMS

_NOT_FIELDS: Final = frozenset({"warnings"})


def known_fields(struct: type[Struct]) -> dict[str, FieldInfo]:
    """The fields of a struct by their names in the JSON."""
    return {
        info.encode_name: info
        for info in fields(struct)
        if info.encode_name not in _NOT_FIELDS
    }


MANIFEST_FIELDS: Final = known_fields(Manifest)
KIND_FIELDS: Final = {kind: known_fields(struct) for kind, struct in KINDS.items()}


class FieldReading:
    """What is wrong and what is odd in one manifest gathers here.

    Attributes:
        problems: What is wrong so far, in the order in which it was found.
    """

    def __init__(self) -> None:
        self.problems: list[ManifestProblem] = []
        self._unknown: list[str] = []

    def items(self, raw: object, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The objects of an array with their places; what is none of these is refused."""
        if not isinstance(raw, list | tuple):
            self.refuse(path, f"{shown(raw)} is not an array", "Write an array of objects.")
            return
        for index, each in enumerate(raw):
            here = f"{path}[{index}]"
            if isinstance(each, Mapping):
                yield here, each
            else:
                self.refuse(here, f"{shown(each)} is not an object", "Write an object.")

    def values(
        self,
        raw: Mapping[str, Any],
        path: str,
        known: Mapping[str, FieldInfo],
        component: str = "",
    ) -> dict[str, Any]:
        """Each field by its type; what is wrong or absent is not in what is returned."""
        values: dict[str, Any] = {}
        for key, info in known.items():
            where = f"{path}.{key}"
            if key == "seams":
                if key not in raw:
                    fix = f"Name at least one of: {', '.join(SEAMS)}."
                    what = missing("a middleware subscribes to seams", raw, key)
                    self.refuse(where, what, fix, component)
                continue
            if key not in raw:
                if info.required:
                    what = missing(f"{key!r} is missing", raw, key)
                    self.refuse(where, what, "Add it.", component)
                continue
            try:
                values[info.name] = msgspec.convert(raw[key], info.type)
            except msgspec.ValidationError as error:
                self._refuse_value(raw[key], info, where, str(error), component)
        return values

    def _refuse_value(
        self, value: object, info: FieldInfo, path: str, error: str, component: str
    ) -> None:
        said, _, inner = error.partition(" - at `$")
        inner = inner.rstrip("`")
        for index in re.findall(r"\[(\d+)\]", inner):
            value = value[int(index)] if isinstance(value, list | tuple) else value
        choices = enum_in(info.type)
        if said.startswith("Invalid enum value") and choices is not None:
            what = f"{shown(value)} is not a {choices.__name__.lower()}"
            self.refuse(
                f"{path}{inner}",
                what,
                one_of(str(value), [each.value for each in choices]),
                component,
            )
            return
        fix = f"It should be {wanted(said)}."
        self.refuse(f"{path}{inner}", f"this is {shown(value)}", fix, component)

    def refuse(self, path: str, what: str, fix: str = "", component: str = "") -> None:
        """Say that something is wrong."""
        self.problems.append(ManifestProblem(path, what, fix, component))

    def note_unknown(
        self,
        raw: Mapping[str, Any],
        path: str,
        known: Mapping[str, object],
        *,
        but: Iterable[str] = (),
    ) -> None:
        """Remember what nobody reads: keys that are neither ``known`` nor in ``but``."""
        for key in raw:
            if key not in known and key not in but:
                guess = nearest(str(key), known)
                hint = f" (did you mean {guess!r}?)" if guess else ""
                self._unknown.append(f"{path}.{key}{hint}")

    def warnings(self) -> tuple[str, ...]:
        """A sentence about all that is ignored, or nothing."""
        if not self._unknown:
            return ()
        listed = ", ".join(self._unknown)
        return (f"heddle does not know, and ignores: {listed}",)


def missing(what: str, raw: Mapping[str, Any], *names: str) -> str:
    """``what``, and the field that is there and was probably meant to be one of these."""
    known = {key for each in (MANIFEST_FIELDS, *KIND_FIELDS.values()) for key in each}
    for key in raw:
        guess = None if key in known else nearest(str(key), names)
        if guess is not None:
            return f"{what}; is {key!r} a misspelling of {guess!r}?"
    return what
