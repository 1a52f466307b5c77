"""What each node type takes in, gives out and may branch to, read from its component.

One function a type, in one table. The graph check asks these shapes what may be
connected; the state reads the inputs' types and defaults from them.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from heddle.engine.conventions import (
    BRANCHING_KEY,
    CAUGHT_BRANCH,
    CAUGHT_INFO,
    COLLECTED,
    DEFAULT_BRANCH,
    DEFAULT_BRANCH_KEY,
    GENERATED_TEXT,
    ITERATED,
    NEXT,
    RESPONSE,
    TRANSFORM_OUTPUTS,
    USER_INPUT,
)
from heddle.engine.signatures import (
    Properties,
    agent_inputs,
    agent_outputs,
    end_outputs,
    first_declared,
    flow_branches,
    flow_inputs,
    flow_outputs,
    names,
    start_inputs,
)
from heddle.spec import (
    AgentNode,
    ApiNode,
    BranchingNode,
    CatchExceptionNode,
    Component,
    EndNode,
    Flow,
    FlowNode,
    InputMessageNode,
    LlmNode,
    ManagerWorkers,
    MapNode,
    OutputMessageNode,
    ParallelFlowNode,
    ParallelMapNode,
    PluginComponent,
    Property,
    Reduction,
    SpecializedAgent,
    StartNode,
    Swarm,
    ToolNode,
    placeholders,
)


class Shape(msgspec.Struct, frozen=True):
    """The connections that a node offers.

    ``inputs`` and ``outputs`` are what it declares, with their types. ``takes`` and
    ``gives`` are the names that an edge may write and read; None means any name.
    ``branches`` are the labels it may choose; empty for a node that never branches, None
    for one that nothing is known of. ``spare_branch`` is the label among them that it
    takes when nothing else fits. ``goes_on`` is whether a node with branches may take the
    unbranched edge of its own accord. ``converts_itself`` is whether the node makes its
    inputs what it declares: they are handed to it as they are.
    """

    inputs: Properties = ()
    outputs: Properties = ()
    takes: frozenset[str] | None = None
    gives: frozenset[str] | None = None
    branches: frozenset[str] | None = frozenset()
    spare_branch: str | None = None
    goes_on: bool = False
    converts_itself: bool = False


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


def _transformed(agent: Component) -> bool:
    """Whether a transform may end the agent's work, with outputs of its own."""
    match agent:
        case SpecializedAgent(agent=base):
            return _transformed(base)
        case ManagerWorkers(group_manager=first):
            return _transformed(first)
        case Swarm(first_agent=first, relationships=pairs):
            return any(map(_transformed, (first, *(pair[1] for pair in pairs))))
        case _:
            return bool(getattr(agent, "transforms", ()))


def _agent(node: AgentNode, flow: Flow) -> Shape:
    agent = node.agent
    if isinstance(agent, Flow):
        return msgspec.structs.replace(
            _of_flow(agent, node.inputs, node.outputs), branches=frozenset(), goes_on=False
        )
    declared = first_declared(node.inputs, agent_inputs(agent))
    outputs = first_declared(node.outputs, agent_outputs(agent))
    rejections = TRANSFORM_OUTPUTS if _transformed(agent) else frozenset()
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


def _api(node: ApiNode, flow: Flow) -> Shape:
    from heddle.engine.requests.request import needed

    declared = first_declared(node.inputs)
    outputs = first_declared(node.outputs)
    return Shape(
        inputs=declared,
        outputs=outputs,
        takes=names(declared) | frozenset(needed(node)),
        gives=names(outputs) or frozenset((RESPONSE,)),
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


# --- nodes that run flows -----------------------------------------------------------


def _as_given(declared: Properties | None, wanted: Properties) -> Properties:
    """The inputs of the flow inside, with the defaults that the node gives them."""
    own = {each.title: each for each in declared or () if each.has_default}
    return tuple(
        Property(each.title, each.schema, own[each.title].default)
        if each.title in own
        else each
        for each in wanted
    )


def _of_flow(
    flow: Component, inputs: Properties | None, outputs: Properties | None
) -> Shape:
    """The shape of a node that runs one flow, once."""
    if not isinstance(flow, Flow):
        return UNKNOWN
    wanted = flow_inputs(flow)
    declared = _as_given(inputs, wanted) if wanted else first_declared(inputs)
    returned = first_declared(outputs, flow_outputs(flow))
    ends = flow_branches(flow)
    branches = ends - {NEXT}
    return Shape(
        inputs=declared,
        outputs=returned,
        takes=names(declared) if wanted else None,
        gives=names(returned) if returned else None,
        branches=branches,
        goes_on=bool(branches) and NEXT in ends,
    )


def _flow(node: FlowNode, flow: Flow) -> Shape:
    return _of_flow(node.subflow, node.inputs, node.outputs)


CAUGHT: Final = Property(
    CAUGHT_INFO,
    {"title": CAUGHT_INFO, "anyOf": [{"type": "string"}, {"type": "null"}]},
    None,
)


def caught_outputs(node: CatchExceptionNode) -> Properties:
    """What the node gives, each with its default on the node or else on the flow."""
    flow = node.subflow
    returned = flow_outputs(flow) if isinstance(flow, Flow) else ()
    known = {each.title: each for each in returned}
    declared = tuple(
        known[each.title]
        if not each.has_default and each.title in known and known[each.title].has_default
        else each
        for each in first_declared(node.outputs, returned)
        if each.title != CAUGHT_INFO
    )
    return (*declared, CAUGHT)


def _catch(node: CatchExceptionNode, flow: Flow) -> Shape:
    inner = _of_flow(node.subflow, node.inputs, None)
    if inner.branches is None:
        return UNKNOWN
    outputs = caught_outputs(node)
    return msgspec.structs.replace(
        inner,
        outputs=outputs,
        gives=names(outputs) if len(outputs) > 1 else None,
        branches=inner.branches | {CAUGHT_BRANCH},
        goes_on=isinstance(node.subflow, Flow) and NEXT in flow_branches(node.subflow),
    )


_SHARED: Final[tuple[str, ...]] = ("$defs", "definitions")
"""What references inside a schema lead to; it stays at the top."""


def item_or_list(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The type of a MapNode's input: an item for all, or one for each."""
    shared: dict[str, Any] = {key: schema[key] for key in _SHARED if key in schema}
    return {**shared, "anyOf": [schema, {"type": "array", "items": schema}]}


def reductions(node: MapNode | ParallelMapNode) -> dict[str, Reduction]:
    """How each output of the flow is collected; all are appended unless it says so."""
    if node.reducers is not None:
        return dict(node.reducers)
    flow = node.subflow
    returned = flow_outputs(flow) if isinstance(flow, Flow) else ()
    append: Reduction = "append"
    return {each.title: append for each in returned}


def _collected(node: MapNode | ParallelMapNode, flow: Flow) -> Iterator[Property]:
    known = {each.title: each for each in flow_outputs(flow)}
    for name, reduction in reductions(node).items():
        item = known[name].schema if name in known else {}
        title = COLLECTED + name
        schema: dict[str, Any] = {k: v for k, v in item.items() if k != "default"}
        if reduction == "append":
            shared = {key: item[key] for key in _SHARED if key in item}
            schema = {**shared, "type": "array", "items": schema}
        yield Property(title, {**schema, "title": title})


def _map(node: MapNode | ParallelMapNode, flow: Flow) -> Shape:
    inner = node.subflow
    if not isinstance(inner, Flow):
        return UNKNOWN
    wanted = flow_inputs(inner)
    own = {each.title: each for each in node.inputs or ()}
    either = (
        Property(title, {**item_or_list(each.schema), "title": title})
        for each in wanted
        if (title := ITERATED + each.title) not in own
    )
    inputs = [*own.values(), *either]
    outputs = first_declared(node.outputs, tuple(_collected(node, inner)))
    return Shape(
        inputs=tuple(inputs),
        outputs=outputs,
        takes=names(tuple(inputs)) if wanted else None,
        gives=names(outputs),
        converts_itself=True,
    )


def _parallel(node: ParallelFlowNode, flow: Flow) -> Shape:
    inner = [each for each in node.subflows if isinstance(each, Flow)]
    if len(inner) < len(node.subflows):
        return UNKNOWN
    inputs = {each.title: each for one in inner[::-1] for each in flow_inputs(one)}
    outputs = {each.title: each for one in inner for each in flow_outputs(one)}
    whole = first_declared(node.outputs, tuple(outputs.values()))
    open_ended = any(not flow_inputs(one) for one in inner)
    return Shape(
        inputs=_as_given(node.inputs, tuple(inputs.values())),
        outputs=whole,
        takes=None if open_ended else frozenset(inputs),
        gives=None if any(not flow_outputs(one) for one in inner) else names(whole),
    )


# --- nodes that talk to a person ----------------------------------------------------


def _output_message(node: OutputMessageNode, flow: Flow) -> Shape:
    declared = first_declared(node.inputs)
    return Shape(
        inputs=declared,
        takes=names(declared) | frozenset(placeholders(node.message)),
        gives=frozenset(),
    )


def _input_message(node: InputMessageNode, flow: Flow) -> Shape:
    declared = first_declared(node.inputs)
    outputs = first_declared(node.outputs)
    return Shape(
        inputs=declared,
        outputs=outputs,
        takes=names(declared) | frozenset(placeholders(node.message or "")),
        gives=names(outputs) or frozenset((USER_INPUT,)),
    )


UNKNOWN: Final = Shape(branches=None)
"""The shape of a node that heddle does not run: any edge may be right."""

SHAPES: Final[Mapping[type[Component], Callable[[Any, Flow], Shape | None]]] = {
    StartNode: _start,
    EndNode: _end,
    LlmNode: _llm,
    AgentNode: _agent,
    ToolNode: _tool,
    ApiNode: _api,
    BranchingNode: _branching,
    FlowNode: _flow,
    MapNode: _map,
    ParallelMapNode: _map,
    ParallelFlowNode: _parallel,
    CatchExceptionNode: _catch,
    OutputMessageNode: _output_message,
    InputMessageNode: _input_message,
    PluginComponent: _plugin,
}


def shape_of(node: Component, flow: Flow) -> Shape | None:
    """The node's shape; None for a component that is no node."""
    reader: Any = SHAPES[type(node)]
    shape: Shape | None = reader(node, flow)
    return shape
