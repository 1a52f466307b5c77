"""Flows built with pyagentspec's own classes, with every type of node.

`BUILT` has them by name, beside agents that are documents by themselves. They share what
can be shared, as documents do: a model that two nodes use, a tool that an agent and a node
use.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

from pyagentspec import (
    Component,
)
from pyagentspec.flows.edges import ControlFlowEdge, DataFlowEdge
from pyagentspec.flows.flow import Flow
from pyagentspec.flows.node import Node
from pyagentspec.flows.nodes import (
    AgentNode,
    ApiNode,
    BranchingNode,
    CatchExceptionNode,
    EndNode,
    FlowNode,
    InputMessageNode,
    LlmNode,
    MapNode,
    OutputMessageNode,
    ParallelFlowNode,
    ParallelMapNode,
    StartNode,
    ToolNode,
)
from pyagentspec.flows.nodes.mapnode import ReductionMethod
from pyagentspec.property import (
    BooleanProperty,
    DictProperty,
    IntegerProperty,
    ListProperty,
    NullProperty,
    NumberProperty,
    ObjectProperty,
    Property,
    StringProperty,
    UnionProperty,
)
from pyagentspec.swarm import HandoffMode

from tests.conformance.official.agents import (
    COUNT,
    COUNT_WORDS,
    MODEL,
    PATIENT,
    TEXT,
    agent,
    elsewhere,
    mcp_agent,
    models,
    specialized,
    swarm,
    team,
    transformed,
)

EVERY_TYPE: Final = [
    StringProperty(title="string", description="Some text.", default=""),
    IntegerProperty(title="integer", default=0),
    NumberProperty(title="number", default=1.5),
    BooleanProperty(title="boolean", default=False),
    NullProperty(title="nothing", default=None),
    ListProperty(title="list", item_type=StringProperty(title="item")),
    DictProperty(title="dict", value_type=NumberProperty(title="value")),
    ObjectProperty(title="object", properties={"text": TEXT, "count": COUNT}),
    UnionProperty(title="either", any_of=[TEXT, NullProperty(title="nothing")]),
    Property(json_schema={"title": "any"}),
    Property(json_schema={"title": "several", "type": ["string", "null"], "minLength": 2}),
]


def chain(
    name: str,
    *nodes: Node,
    values: list[tuple[int, str, int, str]] | None = None,
    **fields: Any,
) -> Flow:
    """A flow of nodes one after the other.

    ``values`` are the data edges, with nodes by their place: (0, "text", 1, "text"). None
    lets values flow by name.
    """
    data = None
    if values is not None:
        data = [
            DataFlowEdge(
                name=f"{name}_{number}",
                source_node=nodes[source],
                source_output=output,
                destination_node=nodes[target],
                destination_input=into,
            )
            for number, (source, output, target, into) in enumerate(values)
        ]
    return Flow(
        name=name,
        start_node=nodes[0],
        nodes=list(nodes),
        control_flow_connections=[
            ControlFlowEdge(name=f"{one.name}_{other.name}", from_node=one, to_node=other)
            for one, other in pairwise(nodes)
        ],
        data_flow_connections=data,
        **fields,
    )


def start(*inputs: Property) -> StartNode:
    """A StartNode."""
    return StartNode(name="start", inputs=list(inputs))


def end(*outputs: Property, name: str = "end", branch: str = "next") -> EndNode:
    """An EndNode."""
    return EndNode(name=name, outputs=list(outputs), branch_name=branch)


def counting(name: str = "counting") -> Flow:
    """A flow that counts words."""
    return chain(
        name,
        start(TEXT),
        ToolNode(name="count", tool=COUNT_WORDS),
        end(COUNT),
        values=[(0, "text", 1, "text"), (1, "count", 2, "count")],
        description="Counts.",
        metadata={"of": "words"},
    )


def two_ways() -> Flow:
    """A flow with a choice: two EndNodes, each a branch of what runs it."""
    begin, choice = (
        start(TEXT),
        BranchingNode(
            name="choice",
            mapping={"yes": "go", "ja": "go", "no": "stop"},
            inputs=[TEXT],
        ),
    )
    went, stopped, lost = (end(name=one, branch=one) for one in ("went", "stopped", "lost"))
    edges = ((begin, None, choice), (choice, "go", went), (choice, "stop", stopped))
    return Flow(
        name="two_ways",
        start_node=begin,
        nodes=[begin, choice, went, stopped, lost],
        control_flow_connections=[
            ControlFlowEdge(
                name=f"to_{to.name}", from_node=one, from_branch=way, to_node=to
            )
            for one, way, to in (*edges, (choice, "default", lost))
        ],
        data_flow_connections=[
            DataFlowEdge(
                name="asked",
                source_node=begin,
                source_output="text",
                destination_node=choice,
                destination_input="text",
            )
        ],
    )


def by_branches(inner: Node, *branches: str) -> Flow:
    """A flow that goes on from a node by each of its branches."""
    begin = start(TEXT)
    ends = [end(name=f"after_{one}") for one in branches]
    return Flow(
        name="by_branches",
        start_node=begin,
        nodes=[begin, inner, *ends],
        control_flow_connections=[
            ControlFlowEdge(name="begin", from_node=begin, to_node=inner),
            *(
                ControlFlowEdge(
                    name=to.name, from_node=inner, from_branch=branch, to_node=to
                )
                for branch, to in zip(branches, ends, strict=True)
            ),
        ],
    )


def mapping(kind: type[MapNode | ParallelMapNode], **fields: Any) -> Flow:
    """A flow that counts the words of each text of a list."""
    texts = ListProperty(title="texts", item_type=StringProperty(title="text"))
    node = kind(name="each", subflow=counting(), **fields)
    [collected] = node.outputs
    return chain(
        "mapping",
        start(texts),
        node,
        end(collected),
        values=[
            (0, "texts", 1, "iterated_text"),
            (1, collected.title, 2, collected.title),
        ],
    )


def people() -> Flow:
    """A flow that asks a person and tells him."""
    return chain(
        "people",
        start(TEXT),
        InputMessageNode(name="ask", message="{{ text }}?"),
        InputMessageNode(name="again", outputs=[StringProperty(title="more")]),
        OutputMessageNode(name="tell", message="{{user_input}} and {{more}}"),
        end(),
    )


def structured() -> Flow:
    """A flow with values of every type, one of them the answer of a model."""
    answer = LlmNode(
        name="answer",
        llm_config=MODEL,
        prompt_template="{{string}} {{integer}}",
        inputs=[StringProperty(title="string"), IntegerProperty(title="integer")],
        outputs=[COUNT, ListProperty(title="words", item_type=TEXT)],
    )
    return chain(
        "structured",
        start(*EVERY_TYPE),
        answer,
        end(COUNT, StringProperty(title="either", default="x")),
        values=[
            (0, "string", 1, "string"),
            (0, "integer", 1, "integer"),
            (1, "count", 2, "count"),
            (0, "either", 2, "either"),
        ],
    )


def request() -> Flow:
    """A flow that asks a service."""
    node = ApiNode(
        name="call",
        url="http://127.0.0.1:1/{{ text }}",
        http_method="GET",
        query_params={"q": "{{text}}"},
        sensitive_headers={"Authorization": "Bearer t"},
        url_allow_list=["http://127.0.0.1:1/"],
        retry_policy=PATIENT,
        outputs=[Property(json_schema={"title": "http_response"})],
    )
    bare = ApiNode(name="bare", url="http://127.0.0.1:1/", http_method="POST")
    return chain("request", start(TEXT), node, bare, end())


def caught() -> Flow:
    """A flow that goes on when one inside it fails."""
    inner = CatchExceptionNode(name="safe", subflow=counting())
    return by_branches(inner, "next", "caught_exception_branch")


def at_once() -> Flow:
    """Two flows at once that share an input."""
    shout = chain("shouting", start(TEXT), end(StringProperty(title="loud", default="!")))
    return chain(
        "at_once",
        start(TEXT),
        ParallelFlowNode(name="both", subflows=[counting(), shout]),
        end(COUNT, StringProperty(title="loud")),
    )


def with_agents() -> Flow:
    """Every kind of agent as a node, one of them in two places."""
    shared = agent(outputs=[StringProperty(title="answer")])
    return chain(
        "with_agents",
        start(*(StringProperty(title=one) for one in ("who", "what", "mood"))),
        AgentNode(name="once", agent=shared),
        AgentNode(name="twice", agent=shared),
        AgentNode(name="special", agent=specialized()),
        AgentNode(name="transformed", agent=transformed()),
        *(
            AgentNode(name=mode.value, agent=swarm(mode))
            for mode in (HandoffMode.ALWAYS, HandoffMode.OPTIONAL)
        ),
        AgentNode(name="team", agent=team()),
        AgentNode(name="flow", agent=counting()),
        *(AgentNode(name=one.name, agent=one) for one in elsewhere()),
        end(StringProperty(title="answer")),
    )


def llms() -> Flow:
    """A flow with a node for each kind of model."""
    return chain(
        "llms",
        start(TEXT),
        *(
            LlmNode(name=one.name, llm_config=one, prompt_template="Say {{ text }}.")
            for one in models()
        ),
        end(StringProperty(title="generated_text")),
    )


ADDED: Final = {"count": ReductionMethod.SUM}

BUILT: Final[Mapping[str, Component]] = {
    "agent": agent(),
    "agent_with_transforms": transformed(),
    "agent_with_mcp": mcp_agent(),
    "specialized_agent": specialized(),
    "swarm": swarm(HandoffMode.OPTIONAL),
    "manager_and_workers": team(),
    "flow_of_a_tool": counting(),
    "flow_of_choices": two_ways(),
    "flow_in_flow": by_branches(
        FlowNode(name="inner", subflow=two_ways()), "went", "stopped", "lost"
    ),
    "flow_of_models": llms(),
    "flow_of_people": people(),
    "flow_of_every_type": structured(),
    "flow_of_a_request": request(),
    "flow_that_catches": caught(),
    "flow_at_once": at_once(),
    "flow_of_agents": with_agents(),
    "map": mapping(MapNode),
    "map_and_add": mapping(MapNode, reducers=ADDED),
    "map_at_once": mapping(ParallelMapNode, reducers={"count": ReductionMethod.AVERAGE}),
}
"""All of them, by name."""
