"""What each node type takes in, gives out and may branch to, read from its component.

One function a type, in one table. The graph check asks these shapes what may be
connected; the state reads the inputs' types and defaults from them.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from heddle.spec import (
    AgentNode,
    BranchingNode,
    Component,
    EndNode,
    Flow,
    LlmNode,
    PluginComponent,
    Property,
    StartNode,
    ToolNode,
    placeholders,
)

NEXT: Final = "next"
"""The branch of an edge that names none."""
DEFAULT_BRANCH: Final = "default"
"""Where a BranchingNode goes with a value that it does not map."""
DEFAULT_BRANCH_KEY: Final = "DEFAULT_BRANCH"
"""A mapping key that renames the default branch."""
BRANCHING_KEY: Final = "branching_mapping_key"
"""The input of a BranchingNode that declares none."""
GENERATED_TEXT: Final = "generated_text"
"""The output of an LlmNode that declares none."""
AGENT_RESULT: Final = "result"
"""The output of an agent that declares none."""

TRANSFORM_OUTPUTS: Final = frozenset(
    ("transform_status", "transform_reason", "transform_name", "transform_phase")
)
"""What an agent puts out beside its outputs when a transform rejects."""

Properties = tuple[Property, ...]


class Shape(msgspec.Struct, frozen=True):
    """The connections that a node offers.

    ``inputs`` and ``outputs`` are what it declares, with their types. ``takes`` and
    ``gives`` are the names that an edge may write and read; None means any name.
    ``branches`` are the labels it may choose; empty for a node that never branches, None
    for one that nothing is known of. ``spare_branch`` is the label among them that it
    takes when nothing else fits.
    """

    inputs: Properties = ()
    outputs: Properties = ()
    takes: frozenset[str] | None = None
    gives: frozenset[str] | None = None
    branches: frozenset[str] | None = frozenset()
    spare_branch: str | None = None


def names(properties: Properties) -> frozenset[str]:
    """The titles of some properties."""
    return frozenset(each.title for each in properties)


def first_declared(*lists: Properties | None) -> Properties:
    """The first list that declares anything; an empty one declares nothing."""
    return next((each for each in lists if each), ())


def start_inputs(node: StartNode, flow: Flow) -> Properties:
    """The inputs that a run must bring: the flow's, else the StartNode's."""
    return first_declared(flow.inputs, node.inputs)


def end_outputs(node: EndNode) -> Properties:
    """What an EndNode returns; its inputs and outputs are one list by definition."""
    return first_declared(node.outputs, node.inputs)


def _start(node: StartNode, flow: Flow) -> Shape:
    declared = start_inputs(node, flow)
    documented = first_declared(node.outputs, declared)
    everything = {each.title: each for each in (*documented, *declared)}
    return Shape(
        outputs=tuple(everything.values()),
        takes=frozenset(),
        gives=frozenset(everything) if everything else None,
    )


def _end(node: EndNode, flow: Flow) -> Shape:
    declared = end_outputs(node)
    return Shape(
        inputs=declared,
        takes=names(declared) if declared else None,
        gives=frozenset(),
    )


def _llm(node: LlmNode, flow: Flow) -> Shape:
    declared = first_declared(node.inputs)
    outputs = first_declared(node.outputs)
    return Shape(
        inputs=declared,
        outputs=outputs,
        takes=names(declared) | frozenset(placeholders(node.prompt_template)),
        gives=names(outputs) or frozenset((GENERATED_TEXT,)),
    )


def _agent(node: AgentNode, flow: Flow) -> Shape:
    agent = node.agent
    declared = first_declared(node.inputs, getattr(agent, "inputs", None))
    outputs = first_declared(node.outputs, getattr(agent, "outputs", None))
    rejections = TRANSFORM_OUTPUTS if getattr(agent, "transforms", ()) else frozenset()
    return Shape(
        inputs=declared,
        outputs=outputs,
        gives=names(outputs) | rejections if outputs else None,
    )


def _tool(node: ToolNode, flow: Flow) -> Shape:
    declared = first_declared(node.inputs, node.tool.inputs)
    outputs = first_declared(node.outputs, node.tool.outputs)
    return Shape(
        inputs=declared,
        outputs=outputs,
        takes=names(declared) if declared else None,
        gives=names(outputs) if outputs else None,
    )


def _branching(node: BranchingNode, flow: Flow) -> Shape:
    declared = first_declared(node.inputs)
    spare = None if DEFAULT_BRANCH_KEY in node.mapping else DEFAULT_BRANCH
    chosen = {*node.mapping.values(), *((spare,) if spare else ())}
    return Shape(
        inputs=declared,
        takes=names(declared) or frozenset((BRANCHING_KEY,)),
        gives=frozenset(),
        branches=frozenset(chosen),
        spare_branch=None if spare in node.mapping.values() else spare,
    )


def _plugin(node: PluginComponent, flow: Flow) -> Shape | None:
    if node.provided.kind != "node":
        return None
    declared = first_declared(node.inputs)
    outputs = first_declared(node.outputs)
    return Shape(
        inputs=declared,
        outputs=outputs,
        takes=names(declared) if declared else None,
        gives=names(outputs) if outputs else None,
        branches=frozenset(node.branches or ()),
    )


UNKNOWN: Final = Shape(branches=None)
"""The shape of a node that heddle does not run: any edge may be right."""

SHAPES: Final[Mapping[type[Component], Callable[[Any, Flow], Shape | None]]] = {
    StartNode: _start,
    EndNode: _end,
    LlmNode: _llm,
    AgentNode: _agent,
    ToolNode: _tool,
    BranchingNode: _branching,
    PluginComponent: _plugin,
}


def shape_of(node: Component, flow: Flow) -> Shape | None:
    """The node's shape, or None for a type that heddle does not run yet."""
    reader: Any = SHAPES.get(type(node))
    if reader is None:
        return None
    shape: Shape | None = reader(node, flow)
    return shape
