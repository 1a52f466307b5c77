"""Component types that aren't Agent Spec's own: those that plugins provide, and no others.

What a plugin declares of its type is the rule for every component of it in a document; a
type that nobody provides is refused with the nearest that there is.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from heddle.spec.catalogue import COMMON_KEYS, COMPONENTS, Plan
from heddle.spec.component import ProvidedType
from heddle.spec.problems import Path, Problems, shown
from heddle.spec.validation import check
from plugins_host import nearest, one_of

# Fields of a `PluginComponent` that no document writes: a key of the name is the plugin's.
NOT_WRITTEN: Final = frozenset(("type_name", "provided", "fields", "written"))

# A step of a path as `check` writes it.
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[([0-9]+)\]")


class ForeignTypes:
    """The types that plugins ``provided``, and the ``refused``, with the reason why."""

    def __init__(
        self, provided: Mapping[str, ProvidedType], refused: Mapping[str, str]
    ) -> None:
        self.provided = provided
        self._refused = refused
        self._listed = False

    def refuse(self, name: Any, place: Path, problems: Problems) -> None:
        """Say why a type that is in a document can't be, and what to write instead."""
        if type(name) is not str:
            problems.add(place, f"a component type is text, not {shown(name)}")
        elif name in self._refused:
            what = f"{shown(name)} can't be used in a document"
            problems.add(place, what, self._refused[name])
        else:
            what = f"{shown(name)} is not a component type"
            problems.add(place, what, self._instead(name))

    def _instead(self, name: str) -> str:
        """What to write instead of an unknown type; all there are is said once only."""
        known = [*self.provided, *sorted(COMPONENTS)]
        guess = nearest(name, known)
        if guess is not None:
            return one_of(name, known)
        if self._listed:
            return "Load the plugin that provides it, with --plugin."
        self._listed = True
        return f"{one_of(name, known)} Or load the plugin that provides it, with --plugin."


def check_provided(
    provided: ProvidedType,
    written: Mapping[str, Any],
    plan: Plan,
    path: Path,
    problems: Problems,
) -> None:
    """Check what the plugin reads by what its manifest declares.

    Args:
        provided: What the manifest declares of the type.
        written: The component as JSON, references replaced by what they stand for.
        plan: The fields that every component of a plugin has.
        path: Where the component stands.
        problems: Where what is wrong is noted.
    """
    branches = written.get("branches")
    # What is no list is refused with the other fields of that kind.
    for index, branch in enumerate(branches if type(branches) is list else ()):
        if provided.branches and branch not in provided.branches:
            problems.add(
                ((path, "branches"), index),
                f"plugin {provided.plugin!r} declares no branch {shown(branch)}",
                one_of(str(branch), provided.branches),
            )
    if provided.schema is None:
        return
    own = {
        key: value
        for key, value in written.items()
        if key not in COMMON_KEYS and (key not in plan.fields or key in NOT_WRITTEN)
    }
    for place, mistake in check(own, provided.schema):
        fix = f"Write it as plugin {provided.plugin!r} declares."
        problems.add(_inside(path, place), mistake, fix)


def _inside(path: Path, place: str) -> Path:
    """The path of a place like ``$.a[0]`` in what stands at ``path``."""
    for key, index in _STEP.findall(place):
        path = (path, int(index) if index else key)
    return path
