"""A document's flows in, graphs out that any number of runs share.

Everything that is wrong with the connections of all its flows is reported at once: starts,
reserved names, and what `Routes` and `Feeding` report.
"""

from typing import Any, Final

import msgspec

from heddle.engine.agents import members_of, prompts_of
from heddle.engine.compiling.declaring import declaration_problems
from heddle.engine.compiling.feeds import Feeding
from heddle.engine.compiling.findings import Findings
from heddle.engine.compiling.http_flaws import request_warnings
from heddle.engine.compiling.inside import problems_inside
from heddle.engine.compiling.retry_flaws import retry_warnings
from heddle.engine.compiling.routes import Routes
from heddle.engine.graph import CHAT_HISTORY, RESERVED, Feed, Graph, GraphNode, wrong_kind
from heddle.engine.shapes import UNKNOWN, Shape, shape_of
from heddle.engine.signatures import end_outputs, flows_in, start_inputs, typed
from heddle.spec import (
    AgentNode,
    Component,
    Document,
    DocumentError,
    EndNode,
    Flow,
    PluginComponent,
    Problem,
    StartNode,
    placeholders,
)


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
    problems = [problem for each in compilers[::-1] for problem in each.findings.problems]
    if problems:
        raise DocumentError(problems, name=name)
    found_twice = (
        warning for each in compilers[::-1] for warning in each.findings.warnings
    )
    # A model or a tool that several nodes share is warned of at each.
    warnings = tuple(dict.fromkeys(found_twice))
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
        self.flow = flow
        self.findings = Findings(document, name)
        self.shapes: list[Shape] = [self._shape(node) for node in flow.nodes]
        self.index = {node.id: number for number, node in enumerate(flow.nodes)}

    def graph(self) -> Graph | None:
        """The graph, or None when ``findings`` has problems."""
        starts = [
            n for n, node in enumerate(self.flow.nodes) if isinstance(node, StartNode)
        ]
        self._check_start(starts)
        self._check_names()
        routes = Routes(self.flow, self.shapes, self.index, self.findings)
        feeding = Feeding(self.flow, self.shapes, self.index, self.findings)
        feeds = feeding.feeds()
        if starts:
            routes.check_reach(starts[0])
            feeding.check_inputs(starts[0])
        feeding.check_results()
        feeding.check_ends()
        for node in self.flow.nodes:
            path = self.document.path_of(node)
            self.findings.problems += declaration_problems(node, path)
            self.findings.problems += problems_inside(node, path)
            self.findings.warnings += request_warnings(node, self.document)
            self.findings.warnings += retry_warnings(node, self.document)
        if self.findings.problems:
            return None
        start = self.flow.nodes[starts[0]]
        assert isinstance(start, StartNode)
        return Graph(
            name=self.flow.name,
            nodes=tuple(
                self._node(number, node, routes, feeds[number])
                for number, node in enumerate(self.flow.nodes)
            ),
            start=starts[0],
            inputs=start_inputs(start, self.flow),
            outputs=self.flow.outputs or (),
            warnings=tuple(self.findings.warnings),
        )

    def _node(self, number: int, node: Any, routes: Routes, feeds: list[Feed]) -> GraphNode:
        return GraphNode(
            index=number,
            name=node.name,
            type=node.component_type,
            component=node,
            shape=self.shapes[number],
            onward=next(iter(routes.unbranched[number]), None),
            branches=routes.branches[number],
            feeds=tuple(feeds),
            converts=not all(map(_is_simple, feeds)),
            is_end=isinstance(node, EndNode),
            is_whole=isinstance(node, EndNode)
            and typed(end_outputs(node)) == typed(self.flow.outputs or ()),
        )

    def _shape(self, node: Component) -> Shape:
        shape = shape_of(node, self.flow)
        if shape is None:
            assert isinstance(node, PluginComponent), "all others are nodes"
            self.findings.problem(node, *wrong_kind(node, "a node"), ".component_type")
            return UNKNOWN
        return shape

    def _check_start(self, starts: list[int]) -> None:
        if not starts:
            self.findings.problem(
                self.flow,
                "the flow has no StartNode",
                "Add one; a flow begins there.",
                ".nodes",
            )
        elif len(starts) > 1:
            listed = ", ".join(repr(self.flow.nodes[n].name) for n in starts)
            self.findings.problem(
                self.flow,
                f"the flow has {len(starts)} StartNodes: {listed}",
                "Keep one.",
                ".nodes",
            )
        elif self.flow.start_node.id != self.flow.nodes[starts[0]].id:
            self.findings.problem(
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
                self.findings.problem(
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
                self.findings.problem(
                    node,
                    f"node {node.name!r} declares {title!r}, and names that begin with "
                    f"{RESERVED!r} are reserved",
                    "Choose another name.",
                )


def _read_by_agents(node: Component, inputs: set[str]) -> set[str]:
    """What the agents of a node read by name; a flow in the place of one is no agent."""
    if not isinstance(node, AgentNode) or isinstance(node.agent, Flow):
        return set()
    prompts = (text for each in members_of(node.agent) for text in prompts_of(each))
    return inputs.union(*map(placeholders, prompts))
