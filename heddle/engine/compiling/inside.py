"""What must hold between a node and the flows that it runs.

One function a node type, each saying everything that is wrong. The flows themselves are
checked as flows are.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from heddle.engine.conventions import CAUGHT_BRANCH, CAUGHT_INFO, COLLECTED, ITERATED
from heddle.engine.shapes import caught_outputs, item_or_list, reductions
from heddle.engine.signatures import (
    Properties,
    flow_branches,
    flow_inputs,
    flow_outputs,
    flows_in,
    names,
    type_text,
    typed,
)
from heddle.spec import (
    AgentNode,
    CatchExceptionNode,
    Component,
    Flow,
    FlowNode,
    MapNode,
    ParallelFlowNode,
    ParallelMapNode,
    Problem,
    is_subtype,
)
from plugins_host import one_of

Found = Iterator[tuple[str, str, str]]
"""Field of the node, what is wrong, how to fix it."""


def problems_inside(node: Component, path: str) -> list[Problem]:
    """Everything that is wrong between the node at ``path`` and the flows that it runs."""
    flows = flows_in(node)
    if flows is None:
        return []
    unknown = [each for each in flows if not isinstance(each, Flow)]
    if unknown:
        return [
            Problem(
                path,
                f"node {node.name!r} runs {each.name!r}, which is of type "
                f"{each.component_type} and no flow",
                "Name a Flow here.",
            )
            for each in unknown
        ]
    return [Problem(path + at, what, fix) for at, what, fix in _CHECKS[type(node)](node)]


def _declared(node: Any, flow: Flow, *, beside: frozenset[str] = frozenset()) -> Found:
    """What the node declares, against the one flow that it runs once."""
    wanted, returned = flow_inputs(flow), flow_outputs(flow)
    for each in node.inputs or ():
        inner = next((one for one in wanted if one.title == each.title), None)
        if wanted and inner is None:
            what = f"node {node.name!r} declares input {each.title!r}, which flow "
            yield ".inputs", f"{what}{flow.name!r} does not have", _one(each, wanted)
        elif inner and not is_subtype(each.schema, inner.schema):
            yield ".inputs", _types("input", node, flow, each, inner), _SAME
    for each in node.outputs or ():
        if each.title in beside:
            continue
        inner = next((one for one in returned if one.title == each.title), None)
        if returned and inner is None:
            what = f"node {node.name!r} declares output {each.title!r}, which flow "
            yield ".outputs", f"{what}{flow.name!r} does not return", _one(each, returned)
        elif inner and not is_subtype(inner.schema, each.schema):
            yield ".outputs", _types("output", node, flow, each, inner), _SAME


_SAME: Final = "Declare the same type in both places."


def _one(each: Any, known: Properties) -> str:
    return one_of(each.title, sorted(names(known)))


def _types(kind: str, node: Any, flow: Flow, each: Any, inner: Any) -> str:
    return (
        f"{kind} {each.title!r} is {type_text(each.schema)} on node {node.name!r} and "
        f"{type_text(inner.schema)} in flow {flow.name!r}"
    )


def _flow(node: FlowNode) -> Found:
    assert isinstance(node.subflow, Flow)
    return _declared(node, node.subflow)


def _agent(node: AgentNode) -> Found:
    assert isinstance(node.agent, Flow)
    return _declared(node, node.agent)


def _catch(node: CatchExceptionNode) -> Found:
    flow = node.subflow
    assert isinstance(flow, Flow)
    yield from _declared(node, flow, beside=frozenset((CAUGHT_INFO,)))
    if CAUGHT_INFO in names(flow_outputs(flow)):
        what = f"flow {flow.name!r} returns {CAUGHT_INFO!r}, which is the node's own output"
        yield ".subflow", what, "Rename the flow's output."
    if CAUGHT_BRANCH in flow_branches(flow):
        what = (
            f"flow {flow.name!r} ends in branch {CAUGHT_BRANCH!r}, which is the node's own"
        )
        yield ".subflow", what, "Rename the branch of its EndNode."
    for each in caught_outputs(node):
        if not each.has_default:
            what = (
                f"output {each.title!r} of node {node.name!r} has no default, and there is "
                "nothing else to give when the flow fails"
            )
            yield ".outputs", what, "Give it a default, on the node or on the flow."


_NUMERIC: Final = ("integer", "number")


def _map(node: MapNode | ParallelMapNode) -> Found:
    flow = node.subflow
    assert isinstance(flow, Flow)
    wanted = {each.title: each for each in flow_inputs(flow)}
    returned = {each.title: each for each in flow_outputs(flow)}
    collected = reductions(node)
    if not wanted and not node.inputs:
        what = f"node {node.name!r} has nothing to go through: flow {flow.name!r} declares "
        yield ".subflow", f"{what}no inputs", "Declare the input that takes one item."
    if not returned and not collected:
        what = (
            f"nothing says what node {node.name!r} collects: flow {flow.name!r} declares "
        )
        yield ".subflow", f"{what}no outputs", "Declare them, or name them in 'reducers'."
    for each in node.inputs or ():
        inner = each.title.removeprefix(ITERATED)
        if inner == each.title or (wanted and inner not in wanted):
            what = f"input {each.title!r} of node {node.name!r} is none of the flow's"
            choices = [ITERATED + name for name in wanted] or [f"{ITERATED}<input>"]
            yield ".inputs", what, one_of(each.title, choices)
        elif inner in wanted:
            may_be = item_or_list(wanted[inner].schema)
            if not is_subtype(each.schema, may_be):
                yield ".inputs", _types("input", node, flow, each, wanted[inner]), _SAME
    for name, reduction in collected.items():
        if returned and name not in returned:
            what = f"'reducers' names {name!r}, which flow {flow.name!r} does not return"
            yield ".reducers", what, one_of(name, sorted(returned))
        elif reduction != "append" and not _is_numeric(returned, name):
            what = (
                f"{name!r} is {type_text(returned[name].schema)}, and {reduction!r} takes "
                "integers and numbers"
            )
            yield ".reducers", what, "Append it, or return a number."
    for each in node.outputs or ():
        inner = each.title.removeprefix(COLLECTED)
        if inner == each.title or inner not in collected:
            what = f"output {each.title!r} of node {node.name!r} is collected by no reducer"
            choices = [COLLECTED + name for name in collected]
            yield ".outputs", what, one_of(each.title, choices)


def _is_numeric(returned: Mapping[str, Any], name: str) -> bool:
    kind = returned[name].schema.get("type") if name in returned else None
    return kind is None or kind in _NUMERIC


def _parallel(node: ParallelFlowNode) -> Found:
    inputs: dict[str, tuple[Flow, Any]] = {}
    outputs: dict[str, Flow] = {}
    for number, flow in enumerate(node.subflows):
        assert isinstance(flow, Flow)
        at = f".subflows[{number}]"
        for each in flow_inputs(flow):
            other, known = inputs.setdefault(each.title, (flow, each))
            if typed((known,)) != typed((each,)):
                what = (
                    f"flow {flow.name!r} takes {each.title!r} as {type_text(each.schema)}, "
                    f"and flow {other.name!r} as {type_text(known.schema)}"
                )
                yield at, what, "Flows side by side share an input: declare one type."
        for each in flow_outputs(flow):
            if outputs.setdefault(each.title, flow) is not flow or (
                flow in node.subflows[:number]
            ):
                what = (
                    f"flow {flow.name!r} returns {each.title!r}, and so does flow "
                    f"{outputs[each.title].name!r}"
                )
                yield at, what, "Flows side by side return different names: rename one."
    known_inputs = frozenset(inputs)
    if all(flow_inputs(each) for each in node.subflows if isinstance(each, Flow)):
        for each in node.inputs or ():
            if each.title not in known_inputs:
                what = f"input {each.title!r} of node {node.name!r} is none of its flows'"
                yield ".inputs", what, one_of(each.title, sorted(known_inputs))
    if all(flow_outputs(each) for each in node.subflows if isinstance(each, Flow)):
        for each in node.outputs or ():
            if each.title not in outputs:
                what = f"output {each.title!r} of node {node.name!r} is none of its flows'"
                yield ".outputs", what, one_of(each.title, sorted(outputs))


_CHECKS: Final[Mapping[type[Component], Callable[[Any], Found]]] = {
    FlowNode: _flow,
    AgentNode: _agent,
    CatchExceptionNode: _catch,
    MapNode: _map,
    ParallelMapNode: _map,
    ParallelFlowNode: _parallel,
}
