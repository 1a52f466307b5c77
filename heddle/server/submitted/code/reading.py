"""Code that comes with a request: read and checked, nothing written or started yet.

    {"tools": [{"name": "add", "interpreter": "python3", "source": "print('{}')"}],
     "plugins": [{"name": "shout", "language": "py", "manifest": {…}, "source": "…"}]}

What may come at all is a table (`heddle.server.submitted.code.rules`). Here it is given a
shape; what becomes of it on the disk is `heddle.server.runs.folders`.
"""

import os
import re
import shutil
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, Literal, TypeVar, get_args

import msgspec
from msgspec import Raw, Struct, structs

from heddle.server.failures import SubmissionRefused
from heddle.server.http import Refusal
from heddle.server.submitted.code.rules import NO_CODE, check_manifest_rules
from heddle.server.submitted.pattern_rules import refuse_patterns
from heddle.spec import spend_on_checking
from plugins_host import one_of

MAX_TOOLS: Final = 64
MAX_PLUGINS: Final = 16
"""How many may come with one request: far more than a flow uses, and a bound on the files
and processes of a run."""

MAX_SOURCE: Final = 1024 * 1024
MAX_CODE: Final = 4 * 1024 * 1024
"""Bytes of one source and of all of a request. A run keeps them on the disk while it goes
on, so that the most runs at once times this is what it takes."""

MAX_MANIFEST: Final = 256 * 1024
"""Bytes of one manifest, written as JSON. Its schemas are checked before anything runs."""

NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)

Interpreter = Literal["sh", "bash", "python3", "node"]
Language = Literal["js", "py"]

_WORDS: Final = {"interpreter": get_args(Interpreter), "language": get_args(Language)}

SUFFIXES: Final[Mapping[Interpreter, str]] = {
    "sh": ".sh",
    "bash": ".sh",
    "python3": ".py",
    "node": ".js",
}
"""The names of the files that the programs are written to end in this."""


class SubmittedTool(Struct, frozen=True, forbid_unknown_fields=True):
    """A tool: a program that is run once for each call, by an interpreter."""

    name: str
    source: str
    interpreter: Interpreter


class SubmittedPlugin(Struct, frozen=True, forbid_unknown_fields=True):
    """A plugin: what it says about itself, and the one file that it is."""

    name: str
    manifest: Any
    source: str
    language: Language = "js"


class Code(Struct, frozen=True):
    """All the code of one request."""

    tools: tuple[SubmittedTool, ...] = ()
    plugins: tuple[SubmittedPlugin, ...] = ()


def read_code(
    fields: Mapping[str, Raw], *, allowed: bool, taken: Collection[str]
) -> Code | None:
    """The code among the fields of a request; None when there is none.

    Args:
        fields: Those of the request.
        allowed: Whether this server takes code.
        taken: Names of tools that the server has itself.

    Raises:
        SubmissionRefused: It is none that may come with a request, or there may come none.
        Refusal: It is malformed.
    """
    tools, plugins = fields.get("tools"), fields.get("plugins")
    found: list[tuple[str, Any]] = []
    for name, raw in (("tools", tools), ("plugins", plugins)):
        if raw is not None and bytes(raw) not in _NOTHING:
            found.append((name, _decoded(name, raw)))
    if not found:
        return None
    for name, value in found:
        if name == "plugins":
            for each in value:
                check_manifest_rules(*_manifest_in(each), code=allowed)
    if not allowed:
        what, fix = NO_CODE
        raise SubmissionRefused(what.format(name=found[0][0]), fix=fix)
    given = dict(found)
    code = Code(
        _shaped("tools", given.get("tools", []), SubmittedTool, MAX_TOOLS),
        tuple(
            _with_manifests(
                _shaped("plugins", given.get("plugins", []), SubmittedPlugin, MAX_PLUGINS)
            )
        ),
    )
    _check_sizes(code)
    for tool in code.tools:
        if tool.name in taken:
            raise SubmissionRefused(
                f"this server has a tool {tool.name!r} of its own",
                where=f"tool {tool.name!r}",
                fix="Give yours another name.",
            )
        command_of(tool.interpreter)
    seen: set[str] = set()
    for plugin in code.plugins:
        refuse_patterns(plugin.manifest, seen, where=f"plugin {plugin.name!r}")
    return code


_NOTHING: Final = (b"[]", b"null")


def _decoded(name: str, raw: Raw) -> list[Any]:
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refusal(400, f"{name!r} cannot be read: {error}") from error
    except RecursionError as error:
        raise Refusal(400, f"{name!r} is nested too deep") from error
    if not isinstance(value, list):
        raise Refusal(400, f"{name!r} is no array", fix="Send an array of objects.")
    return value


def _manifest_in(plugin: Any) -> tuple[str, Any]:
    """The name and manifest of what may be a plugin."""
    if not isinstance(plugin, dict):
        return "", None
    name = plugin.get("name")
    return name if isinstance(name, str) else "", _as_object(plugin.get("manifest"))


def _as_object(manifest: Any) -> Any:
    """A manifest, which may come as text."""
    if isinstance(manifest, str):
        try:
            return msgspec.json.decode(manifest)
        except (msgspec.DecodeError, RecursionError):
            return None
    return manifest


Shape = TypeVar("Shape", SubmittedTool, SubmittedPlugin)


def _shaped(
    field: str, value: Sequence[Any], shape: type[Shape], most: int
) -> tuple[Shape, ...]:
    if len(value) > most:
        raise Refusal(400, f"{field!r} has {len(value)} entries, and {most} is the most")
    found: dict[str, Shape] = {}
    for index, each in enumerate(value):
        place = f"{field}[{index}]"
        try:
            read = msgspec.convert(each, shape)
        except msgspec.ValidationError as error:
            what, _, where = str(error).partition(" - at `$")
            field = where.rstrip("`").removeprefix(".")
            raise Refusal(
                400,
                f"{place}{where.rstrip('`')}: {what[:200]}",
                fix=f"Choose from: {', '.join(_WORDS[field])}."
                if field in _WORDS
                else f"Send {', '.join(shape.__struct_fields__)} and no more.",
            ) from error
        if NAME.fullmatch(read.name) is None:
            raise Refusal(
                400,
                f"{place}.name: {read.name[:80]!r} is no name",
                fix="Write 1 to 64 letters, digits, hyphens and underscores.",
            )
        if read.name in found:
            raise Refusal(400, f"{place}.name: there are two of the name {read.name!r}")
        found[read.name] = read
    return tuple(found.values())


def _with_manifests(plugins: Sequence[SubmittedPlugin]) -> Iterator[SubmittedPlugin]:
    """Those whose manifests came as text with them decoded."""
    for index, plugin in enumerate(plugins):
        manifest = _as_object(plugin.manifest)
        if isinstance(plugin.manifest, str) and manifest is None:
            raise Refusal(400, f"plugins[{index}].manifest is text that is not JSON")
        if len(msgspec.json.encode(manifest)) > MAX_MANIFEST:
            raise Refusal(
                400,
                f"plugins[{index}].manifest is longer than {MAX_MANIFEST} bytes",
                fix="Make its schemas smaller.",
            )
        spend_on_checking(manifest)
        yield structs.replace(plugin, manifest=manifest)


def _check_sizes(code: Code) -> None:
    whole = 0
    sources = [(f"tools[{n}]", each.source) for n, each in enumerate(code.tools)]
    sources += [(f"plugins[{n}]", each.source) for n, each in enumerate(code.plugins)]
    for place, source in sources:
        size = len(source.encode())
        if not size or size > MAX_SOURCE:
            wrong = f"has {size} bytes, and {MAX_SOURCE} is the most"
            raise Refusal(400, f"{place}.source: it {wrong if size else 'is empty'}")
        whole += size
    if whole > MAX_CODE:
        raise Refusal(
            400, f"the sources have {whole} bytes in all, and {MAX_CODE} is the most"
        )


def command_of(interpreter: Interpreter) -> tuple[str, ...]:
    """What runs the programs of an interpreter: absolute, for they have no PATH.

    Raises:
        SubmissionRefused: This machine has none.
    """
    found = _path_of(interpreter)
    if found is None:
        raise SubmissionRefused(
            f"this server has no {interpreter!r}",
            where="interpreter",
            fix=one_of(interpreter, interpreters()),
        )
    return (found,)


def interpreters() -> list[str]:
    """Those that this machine has."""
    return [each for each in SUFFIXES if _path_of(each) is not None]


@cache
def _path_of(interpreter: str) -> str | None:
    # A 'python3' on PATH may be a script that needs an environment to find the real one.
    if interpreter == "python3":
        return sys.executable
    found = shutil.which(interpreter)
    return None if found is None else os.path.abspath(found)  # noqa: PTH100  a link has its own name
