"""One run: the walk carried out, its state, its position, its stream of events.

The run is one trio task, the only writer of its state and of its events. Everything it
starts lives inside its cancel scope, so that when the scope is left, by the end, an
error, the time-out or a cancellation, nothing of the run is still going on.
"""

from collections.abc import Mapping
from typing import Any

import trio

from heddle.engine.faults import EngineFault, NodeFailed, RunFailed, RunTimedOut, describe
from heddle.engine.graph import GraphNode
from heddle.engine.plan import Plan
from heddle.engine.state import Ran, State, declared_outputs, node_input, start_state
from heddle.engine.walk import Finish, Limits, Visit, next_step, spend_execution
from heddle.engine.work import NodeContext, Pure, Result, RunContext, Services
from heddle.events import FlowCompleted, FlowStarted, NodeCompleted, NodeStarted, Warned
from heddle.events import NodeFailed as NodeFailedEvent
from plugins_host.faults import Fault


class Run:
    """One execution of a plan. `execute` may be called once.

    ``at`` is the node where the run is, for whoever watches it from outside.
    """

    def __init__(self, plan: Plan, services: Services, limits: Limits) -> None:
        self._plan = plan
        self._context = RunContext(services)
        self._report = services.report
        self._limits = limits
        self._state: State = {}
        self._ran = Ran()
        self._spent = 0
        self.at: GraphNode | None = None

    async def execute(self, inputs: Mapping[str, Any]) -> State:
        """Walk from the start to an EndNode and return the flow's outputs.

        Raises:
            RunFailed: A node failed, a limit was reached, or there was no way on.
        """
        graph = self._plan.graph
        self._state = start_state(graph, inputs)
        self._report(FlowStarted())
        for warning in graph.warnings:
            self._report(Warned(str(warning)))
        with trio.move_on_after(self._limits.timeout):
            result = await self._walk()
            self._report(FlowCompleted(result, self._context.usage))
            return result
        at = self.at
        raise RunTimedOut(
            self._limits.timeout,
            where=f"node {at.name!r} ({at.type})" if at else f"flow {graph.name!r}",
        )

    async def _walk(self) -> State:
        nodes = self._plan.graph.nodes
        visit = Visit(self._plan.graph.start)
        while True:
            node = nodes[visit.node]
            self.at = node
            self._spent = spend_execution(self._spent, node, self._limits)
            result = await self._execution(node, visit)
            self._ran.record(node.index, result.output)
            self._state.update(result.output)
            step = next_step(node, result.branch, None)
            if isinstance(step, Finish):
                return self._result(node, result)
            visit = step

    async def _execution(self, node: GraphNode, visit: Visit) -> Result:
        """One attempt at a node, with its events around it."""
        report = self._report
        context = NodeContext(node, visit.attempt, self._context)
        try:
            given = node_input(node, self._state, self._ran)
        except Fault as fault:
            report(NodeStarted(node.name, node.type, dict(self._state), visit.attempt))
            raise self._failed(node, visit, fault) from fault
        report(NodeStarted(node.name, node.type, given, visit.attempt))
        try:
            result = await self._work(context, given)
        except RunFailed:
            raise
        except Fault as fault:
            raise self._failed(node, visit, fault) from fault
        except Exception as bug:
            raise self._failed(node, visit, EngineFault(bug)) from bug
        report(
            NodeCompleted(node.name, node.type, result.output, visit.attempt, context.usage)
        )
        return result

    async def _work(self, context: NodeContext, given: State) -> Result:
        """What the node does, in this run's own task: see docs/design.md, "Tasks"."""
        work = self._plan.work[context.node.index]
        if isinstance(work, Pure):
            # A loop of pure steps must let other runs go on, and be cancellable.
            await trio.lowlevel.checkpoint()
            return work.step(given)
        return await work.execute(given, context)

    def _failed(self, node: GraphNode, visit: Visit, fault: Fault) -> NodeFailed:
        self._report(NodeFailedEvent(node.name, node.type, describe(fault), visit.attempt))
        return NodeFailed(fault, node_name=node.name, node_type=node.type)

    def _result(self, end: GraphNode, result: Result) -> State:
        """The flow's declared outputs; without any, what the EndNode put out."""
        declared = self._plan.graph.outputs
        if not declared:
            return result.output
        found = result.output if end.shape.inputs else {**self._state, **result.output}
        try:
            return declared_outputs(declared, found, of="the flow")
        except Fault as fault:
            raise NodeFailed(fault, node_name=end.name, node_type=end.type) from fault
