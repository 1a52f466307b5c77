"""Formats of documents that a Python module brings, as it declares them.

formats = {"toml": {"extensions": [".toml"], "read": tomllib.loads}}

``read`` makes data of a document's text, or raises. A format is part of heddle, which reads
documents before it starts anything: a plugin in a process of its own brings none.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from plugins_host.faults import Fault

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]*")
_EXTENSION: Final = re.compile(r"\.[a-z0-9][a-z0-9._-]*")
_EXAMPLE: Final = (
    "Declare formats = {'toml': {'extensions': ['.toml'], 'read': function}}, whose "
    "function makes data of a text."
)


class PluginFormat(Struct, frozen=True):
    """One format."""

    name: str
    extensions: tuple[str, ...]
    read: Callable[[str], Any]


class FormatInvalid(Fault):
    """What a module declares under ``formats`` is not usable."""


def read_formats(raw: object, *, where: str) -> tuple[PluginFormat, ...]:
    """The formats of a module; ``where`` is what errors call it.

    Raises:
        FormatInvalid: They are declared wrongly.
    """

    def refuse(what: str) -> FormatInvalid:
        return FormatInvalid(what, where=where, fix=_EXAMPLE)

    if not isinstance(raw, Mapping):
        raise refuse(f"'formats' is {type(raw).__name__}, and should be a dict")
    found = []
    for name, declared in raw.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise refuse(f"{name!r} is not the name of a format")
        if not isinstance(declared, Mapping):
            raise refuse(f"format {name!r} is {type(declared).__name__}, not a dict")
        unknown = [key for key in declared if key not in ("extensions", "read")]
        if unknown:
            raise refuse(f"format {name!r} has {unknown[0]!r}, which says nothing")
        read = declared.get("read")
        if not callable(read):
            raise refuse(f"format {name!r} has no function 'read'")
        extensions = declared.get("extensions", ())
        if not isinstance(extensions, list | tuple):
            raise refuse(f"the 'extensions' of format {name!r} are no list")
        for each in extensions:
            if not isinstance(each, str) or not _EXTENSION.fullmatch(each):
                raise refuse(f"{each!r} is not an extension: it begins with a dot")
        found.append(PluginFormat(name, tuple(extensions), read))
    return tuple(found)
