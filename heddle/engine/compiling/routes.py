"""Control edges as look-ups: where each node leads, and whether everything is reached.

Reported are edges that can't be taken, branches without an edge, nodes that nothing leads
to, and ways that end before an EndNode.
"""

from collections.abc import Iterator, Mapping, Sequence

from heddle.engine.compiling.findings import Findings
from heddle.engine.conventions import NEXT
from heddle.engine.shapes import Shape
from heddle.spec import Component, ControlFlowEdge, EndNode, Flow, StartNode
from plugins_host import nearest, one_of


class Routes:
    """The ways of one flow, by the numbers of its nodes.

    ``unbranched`` are the targets of edges without a label, of which the first is taken;
    ``branches`` those of labelled ones.
    """

    def __init__(
        self,
        flow: Flow,
        shapes: Sequence[Shape],
        index: Mapping[str, int],
        findings: Findings,
    ) -> None:
        self.flow = flow
        self.shapes = shapes
        self.index = index
        self.findings = findings
        self.unbranched: list[list[int]] = [[] for _ in flow.nodes]
        self.branches: list[dict[str, int]] = [{} for _ in flow.nodes]
        # Edges that were told to be wrong: where they lead counts as reached, and where
        # they come from as left, so that each mistake is told once.
        self._mistaken: list[list[tuple[int, str]]] = [[] for _ in flow.nodes]
        self._route()

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
                self._mistaken[source].append((target, label))
                self.findings.problem(
                    edge,
                    f"an edge leaves {node.name!r}, which is an EndNode",
                    "A flow ends there: remove the edge.",
                )
            elif isinstance(self.flow.nodes[target], StartNode):
                self._mistaken[source].append((target, label))
                self.findings.problem(
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
                self._mistaken[source].append((target, label))
                self.findings.problem(
                    edge,
                    f"the edge leaves {node.name!r} by branch {label!r}, which it never "
                    "takes",
                    one_of(label, sorted(shape.branches or {NEXT})),
                    ".from_branch",
                )
        for number, shape in enumerate(self.shapes):
            node = self.flow.nodes[number]
            for label in self._missing(number):
                self._missing_branch(node, label, shape)

    def _missing(self, number: int) -> list[str]:
        """The branches of a node that no edge carries, nor was meant to carry."""
        shape = self.shapes[number]
        missing = sorted((shape.branches or frozenset()) - set(self.branches[number]))
        if shape.goes_on and not self.unbranched[number]:
            missing.insert(0, NEXT)
        for _, label in self._mistaken[number]:
            needed = [each for each in missing if each != shape.spare_branch] or missing
            if needed:
                missing.remove(nearest(label, missing) or needed[0])
        return missing

    def _branch(self, source: int, target: int, label: str, edge: Component) -> None:
        if self.branches[source].setdefault(label, target) != target:
            self._mistaken[source].append((target, label))
            self.findings.problem(
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
            self.findings.warn(node, what, fix)
        else:
            self.findings.problem(node, what, fix)

    def _unbranched(self, source: int, target: int, edge: Component) -> None:
        self.unbranched[source].append(target)
        if len(self.unbranched[source]) > 1:
            taken = self.flow.nodes[self.unbranched[source][0]].name
            name = self.flow.nodes[source].name
            self.findings.warn(
                edge,
                f"several unbranched edges leave {name!r}; the first, to {taken!r}, is "
                "the one that is taken",
                "Remove the others, or branch with a BranchingNode.",
            )

    def _targets(self, number: int) -> Iterator[int]:
        yield from self.unbranched[number][:1]
        yield from self.branches[number].values()
        yield from (target for target, _ in self._mistaken[number])

    def check_reach(self, start: int) -> None:
        """Everything is reached, something ends, and nothing stops short of an end."""
        reached = self._reached_from({start})
        lost = [
            number
            for number, node in enumerate(self.flow.nodes)
            if number not in reached and not isinstance(node, StartNode)
        ]
        cut = self._first_of(lost)
        stuck = [
            number
            for number, node in enumerate(self.flow.nodes)
            if number not in cut
            and not isinstance(node, EndNode)
            and not any(True for _ in self._targets(number))
        ]
        told = len(self.findings.problems)
        if len(cut) == len(stuck) == 1 and stuck[0] in reached:
            self._forgotten(stuck[0], *cut)
        else:
            self._unconnected(cut, stuck)
        ends = any(isinstance(self.flow.nodes[number], EndNode) for number in reached)
        if not ends and told == len(self.findings.problems):
            self.findings.problem(
                self.flow, "no EndNode can be reached from the start", "Add one.", ".nodes"
            )

    def _forgotten(self, source: int, target: int) -> None:
        """One edge is missing: what it comes from and where it leads are one mistake."""
        before, after = self.flow.nodes[source], self.flow.nodes[target]
        self.findings.problem(
            before,
            f"the flow cannot go on after {before.name!r}, and nothing leads to "
            f"{after.name!r}",
            f"Add a ControlFlowEdge from {before.name!r} to {after.name!r}.",
        )

    def _unconnected(self, cut: set[int], stuck: Sequence[int]) -> None:
        """Nodes that nothing leads to, and nodes that lead nowhere."""
        for number in sorted({*cut, *stuck}):
            node = self.flow.nodes[number]
            if number in cut:
                self.findings.problem(
                    node,
                    f"no path leads from the start to {node.name!r}",
                    "Connect it, or remove it.",
                )
            else:
                self.findings.problem(
                    node,
                    f"the flow cannot go on after {node.name!r}: no edge leaves it",
                    "Lead an edge from it to the next node or to an EndNode.",
                )

    def _reached_from(self, numbers: set[int]) -> set[int]:
        """These nodes, and all that can come after them."""
        reached, todo = set(numbers), list(numbers)
        while todo:
            for target in self._targets(todo.pop()):
                if target not in reached:
                    reached.add(target)
                    todo.append(target)
        return reached

    def _first_of(self, lost: list[int]) -> set[int]:
        """Those of the unreached nodes that the others would be reached from."""
        led_to = {target for number in lost for target in self._targets(number)}
        first = {number for number in lost if number not in led_to}
        known = self._reached_from(first)
        for number in lost:
            if number not in known:  # nodes that only lead to each other
                first.add(number)
                known |= self._reached_from({number})
        return first
