"""Data edges resolved: what feeds each input, and whether what is given can be taken.

Reported are edges that read or write what isn't there or can't be converted, and results
that the flow declares and an EndNode doesn't return.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import UNSET

from heddle.engine.compiling.findings import Findings
from heddle.engine.graph import Feed
from heddle.engine.shapes import SHAPES, Shape
from heddle.engine.signatures import Properties, type_text, typed
from heddle.engine.state import plain_type
from heddle.spec import DataFlowEdge, EndNode, Flow, Property, StartNode, is_subtype
from plugins_host import one_of


class Feeding:
    """What goes into and comes out of the nodes of one flow."""

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
        # By identity: shapes live as long as the compilation.
        self._by_title: dict[int, Mapping[str, Property]] = {}

    def feeds(self) -> list[list[Feed]]:
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
                    plain=None if known is None else plain_type(known.schema),
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
            self.findings.problem(
                edge,
                f"{origin.name!r} has no output {output!r}",
                one_of(output, sorted(gives)),
                ".source_output",
            )
            return
        if takes is not None and name not in takes:
            self.findings.problem(
                edge,
                f"{reader.name!r} has no input {name!r}",
                one_of(name, sorted(takes)),
                ".destination_input",
            )
            return
        given = self._titled(self.shapes[source].outputs).get(output)
        wanted = self._titled(self.shapes[target].inputs).get(name)
        if given and wanted and not is_subtype(given.schema, wanted.schema):
            self.findings.problem(
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

    def check_inputs(self, start: int) -> None:
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
                self.findings.warn(node, what, fix)

    def check_results(self) -> None:
        """Each declared output of the flow comes from every EndNode or has a default."""
        for output in self.flow.outputs or ():
            if output.has_default:
                continue
            for node, shape in zip(self.flow.nodes, self.shapes, strict=True):
                if isinstance(node, EndNode):
                    self._check_result(output, node, shape)

    def check_ends(self) -> None:
        """What two EndNodes return under one name is of one type."""
        first: dict[str, tuple[EndNode, Property]] = {}
        for node, shape in zip(self.flow.nodes, self.shapes, strict=True):
            if not isinstance(node, EndNode):
                continue
            if node.inputs and node.outputs and typed(node.inputs) != typed(node.outputs):
                what = f"the inputs and the outputs of {node.name!r} are not the same, and "
                self.findings.warn(
                    node, f"{what}the outputs count", "List the same names and types."
                )
            for output in shape.inputs:
                other, known = first.setdefault(output.title, (node, output))
                if typed((known,)) != typed((output,)):
                    self.findings.problem(
                        node,
                        f"EndNode {node.name!r} returns {output.title!r} as "
                        f"{type_text(output.schema)}, and {other.name!r} returns it as "
                        f"{type_text(known.schema)}",
                        "Declare one type for a name, or use two names.",
                    )

    def _check_result(self, output: Property, end: EndNode, shape: Shape) -> None:
        returned = self._titled(shape.inputs).get(output.title)
        if returned is not None and not is_subtype(returned.schema, output.schema):
            self.findings.problem(
                end,
                f"the flow declares output {output.title!r} as {type_text(output.schema)}, "
                f"and EndNode {end.name!r} returns it as {type_text(returned.schema)}",
                "Declare the same type in both places.",
            )
        elif shape.takes is not None and output.title not in shape.takes:
            self.findings.problem(
                end,
                f"the flow declares output {output.title!r}, and EndNode {end.name!r} does "
                "not return it",
                "Add it to the EndNode, or give the flow's output a default.",
            )
