"""What may come with a request and what not: one table, with the reason that is printed.

    RULES["plugins[].components[].kind", "middleware"]   refused, on every server
    RULES["plugins[].files", ""]                         refused: there is nothing to bring
    RULES["tools", ""]                                   taken, where code is taken at all

A request is looked through field by field; the narrowest row that speaks of what is there
decides, and a refusal prints its row's words.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from heddle.server.failures import SubmissionRefused


class Rule(Struct, frozen=True):
    """What is done about one thing that a caller brings.

    Attributes:
        why: What is wrong with it; empty for what is taken.
        fix: What to do instead.
        anyway: It is refused whether or not the server takes code.
    """

    why: str = ""
    fix: str = ""
    anyway: bool = False


TAKEN: Final = Rule()

_INSTALLED: Final = "Middleware is installed by whoever runs the server."
_ONE_FILE: Final = "A plugin that comes with a request is its one source file."

RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("tools", ""): TAKEN,
    ("plugins", ""): TAKEN,
    ("components[].kind", "node"): TAKEN,
    ("components[].kind", "transform"): TAKEN,
    ("components[].kind", "provider"): TAKEN,
    ("components[].kind", "component"): TAKEN,
    ("components[].kind", "middleware"): Rule(
        "declares middleware, which decides about runs and not inside of one",
        _INSTALLED,
        anyway=True,
    ),
    ("components[].kind", "store"): Rule(
        "declares a store, which keeps the sessions of every caller",
        "Middleware and stores are installed by whoever runs the server.",
        anyway=True,
    ),
    ("components[].kind", "encoder"): Rule(
        "declares an encoder, which renders a run for everybody who follows it",
        "Ask whoever runs the server to install it, or read the events as they are.",
    ),
    ("components[].seams", ""): Rule(
        "asks to be consulted at seams, as middleware is", _INSTALLED, anyway=True
    ),
    ("command", ""): Rule(
        "says what program to run, and that is decided by its 'language'",
        "Leave out 'command'.",
    ),
    ("files", ""): Rule(
        "brings files into workspaces, and it has none",
        f"Leave out 'files'. {_ONE_FILE}",
    ),
    ("discoverTools", ""): Rule(
        "finds its tools when it runs, and a flow is checked before anything runs",
        "Declare them under 'tools'.",
    ),
    ("tools[].componentType", ""): TAKEN,
    ("tools[].path", ""): Rule(
        "has a tool that is a file of its own",
        f"Send the program under 'tools' of the request. {_ONE_FILE}",
    ),
    ("tools[].shadows", ""): Rule(
        "has a tool that takes the place of another of the same name",
        "Give it a name of its own.",
    ),
}
"""By the place in a manifest (``tools`` and ``plugins`` themselves: in the request) and,
where it is one of several words, the word."""

NO_CODE: Final = (
    "this server runs no code that comes with a request, and {name!r} is some",
    "Leave it out, or ask whoever runs the server to install it.",
)


def check_manifest_rules(name: str, manifest: Any, *, code: bool) -> None:
    """Look through the manifest of a plugin that came with a request.

    Args:
        name: What the request calls the plugin.
        manifest: As decoded from JSON, not checked yet: what is malformed in it is left to
            whoever reads it.
        code: Whether the server takes code. Where it doesn't, only what is refused anyway
            is looked for.

    Raises:
        SubmissionRefused: It has something that no request may bring.
    """
    for key in _found(manifest):
        rule = RULES[key]
        if rule.why and (code or rule.anyway):
            raise SubmissionRefused(
                f"it {rule.why}", where=f"plugin {name[:64]!r}", fix=rule.fix
            )


def _found(manifest: Any) -> Iterator[tuple[str, str]]:
    """The rows that speak of something in a manifest."""
    if not isinstance(manifest, dict):
        return
    for component in _objects(manifest.get("components")):
        kind = component.get("kind", "node")
        if isinstance(kind, str) and ("components[].kind", kind) in RULES:
            yield "components[].kind", kind
        if "seams" in component:
            yield "components[].seams", ""
    for tool in _objects(manifest.get("tools")):
        yield from ((f"tools[].{field}", "") for field in _TOOL_FIELDS if tool.get(field))
    yield from ((field, "") for field in _MANIFEST_FIELDS if manifest.get(field))


_TOOL_FIELDS: Final = ("componentType", "path", "shadows")
_MANIFEST_FIELDS: Final = ("command", "files", "discoverTools")


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        yield from (each for each in value if isinstance(each, dict))
