"""Flows, their nodes and edges, agents, and what rewrites an agent's messages.

They contain one another, a flow an agent and an agent a flow, so they stand together.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeAlias, Union

from msgspec import Meta, Struct, field

from heddle.spec.component import (
    SECRET,
    Component,
    ComponentWithIO,
    PluginComponent,
    RetryPolicy,
    new_in,
)
from heddle.spec.datastores import AnyDatastore
from heddle.spec.llms import AnyLlmConfig, AnyOciClientConfig
from heddle.spec.tools import AnyTool, AnyToolBox

NEXT_BRANCH = "next"


class Node(ComponentWithIO, frozen=True, kw_only=True):
    """What all nodes share. ``branches`` is what the author listed, or None."""

    branches: tuple[str, ...] | None = None


class StartNode(Node, frozen=True, kw_only=True):
    """Where a flow begins: its inputs are the flow's."""


class EndNode(Node, frozen=True, kw_only=True):
    """Where a flow ends. ``branch_name`` is the branch of a node that runs the flow."""

    branch_name: str = NEXT_BRANCH


class LlmNode(Node, frozen=True, kw_only=True):
    """One request to a model."""

    llm_config: AnyLlmConfig
    prompt_template: str


class AgentNode(Node, frozen=True, kw_only=True):
    """An agent at work, for as many rounds as it takes."""

    agent: AnyAgenticComponent


class ToolNode(Node, frozen=True, kw_only=True):
    """One call of a tool."""

    tool: AnyTool


class BranchingNode(Node, frozen=True, kw_only=True):
    """Picks a branch: ``mapping`` maps the input's text to it."""

    mapping: dict[str, str]


class FlowNode(Node, frozen=True, kw_only=True):
    """A flow as one step of another."""

    subflow: AnyFlow


Reduction: TypeAlias = Literal["append", "sum", "average", "max", "min"]


class MapNode(Node, frozen=True, kw_only=True):
    """A flow for each item of a list, one after the other."""

    subflow: AnyFlow
    reducers: dict[str, Reduction] | None = None


class ParallelMapNode(Node, frozen=True, kw_only=True):
    """A flow for each item of a list, all at once."""

    since: ClassVar[str] = "25.4.2"

    subflow: AnyFlow
    reducers: dict[str, Reduction] | None = None


class ParallelFlowNode(Node, frozen=True, kw_only=True):
    """Several flows at once."""

    since: ClassVar[str] = "25.4.2"

    subflows: tuple[AnyFlow, ...] = ()


class CatchExceptionNode(Node, frozen=True, kw_only=True):
    """A flow whose failure is an outcome."""

    since: ClassVar[str] = "26.1.2"

    subflow: AnyFlow


class ApiNode(Node, frozen=True, kw_only=True):
    """One HTTP request."""

    url: str
    http_method: str
    api_spec_uri: str | None = None
    data: Any = field(default_factory=dict)
    query_params: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, Any] = field(default_factory=dict)
    sensitive_headers: Annotated[dict[str, Any], new_in("25.4.2"), SECRET] = field(
        default_factory=dict
    )
    url_allow_list: Annotated[tuple[str, ...] | None, new_in("26.1.2")] = None
    retry_policy: Annotated[RetryPolicy | None, new_in("26.1.2")] = None


class InputMessageNode(Node, frozen=True, kw_only=True):
    """Asks the user, and waits for the answer."""

    message: str | None = None


class OutputMessageNode(Node, frozen=True, kw_only=True):
    """Tells the user something."""

    message: str


class ControlFlowEdge(Component, frozen=True, kw_only=True):
    """What runs next: a branch of a node, and the node it leads to."""

    name: str = ""
    from_node: AnyNode
    to_node: AnyNode
    from_branch: str | None = None


class DataFlowEdge(Component, frozen=True, kw_only=True):
    """Where a value goes: an output of a node, and the input it becomes."""

    name: str = ""
    source_node: AnyNode
    source_output: str
    destination_node: AnyNode
    destination_input: str


class Flow(ComponentWithIO, frozen=True, kw_only=True):
    """A graph of nodes.

    ``data_flow_connections`` of None lets values flow by name, an empty tuple not at all.
    """

    start_node: AnyNode
    nodes: tuple[AnyNode, ...]
    control_flow_connections: tuple[AnyControlFlowEdge, ...]
    data_flow_connections: tuple[AnyDataFlowEdge, ...] | None = None


class MessageSummarizationTransform(Component, frozen=True, kw_only=True):
    """Shortens long messages."""

    since: ClassVar[str] = "26.1.2"

    llm: AnyLlmConfig
    datastore: AnyDatastore | None = None
    max_message_size: Annotated[int, Meta(gt=0)] = 20_000
    summarization_instructions: str = (
        "Please make a summary of this message. Include relevant information and keep it "
        "short. Your response will replace the message, so just output the summary "
        "directly, no introduction needed."
    )
    summarized_message_template: str = "Summarized message: {{summary}}"
    max_cache_size: int | None = 10_000
    max_cache_lifetime: int | None = 14_400
    cache_collection_name: str = "summarized_messages_cache"


class ConversationSummarizationTransform(Component, frozen=True, kw_only=True):
    """Shortens long conversations."""

    since: ClassVar[str] = "26.1.2"

    llm: AnyLlmConfig
    datastore: AnyDatastore | None = None
    max_num_messages: int | None = 50
    max_num_characters: int | None = None
    min_num_messages: Annotated[int, Meta(gt=0)] = 10
    summarization_instructions: str = (
        "Please make a summary of this conversation. Include relevant information and keep "
        "it short. Your response will replace the messages, so just output the summary "
        "directly, no introduction needed."
    )
    summarized_conversation_template: str = "Summarized conversation: {{summary}}"
    max_cache_size: int | None = 10_000
    max_cache_lifetime: int | None = 14_400
    cache_collection_name: str = "summarized_conversations_cache"


AnyMessageTransform: TypeAlias = (
    MessageSummarizationTransform | ConversationSummarizationTransform | PluginComponent
)


class Agent(ComponentWithIO, frozen=True, kw_only=True):
    """A model with instructions and tools."""

    llm_config: AnyLlmConfig
    system_prompt: str
    tools: tuple[AnyTool, ...] = ()
    toolboxes: Annotated[tuple[AnyToolBox, ...], new_in("25.4.2")] = ()
    human_in_the_loop: Annotated[bool, new_in("25.4.2")] = True
    transforms: Annotated[tuple[AnyMessageTransform, ...], new_in("26.1.2")] = ()


class AgentSpecializationParameters(ComponentWithIO, frozen=True, kw_only=True):
    """What a specialized agent adds to its base."""

    since: ClassVar[str] = "25.4.2"

    additional_instructions: str | None = None
    additional_tools: tuple[AnyTool, ...] | None = None
    human_in_the_loop: bool | None = None


class SpecializedAgent(ComponentWithIO, frozen=True, kw_only=True):
    """An agent made from another."""

    since: ClassVar[str] = "25.4.2"

    agent: Agent | PluginComponent
    agent_specialization_parameters: AgentSpecializationParameters | PluginComponent


class OciAgent(ComponentWithIO, frozen=True, kw_only=True):
    """An agent that Oracle Cloud runs."""

    agent_endpoint_id: str
    client_config: AnyOciClientConfig
    retry_policy: Annotated[RetryPolicy | None, new_in("26.1.2")] = None


class A2AConnectionConfig(Component, frozen=True, kw_only=True):
    """How to reach an agent that speaks the A2A protocol. ``timeout`` is in seconds."""

    since: ClassVar[str] = "25.4.2"

    timeout: float = 600.0
    headers: dict[str, str] | None = None
    verify: bool = True
    key_file: str | None = None
    cert_file: str | None = None
    ssl_ca_cert: str | None = None
    retry_policy: Annotated[RetryPolicy | None, new_in("26.1.2")] = None


class A2ASessionParameters(Struct, frozen=True):
    """How long to wait for a remote agent, in seconds."""

    timeout: float = 60.0
    poll_interval: float = 2.0
    max_retries: int = 5


class A2AAgent(ComponentWithIO, frozen=True, kw_only=True):
    """An agent elsewhere that speaks the A2A protocol."""

    since: ClassVar[str] = "25.4.2"

    agent_url: str
    connection_config: A2AConnectionConfig | PluginComponent
    session_parameters: A2ASessionParameters = A2ASessionParameters()


class Swarm(ComponentWithIO, frozen=True, kw_only=True):
    """Agents that ask each other. ``relationships`` are pairs of caller and recipient."""

    since: ClassVar[str] = "25.4.2"

    first_agent: AnyAgenticComponent
    relationships: tuple[tuple[AnyAgenticComponent, AnyAgenticComponent], ...]
    handoff: bool | Literal["never", "optional", "always"] = "optional"


class ManagerWorkers(ComponentWithIO, frozen=True, kw_only=True):
    """An agent that hands out work to others."""

    since: ClassVar[str] = "25.4.2"

    group_manager: AnyAgenticComponent
    workers: tuple[AnyAgenticComponent, ...]


# Unions of classes that are defined by now, so that consumers can match on them.
AnyNode: TypeAlias = Union[  # noqa: UP007
    StartNode,
    EndNode,
    LlmNode,
    AgentNode,
    ToolNode,
    BranchingNode,
    FlowNode,
    MapNode,
    ParallelMapNode,
    ParallelFlowNode,
    CatchExceptionNode,
    ApiNode,
    InputMessageNode,
    OutputMessageNode,
    PluginComponent,
]
AnyFlow: TypeAlias = Flow | PluginComponent
AnyControlFlowEdge: TypeAlias = ControlFlowEdge | PluginComponent
AnyDataFlowEdge: TypeAlias = DataFlowEdge | PluginComponent
AnyAgenticComponent: TypeAlias = (
    Agent
    | SpecializedAgent
    | Swarm
    | ManagerWorkers
    | A2AAgent
    | OciAgent
    | Flow
    | PluginComponent
)
