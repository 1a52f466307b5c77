"""The places of a flow where policies may be asked, in the order in which a run meets them.

    node.before
        agentRound.before                     for each round
        modelCall.before · modelCall.after
        toolCall.before · toolCall.after      for each tool; an agent behind it in between
        agentRound.after
    nodeError.after
    node.after

A flow inside a node is where its model calls would be. Branches stand one after the other,
and what a loop comes back to stands where it is met first.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from heddle.engine.agents import (
    HAND_OFF,
    SEND_MESSAGE,
    handing,
    members_of,
    plain_agent,
    tool_name,
)
from heddle.engine.graph import Graph, GraphNode
from heddle.engine.signatures import flows_in
from heddle.spec import (
    Agent,
    AgentNode,
    Component,
    LlmNode,
    ManagerWorkers,
    MCPToolBox,
    MCPToolSpec,
    PluginComponent,
    Swarm,
)
from plugins_host import Half, Seam

MAX_PLACES: Final = 100_000
"""A flow in a flow in a flow, each twice, has more places than anybody reads."""

WHEN_IT_FAILS: Final = "when it fails"
AFTER_TOOLS: Final = "after a round that ran tools"
BY_PLUGIN: Final = "when its plugin calls its model"


class Place(Struct, frozen=True):
    """One half of one seam, at one node.

    Attributes:
        path: The names of nodes, from the outermost to this one.
        node_type: The type of that node.
        seam: The seam.
        half: The half.
        agent: Which agent of the node, when several work there.
        tool: Which tool, at `toolCall`; None for any that ``toolbox`` brings.
        toolbox: Whence the tool comes, when it is found while the flow runs.
        depth: How far inside the outermost node, from 0.
        when: When it is met, where that is not each time.
    """

    path: tuple[str, ...]
    node_type: str
    seam: Seam
    half: Half
    agent: str | None = None
    tool: str | None = None
    toolbox: str | None = None
    depth: int = 0
    when: str = ""


def in_order(graph: Graph) -> list[GraphNode]:
    """The nodes that can be reached, each after those that lead to it; loops aside."""
    left: list[int] = []
    seen = {graph.start}
    open_ = [(graph.start, _onward(graph.nodes[graph.start]))]
    while open_:
        number, targets = open_[-1]
        for target in targets:
            if target not in seen:
                seen.add(target)
                open_.append((target, _onward(graph.nodes[target])))
                break
        else:
            left.append(number)
            open_.pop()
    return [graph.nodes[number] for number in reversed(left)]


def _onward(node: GraphNode) -> Iterator[int]:
    """Where a node leads to, the last edge first: what is left last stands first."""
    first = () if node.onward is None else (node.onward,)
    return iter((*first, *node.branches.values())[::-1])


def places(
    graph: Graph,
    flows: Mapping[Component, Graph],
    calls_models: Callable[[PluginComponent], bool],
) -> Iterator[Place]:
    """Where policies may be asked in a flow, at most `MAX_PLACES` of them.

    Args:
        graph: The flow.
        flows: The graphs of all flows inside it.
        calls_models: Whether the plugin behind a component may call its model.
    """
    met = _Meeting(flows, calls_models).flow(graph, (), 0)
    yield from (place for _, place in zip(range(MAX_PLACES), met, strict=False))


class _Here(Struct, frozen=True):
    """Where in a flow we are."""

    path: tuple[str, ...]
    node_type: str
    depth: int
    agent: str | None = None

    def deeper(self, agent: str | None = None) -> "_Here":
        return msgspec.structs.replace(
            self, depth=self.depth + 1, agent=agent or self.agent
        )

    def at(
        self,
        seam: Seam,
        half: Half,
        *,
        tool: str | None = None,
        toolbox: str | None = None,
        when: str = "",
    ) -> Place:
        return Place(
            self.path,
            self.node_type,
            seam,
            half,
            self.agent,
            tool,
            toolbox,
            self.depth,
            when,
        )


class _Reached(Struct, frozen=True):
    """A tool behind which agents are, by name; those of them that wait inside the call."""

    tool: str
    agents: tuple[str, ...] = ()


class _Meeting:
    """One walk through a flow and all that is inside."""

    def __init__(
        self,
        flows: Mapping[Component, Graph],
        calls_models: Callable[[PluginComponent], bool],
    ) -> None:
        self._flows = flows
        self._calls_models = calls_models

    def flow(self, graph: Graph, path: tuple[str, ...], depth: int) -> Iterator[Place]:
        for node in in_order(graph):
            here = _Here((*path, node.name), node.type, depth)
            yield here.at(Seam.NODE, Half.BEFORE)
            yield from self._inside(node, here.deeper())
            yield here.at(Seam.NODE_ERROR, Half.AFTER, when=WHEN_IT_FAILS)
            yield here.at(Seam.NODE, Half.AFTER)

    def _inside(self, node: GraphNode, here: _Here) -> Iterator[Place]:
        component = node.component
        for flow in flows_in(component) or ():
            yield from self.flow(self._flows[flow], here.path, here.depth)
        match component:
            case LlmNode():
                yield from _model_call(here)
            case AgentNode(agent=ManagerWorkers() | Swarm() as team):
                yield from _Team(team, here).places()
            case AgentNode(agent=agent) if flows_in(component) is None:
                yield from _agent(plain_agent(agent), here)
            case PluginComponent() if self._calls_models(component):
                yield from _model_call(here, BY_PLUGIN)
            case _:
                return


def _model_call(here: _Here, when: str = "") -> Iterator[Place]:
    yield here.at(Seam.MODEL_CALL, Half.BEFORE, when=when)
    yield here.at(Seam.MODEL_CALL, Half.AFTER, when=when)


def _agent(
    agent: Agent,
    here: _Here,
    reached: tuple[_Reached, ...] = (),
    work: Callable[[str, _Here], Iterator[Place]] = lambda _, __: iter(()),
) -> Iterator[Place]:
    """The rounds of one agent; ``work`` is that of an agent behind a tool."""
    yield here.at(Seam.AGENT_ROUND, Half.BEFORE)
    inside = here.deeper()
    yield from _model_call(inside)
    tools = [*_tools(agent), *((each.tool, None, each.agents) for each in reached)]
    for tool, toolbox, agents in tools:
        yield inside.at(Seam.TOOL_CALL, Half.BEFORE, tool=tool, toolbox=toolbox)
        for name in agents:
            yield from work(name, inside.deeper(name))
        yield inside.at(Seam.TOOL_CALL, Half.AFTER, tool=tool, toolbox=toolbox)
    if tools:
        yield here.at(Seam.AGENT_ROUND, Half.AFTER, when=AFTER_TOOLS)


def _tools(
    agent: Agent,
) -> Iterator[tuple[str | None, str | None, tuple[str, ...]]]:
    """The tools of an agent's own: name, toolbox, and nobody behind them."""
    for tool in agent.tools:
        yield tool.name, None, ()
    for box in agent.toolboxes:
        named = box.tool_filter if isinstance(box, MCPToolBox) else None
        if named is None:
            yield None, box.name, ()
        for each in named or ():
            yield each.name if isinstance(each, MCPToolSpec) else str(each), box.name, ()


class _Team:
    """The agents of a node that has several, each where it is reached first."""

    def __init__(self, team: ManagerWorkers | Swarm, here: _Here) -> None:
        self._team = team
        self._here = here
        self._agents = {each.name: plain_agent(each) for each in members_of(team)}
        self._seen: set[str] = set()

    def places(self) -> Iterator[Place]:
        # After the first, those are left that a conversation is handed over to.
        for name in self._agents:
            yield from self._work(name, self._here.deeper(name))

    def _work(self, name: str, here: _Here) -> Iterator[Place]:
        if name in self._seen:
            return
        self._seen.add(name)
        here = msgspec.structs.replace(here, agent=name)
        yield from _agent(self._agents[name], here, self._reached(name), self._work)

    def _reached(self, name: str) -> tuple[_Reached, ...]:
        team = self._team
        if isinstance(team, ManagerWorkers):
            if name != team.group_manager.name:
                return ()
            return tuple(_Reached(tool_name(each), (each.name,)) for each in team.workers)
        others = [two.name for one, two in team.relationships if one.name == name]
        if not others:
            return ()
        ways = handing(team)
        asks = _Reached(SEND_MESSAGE, tuple(dict.fromkeys(others)))
        ways_there = ((SEND_MESSAGE, asks), (HAND_OFF, _Reached(HAND_OFF)))
        return tuple(reached for way, reached in ways_there if way in ways)
