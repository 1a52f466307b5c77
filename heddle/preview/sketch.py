"""A flow as boxes and lines, ready to be drawn in any format.

    Sketch("triage", (Box("route", "BranchingNode", …), …), (Line(0, 1, "bug"), …))

A box has a sketch inside for each flow that its node runs, and one for a team of agents. A
flow that several nodes run is drawn in the first of them and named in the others. Texts
are as in the document: whoever draws them makes them fit.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from heddle.engine.agents import HAND_OFF, SEND_MESSAGE, handing, members_of, plain_agent
from heddle.engine.graph import Graph, GraphNode, branching_input
from heddle.engine.signatures import flows_in
from heddle.preview.policies import Policy
from heddle.preview.seams import Place, in_order
from heddle.spec import (
    Agent,
    AgentNode,
    BranchingNode,
    Component,
    EndNode,
    Flow,
    LlmNode,
    ManagerWorkers,
    MapNode,
    ParallelMapNode,
    SpecializedAgent,
    StartNode,
    Swarm,
    ToolNode,
)

if TYPE_CHECKING:
    from heddle.engine.plan import Plan

BY_NAME: Final = "values flow by name"
"""What is said of a flow without data edges of its own."""


class Look(StrEnum):
    """What kind of step a box is, for its shape or colour."""

    START = "start"
    END = "end"
    CHOICE = "choice"
    MODEL = "model"
    FLOW = "flow"
    STEP = "step"


class Style(StrEnum):
    """What a line says."""

    CONTROL = "control"
    DATA = "data"
    TALK = "talk"


class Line(Struct, frozen=True):
    """From one box to another, by index."""

    source: int
    target: int
    label: str = ""
    style: Style = Style.CONTROL


class Box(Struct, frozen=True):
    """A node, or an agent of a team.

    Attributes:
        name: What it is called.
        kind: Its type.
        look: What kind of step that is.
        notes: What is worth knowing of it, a line each.
        asked: Who is asked there, a line for each seam.
        inside: What it is made of.
    """

    name: str
    kind: str
    look: Look = Look.STEP
    notes: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    inside: "tuple[Sketch, ...]" = ()


class Sketch(Struct, frozen=True):
    """One flow, or one team."""

    name: str
    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]
    note: str = ""


LOOKS: Final[Mapping[type[Component], Look]] = {
    StartNode: Look.START,
    EndNode: Look.END,
    BranchingNode: Look.CHOICE,
    LlmNode: Look.MODEL,
    AgentNode: Look.MODEL,
}
"""How the boxes of nodes look; those of nodes that run flows are `Look.FLOW`."""

LOOPS: Final[Mapping[Style, str]] = {
    Style.CONTROL: "again by {label}",
    Style.DATA: "keeps {label}",
}
"""What is said of a line from a box to itself, which is not drawn."""


def sketch(plan: "Plan", met: Iterable[Place], policies: Sequence[Policy]) -> Sketch:
    """Sketch a flow.

    Args:
        plan: The flow.
        met: Where it meets seams.
        policies: Who is asked there, in order.
    """
    asked: dict[tuple[tuple[str, ...], str | None], dict[str, list[str]]] = {}
    for place in met if policies else ():
        names = [p.component_type for p in policies if p.is_asked(place.seam, place.half)]
        if names:
            seams = asked.setdefault((place.path, place.agent), {})
            seams.setdefault(f"{place.seam}.{place.half}", names)
    return _Sketcher(plan.graphs, asked).flow(plan.graph, ())


class _Sketcher:
    def __init__(
        self,
        graphs: Mapping[Component, Graph],
        asked: Mapping[tuple[tuple[str, ...], str | None], Mapping[str, Sequence[str]]],
    ) -> None:
        self._graphs = graphs
        self._flows = {id(graph): flow for flow, graph in graphs.items()}
        self._asked = asked
        self._drawn: set[Component] = set()

    def flow(self, graph: Graph, path: tuple[str, ...]) -> Sketch:
        flow = self._flows[id(graph)]
        nodes = in_order(graph)
        index = {node.index: number for number, node in enumerate(nodes)}
        wired = isinstance(flow, Flow) and flow.data_flow_connections is not None
        lines = (*_control(nodes, index), *_data(nodes, index))
        loops: list[list[str]] = [[] for _ in nodes]
        for line in lines:
            if line.source == line.target:
                loops[line.source].append(LOOPS[line.style].format(label=line.label))
        return Sketch(
            graph.name,
            tuple(
                self._box(node, (*path, node.name), loops[number])
                for number, node in enumerate(nodes)
            ),
            tuple(line for line in lines if line.source != line.target),
            "" if wired else BY_NAME,
        )

    def _box(self, node: GraphNode, path: tuple[str, ...], loops: Sequence[str]) -> Box:
        component = node.component
        flows = flows_in(component)
        notes = [*_notes(node), *loops]
        inside: list[Sketch] = []
        for flow in flows or ():
            if flow in self._drawn:
                notes.append(f"runs {flow.name!r}, drawn above")
                continue
            self._drawn.add(flow)
            inside.append(self.flow(self._graphs[flow], path))
        if isinstance(component, AgentNode):
            agent = component.agent
            if isinstance(agent, ManagerWorkers | Swarm):
                inside.append(self._team(agent, path))
        look = Look.FLOW if flows else LOOKS.get(type(component), Look.STEP)
        asked = tuple(self._asked_at(path, None))
        return Box(node.name, node.type, look, tuple(notes), asked, tuple(inside))

    def _asked_at(self, path: tuple[str, ...], agent: str | None) -> Iterator[str]:
        """``modelCall.after  RateLimit, Audit``; halves with the same names together."""
        rows: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        for place, names in self._asked.get((path, agent), {}).items():
            seam, half = place.split(".")
            rows.setdefault((seam, tuple(names)), []).append(half)
        for (seam, names), halves in rows.items():
            yield f"{seam}.{'+'.join(halves)}: {', '.join(names)}"

    def _team(self, team: ManagerWorkers | Swarm, path: tuple[str, ...]) -> Sketch:
        members = members_of(team)
        index = {member.name: number for number, member in enumerate(members)}
        return Sketch(
            team.name,
            tuple(
                Box(
                    member.name,
                    member.component_type,
                    Look.MODEL,
                    tuple(_of_agent(member)),
                    tuple(self._asked_at(path, member.name)),
                )
                for member in members
            ),
            tuple(
                Line(index[one], index[other], label, Style.TALK)
                for one, other, label in _links(team)
            ),
        )


def _control(nodes: Sequence[GraphNode], index: Mapping[int, int]) -> Iterator[Line]:
    for number, node in enumerate(nodes):
        if node.onward is not None:
            yield Line(number, index[node.onward])
        together: dict[int, list[str]] = {}
        for label, target in node.branches.items():
            together.setdefault(target, []).append(label)
        for target, labels in together.items():
            yield Line(number, index[target], ", ".join(labels))


def _data(nodes: Sequence[GraphNode], index: Mapping[int, int]) -> Iterator[Line]:
    """Data edges, those between the same two nodes as one."""
    together: dict[tuple[int, int], list[str]] = {}
    for number, node in enumerate(nodes):
        for feed in node.feeds:
            for source, output in feed.sources:
                if source in index:
                    name = output if output == feed.name else f"{output} → {feed.name}"
                    together.setdefault((index[source], number), []).append(name)
    for (source, target), names in together.items():
        yield Line(source, target, ", ".join(names), Style.DATA)


def _links(team: ManagerWorkers | Swarm) -> Iterator[tuple[str, str, str]]:
    """Who reaches whom, and how."""
    if isinstance(team, ManagerWorkers):
        for worker in team.workers:
            yield team.group_manager.name, worker.name, "task"
        return
    words = {SEND_MESSAGE: "asks", HAND_OFF: "hands over"}
    how = ", ".join(word for way, word in words.items() if way in handing(team))
    pairs = dict.fromkeys((one.name, other.name) for one, other in team.relationships)
    yield from ((one, other, how) for one, other in pairs)


def _notes(node: GraphNode) -> Iterator[str]:
    component = node.component
    match component:
        case LlmNode(llm_config=llm):
            yield from _model(llm)
        case ToolNode(tool=tool):
            yield f"tool {tool.name}"
        case BranchingNode():
            yield f"by {branching_input(node.shape)}"
        case MapNode():
            yield "for each item, in turn"
        case ParallelMapNode():
            yield "for each item, side by side"
        case AgentNode(agent=Agent() | SpecializedAgent() as agent):
            if agent.name != component.name:
                yield f"agent {agent.name}"
            yield from _of_agent(agent)
        case _:
            return


def _of_agent(agent: Component) -> Iterator[str]:
    plain = plain_agent(agent)
    yield from _model(plain.llm_config)
    tools = [tool.name for tool in plain.tools]
    tools += [f"{box.name} (toolbox)" for box in plain.toolboxes]
    if tools:
        yield f"tools {', '.join(tools)}"


def _model(llm: Component) -> Iterator[str]:
    model = getattr(llm, "model_id", "")
    yield f"model {model or llm.name}"
