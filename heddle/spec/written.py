"""A component as its author wrote it, with what references stand for in their place.

    WrittenOut({"llm-1": {"component_type": "VllmConfig", …}}.__getitem__).of(
        {"component_type": "Shout", "llm_config": {"$component_ref": "llm-1"}}
    )   ->  {"component_type": "Shout", "llm_config": {"component_type": "VllmConfig", …}}

That is how plugins are shown components: in the document's own words, whole.
"""

from collections.abc import Callable
from typing import Any, Final

from heddle.spec.effort import effort

_REF: Final = "$component_ref"
_DEFINITIONS: Final = "$referenced_components"

# What is referred to often is written out as often, so that a short document can stand for
# an endless one. A plugin is sent this with each question; more belongs into its input.
MAX_VALUES: Final = 20_000


class TooLarge(Exception):
    """Raised when a component has more than `MAX_VALUES` values."""


class WrittenOut:
    """Writes the components of one document out.

    What is referred to in several places is the same object in all of them, so that the
    whole takes no more memory than the document. Treat it as read-only.

    Args:
        definition: What an id stands for, by id; raises `KeyError` for one that stands
            for nothing. Circles were refused before.
    """

    def __init__(self, definition: Callable[[str], Any]) -> None:
        self._definition = definition
        # What each id stands for, and how many values that is.
        self._known: dict[str, tuple[Any, int]] = {}

    def of(self, component: dict[str, Any]) -> dict[str, Any]:
        """The component.

        Raises:
            TooLarge: It is too much.
            EffortExceeded: All of them together are.
        """
        written: dict[str, Any] = self._value(component)[0]
        return written

    def _value(self, value: Any) -> tuple[Any, int]:
        """A value written out, and how many values it has."""
        effort().spend()
        if type(value) is dict:
            identity = value.get(_REF)
            if type(identity) is str:
                try:
                    return self._referred(identity)
                except KeyError:
                    pass
            size, fields = 1, {}
            for key, inner in value.items():
                if key != _DEFINITIONS:
                    fields[key], more = self._value(inner)
                    size += more
            return fields, _within(size)
        if type(value) is list:
            size, items = 1, []
            for inner in value:
                item, more = self._value(inner)
                items.append(item)
                size += more
            return items, _within(size)
        return value, 1

    def _referred(self, identity: str) -> tuple[Any, int]:
        known = self._known.get(identity)
        if known is None:
            known = self._known[identity] = self._value(self._definition(identity))
        return known


def _within(size: int) -> int:
    if size > MAX_VALUES:
        raise TooLarge
    return size
