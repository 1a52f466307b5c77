"""The installed policies as an operator wants to read them: who, whence, which settings.

Settings that hold something secret are there by name and not by value: a field whose
schema says ``writeOnly`` or ``"format": "password"``, or whose name says what it is.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from heddle.preview.seams import Place
from plugins_host import SEAMS, Half, InProcess, Seam

if TYPE_CHECKING:
    from heddle.installation import Installed
    from heddle.spec import PluginComponent

HIDDEN: Final = "(hidden)"
"""What is shown in the place of a secret."""

SECRET_NAMES: Final = re.compile(
    r"(?i)pass(word|phrase|wd)|secret|sensitive|token(?!s)|credential|authorization|cookie"
    r"|(api|access|private|signing|encryption)[-_ ]?key"
)
"""Names of fields that hold secrets. ``maxTokens`` does not."""

REFERENCE: Final = re.compile(r"\$[A-Za-z_]\w*")
"""A value that names a variable of the environment: where the secret is, not what."""

CREDENTIALS_IN_URL: Final = re.compile(r"(?<=://)[^/@\s]+(?=@)")


class Policy(Struct, frozen=True):
    """One middleware.

    Attributes:
        component_type: Its name.
        plugin: The name of its plugin.
        source: As that was written after ``--plugin``.
        seams: The halves that it declared.
        settings: What the operator gave.
        defaults: What its schema says of fields that were not given.
        in_process: Whether it is a part of heddle, and not a process.
    """

    component_type: str
    plugin: str
    source: str
    seams: Mapping[Seam, frozenset[Half]]
    settings: Mapping[str, Any]
    defaults: Mapping[str, Any]
    in_process: bool = False

    @property
    def halves(self) -> tuple[str, ...]:
        """The names of the halves that it declared, in the order of the table of seams."""
        return tuple(
            f"{seam}.{half}"
            for seam, row in SEAMS.items()
            for half in row.halves
            if self.is_asked(seam, half)
        )

    def is_asked(self, seam: Seam, half: Half) -> bool:
        """Whether it declared this half."""
        return half in self.seams.get(seam, ())


class Unasked(Struct, frozen=True):
    """Halves that a policy declared and that this flow does not meet, and why not.

    ``never`` is whether these are all that it declared.
    """

    policy: Policy
    halves: tuple[str, ...]
    why: str
    never: bool


NOT_MET: Final[Mapping[Seam, str]] = {
    Seam.NODE_ERROR: "the flow has no node",
    Seam.NODE: "the flow has no node",
    Seam.TOOL_CALL: "no agent of this flow has a tool; a ToolNode's call is not a model's",
    Seam.MODEL_CALL: "nothing in this flow calls a model",
    Seam.AGENT_ROUND: "no agent works in this flow",
}
"""Why a flow does not meet a seam."""

NO_ROUND_AFTER: Final = "it is asked after rounds that ran tools, and no agent here has any"


def policies_of(installed: "Installed") -> tuple[Policy, ...]:
    """The policies in the order in which they are asked."""
    if installed.plugins is None:
        return ()
    return tuple(
        Policy(
            each.component.component_type,
            each.plugin.name,
            each.plugin.source,
            each.component.seams,
            shown(each.settings, each.component.schema),
            defaults(each.settings, each.component.schema),
            isinstance(each.plugin.home, InProcess),
        )
        for each in installed.plugins.middleware
    )


def models_called(installed: "Installed", component: "PluginComponent") -> bool:
    """Whether the plugin behind a component has a model to call, and may."""
    if "llm_config" not in component.fields or installed.plugins is None:
        return False
    return any(
        capability.value == "callModel"
        for plugin in installed.plugins.plugins
        if plugin.name == component.provided.plugin
        for capability in plugin.manifest.capabilities
    )


def unasked(policies: Iterable[Policy], met: Iterable[Place]) -> Iterator[Unasked]:
    """What was declared in vain, by policy and reason."""
    halves = {(place.seam, place.half) for place in met}
    seams = {seam for seam, _ in halves}
    for policy in policies:
        declared = [
            (seam, half)
            for seam, row in SEAMS.items()
            for half in row.halves
            if policy.is_asked(seam, half)
        ]
        vain = [each for each in declared if each not in halves]
        reasons: dict[str, list[str]] = {}
        for seam, half in vain:
            why = NO_ROUND_AFTER if seam in seams else NOT_MET[seam]
            reasons.setdefault(why, []).append(f"{seam}.{half}")
        for why, names in reasons.items():
            yield Unasked(policy, tuple(names), why, len(vain) == len(declared))


def shown(settings: Mapping[str, Any], schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """Settings without their secrets."""
    fields = _fields(schema)
    return {
        name: HIDDEN
        if _is_secret(name, value, fields.get(name))
        else _shown(value, fields.get(name))
        for name, value in settings.items()
    }


def _shown(value: Any, schema: Any) -> Any:
    if isinstance(value, Mapping):
        return shown(value, schema if isinstance(schema, Mapping) else None)
    if isinstance(value, list | tuple):
        items = schema.get("items") if isinstance(schema, Mapping) else None
        return [_shown(each, items) for each in value]
    if isinstance(value, str):
        return CREDENTIALS_IN_URL.sub(HIDDEN, value)
    return value


def _is_secret(name: str, value: Any, schema: Any) -> bool:
    if isinstance(value, str) and REFERENCE.fullmatch(value):
        return False
    if isinstance(schema, Mapping) and (
        schema.get("writeOnly") is True or schema.get("format") == "password"
    ):
        return True
    # A number or a switch under such a name is a limit on secrets, and none.
    return not isinstance(value, int | float | None) and bool(SECRET_NAMES.search(name))


def defaults(
    settings: Mapping[str, Any], schema: Mapping[str, Any] | None
) -> dict[str, Any]:
    """What the schema says of fields that were not given, without secrets."""
    fields = {
        name: each["default"]
        for name, each in _fields(schema).items()
        if name not in settings and isinstance(each, Mapping) and "default" in each
    }
    return shown(fields, schema)


def _fields(schema: Mapping[str, Any] | None) -> Mapping[str, Any]:
    found = schema.get("properties") if schema is not None else None
    return found if isinstance(found, Mapping) else {}
