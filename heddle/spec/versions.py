"""The version that a document declares, and what came with a later one.

{"agentspec_version": "25.4.1", "component_type": "Swarm", …}
$: Swarm came with version 25.4.2, and the document declares 25.4.1
"""

from typing import Any, Final

from msgspec import Struct

from heddle.spec.catalogue import (
    NEWEST_VERSION,
    VERSIONS,
    Plan,
    Version,
    parse_version,
)
from heddle.spec.problems import Path, Problems, shown

VERSION: Final = "agentspec_version"


class Declared(Struct, frozen=True):
    """A version that a document declares: as it is written, and to compare."""

    text: str
    version: Version

    @property
    def has_everything(self) -> bool:
        """Whether nothing that is known came later."""
        return self.version >= _NEWEST.version


def _known(text: str) -> Declared:
    version = parse_version(text)
    assert version is not None
    return Declared(text, version)


_OLDEST: Final = _known(VERSIONS[0])
_NEWEST: Final = _known(NEWEST_VERSION)


def read_version(declared: Any, problems: Problems) -> Declared:
    """What a document says, or the newest where it says nothing that can be used."""
    if declared is None:
        return _NEWEST
    path = (None, VERSION)
    version = parse_version(declared) if type(declared) is str else None
    if version is None:
        problems.add(
            path,
            f"{shown(declared)} is not a version",
            f"Write it as text YY.Q.PATCH, such as '{NEWEST_VERSION}'.",
        )
        return _NEWEST
    if version < _OLDEST.version:
        problems.add(
            path,
            f"version {declared} is older than Agent Spec itself",
            f"Declare a version from {VERSIONS[0]} to {NEWEST_VERSION}.",
        )
        # That is said once, and not again of everything in the document.
        return _NEWEST
    if version > _NEWEST.version:
        problems.warn(
            path,
            f"version {declared} is newer than {NEWEST_VERSION}, the newest known: "
            "what it added is not understood",
        )
    elif version < _NEWEST.version and declared not in VERSIONS:
        problems.warn(
            path,
            f"there is no version {declared} of Agent Spec",
            f"Declare one of: {', '.join(VERSIONS)}.",
        )
    return Declared(str(declared), version)


def check_age(
    declared: Declared, plan: Plan, raw: dict[str, Any], path: Path, problems: Problems
) -> None:
    """Refuse what came later than the version that the document declares."""
    if plan.since[1] > declared.version:
        problems.add(
            path,
            f"{plan.struct.__name__} came with version {plan.since[0]}, and the "
            f"document declares {declared.text}",
            f"Declare '{VERSION}' '{plan.since[0]}' or newer.",
        )
        return
    for field in plan.newer:
        assert field.newer is not None
        since, needed = field.newer
        if (
            needed > declared.version
            and field.name in raw
            and not _is_default(raw[field.name], field.default)
        ):
            problems.add(
                (path, field.name),
                f"'{field.name}' came with version {since}, and the document declares "
                f"{declared.text}",
                f"Declare '{VERSION}' '{since}' or newer.",
            )


def _is_default(value: Any, default: Any) -> bool:
    """Whether writing the value down says no more than leaving it out."""
    if value is None or value == default:
        return True
    return not value and not default and value is not False
