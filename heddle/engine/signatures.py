"""What flows and agents take and give, as their documents declare it.

Who declares nothing is asked further inside: a flow at its start and its ends, a team at
who talks to the user, a specialized agent at its base. An empty list declares nothing.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from heddle.spec import (
    AgentNode,
    CatchExceptionNode,
    Component,
    EndNode,
    Flow,
    FlowNode,
    ManagerWorkers,
    MapNode,
    ParallelFlowNode,
    ParallelMapNode,
    Property,
    SpecializedAgent,
    StartNode,
    Swarm,
)

Properties = tuple[Property, ...]


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


def flow_inputs(flow: Flow) -> Properties:
    """What a flow must be given, wherever it runs."""
    start = flow.start_node
    return (
        start_inputs(start, flow)
        if isinstance(start, StartNode)
        else first_declared(flow.inputs)
    )


def flow_outputs(flow: Flow) -> Properties:
    """What a flow returns: as declared, else what all its EndNodes have in common.

    Nothing for one that returns its state.
    """
    if flow.outputs:
        return flow.outputs
    ends = [end_outputs(node) for node in flow.nodes if isinstance(node, EndNode)]
    if not ends or not all(ends):
        return ()
    common = frozenset.intersection(*map(names, ends))
    return tuple(each for each in ends[0] if each.title in common)


def flow_branches(flow: Flow) -> frozenset[str]:
    """How a flow may end, by the branches that its EndNodes name."""
    return frozenset(each.branch_name for each in flow.nodes if isinstance(each, EndNode))


def agent_inputs(agent: Component) -> Properties:
    """What an agent is given: a specialized one what both parts name, a team what it
    declares, or else who talks to the user."""
    match agent:
        case SpecializedAgent(agent=base, agent_specialization_parameters=more):
            both = (*agent_inputs(base), *(more.inputs or ()), *(agent.inputs or ()))
            return tuple({each.title: each for each in both}.values())
        case ManagerWorkers(group_manager=first) | Swarm(first_agent=first):
            return first_declared(agent.inputs, agent_inputs(first))
        case _:
            return first_declared(getattr(agent, "inputs", None))


def agent_outputs(agent: Component) -> Properties:
    """What an agent gives: a specialized one what its base does, a team what it declares,
    or else who talks to the user."""
    match agent:
        case SpecializedAgent(agent=base):
            return first_declared(agent.outputs, agent_outputs(base))
        case ManagerWorkers(group_manager=first) | Swarm(first_agent=first):
            return first_declared(agent.outputs, agent_outputs(first))
        case _:
            return first_declared(getattr(agent, "outputs", None))


def typed(properties: Properties) -> dict[str, Mapping[str, Any]]:
    """What is declared by name: all that a value has to be."""
    notes = ("title", "description", "default")
    return {
        each.title: {key: value for key, value in each.schema.items() if key not in notes}
        for each in properties
    }


def type_text(schema: Mapping[str, Any]) -> str:
    """A JSON Schema's type in a few words."""
    kind = schema.get("type")
    if kind == "array" and isinstance(schema.get("items"), Mapping):
        return f"array of {type_text(schema['items'])}"
    if isinstance(kind, str):
        return kind
    return msgspec.json.encode({k: v for k, v in schema.items() if k != "title"}).decode()


def flows_in(node: Component) -> tuple[Component, ...] | None:
    """The flows that a node runs; None for a node of another kind."""
    match node:
        case FlowNode(subflow=flow) | CatchExceptionNode(subflow=flow):
            return (flow,)
        case MapNode(subflow=flow) | ParallelMapNode(subflow=flow):
            return (flow,)
        case ParallelFlowNode(subflows=flows):
            return flows
        case AgentNode(agent=Flow() as flow):
            return (flow,)
        case _:
            return None
