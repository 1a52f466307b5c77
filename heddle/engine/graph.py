"""A flow compiled: nodes by number, edges as look-ups, data feeds resolved; immutable.

`compile_graph` turns a document's flow into a `Graph` that any number of runs share, or
reports everything that is wrong with its connections at once: starts, dead ends,
unreachable nodes, branches without an edge, edges that can't be taken, data edges that
read or write what isn't there or can't be converted, and reserved names.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from heddle.engine.agents import members_of, prompts_of
from heddle.engine.http_flaws import request_warnings
from heddle.engine.inside import problems_inside
from heddle.engine.shapes import (
    NEXT,
    SHAPES,
    UNKNOWN,
    Properties,
    Shape,
    end_outputs,
    flows_in,
    shape_of,
    start_inputs,
    type_text,
    typed,
)
from heddle.spec import (
    MAX_PROBLEMS,
    AgentNode,
    Component,
    ControlFlowEdge,
    DataFlowEdge,
    Document,
    DocumentError,
    EndNode,
    Flow,
    PluginComponent,
    Problem,
    Property,
    StartNode,
    is_subtype,
    placeholders,
)
from plugins_host import one_of

RESERVED: Final = "_"
"""First character of the state keys that heddle keeps for itself."""

CHAT_HISTORY: Final = "_chat_history"
"""The state key of the turns before a run; the one reserved name that may be an input."""


class Feed(Struct, frozen=True):
    """How one input of a node gets its value.

    ``sources`` are (node, output) pairs of data edges; the one executed last wins. With
    none, the value is the carried state's of that name. ``schema`` is the type to
    convert to, None for any. ``required`` inputs fail the node when there is no value.
    """

    name: str
    sources: tuple[tuple[int, str], ...]
    schema: Mapping[str, Any] | None
    default: Any | UnsetType
    required: bool


class GraphNode(Struct, frozen=True):
    """A node with everything about its place in the flow.

    ``onward`` is where the unbranched edge leads, ``branches`` where labelled ones do.
    ``converts`` is whether what it is given has to be looked through to be converted,
    ``is_whole`` whether what an EndNode puts out is all that the flow returns.
    """

    index: int
    name: str
    type: str
    component: Component
    shape: Shape
    onward: int | None
    branches: Mapping[str, int]
    feeds: tuple[Feed, ...]
    converts: bool
    is_end: bool
    is_whole: bool


class Graph(Struct, frozen=True):
    """A whole flow. ``inputs`` are what a run must bring, ``outputs`` what it returns."""

    name: str
    nodes: tuple[GraphNode, ...]
    start: int
    inputs: Properties
    outputs: Properties
    warnings: tuple[Problem, ...] = ()


def compile_graph(document: Document, *, name: str = "document") -> Graph:
    """Compile the document's flow; ``name`` is what errors call the document.

    Raises:
        DocumentError: With every problem of its connections, and of flows inside it.
    """
    return compile_graphs(document, name=name)[document.root]


def compile_graphs(document: Document, *, name: str = "document") -> dict[Component, Graph]:
    """Compile the document's flow and each flow that it runs inside, each once.

    Returns:
        The graphs by their flows, inner ones before those that contain them. That of the
        document has the warnings of all.

    Raises:
        DocumentError: With every problem of their connections.
    """
    root = document.root
    if not isinstance(root, Flow):
        raise DocumentError(
            [
                Problem(
                    "$.component_type",
                    f"the document is of type {root.component_type}, and what runs is a "
                    "Flow or an Agent",
                    "Put it into a node of a Flow.",
                )
            ],
            name=name,
        )
    flows = _flows_run_by(root, document)
    compilers = [_Compiler(document, flow, name) for flow in flows]
    graphs = {each.flow: each.graph() for each in compilers}
    problems = [problem for each in compilers[::-1] for problem in each.problems]
    if problems:
        raise DocumentError(problems, name=name)
    warnings = tuple(warning for each in compilers[::-1] for warning in each.warnings)
    found: dict[Component, Graph] = {
        flow: graph for flow, graph in graphs.items() if graph is not None
    }
    found[root] = msgspec.structs.replace(found[root], warnings=warnings)
    return found


def _flows_run_by(root: Flow, document: Document) -> list[Flow]:
    """The flow and those inside it, each once, inner ones first.

    None contains itself, and the levels are bounded: the reader sees to that.
    """
    reached: set[Component] = {root}
    todo = [root]
    while todo:
        for node in todo.pop().nodes:
            for flow in flows_in(node) or ():
                if isinstance(flow, Flow) and flow not in reached:
                    reached.add(flow)
                    todo.append(flow)
    return [
        each for each in document.components() if each in reached and isinstance(each, Flow)
    ]


_SIMPLE: Final = frozenset(("string", "integer", "number", "boolean", "null"))


def _is_simple(feed: Feed) -> bool:
    """Whether a value of it is converted without looking inside."""
    schema = feed.schema
    if schema is None or not {"$ref", "anyOf", "oneOf"}.isdisjoint(schema):
        return schema is None
    kind = schema.get("type")
    return kind is None or (isinstance(kind, str) and kind in _SIMPLE)


class _Compiler:
    """One compilation: look-ups made once, problems gathered as they are met."""

    def __init__(self, document: Document, flow: Flow, name: str) -> None:
        self.document = document
        self.name = name
        self.flow = flow
        self.problems: list[Problem] = []
        # By identity: shapes live as long as the compilation.
        self._by_title: dict[int, Mapping[str, Property]] = {}
        self.warnings: list[Problem] = []
        self.shapes: list[Shape] = [self._shape(node) for node in flow.nodes]
        self.index = {node.id: number for number, node in enumerate(flow.nodes)}
        self.unbranched: list[list[int]] = [[] for _ in flow.nodes]
        self.branches: list[dict[str, int]] = [{} for _ in flow.nodes]

    def graph(self) -> Graph | None:
        """The graph, or None when ``problems`` has some."""
        starts = [
            n for n, node in enumerate(self.flow.nodes) if isinstance(node, StartNode)
        ]
        self._check_start(starts)
        self._check_names()
        self._route()
        feeds = self._feeds()
        if starts:
            self._check_reach(starts[0])
            self._check_inputs(starts[0])
        self._check_results()
        self._check_ends()
        for node in self.flow.nodes:
            self.problems += problems_inside(node, self.document.path_of(node))
            self.warnings += request_warnings(node, self.document)
        if self.problems:
            return None
        start = self.flow.nodes[starts[0]]
        assert isinstance(start, StartNode)
        return Graph(
            name=self.flow.name,
            nodes=tuple(
                GraphNode(
                    index=number,
                    name=node.name,
                    type=node.component_type,
                    component=node,
                    shape=self.shapes[number],
                    onward=next(iter(self.unbranched[number]), None),
                    branches=self.branches[number],
                    feeds=tuple(feeds[number]),
                    converts=not all(map(_is_simple, feeds[number])),
                    is_end=isinstance(node, EndNode),
                    is_whole=isinstance(node, EndNode)
                    and typed(end_outputs(node)) == typed(self.flow.outputs or ()),
                )
                for number, node in enumerate(self.flow.nodes)
            ),
            start=starts[0],
            inputs=start_inputs(start, self.flow),
            outputs=self.flow.outputs or (),
            warnings=tuple(self.warnings),
        )

    # -- what is reported where ------------------------------------------------------

    def _problem(
        self, component: Component, what: str, fix: str = "", tail: str = ""
    ) -> None:
        self.problems.append(Problem(self.document.path_of(component) + tail, what, fix))
        if len(self.problems) >= MAX_PROBLEMS:
            raise DocumentError(self.problems, name=self.name)

    def _shape(self, node: Component) -> Shape:
        shape = shape_of(node, self.flow)
        if shape is None:
            assert isinstance(node, PluginComponent), "all others are nodes"
            self._problem(node, *wrong_kind(node, "a node"), ".component_type")
            return UNKNOWN
        return shape

    # -- nodes and control edges -----------------------------------------------------

    def _check_start(self, starts: list[int]) -> None:
        if not starts:
            self._problem(
                self.flow,
                "the flow has no StartNode",
                "Add one; a flow begins there.",
                ".nodes",
            )
        elif len(starts) > 1:
            listed = ", ".join(repr(self.flow.nodes[n].name) for n in starts)
            self._problem(
                self.flow,
                f"the flow has {len(starts)} StartNodes: {listed}",
                "Keep one.",
                ".nodes",
            )
        elif self.flow.start_node.id != self.flow.nodes[starts[0]].id:
            self._problem(
                self.flow,
                f"start_node is {self.flow.start_node.name!r}, which is not the flow's "
                "StartNode",
                f"Name {self.flow.nodes[starts[0]].name!r} there.",
                ".start_node",
            )

    def _check_names(self) -> None:
        """State keys that begin with an underscore are heddle's own."""
        for node, shape in zip(self.flow.nodes, self.shapes, strict=True):
            reads = {each.title for each in shape.inputs}
            writes = {each.title for each in shape.outputs}
            if CHAT_HISTORY in _read_by_agents(node, reads):
                # As messages and in its prompt, it would be sent each of them twice.
                self._problem(
                    node,
                    f"node {node.name!r} names {CHAT_HISTORY!r}, and an agent is sent the "
                    "turns before as messages",
                    "Leave it out of the prompt and the inputs.",
                )
            reads.discard(CHAT_HISTORY)
            if isinstance(node, StartNode):
                writes.discard(CHAT_HISTORY)
            declared = reads | writes
            for title in sorted(each for each in declared if each.startswith(RESERVED)):
                self._problem(
                    node,
                    f"node {node.name!r} declares {title!r}, and names that begin with "
                    f"{RESERVED!r} are reserved",
                    "Choose another name.",
                )

    def _route(self) -> None:
        """Fill the look-ups of control edges, and refuse those that can't be taken."""
        for edge in self.flow.control_flow_connections:
            if not isinstance(edge, ControlFlowEdge):
                continue  # a plugin's edge: refused as a component that does not run
            source = self.index.get(edge.from_node.id)
            target = self.index.get(edge.to_node.id)
            if source is None or target is None:
                continue  # the document check has told it
            node, shape = self.flow.nodes[source], self.shapes[source]
            label = NEXT if edge.from_branch is None else edge.from_branch
            if isinstance(node, EndNode):
                self._problem(
                    edge,
                    f"an edge leaves {node.name!r}, which is an EndNode",
                    "A flow ends there: remove the edge.",
                )
            elif isinstance(self.flow.nodes[target], StartNode):
                self._problem(
                    edge,
                    f"an edge leads to {self.flow.nodes[target].name!r}, the StartNode",
                    "Lead it to the node after the start.",
                )
            elif label in (shape.branches or ()):
                self._branch(source, target, label, edge)
            elif label == NEXT:
                self._unbranched(source, target, edge)
            elif shape.branches is None:
                self._branch(source, target, label, edge)
            else:
                self._problem(
                    edge,
                    f"the edge leaves {node.name!r} by branch {label!r}, which it never "
                    "takes",
                    one_of(label, sorted(shape.branches or {NEXT})),
                    ".from_branch",
                )
        for number, shape in enumerate(self.shapes):
            node = self.flow.nodes[number]
            if shape.goes_on and not self.unbranched[number]:
                self._missing_branch(node, NEXT, shape)
            for label in sorted(
                (shape.branches or frozenset()) - set(self.branches[number])
            ):
                self._missing_branch(node, label, shape)

    def _branch(self, source: int, target: int, label: str, edge: Component) -> None:
        if self.branches[source].setdefault(label, target) != target:
            self._problem(
                edge,
                f"two edges leave {self.flow.nodes[source].name!r} by branch {label!r}",
                "Keep one: a branch leads to one node.",
            )

    def _missing_branch(self, node: Component, label: str, shape: Shape) -> None:
        """A branch that no edge carries; the spare one may never be taken."""
        what = f"no edge leaves {node.name!r} by its branch {label!r}"
        fix = f'Add a ControlFlowEdge with "from_branch": "{label}".'
        if label == shape.spare_branch:
            what += ", so a value that is not mapped ends the run with an error"
            self.warnings.append(Problem(self.document.path_of(node), what, fix))
        else:
            self._problem(node, what, fix)

    def _unbranched(self, source: int, target: int, edge: Component) -> None:
        self.unbranched[source].append(target)
        if len(self.unbranched[source]) > 1:
            taken = self.flow.nodes[self.unbranched[source][0]].name
            name = self.flow.nodes[source].name
            self.warnings.append(
                Problem(
                    self.document.path_of(edge),
                    f"several unbranched edges leave {name!r}; the first, to {taken!r}, is "
                    "the one that is taken",
                    "Remove the others, or branch with a BranchingNode.",
                )
            )

    def _targets(self, number: int) -> Iterator[int]:
        yield from self.unbranched[number][:1]
        yield from self.branches[number].values()

    def _check_reach(self, start: int) -> None:
        """Everything is reached, something ends, and nothing stops short of an end."""
        reached = {start}
        todo = [start]
        while todo:
            for target in self._targets(todo.pop()):
                if target not in reached:
                    reached.add(target)
                    todo.append(target)
        for number, node in enumerate(self.flow.nodes):
            if number not in reached and not isinstance(node, StartNode):
                self._problem(
                    node,
                    f"no path leads from the start to {node.name!r}",
                    "Connect it, or remove it.",
                )
            elif not isinstance(node, EndNode) and not any(
                True for _ in self._targets(number)
            ):
                self._problem(
                    node,
                    f"the flow cannot go on after {node.name!r}: no edge leaves it",
                    "Lead an edge from it to the next node or to an EndNode.",
                )
        if not any(isinstance(self.flow.nodes[number], EndNode) for number in reached):
            self._problem(
                self.flow, "no EndNode can be reached from the start", "Add one.", ".nodes"
            )

    # -- data edges ------------------------------------------------------------------

    def _feeds(self) -> list[list[Feed]]:
        wired: list[dict[str, list[tuple[int, str]]]] = [{} for _ in self.flow.nodes]
        for edge in self.flow.data_flow_connections or ():
            if not isinstance(edge, DataFlowEdge):
                continue
            source = self.index.get(edge.source_node.id)
            target = self.index.get(edge.destination_node.id)
            if source is None or target is None:
                continue  # the document check has told it
            self._check_data_edge(edge, source, target)
            pairs = wired[target].setdefault(edge.destination_input, [])
            pairs.append((source, edge.source_output))
        return [self._node_feeds(number, pairs) for number, pairs in enumerate(wired)]

    def _node_feeds(
        self, number: int, wired: Mapping[str, list[tuple[int, str]]]
    ) -> list[Feed]:
        declared = {each.title: each for each in self.shapes[number].inputs}
        converts = not self.shapes[number].converts_itself
        defaults = {}
        if isinstance(self.flow.nodes[number], EndNode):
            # An EndNode that was not given one of the flow's outputs returns the
            # flow's default for it.
            defaults = {
                each.title: each.default
                for each in self.flow.outputs or ()
                if each.has_default
            }
        feeds = []
        for name in [*declared, *(each for each in wired if each not in declared)]:
            known = declared.get(name)
            default = defaults.get(name, UNSET)
            if known is not None and known.has_default:
                default = known.default
            feeds.append(
                Feed(
                    name=name,
                    sources=tuple(wired.get(name, ())),
                    schema=None if known is None or not converts else known.schema,
                    default=default,
                    required=name in wired,
                )
            )
        return feeds

    def _check_data_edge(self, edge: Any, source: int, target: int) -> None:
        origin, reader = self.flow.nodes[source], self.flow.nodes[target]
        gives, takes = self.shapes[source].gives, self.shapes[target].takes
        output, name = edge.source_output, edge.destination_input
        if type(origin) not in SHAPES or type(reader) not in SHAPES:
            return  # already refused for what they are
        if gives is not None and output not in gives:
            self._problem(
                edge,
                f"{origin.name!r} has no output {output!r}",
                one_of(output, sorted(gives)),
                ".source_output",
            )
            return
        if takes is not None and name not in takes:
            self._problem(
                edge,
                f"{reader.name!r} has no input {name!r}",
                one_of(name, sorted(takes)),
                ".destination_input",
            )
            return
        given = self._titled(self.shapes[source].outputs).get(output)
        wanted = self._titled(self.shapes[target].inputs).get(name)
        if given and wanted and not is_subtype(given.schema, wanted.schema):
            self._problem(
                edge,
                f"{origin.name!r} gives {output!r} as {type_text(given.schema)}, which "
                f"cannot become the {type_text(wanted.schema)} that input {name!r} of "
                f"{reader.name!r} declares",
                "Change one of the two types.",
            )

    def _titled(self, properties: Properties) -> Mapping[str, Property]:
        """The properties of a shape by title, put together once."""
        found = self._by_title.get(id(properties))
        if found is None:
            found = {each.title: each for each in reversed(properties)}
            self._by_title[id(properties)] = found
        return found

    def _check_inputs(self, start: int) -> None:
        """Where the flow's inputs are written twice, both should say the same."""
        node = self.flow.nodes[start]
        assert isinstance(node, StartNode)
        lists = {
            "the flow's inputs": self.flow.inputs,
            f"the inputs of {node.name!r}": node.inputs,
            f"the outputs of {node.name!r}": node.outputs,
        }
        (first, taken), *others = [each for each in lists.items() if each[1]] or [("", ())]
        for other, repeated in others:
            if typed(taken or ()) != typed(repeated or ()):
                what = f"{first} and {other} are not the same, and {first} count"
                fix = "List the same names and types."
                self.warnings.append(Problem(self.document.path_of(node), what, fix))

    def _check_results(self) -> None:
        """Each declared output of the flow comes from every EndNode or has a default."""
        for output in self.flow.outputs or ():
            if output.has_default:
                continue
            for node, shape in zip(self.flow.nodes, self.shapes, strict=True):
                if isinstance(node, EndNode):
                    self._check_result(output, node, shape)

    def _check_ends(self) -> None:
        """What two EndNodes return under one name is of one type."""
        first: dict[str, tuple[EndNode, Property]] = {}
        for node, shape in zip(self.flow.nodes, self.shapes, strict=True):
            if not isinstance(node, EndNode):
                continue
            for output in shape.inputs:
                other, known = first.setdefault(output.title, (node, output))
                if typed((known,)) != typed((output,)):
                    self._problem(
                        node,
                        f"EndNode {node.name!r} returns {output.title!r} as "
                        f"{type_text(output.schema)}, and {other.name!r} returns it as "
                        f"{type_text(known.schema)}",
                        "Declare one type for a name, or use two names.",
                    )

    def _check_result(self, output: Property, end: EndNode, shape: Shape) -> None:
        returned = self._titled(shape.inputs).get(output.title)
        if returned is not None and not is_subtype(returned.schema, output.schema):
            self._problem(
                end,
                f"the flow declares output {output.title!r} as {type_text(output.schema)}, "
                f"and EndNode {end.name!r} returns it as {type_text(returned.schema)}",
                "Declare the same type in both places.",
            )
        elif shape.takes is not None and output.title not in shape.takes:
            self._problem(
                end,
                f"the flow declares output {output.title!r}, and EndNode {end.name!r} does "
                "not return it",
                "Add it to the EndNode, or give the flow's output a default.",
            )


def wrong_kind(component: PluginComponent, wanted: str) -> tuple[str, str]:
    """What is wrong with a plugin's component where another kind belongs; what to do."""
    kind = KIND_NAMES.get(component.provided.kind, "something else")
    what = (
        f"{component.name!r} is of type {component.type_name}, {kind} of plugin "
        f"{component.provided.plugin!r}, where {wanted} belongs"
    )
    return what, f"Name {wanted} here."


KIND_NAMES: Final[Mapping[str, str]] = {
    "node": "a node",
    "transform": "a transform",
    "component": "plain configuration",
    "provider": "an LLM configuration",
}


def branching_input(shape: Shape) -> str:
    """The name of the one input that a BranchingNode decides by."""
    if shape.inputs:
        return shape.inputs[0].title
    assert shape.takes
    return next(iter(shape.takes))


def _read_by_agents(node: Component, inputs: set[str]) -> set[str]:
    """What the agents of a node read by name; a flow in the place of one is no agent."""
    if not isinstance(node, AgentNode) or isinstance(node.agent, Flow):
        return set()
    prompts = (text for each in members_of(node.agent) for text in prompts_of(each))
    return inputs.union(*map(placeholders, prompts))
