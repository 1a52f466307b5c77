"""A flow compiled: nodes by number, edges as look-ups, data feeds resolved; immutable.

Any number of runs share one `Graph`. `compile_graphs` makes them.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct, UnsetType

from heddle.engine.shapes import Shape
from heddle.engine.signatures import Properties
from heddle.spec import Component, PluginComponent, Problem

RESERVED: Final = "_"
"""First character of the state keys that heddle keeps for itself."""

CHAT_HISTORY: Final = "_chat_history"
"""The state key of the turns before a run; the one reserved name that may be an input."""


class Feed(Struct, frozen=True):
    """How one input of a node gets its value.

    ``sources`` are (node, output) pairs of data edges; the one executed last wins. With
    none, the value is the carried state's of that name. ``schema`` is the type to
    convert to, None for any; ``plain`` the Python type of values that are of it already,
    None where that takes a closer look. ``required`` inputs fail the node when there is no
    value.
    """

    name: str
    sources: tuple[tuple[int, str], ...]
    schema: Mapping[str, Any] | None
    default: Any | UnsetType
    required: bool
    plain: type | None = None


class GraphNode(Struct, frozen=True):
    """A node with everything about its place in the flow.

    ``onward`` is where the unbranched edge leads, ``branches`` where labelled ones do.
    ``converts`` is whether what it is given has to be looked through to be converted,
    ``is_whole`` whether what an EndNode puts out is all that the flow returns.
    """

    index: int
    name: str
    type: str
    component: Component
    shape: Shape
    onward: int | None
    branches: Mapping[str, int]
    feeds: tuple[Feed, ...]
    converts: bool
    is_end: bool
    is_whole: bool


class Graph(Struct, frozen=True):
    """A whole flow. ``inputs`` are what a run must bring, ``outputs`` what it returns."""

    name: str
    nodes: tuple[GraphNode, ...]
    start: int
    inputs: Properties
    outputs: Properties
    warnings: tuple[Problem, ...] = ()


def wrong_kind(component: PluginComponent, wanted: str) -> tuple[str, str]:
    """What is wrong with a plugin's component where another kind belongs; what to do."""
    kind = KIND_NAMES.get(component.provided.kind, "something else")
    what = (
        f"{component.name!r} is of type {component.type_name}, {kind} of plugin "
        f"{component.provided.plugin!r}, where {wanted} belongs"
    )
    return what, f"Name {wanted} here."


KIND_NAMES: Final[Mapping[str, str]] = {
    "node": "a node",
    "transform": "a transform",
    "component": "plain configuration",
    "provider": "an LLM configuration",
}


def branching_input(shape: Shape) -> str:
    """The name of the one input that a BranchingNode decides by."""
    if shape.inputs:
        return shape.inputs[0].title
    assert shape.takes
    return next(iter(shape.takes))
