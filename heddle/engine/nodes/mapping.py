"""MapNode and ParallelMapNode: a flow for each item of a list, its outputs collected."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, cast

from heddle.engine.conventions import COLLECTED, ITERATED
from heddle.engine.earlier import handed_in
from heddle.engine.faults import OutputMismatch, SubflowFailed
from heddle.engine.graph import RESERVED, Graph, GraphNode
from heddle.engine.iteration import Items, hand_out, handed_out
from heddle.engine.line import Line, line_of, open_to, walk_line
from heddle.engine.nodes.flow import checkpoint
from heddle.engine.reducers import OF_NOTHING, reduce
from heddle.engine.shapes import reductions
from heddle.engine.state import State, output_value
from heddle.engine.together import together
from heddle.engine.work import NodeContext, Result, Waiting
from heddle.spec import MapNode, ParallelMapNode, Property, Reduction

if TYPE_CHECKING:
    from heddle.engine.plan import Plan

ITEMS_IN_A_ROW: Final = 16
"""Items after which other runs get a turn, whatever the flow does: some 200 µs of work."""

STEPS_IN_A_ROW: Final = 64
"""The same for flows that only look at their state, by their nodes."""

Runner = Callable[[int, Callable[[int], Awaitable[State]]], Awaitable[list[State]]]


async def _in_turn(count: int, one: Callable[[int], Awaitable[State]]) -> list[State]:
    return [await one(number) for number in range(count)]


def map_in_turn(node: GraphNode, graph: Graph, plans: "tuple[Plan, ...]") -> Waiting:
    """Run the flow for one item after the other."""
    return _map(node, graph, plans[0], _in_turn)


def map_together(node: GraphNode, graph: Graph, plans: "tuple[Plan, ...]") -> Waiting:
    """Run the flow for several items at the same time; the result is in their order."""
    return _map(node, graph, plans[0], together)


def _map(node: GraphNode, graph: Graph, plan: "Plan", run_all: Runner) -> Waiting:
    component = cast("MapNode | ParallelMapNode", node.component)
    handed = handed_out(node, graph, plan.graph.inputs)
    # What a flow declares is checked when it ends: a list of it need not be again.
    checked = not component.outputs and bool(plan.graph.outputs)
    collect = _Collecting(node, reductions(component), checked=checked)
    open_ended = not plan.graph.inputs
    line = line_of(plan)

    async def execute(given: State, context: NodeContext) -> Result:
        carried: State = handed_in(given)
        if open_ended:
            carried.update(
                (key, value)
                for key, value in given.items()
                if not key.startswith((RESERVED, ITERATED))
            )
        from heddle.long_work import bounded

        items: Items = await bounded(lambda: hand_out(handed, given, carried))
        await checkpoint()

        async def one(index: int) -> State:
            try:
                ended = await context.enter(plan, items.item(index), index)
            except SubflowFailed as failed:
                raise SubflowFailed(failed.inside, f"item {index}") from failed.inside
            # After it, for items begin in their order.
            if index % ITEMS_IN_A_ROW == ITEMS_IN_A_ROW - 1:
                await checkpoint()
            return ended.output

        if line is not None and open_to(context.run):
            results = await _along(line, items, context)
        else:
            results = await run_all(items.length, one)
        return Result(await bounded(lambda: collect(results)))

    return Waiting(execute)


async def _along(line: Line, items: Items, context: NodeContext) -> list[State]:
    """One item after the other also where they may go side by side: none waits."""
    in_a_row = max(1, STEPS_IN_A_ROW // len(line.steps))
    results = []
    for index in range(items.length):
        if index % in_a_row == 0:
            await checkpoint()
        results.append(walk_line(line, items.item(index), context, index))
    context.run.at = context.node
    return results


class _Collecting:
    """From what the items gave to what the node gives."""

    def __init__(
        self, node: GraphNode, reducers: dict[str, Reduction], *, checked: bool
    ) -> None:
        self._checked = checked
        declared = {each.title: each for each in node.shape.outputs}
        self._wanted: list[tuple[str, Reduction, Property]] = [
            (name, reduction, declared[COLLECTED + name])
            for name, reduction in reducers.items()
            if COLLECTED + name in declared
        ]

    def __call__(self, results: list[State]) -> State:
        """Raises `OutputMismatch` for what can't be collected."""
        output: dict[str, Any] = {}
        for name, reduction, declared in self._wanted:
            if not results and declared.has_default and reduction not in OF_NOTHING:
                output[declared.title] = declared.default
                continue
            value = reduce(
                reduction,
                [_found(each, name, n) for n, each in enumerate(results)],
                name=name,
            )
            if not (self._checked and reduction == "append"):
                value = output_value(declared, value, of="the node")
            output[declared.title] = value
        return output


def _found(result: State, name: str, index: int) -> Any:
    if name not in result:
        raise OutputMismatch(
            f"item {index} gave no {name!r}",
            fix="Have every EndNode of the flow return it, or give it a default.",
        )
    return result[name]
