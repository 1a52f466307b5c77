"""The work of each node type, in one table. Adding a type is a module and a row.

passing     StartNode, EndNode, BranchingNode
llm         LlmNode
agent       AgentNode; `agent_work`: of one agent, `team`: of several
tool, api   ToolNode, ApiNode
message     OutputMessageNode, InputMessageNode
flow        FlowNode, CatchExceptionNode
mapping     MapNode, ParallelMapNode
parallel    ParallelFlowNode
plugin      nodes of plugins
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from heddle.engine.graph import Graph, GraphNode
from heddle.engine.nodes.agent import agent
from heddle.engine.nodes.api import api
from heddle.engine.nodes.flow import catch, flow, flow_as_agent
from heddle.engine.nodes.llm import llm
from heddle.engine.nodes.mapping import map_in_turn, map_together
from heddle.engine.nodes.message import input_message, output_message
from heddle.engine.nodes.parallel import parallel
from heddle.engine.nodes.passing import branch, end, start
from heddle.engine.nodes.plugin import plugin
from heddle.engine.nodes.tool import tool
from heddle.engine.work import Work
from heddle.spec import (
    AgentNode,
    ApiNode,
    BranchingNode,
    CatchExceptionNode,
    Component,
    EndNode,
    FlowNode,
    InputMessageNode,
    LlmNode,
    MapNode,
    OutputMessageNode,
    ParallelFlowNode,
    ParallelMapNode,
    PluginComponent,
    StartNode,
    ToolNode,
)

if TYPE_CHECKING:
    from heddle.engine.plan import Plan

WORK: Final[Mapping[type[Component], Callable[[GraphNode, Graph], Work]]] = {
    StartNode: start,
    EndNode: end,
    LlmNode: llm,
    AgentNode: agent,
    ToolNode: tool,
    ApiNode: api,
    BranchingNode: branch,
    PluginComponent: plugin,
    OutputMessageNode: output_message,
    InputMessageNode: input_message,
}

RUNNING_FLOWS: Final[
    "Mapping[type[Component], Callable[[GraphNode, Graph, tuple[Plan, ...]], Work]]"
] = {
    FlowNode: flow,
    AgentNode: flow_as_agent,
    CatchExceptionNode: catch,
    MapNode: map_in_turn,
    ParallelMapNode: map_together,
    ParallelFlowNode: parallel,
}
"""The same for nodes that run flows: they are given the plans of those."""
