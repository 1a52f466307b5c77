"""An agent as a whole document: it runs as a start, the agent and an end would.

Agent ──▶ StartNode(its inputs) ─▶ AgentNode ─▶ EndNode(its outputs)
"""

from typing import Final, cast

import msgspec

from heddle.engine.signatures import agent_inputs, agent_outputs
from heddle.spec import (
    A2AAgent,
    Agent,
    AgentNode,
    Component,
    ControlFlowEdge,
    Document,
    EndNode,
    Flow,
    ManagerWorkers,
    OciAgent,
    SpecializedAgent,
    StartNode,
    Swarm,
)

AGENTS: Final = (Agent, SpecializedAgent, OciAgent, A2AAgent, Swarm, ManagerWorkers)


def as_flow(document: Document) -> Document:
    """The document itself, or with a flow around its agent.

    What is made has the path of the document, so that problems lead there.
    """
    agent = document.root
    if not isinstance(agent, AGENTS):
        return document
    inputs, outputs = agent_inputs(agent), agent_outputs(agent)
    start = StartNode(id="start", name="start", inputs=inputs)
    node = AgentNode(id="agent", name=agent.name or "agent", agent=agent)
    end = EndNode(id="end", name="end", outputs=outputs)
    edges = (_edge(start, node), _edge(node, end))
    flow = Flow(
        id="flow",
        name=node.name,
        inputs=inputs,
        outputs=outputs,
        start_node=start,
        nodes=(start, node, end),
        control_flow_connections=edges,
    )
    made = cast("dict[Component, None]", dict.fromkeys((start, node, end, *edges, flow)))
    return msgspec.structs.replace(document, root=flow, paths={**document.paths, **made})


def _edge(source: StartNode | AgentNode, target: AgentNode | EndNode) -> ControlFlowEdge:
    return ControlFlowEdge(id=f"{source.id}-{target.id}", from_node=source, to_node=target)
