"""The formats that documents are written in: one registry, with json and yaml as entries.

    formats.named("yaml")              the entry that --format names
    formats.of(data, "flow.toml")      the entry by extension, or by the look of the bytes
    formats.and_also(more)             these, and those that plugins bring

An entry makes plain data of bytes: objects, arrays, texts, numbers, true, false, null. What
a plugin's reader makes is looked through before anything relies on that.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Any, Final, TypeAlias

from msgspec import Struct

from heddle.spec.json_syntax import parse_json
from heddle.spec.problems import DocumentError, Path, write_path
from heddle.spec.source import MAX_DIGITS, MAX_NESTING, refusal, text_of, too_deep
from plugins_host import Fault, one_of

ReadBytes: TypeAlias = Callable[[bytes, str], Any]
"""Makes data of a document's bytes and of what errors call it."""

ReadText: TypeAlias = Callable[[str], Any]
"""What a plugin offers: makes data of a document's text, or raises."""

# The first number that Python refuses to write out.
MOST: Final = 10**MAX_DIGITS

_serials: Final = count()


class InputFormat(Struct, frozen=True):
    """One format. ``extensions`` begin with a dot and are lower-case."""

    name: str
    extensions: tuple[str, ...]
    read: ReadBytes


class FormatRefused(Fault):
    """There is no such format, or it cannot be installed beside the others."""


class Formats:
    """Formats by name and by extension.

    Attributes:
        serial: Differs between registries, for whoever keeps what was read with one.
    """

    def __init__(self, entries: Iterable[InputFormat]) -> None:
        self.serial = next(_serials)
        self._by_name: dict[str, InputFormat] = {}
        self._by_extension: dict[str, InputFormat] = {}
        for entry in entries:
            if entry.name in self._by_name:
                raise FormatRefused(
                    f"there are two formats {entry.name!r}", fix="Name one differently."
                )
            self._by_name[entry.name] = entry
            for extension in entry.extensions:
                first = self._by_extension.setdefault(extension, entry)
                if first is not entry:
                    raise FormatRefused(
                        f"{extension!r} is the extension of format {first.name!r} already",
                        fix="Leave it out, and name the format with --format.",
                    )

    @property
    def names(self) -> tuple[str, ...]:
        """All of them, heddle's own first."""
        return tuple(self._by_name)

    def and_also(self, more: Iterable[InputFormat]) -> "Formats":
        """A registry of these and more.

        Raises:
            FormatRefused: One of them is taken.
        """
        return Formats((*self._by_name.values(), *more))

    def named(self, name: str) -> InputFormat:
        """The format of this name.

        Raises:
            FormatRefused: There is none; lists those there are.
        """
        found = self._by_name.get(name)
        if found is None:
            raise FormatRefused(
                f"there is no format {name[:80]!r}", fix=one_of(name, self._by_name)
            )
        return found

    def of(self, data: bytes, name: str) -> InputFormat:
        """The format of a document: by the extension of its name, or by how it begins."""
        dot = name.rfind(".")
        known = self._by_extension.get(name[dot:].lower()) if dot >= 0 else None
        if known is not None:
            return known
        # With a comment at its top it is no JSON, and should be told so as JSON.
        begin = data.lstrip(b" \t\r\n")[:2]
        looks_like_json = begin[:1] in (b"{", b"[") or begin in (b"//", b"/*")
        return self._by_name["json" if looks_like_json else "yaml"]


def _read_yaml(data: bytes, name: str) -> Any:
    try:
        from heddle.spec.yaml_syntax import parse_yaml
    except ImportError as error:
        raise refusal(
            name,
            "YAML can't be read: PyYAML is not here, or was built without libyaml",
            fix="Install PyYAML from its wheel, or write the document in JSON.",
        ) from error
    return parse_yaml(data, name)


FORMATS: Final = Formats(
    (
        InputFormat("json", (".json",), parse_json),
        InputFormat("yaml", (".yaml", ".yml"), _read_yaml),
    )
)


def format_of(name: str, extensions: Iterable[str], read: ReadText) -> InputFormat:
    """A format whose reader is somebody else's: it may raise and return anything."""

    def read_bytes(data: bytes, document: str) -> Any:
        text = text_of(data, document)
        try:
            found = read(text)
        except RecursionError as error:
            raise too_deep(document, "") from error
        except Exception as error:
            raise refusal(
                document, f"this is not valid {name}: {str(error) or type(error).__name__}"
            ) from error
        return _plain(found, document, name)

    return InputFormat(name, tuple(extensions), read_bytes)


def _plain(value: Any, document: str, name: str) -> Any:
    """The same as a document's data, with nothing in it that JSON does not have.

    Raises:
        DocumentError: There is something else, or it is nested too deep.
    """

    def refuse(path: Path, what: str) -> DocumentError:
        fix = f"Write it as text, or correct what reads {name}."
        return refusal(document, what, where=write_path(path), fix=fix)

    def walk(value: Any, path: Path, depth: int) -> Any:
        if depth > MAX_NESTING:
            raise too_deep(document, "")
        match value:
            case None | bool():
                return value
            case str():
                return str(value)
            case int():
                if abs(value) >= MOST:
                    raise refuse(path, f"the number has more than {MAX_DIGITS} digits")
                return int(value)
            case float():
                if not math.isfinite(value):
                    raise refuse(path, f"{value} is a number that JSON does not have")
                return float(value)
            case Mapping():
                found = {}
                for key, each in value.items():
                    if not isinstance(key, str):
                        raise refuse(path, f"the key {key!r} is no text")
                    found[str(key)] = walk(each, (path, key), depth + 1)
                return found
            case list() | tuple():
                return [
                    walk(each, (path, index), depth + 1) for index, each in enumerate(value)
                ]
            case _:
                kind = type(value).__name__
                raise refuse(path, f"there is a {kind}, which JSON does not have")

    return walk(value, None, 1)
