"""What the policies decided, as the engine acts on it; and at which seams they are asked.

Plain data, so that nodes can be run without loading what asks.
"""

from typing import Any, NamedTuple

from msgspec import Struct

from heddle.engine.conventions import REJECTED


class Asked(Struct, frozen=True):
    """For each half of each seam, whether anybody declared it.

    The call sites look here first: where nobody did, a seam costs this look-up.
    """

    node_before: bool = False
    node_error: bool = False
    node_after: bool = False
    tool_before: bool = False
    tool_after: bool = False
    model_before: bool = False
    model_after: bool = False
    round_before: bool = False
    round_after: bool = False


class Substitute(NamedTuple):
    """A policy supplied this value; ``by`` names it and its plugin.

    ``given`` is what it decided about, as modified by the policies asked before it; of
    halves before a node or a tool call only.
    """

    value: Any
    by: str
    given: dict[str, Any] | None = None


class Again(NamedTuple):
    """A policy has it done once more, ``delay`` seconds from now."""

    delay: float


class Refusal(NamedTuple):
    """A policy forbids a tool call, with these arguments; the model is told the reason."""

    reason: str
    by: str
    given: dict[str, Any]


class Rejected(Exception):
    """Raised where a transform ends the agent's work.

    ``text`` is what it answers in the model's place, if it does.
    """

    def __init__(self, name: str, phase: str, reason: str, text: str | None) -> None:
        super().__init__(reason)
        self.text = text
        self.output = {
            REJECTED[0]: REJECTED[1],
            "transform_reason": reason,
            "transform_name": name,
            "transform_phase": phase,
        }
