"""The work of each node type, in one table. Adding a type is a module and a row."""

from collections.abc import Callable, Mapping
from typing import Final

from heddle.engine.graph import Graph, GraphNode
from heddle.engine.nodes.agent import agent
from heddle.engine.nodes.llm import llm
from heddle.engine.nodes.passing import branch, end, start
from heddle.engine.nodes.plugin import plugin
from heddle.engine.nodes.tool import tool
from heddle.engine.work import Work
from heddle.spec import (
    AgentNode,
    BranchingNode,
    Component,
    EndNode,
    LlmNode,
    PluginComponent,
    StartNode,
    ToolNode,
)

WORK: Final[Mapping[type[Component], Callable[[GraphNode, Graph], Work]]] = {
    StartNode: start,
    EndNode: end,
    LlmNode: llm,
    AgentNode: agent,
    ToolNode: tool,
    BranchingNode: branch,
    PluginComponent: plugin,
}
