"""AgentNode: an agent that may call tools, in rounds, until it answers."""

from collections.abc import Awaitable
from typing import TYPE_CHECKING, cast

from heddle.engine.agents import plain_agent
from heddle.engine.earlier import earlier
from heddle.engine.graph import Graph, GraphNode
from heddle.engine.nodes.agent_work import (
    AgentWork,
    Talk,
    as_long_message,
    as_message,
    told,
)
from heddle.engine.state import State
from heddle.engine.work import NodeContext, Result, Waiting
from heddle.spec import AgentNode, ManagerWorkers, Swarm

if TYPE_CHECKING:
    from heddle.engine.tracing import Trace


def agent(node: GraphNode, graph: Graph) -> Waiting:
    """Ask, run the tools asked for, ask again; the first answer without calls is it."""
    component = cast("AgentNode", node.component).agent
    if isinstance(component, (ManagerWorkers, Swarm)):
        # Most agents work alone, and need not load how others do.
        from heddle.engine.nodes.team import team

        return team(component, node.shape.outputs)
    one = AgentWork(plain_agent(component), node.shape.outputs)

    def execute(given: State, context: NodeContext) -> Awaitable[Result]:
        trace = context.run.trace
        return answer(given, context) if trace is None else traced(trace, given, context)

    async def traced(trace: "Trace", given: State, context: NodeContext) -> Result:
        with trace.working(context, component, told(given)) as told_of:
            told_of.output = (await answer(given, context)).output
        return Result(told_of.output)

    async def answer(given: State, context: NodeContext) -> Result:
        before = [*earlier(given), *context.conversation.messages]
        asked = as_message(given) or await as_long_message(given)
        talk = Talk([*before, asked])
        system = await one.system(given, context)
        if one.only_talks:
            # Its model may ask for tools, of which it has none to run.
            output = await one.work(context, system, talk, one.own_tools, None)
        else:
            tools = await one.tools(context)
            async with context.services.tools.workspace() as workspace:
                output = await one.work(context, system, talk, tools, workspace)
        assert output is not None, "it has nobody to hand over to"
        return Result(output)

    return Waiting(execute)
