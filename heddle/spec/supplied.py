"""What is kept apart from a document: components and values that it only refers to.

    flow.json     {"component_type": "Flow", …, "llm_config": {"$component_ref": "model"}}
    model.json    {"$referenced_components": {"model": {…}, "model.api_key": "$KEY"}}

One flow can so be run with one model here and another there. What the document defines
itself is not looked for elsewhere.
"""

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any, Final

from msgspec import Struct, structs

from heddle.spec.formats import FORMATS, Formats
from heddle.spec.problems import DocumentError, InFile, Path, Problem, shown
from heddle.spec.syntax import parse
from plugins_host import nearest

_DEFINITIONS: Final = "$referenced_components"
_KNOWN: Final = frozenset((_DEFINITIONS, "agentspec_version"))
_NO_FILE: Final = "supplied"


class Supplied(Struct, frozen=True):
    """Components as they are written, and values, by id.

    ``homes`` is which file each is from, ``digest`` tells two of these apart.
    """

    values: Mapping[str, Any] = {}
    homes: Mapping[str, str] = {}
    digest: str = ""

    def path_of(self, identity: str) -> Path:
        """Where a definition stands in its file."""
        home = InFile(self.homes.get(identity, _NO_FILE))
        return (((None, home), _DEFINITIONS), identity)

    def locate(self, problem: Problem) -> Problem:
        """The problem with the file that its path begins with told apart from the path."""
        if problem.path.startswith("$"):
            return problem
        for home in {*self.homes.values(), _NO_FILE}:
            if problem.path.startswith(f"{home} $"):
                path, key = (
                    text.removeprefix(f"{home} ") for text in (problem.path, problem.key)
                )
                return structs.replace(problem, path=path, file=home, key=key)
        return problem

    def relocate(self, error: DocumentError) -> DocumentError:
        """The same of all problems of an error."""
        problems, warnings = (map(self.locate, x) for x in (error.problems, error.warnings))
        return DocumentError(problems, name=error.name, warnings=warnings)


NOTHING_SUPPLIED: Final = Supplied()


def read_supplied(
    files: Iterable[tuple[str, bytes]], *, formats: Formats = FORMATS
) -> Supplied:
    """Read documents that hold nothing but definitions.

    Args:
        files: Names and contents; the extension of a name tells the format.
        formats: The formats there are.

    Raises:
        DocumentError: One is no such document, or defines what another one does.
    """
    values: dict[str, Any] = {}
    homes: dict[str, str] = {}
    digest = blake2b(digest_size=20)
    for name, data in files:
        problems: list[Problem] = []
        for identity, value in _definitions(name, data, formats, problems).items():
            if identity in homes:
                problems.append(
                    Problem(
                        f"$.{_DEFINITIONS}.{identity}",
                        f"the id {shown(identity)} is also defined in {homes[identity]}",
                        "Keep one definition.",
                    )
                )
            homes[identity] = name
            values[identity] = value
        if problems:
            raise DocumentError(problems, name=name)
        # Errors have the name in them, and are kept with what was compiled.
        for part in (name.encode(errors="surrogatepass"), data):
            digest.update(b"%d:%b" % (len(part), part))
    return Supplied(values, homes, digest.hexdigest()) if homes else NOTHING_SUPPLIED


def _definitions(
    name: str, data: bytes, formats: Formats, problems: list[Problem]
) -> Mapping[str, Any]:
    raw = parse(data, name=name, formats=formats)
    for key in raw:
        if key not in _KNOWN:
            guess = nearest(key, _KNOWN)
            problems.append(
                Problem(
                    f"$.{key}",
                    f"a document of components holds nothing but '{_DEFINITIONS}'",
                    f"Did you mean {guess!r}?" if guess else "Leave it out.",
                )
            )
    found = raw.get(_DEFINITIONS)
    if isinstance(found, dict):
        return found
    what = (
        f"this maps ids to components and values, not {shown(found)}"
        if _DEFINITIONS in raw
        else f"'{_DEFINITIONS}' is missing"
    )
    fix = f"Write '{_DEFINITIONS}': {{id: component or value}}."
    problems.append(Problem("$", what, fix))
    return {}
