"""A flow made ready to run: its graph, the work of each node, what it needs to be there.

Compiling starts nothing and needs no credential. A plan is immutable and shared by
concurrent runs; all that belongs to one run is in `heddle.engine.run`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from heddle.engine.agents import members_of, plain_agent, team_tool_names, tools_of
from heddle.engine.compiling.flows import compile_graphs
from heddle.engine.compiling.http_flaws import request_problems
from heddle.engine.compiling.refused_tools import tool_problems, toolbox_problems
from heddle.engine.graph import Graph, GraphNode, wrong_kind
from heddle.engine.lone import as_flow
from heddle.engine.nodes import RUNNING_FLOWS, WORK
from heddle.engine.plugin_calls import LLM_CONFIG
from heddle.engine.signatures import flows_in, typed
from heddle.engine.state import Glance, glance_at
from heddle.engine.summaries import measure_problems
from heddle.engine.tool_servers import uses_servers
from heddle.engine.work import Work
from heddle.spec import (
    Agent,
    AgentNode,
    ApiNode,
    Component,
    ConversationSummarizationTransform,
    Document,
    DocumentError,
    Flow,
    GeminiAIStudioAuthConfig,
    GeminiConfig,
    InMemoryCollectionDatastore,
    LlmConfig,
    LlmNode,
    ManagerWorkers,
    MessageSummarizationTransform,
    OllamaConfig,
    OpenAiCompatibleConfig,
    OpenAiConfig,
    PluginComponent,
    Problem,
    ServerTool,
    SpecializedAgent,
    Swarm,
    ToolNode,
    VllmConfig,
)

MODELS: Final = (
    OpenAiConfig,
    OpenAiCompatibleConfig,
    VllmConfig,
    OllamaConfig,
    GeminiConfig,
    LlmConfig,
)
"""LLM configurations that calls can be made for."""


_AGENTS: Final = "Agent, SpecializedAgent, Swarm, ManagerWorkers, Flow"


class Plan(Struct, frozen=True, weakref=True):
    """What a run walks.

    ``tools`` are the names of tools that it may ask for by node name, with those of the
    flows inside it; the plans of these have none of their own. ``servers`` is whether a
    run may use the tools of tool servers. ``graphs`` are those of its flow and of all
    inside it, by flow, for whoever shows them; the walk does not need them.
    ``glance`` is how what a run brings is held against its types when that takes no time
    to speak of; None when it may take some.
    """

    graph: Graph
    work: tuple[Work, ...]
    tools: Mapping[str, tuple[str, ...]]
    servers: bool = False
    graphs: Mapping[Component, Graph] = {}
    glance: Glance | None = None


def make_plan(document: Document, *, name: str = "document") -> Plan:
    """Compile the document's flow and its nodes; ``name`` is what errors call it.

    Raises:
        DocumentError: With every problem of the graph or of what its nodes use.
    """
    document = as_flow(document)
    graphs = compile_graphs(document, name=name)
    nodes = [node for graph in graphs.values() for node in graph.nodes]
    # What several nodes share is found wrong in each of them.
    found = (problem for node in nodes for problem in _unsupported(node, document))
    if problems := list(dict.fromkeys(found)):
        raise DocumentError(problems, name=name)
    plans: dict[Component, Plan] = {}
    for flow, graph in graphs.items():
        work = tuple(_work(node, graph, plans) for node in graph.nodes)
        plans[flow] = Plan(graph, work, {})
    tools: dict[str, tuple[str, ...]] = {}
    for node in nodes:
        if names := _tool_names(node):
            # Nodes of different flows may have one name.
            tools[node.name] = tuple(dict.fromkeys((*tools.get(node.name, ()), *names)))
    whole = plans[document.root]
    servers = any(uses_servers(node.component) for node in nodes)
    glance = glance_at(whole.graph.inputs)
    return Plan(whole.graph, whole.work, tools, servers, graphs, glance)


def _work(node: GraphNode, graph: Graph, plans: Mapping[Component, Plan]) -> Work:
    flows = flows_in(node.component)
    if flows is None:
        return WORK[type(node.component)](node, graph)
    inside = tuple(plans[flow] for flow in flows)
    return RUNNING_FLOWS[type(node.component)](node, graph, inside)


def _tool_names(node: GraphNode) -> tuple[str, ...]:
    match node.component:
        case ToolNode(tool=ServerTool(name=name)):
            return (name,)
        case AgentNode(agent=agent):
            return tuple(
                tool.name
                for member in members_of(agent)
                for tool in tools_of(member)
                if isinstance(tool, ServerTool)
            )
        case _:
            return ()


def _unsupported(node: GraphNode, document: Document) -> Iterator[Problem]:
    """What the node uses that this version reads and does not run yet."""
    match node.component:
        case ToolNode(tool=tool):
            yield from tool_problems(tool, document)
        case ApiNode() as component:
            yield from request_problems(component, document)
        case LlmNode(llm_config=llm):
            yield from _unsupported_llm(llm, document)
        case PluginComponent() as component:
            yield from _unsupported_in_plugin(component, document)
        case AgentNode(agent=agent):
            match agent:
                case Flow():
                    return
                case Agent() | SpecializedAgent():
                    yield from _unsupported_in_agent(agent, document)
                case ManagerWorkers() | Swarm():
                    yield from _unsupported_in_team(agent, document)
                case _:
                    yield _not_yet(
                        document, agent, "agents of an AgentNode", _AGENTS, "an agent"
                    )
        case _:
            return


def _specialization_problems(
    agent: SpecializedAgent, document: Document
) -> Iterator[Problem]:
    """Why a specialized agent can't be made of its base; nothing when it can."""
    base, more = agent.agent, agent.agent_specialization_parameters
    parts = ((base, "an Agent"), (more, "AgentSpecializationParameters"))
    for part, wanted in parts:
        if isinstance(part, PluginComponent):
            place = f"{document.path_of(part)}.component_type"
            yield Problem(place, *wrong_kind(part, wanted))
    ours, theirs = typed(base.inputs or ()), typed(more.inputs or ())
    for title in sorted(ours.keys() & theirs.keys()):
        if ours[title] != theirs[title]:
            yield Problem(
                f"{document.path_of(more)}.inputs",
                f"input {title!r} is of another type than the input of that name of agent "
                f"{base.name!r}",
                "Give both one type, or this one another name.",
            )


def _unsupported_in_team(
    team: ManagerWorkers | Swarm, document: Document
) -> Iterator[Problem]:
    members = members_of(team)
    kind = f"members of a {type(team).__name__}"
    for member in members:
        if isinstance(member, (Agent, SpecializedAgent)):
            yield from _unsupported_in_agent(member, document)
        else:
            yield _not_yet(document, member, kind, "Agent, SpecializedAgent", "an agent")
    place = document.path_of(team)
    yield from _too_few(team, place)
    names = Counter(member.name for member in members)
    for name in sorted(name for name in names if names[name] > 1):
        yield Problem(
            place,
            f"{names[name]} agents of {team.name!r} are named {name!r}, and they call each "
            "other by name",
            "Give each agent a name of its own.",
        )
    for speaker, taken in team_tool_names(team):
        for name in sorted(name for name, times in taken.items() if times > 1):
            yield Problem(
                place,
                f"{taken[name]} workers of {team.name!r} would both be the tool {name!r}",
                "Give them names that differ in letters, digits, '_' or '-'.",
            )
        for tool in tools_of(speaker):
            if tool.name in taken:
                yield Problem(
                    f"{document.path_of(speaker)}.tools",
                    f"tool {tool.name!r} of agent {speaker.name!r} has the name by which "
                    f"it reaches other agents of {team.name!r}",
                    "Give the tool another name.",
                )


def _too_few(team: ManagerWorkers | Swarm, place: str) -> Iterator[Problem]:
    """What makes a team no team."""
    fix = "Name who works with it, or use the agent alone."
    match team:
        case ManagerWorkers(workers=()):
            yield Problem(f"{place}.workers", f"{team.name!r} has no workers", fix)
        case ManagerWorkers(group_manager=manager, workers=workers) if manager in workers:
            what = f"{manager.name!r} manages {team.name!r} and is one of its workers"
            yield Problem(f"{place}.workers", what, "Keep one of the two.")
        case Swarm(relationships=()):
            what = f"nobody in {team.name!r} knows another agent"
            yield Problem(f"{place}.relationships", what, fix)
        case _:
            return


def _unsupported_in_agent(
    agent: Agent | SpecializedAgent, document: Document
) -> Iterator[Problem]:
    if isinstance(agent, SpecializedAgent):
        flaws = list(_specialization_problems(agent, document))
        if flaws:
            yield from flaws
            return
    place = document.path_of(agent)
    agent = plain_agent(agent)
    yield from _unsupported_llm(agent.llm_config, document)
    for tool in agent.tools:
        yield from tool_problems(tool, document)
    names = [tool.name for tool in agent.tools]
    times = Counter(names)
    for name in sorted(name for name in times if times[name] > 1):
        yield Problem(
            f"{place}.tools",
            f"agent {agent.name!r} has {times[name]} tools named {name!r}",
            "Give each tool a name of its own.",
        )
    for transform in agent.transforms:
        yield from _unsupported_transform(transform, document)
    for box in agent.toolboxes:
        yield from toolbox_problems(box, document)


def _unsupported_llm(llm: Component, document: Document) -> Iterator[Problem]:
    """An LLM configuration: heddle's own kinds, or a provider of a plugin."""
    if isinstance(llm, PluginComponent) and llm.provided.kind == "provider":
        yield from _unsupported_in_plugin(llm, document)
    elif not isinstance(llm, MODELS):
        known = ", ".join(each.__name__ for each in MODELS)
        yield _not_yet(document, llm, "LLM configurations", known, "an LLM configuration")
    elif isinstance(llm, GeminiConfig) and not isinstance(
        llm.auth, GeminiAIStudioAuthConfig
    ):
        known = "GeminiAIStudioAuthConfig"
        yield _not_yet(document, llm.auth, "the auth of a GeminiConfig", known, "an auth")


def _unsupported_transform(transform: Component, document: Document) -> Iterator[Problem]:
    place = document.path_of(transform)
    match transform:
        case MessageSummarizationTransform() | ConversationSummarizationTransform():
            yield from _unsupported_llm(transform.llm, document)
            if isinstance(transform, ConversationSummarizationTransform):
                yield from measure_problems(transform, place)
            store = transform.datastore
            if store is not None and not isinstance(store, InMemoryCollectionDatastore):
                yield _not_yet(
                    document,
                    store,
                    "the datastore of a transform",
                    "InMemoryCollectionDatastore, or none",
                    "a datastore",
                )
        case PluginComponent(provided=provided) if provided.kind == "transform":
            yield from _unsupported_in_plugin(transform, document)
        case PluginComponent():
            what, fix = wrong_kind(transform, "a transform")
            yield Problem(f"{place}.component_type", what, fix)
        case _:  # pragma: no cover  the reader admits nothing else
            raise AssertionError(transform)


def _unsupported_in_plugin(
    component: PluginComponent, document: Document
) -> Iterator[Problem]:
    """A plugin's component may have a model of its own, which heddle calls for it."""
    llm = component.fields.get(LLM_CONFIG)
    if isinstance(llm, Component):
        yield from _unsupported_llm(llm, document)


def _not_yet(
    document: Document, component: Component, kind: str, known: str, wanted: str
) -> Problem:
    place = f"{document.path_of(component)}.component_type"
    if isinstance(component, PluginComponent):
        return Problem(place, *wrong_kind(component, wanted))
    return Problem(
        place,
        f"{component.name!r} is of type {component.component_type}, which this version of "
        "heddle reads and does not run yet",
        f"What runs as {kind}: {known}.",
    )
