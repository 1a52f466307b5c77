"""A flow made ready to run: its graph, the work of each node, what it needs to be there.

Compiling starts nothing and needs no credential. A plan is immutable and shared by
concurrent runs; all that belongs to one run is in `heddle.engine.run`.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from heddle.engine.graph import Graph, GraphNode, compile_graph
from heddle.engine.nodes import WORK
from heddle.engine.work import Work
from heddle.spec import (
    Agent,
    AgentNode,
    Component,
    Document,
    DocumentError,
    LlmConfig,
    LlmNode,
    OllamaConfig,
    OpenAiCompatibleConfig,
    OpenAiConfig,
    Problem,
    ServerTool,
    ToolNode,
    VllmConfig,
)

MODELS: Final = (OpenAiConfig, OpenAiCompatibleConfig, VllmConfig, OllamaConfig, LlmConfig)
"""LLM configurations that calls can be made for."""


class Plan(Struct, frozen=True):
    """What a run walks. ``tools`` are the names of tools it may ask for, by node name."""

    graph: Graph
    work: tuple[Work, ...]
    tools: Mapping[str, tuple[str, ...]]


def make_plan(document: Document, *, name: str = "document") -> Plan:
    """Compile the document's flow and its nodes; ``name`` is what errors call it.

    Raises:
        DocumentError: With every problem of the graph or of what its nodes use.
    """
    graph = compile_graph(document, name=name)
    problems = [problem for node in graph.nodes for problem in _unsupported(node, document)]
    if problems:
        raise DocumentError(problems, name=name)
    return Plan(
        graph,
        tuple(WORK[type(node.component)](node, graph) for node in graph.nodes),
        {node.name: names for node in graph.nodes if (names := _tool_names(node))},
    )


def _tool_names(node: GraphNode) -> tuple[str, ...]:
    match node.component:
        case ToolNode(tool=tool):
            return (tool.name,)
        case AgentNode(agent=Agent(tools=tools)):
            return tuple(tool.name for tool in tools)
        case _:
            return ()


def _unsupported(node: GraphNode, document: Document) -> Iterator[Problem]:
    """What the node uses that this version reads and does not run yet."""
    match node.component:
        case ToolNode(tool=tool):
            if not isinstance(tool, ServerTool):
                yield _not_yet(document, tool, "tools", "ServerTool")
        case LlmNode(llm_config=llm):
            if not isinstance(llm, MODELS):
                yield _not_yet_llm(document, llm)
        case AgentNode(agent=agent):
            if isinstance(agent, Agent):
                yield from _unsupported_in_agent(agent, document)
            else:
                yield _not_yet(document, agent, "agents of an AgentNode", "Agent")
        case _:
            return


def _unsupported_in_agent(agent: Agent, document: Document) -> Iterator[Problem]:
    if not isinstance(agent.llm_config, MODELS):
        yield _not_yet_llm(document, agent.llm_config)
    for tool in agent.tools:
        if not isinstance(tool, ServerTool):
            yield _not_yet(document, tool, "tools", "ServerTool")
    names = [tool.name for tool in agent.tools]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Problem(
            f"{document.path_of(agent)}.tools",
            f"agent {agent.name!r} has {names.count(name)} tools named {name!r}",
            "Give each tool a name of its own.",
        )
    for other in (*agent.toolboxes, *agent.transforms):
        yield _not_yet(document, other, "parts of an agent", "tools of type ServerTool")


def _not_yet(document: Document, component: Component, kind: str, known: str) -> Problem:
    return Problem(
        f"{document.path_of(component)}.component_type",
        f"{component.name!r} is of type {component.component_type}, which this version of "
        "heddle reads and does not run yet",
        f"What runs as {kind}: {known}.",
    )


def _not_yet_llm(document: Document, llm: Component) -> Problem:
    known = ", ".join(each.__name__ for each in MODELS)
    return _not_yet(document, llm, "LLM configurations", known)
