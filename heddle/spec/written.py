"""A component as its author wrote it, with what references stand for in their place.

    WrittenOut({"llm-1": {"component_type": "VllmConfig", …}}).of(
        {"component_type": "Shout", "llm_config": {"$component_ref": "llm-1"}}
    )   ->  {"component_type": "Shout", "llm_config": {"component_type": "VllmConfig", …}}

That is how plugins are shown components: in the document's own words, whole.
"""

from collections.abc import Mapping
from typing import Any, Final

from heddle.spec.effort import effort

_REF: Final = "$component_ref"
_DEFINITIONS: Final = "$referenced_components"

# What is referred to often is written out as often, so that a short document can stand for
# an endless one. A plugin is sent this with each question; more belongs into its input.
MAX_VALUES: Final = 20_000


class TooLarge(Exception):
    """Raised when there are more than `MAX_VALUES` values."""


class WrittenOut:
    """Writes one component out. ``definitions`` are by id; circles were refused before."""

    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self._left = MAX_VALUES

    def of(self, component: dict[str, Any]) -> dict[str, Any]:
        """The component.

        Raises:
            TooLarge: It is too much.
            EffortExceeded: All of them together are.
        """
        try:
            written: dict[str, Any] = self._value(component)
        finally:
            effort().spend(MAX_VALUES - self._left)
        return written

    def _value(self, value: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise TooLarge
        if type(value) is dict:
            identity = value.get(_REF)
            if type(identity) is str and identity in self._definitions:
                return self._value(self._definitions[identity])
            return {
                key: self._value(inner)
                for key, inner in value.items()
                if key != _DEFINITIONS
            }
        if type(value) is list:
            return [self._value(inner) for inner in value]
        return value
