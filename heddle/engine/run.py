"""One run: the walk carried out, its state, its position, its stream of events.

The run is one trio task, the only writer of its state and of its events. Everything it
starts lives inside its cancel scope, so that when the scope is left, by the end, an
error, the time-out or a cancellation, nothing of the run is still going on.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from heddle.engine.decisions import Again, Substitute
from heddle.engine.faults import (
    EngineFault,
    InputMismatch,
    InputMissing,
    NodeFailed,
    RunFailed,
    RunTimedOut,
    StartRefused,
    describe,
)
from heddle.engine.graph import GraphNode
from heddle.engine.plan import Plan
from heddle.engine.state import Ran, State, declared_outputs, node_input, start_state
from heddle.engine.walk import (
    Finish,
    Limits,
    RetryRefused,
    Visit,
    next_step,
    retry,
    spend_execution,
)
from heddle.engine.work import NodeContext, Pure, Result, RunContext, Services
from heddle.events import FlowCompleted, FlowStarted, NodeCompleted, NodeStarted, Warned
from heddle.events import NodeFailed as NodeFailedEvent
from heddle.long_work import bounded
from plugins_host import Fault

if TYPE_CHECKING:
    from heddle.engine.gate import Gate


class _Settled(NamedTuple):
    """What an execution came to. ``replaced_by`` is the policy that supplied it."""

    output: State
    branch: str | None = None
    replaced_by: str | None = None


class Run:
    """One execution of a plan. `execute` may be called once.

    ``at`` is the node where the run is, for whoever watches it from outside, and
    ``executions`` how many executions of nodes it has begun.
    """

    def __init__(self, plan: Plan, services: Services, limits: Limits) -> None:
        self._plan = plan
        policies = services.policies
        gate = None if policies is None else policies.gate(limits.max_node_attempts)
        self._context = RunContext(services, gate)
        self._report = services.report
        self._limits = limits
        self._state: State = {}
        self._ran = Ran()
        self.executions = 0
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
        number = self._plan.graph.start
        while True:
            node = nodes[number]
            self.at = node
            settled = await self._arrival(node)
            self._ran.record(node.index, settled.output)
            self._state.update(settled.output)
            step = next_step(node, settled.branch, settled.replaced_by)
            if isinstance(step, Finish):
                return await self._result(node, settled.output)
            number = step.node

    async def _arrival(self, node: GraphNode) -> "_Settled":
        """Execute a node until an execution settles; policies may have it tried again."""
        visit = Visit(node.index)
        while True:
            self.executions = spend_execution(self.executions, node, self._limits)
            context = NodeContext(node, visit.attempt, self._context)
            outcome = await self._execution(context, visit)
            if isinstance(outcome, Again):
                if outcome.delay:
                    await trio.sleep(outcome.delay)
                visit = Visit(node.index, visit.attempt + 1)
                continue
            output = outcome.output
            self._report(
                NodeCompleted(node.name, node.type, output, visit.attempt, context.usage)
            )
            return outcome

    async def _execution(self, context: NodeContext, visit: Visit) -> "_Settled | Again":
        """One attempt, from ``node.before`` to ``node.after``.

        Raises:
            RunFailed: The node failed and its error stands, or a policy ended the run.
        """
        settled = await self._begin_and_work(context)
        gate = self._context.gate
        if isinstance(settled, Fault):
            self._report_failure(context, settled)
            if gate is not None and gate.asked.node_error:
                refused = retry(visit, self.executions, self._limits)
                reason = refused.reason if isinstance(refused, RetryRefused) else None
                decided = await gate.node_error(context, settled, reason)
                if isinstance(decided, Again):
                    context.discard_text()
                    return decided
                if isinstance(decided, Substitute):
                    settled = _Settled(decided.value, None, decided.by)
        if gate is not None and gate.asked.node_after:
            settled = await self._after(gate, context, settled)
        if isinstance(settled, Fault):
            is_start = context.node.index == self._plan.graph.start
            of_inputs = is_start and isinstance(settled, InputMissing | InputMismatch)
            ended = StartRefused if of_inputs else NodeFailed
            raise ended(
                settled, node_name=context.name, node_type=context.type
            ) from settled
        if settled.replaced_by is not None:
            context.discard_text()
        return settled

    async def _begin_and_work(self, context: NodeContext) -> "_Settled | Fault":
        """``node.before``, the event that the node starts, and its work."""
        node, gate = context.node, self._context.gate
        fault: Fault | None = None
        substitute: Substitute | None = None
        try:
            given = await self._input(node)
        except Fault as unfed:
            given, fault = dict(self._state), unfed
        if fault is None and gate is not None and gate.asked.node_before:
            decided = await gate.node_before(context, given)
            if isinstance(decided, Substitute):
                # What a policy took out before another one stood in is shown to nobody.
                substitute, given = decided, decided.given or {}
            else:
                given = decided
        self._report(NodeStarted(node.name, node.type, given, context.attempt))
        if fault is not None:
            return fault
        if substitute is not None:
            return _Settled(substitute.value, None, substitute.by)
        try:
            result = await self._work(context, given)
        except RunFailed as end:
            self._report_failure(context, end)
            raise
        except Fault as failed:
            return failed
        except Exception as bug:  # noqa: BLE001  told as one, and ends this run alone
            return EngineFault.of(bug)
        return _Settled(result.output, result.branch)

    async def _input(self, node: GraphNode) -> State:
        """What the node is given; its values converted."""
        state, ran = self._state, self._ran
        if not node.converts:
            return node_input(node, state, ran)
        return await bounded(lambda: node_input(node, state, ran))

    async def _after(
        self, gate: "Gate", context: NodeContext, settled: "_Settled | Fault"
    ) -> "_Settled | Fault":
        """``node.after``: once for each settled execution."""
        result = settled if isinstance(settled, Fault) else settled.output
        try:
            decided = await gate.node_after(context, result)
        except RunFailed as end:
            if not isinstance(settled, Fault):
                self._report_failure(context, end)
            raise
        return settled if decided is None else _Settled(decided.value, None, decided.by)

    async def _work(self, context: NodeContext, given: State) -> Result:
        """What the node does, in this run's own task: see docs/design.md, "Tasks"."""
        work = self._plan.work[context.node.index]
        if isinstance(work, Pure):
            # A loop of pure steps must let other runs go on, and be cancellable.
            await trio.lowlevel.checkpoint()
            step = work.step
            return await bounded(lambda: step(given)) if work.checks else step(given)
        return await work.execute(given, context)

    def _report_failure(self, context: NodeContext, fault: Fault) -> None:
        self._report(
            NodeFailedEvent(context.name, context.type, describe(fault), context.attempt)
        )

    async def _result(self, end: GraphNode, output: State) -> State:
        """The flow's declared outputs; without any, what the EndNode put out."""
        declared = self._plan.graph.outputs
        if not declared:
            return output
        found = output if end.shape.inputs else {**self._state, **output}
        try:
            return await bounded(lambda: declared_outputs(declared, found, of="the flow"))
        except Fault as fault:
            raise NodeFailed(fault, node_name=end.name, node_type=end.type) from fault
