"""Nodes that run one flow: FlowNode, a flow in an AgentNode, CatchExceptionNode.

A flow that declares its inputs is given those and no others; one that declares none is
given the whole state. In the same way it gives what it declares, or its state.
"""

from typing import TYPE_CHECKING, Final, cast

from heddle.engine.conventions import CAUGHT_BRANCH, CAUGHT_INFO
from heddle.engine.earlier import handed_in
from heddle.engine.faults import EngineFault, NodeFailed, SubflowFailed
from heddle.engine.graph import RESERVED, Graph, GraphNode
from heddle.engine.signatures import Properties, flow_outputs, typed
from heddle.engine.state import State, declared_outputs
from heddle.engine.work import Conversation, Ended, NodeContext, Result, Waiting
from heddle.spec import AgentNode, CatchExceptionNode, Flow, FlowNode

if TYPE_CHECKING:
    from heddle.engine.plan import Plan

INFO_LENGTH: Final = 200
"""Characters of what is told about a caught failure: enough to say what failed where."""


def entering(plan: "Plan", given: State) -> State:
    """What a flow is given of a node's input, in the same conversation."""
    return {**_entering_alone(plan, given), **handed_in(given)}


def _entering_alone(plan: "Plan", given: State) -> State:
    wanted = plan.graph.inputs
    if not wanted:
        return {key: given[key] for key in given if not key.startswith(RESERVED)}
    return {each.title: given[each.title] for each in wanted if each.title in given}


class Leaving:
    """What a node gives of what its flow returned: as the node declares it, if it does."""

    def __init__(self, declared: Properties | None, plan: "Plan", flow: Flow) -> None:
        same = typed(declared or ()) == typed(flow_outputs(flow))
        self._declared = () if same else declared or ()
        self._of = f"flow {plan.graph.name!r}"

    async def outputs(self, ended: Ended) -> State:
        """Raises `OutputMismatch` for what the flow did not return."""
        declared, found = self._declared, ended.output
        if not declared:
            return found
        from heddle.long_work import bounded

        return await bounded(lambda: declared_outputs(declared, found, of=self._of))


def flow(node: GraphNode, graph: Graph, plans: "tuple[Plan, ...]") -> Waiting:
    """Run the flow as a step of this one; its EndNode says by which branch to go on."""
    (plan,) = plans
    component = cast("FlowNode", node.component)
    leaving = Leaving(component.outputs, plan, cast("Flow", component.subflow))

    async def execute(given: State, context: NodeContext) -> Result:
        await checkpoint()
        ended = await context.enter(plan, entering(plan, given))
        return Result(await leaving.outputs(ended), ended.branch)

    return Waiting(execute)


def flow_as_agent(node: GraphNode, graph: Graph, plans: "tuple[Plan, ...]") -> Waiting:
    """Run the flow in a conversation of its own; how it ends plays no part."""
    (plan,) = plans
    component = cast("AgentNode", node.component)
    leaving = Leaving(component.outputs, plan, cast("Flow", component.agent))

    async def execute(given: State, context: NodeContext) -> Result:
        await checkpoint()
        own = Conversation()
        began = _entering_alone(plan, given)
        ended = await context.enter(plan, began, conversation=own)
        return Result(await leaving.outputs(ended))

    return Waiting(execute)


def catch(node: GraphNode, graph: Graph, plans: "tuple[Plan, ...]") -> Waiting:
    """Run the flow; when a node of it fails, give defaults and take a branch of its own.

    What ends the run is not caught: a policy, a limit, a cancellation, a bug of heddle.
    """
    (plan,) = plans
    component = cast("CatchExceptionNode", node.component)
    declared = tuple(each for each in component.outputs or () if each.title != CAUGHT_INFO)
    leaving = Leaving(declared, plan, cast("Flow", component.subflow))
    defaults = {each.title: each.default for each in node.shape.outputs}

    async def execute(given: State, context: NodeContext) -> Result:
        await checkpoint()
        try:
            ended = await context.enter(plan, entering(plan, given))
        except SubflowFailed as failed:
            first = failed.innermost
            if isinstance(first, NodeFailed) and isinstance(first.cause, EngineFault):
                raise
            context.discard_text()
            return Result({**defaults, CAUGHT_INFO: caught_info(failed)}, CAUGHT_BRANCH)
        return Result({**await leaving.outputs(ended), CAUGHT_INFO: None}, ended.branch)

    return Waiting(execute)


def caught_info(failed: SubflowFailed) -> str:
    """What failed and where, in the words of the document and of heddle alone.

    Messages of errors stay out: they quote what programs and providers wrote, and this
    text goes on into prompts and answers.
    """
    first = failed.innermost
    if isinstance(first, NodeFailed):
        told = f"{first.error.name} in node {first.node_name!r} ({first.node_type})"
    else:
        told = f"{type(first).__name__} in the flow"
    return told if len(told) <= INFO_LENGTH else f"{told[: INFO_LENGTH - 1]}…"


async def checkpoint() -> None:
    """Let other runs go on: a flow of two pure nodes would not."""
    import trio

    await trio.lowlevel.checkpoint()
