"""ParallelFlowNode: several flows at once, then on with what all of them gave."""

from typing import TYPE_CHECKING, Any, cast

from heddle.engine.faults import OutputMismatch, SubflowFailed
from heddle.engine.graph import Graph, GraphNode
from heddle.engine.nodes.flow import checkpoint, entering
from heddle.engine.signatures import flow_outputs, typed
from heddle.engine.state import State, declared_outputs
from heddle.engine.together import together
from heddle.engine.work import NodeContext, Result, Waiting
from heddle.spec import Flow, ParallelFlowNode

if TYPE_CHECKING:
    from heddle.engine.plan import Plan


def parallel(node: GraphNode, graph: Graph, plans: "tuple[Plan, ...]") -> Waiting:
    """Run all flows side by side, with the inputs that each declares.

    Of a flow that declares no outputs, what it added to its state or changed in it counts.
    """
    component = cast("ParallelFlowNode", node.component)
    flows = [cast("Flow", each) for each in component.subflows]
    every = tuple(each for one in flows for each in flow_outputs(one))
    declared = component.outputs or ()
    narrowed = declared if typed(declared) != typed(every) else ()

    async def execute(given: State, context: NodeContext) -> Result:
        await checkpoint()

        async def one(number: int) -> State:
            plan = plans[number]
            began = entering(plan, given)
            try:
                ended = await context.enter(plan, dict(began), number)
            except SubflowFailed as failed:
                of = f"flow {flows[number].name!r}"
                raise SubflowFailed(failed.inside, of) from failed.inside
            if flow_outputs(flows[number]):
                return ended.output
            return _added(ended.output, began)

        results = await together(len(plans), one)
        output: State = {}
        givers: dict[str, int] = {}
        for number, each in enumerate(results):
            for name in each:
                first = givers.setdefault(name, number)
                if first != number:
                    raise OutputMismatch(
                        f"flow {flows[number].name!r} gave {name!r}, and so did flow "
                        f"{flows[first].name!r}",
                        fix="Declare the outputs of both, under different names.",
                    )
            output.update(each)
        if narrowed:
            from heddle.long_work import bounded

            every_one, of = output, "the flows"
            output = await bounded(lambda: declared_outputs(narrowed, every_one, of=of))
        return Result(output)

    return Waiting(execute)


_ABSENT: Any = object()


def _added(ended: State, began: State) -> State:
    return {
        name: value
        for name, value in ended.items()
        if began.get(name, _ABSENT) is not value and began.get(name, _ABSENT) != value
    }
