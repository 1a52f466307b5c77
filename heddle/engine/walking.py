"""The walk of one flow carried out: at the top of a run, or inside a node of another.

All walks of a run share its events, its counts and its policies (`RunContext`); each has
a state and a place of its own. Where no policy is asked around nodes, a pure node is a
plain call between two events; where one is, see `heddle.engine.stretch`.
"""

from typing import TYPE_CHECKING, Final, cast

import trio

from heddle.engine.conventions import NEXT
from heddle.engine.decisions import Again
from heddle.engine.executions import (
    STOPPED,
    Begun,
    Executions,
    Settled,
    report_failure,
    report_stop,
)
from heddle.engine.faults import EngineFault, NodeFailed, RunFailed, describe
from heddle.engine.graph import GraphNode
from heddle.engine.state import State, declared_outputs, node_input
from heddle.engine.stretch import Stretch
from heddle.engine.walk import Finish, Visit, next_step, spend_execution
from heddle.engine.work import Ended, NodeContext, Pure, Result, Waiting
from heddle.events import NodeCompleted, NodeStarted
from heddle.events import NodeFailed as NodeFailedEvent
from heddle.long_work import BRIEF, bounded
from heddle.spec import Effort, EffortExceeded, spending
from plugins_host import Fault

if TYPE_CHECKING:
    from heddle.engine.gate import Gate


PURE_IN_A_ROW: Final = 8
"""Steps without a wait until others get their turn: a few tenths of a millisecond, and much
longer only where a single step is."""


class Walking(Executions):
    """One walk through a plan. `walk` may be called once."""

    __slots__ = ()

    async def walk(self, state: State) -> Ended:
        """Go from the start to an EndNode; ``state`` is this walk's own from now on.

        Raises:
            RunFailed: A node failed, a limit was reached, or there was no way on.
        """
        self._state = state
        run, graph, works = self._run, self._plan.graph, self._plan.work
        if not self._unasked and run.trace is None:
            assert run.gate is not None
            return await self._walk_asked(run.gate)
        nested = self._path is not None
        number = graph.start
        in_a_row = 0
        while True:
            node, work = graph.nodes[number], works[number]
            run.at = node
            settled: Result | Settled | None = None
            if self._unasked and type(work) is Pure:
                # A loop of pure steps must let other runs go on, and be cancellable. The
                # ends of a flow inside are in no loop of their own; who enters it waits.
                # A step is shorter than giving the others their turn, so some go together.
                if not nested or (number != graph.start and not node.is_end):
                    in_a_row += 1
                    if in_a_row >= PURE_IN_A_ROW:
                        in_a_row = 0
                        await trio.lowlevel.checkpoint()
                settled = self._step(node, work)
            if settled is None:
                if self._unasked and not nested and type(work) is Waiting:
                    settled = await self._executed(node, work)
                else:
                    settled = await self._arrival(node)
            if type(settled) is Result:
                output, branch = settled
                replaced_by = None
            else:
                output, branch, replaced_by = cast("Settled", settled)
            self._ran.record(number, output)
            state.update(output)
            if run.trace is not None:
                talk = self._conversation
                run.trace.snapshot(run, node.name, state, talk, self._path_of(node))
            if branch is None and replaced_by is None and node.onward is not None:
                number = node.onward
                continue
            step = next_step(node, branch, replaced_by)
            if isinstance(step, Finish):
                if node.is_whole and replaced_by is None:
                    return Ended(output, _branch_of(node))
                return Ended(await self._result(node, output), _branch_of(node))
            number = step.node

    async def _walk_asked(self, gate: "Gate") -> Ended:
        """The same, of a walk around whose nodes policies are asked."""
        plan, state, ran = self._plan, self._state, self._ran
        stretch = Stretch(
            plan,
            self._run,
            gate,
            self._conversation,
            self._within,
            self._path,
            state,
            ran,
        )
        while True:
            try:
                opened = await gate.in_a_row(stretch.questions())
                context = stretch.context
                # Its traceback leads to the stretch: kept there, both would wait for the
                # collector.
                fault, stretch.fault = stretch.fault, None
                if opened is None and context is not None and fault is None:
                    # Nobody minds: its work is what waits.
                    worked = await self._started(context, stretch.given, None)
                    if isinstance(worked, Fault):
                        fault = worked
                    else:
                        stretch.result = Result(worked.output, worked.branch)
                        continue
            except STOPPED:
                if stretch.context is not None and stretch.context.is_open:
                    report_stop(stretch.context)
                raise
            node = plan.graph.nodes[stretch.number]
            replaced_by = None
            if stretch.settled is not None:
                output, branch = stretch.settled
            else:
                begun = None
                if context is not None:
                    known = stretch.given, stretch.result, fault
                    begun = Begun(context, *known, opened)
                output, branch, replaced_by = await self._arrival(node, begun=begun)
            stretch.record(node, output)
            step = next_step(node, branch, replaced_by)
            if isinstance(step, Finish):
                if node.is_whole and replaced_by is None:
                    return Ended(output, _branch_of(node))
                return Ended(await self._result(node, output), _branch_of(node))
            stretch.go_to(step.node)

    def _step(self, node: GraphNode, work: Pure) -> Result | None:
        """A pure node that no policy is asked about: what `_arrival` comes to for it.

        None when types can't be checked in a moment, and when it fails and a policy is
        asked about that; nothing has happened then.
        """
        run = self._run
        path = None if self._path is None else (*self._path, node.name)
        executions = run.executions + 1
        if executions > run.limits.max_iterations:
            spend_execution(run.executions, node, run.limits)
        given: State | None = None
        fault: Fault
        try:
            if work.checks or node.converts:
                with spending(Effort(BRIEF)):
                    given = node_input(node, self._state, self._ran)
                    result = work.step(given)
            else:
                state = self._state
                given = node_input(node, state, self._ran) if node.feeds else dict(state)
                result = work.step(given)
        except EffortExceeded:
            return None
        except Fault as failed:
            fault = failed
        except Exception as bug:  # noqa: BLE001  told as one, and ends this run alone
            fault = EngineFault.of(bug)
        else:
            run.executions = executions
            report = run.services.report
            report(NodeStarted(node.name, node.type, given, 1, path))
            output, branch = result
            report(NodeCompleted(node.name, node.type, output, 1, None, path, 0, branch))
            return result
        if self._asks_errors:
            return None
        run.executions = executions
        report = run.services.report
        shown = dict(self._state) if given is None else given
        report(NodeStarted(node.name, node.type, shown, 1, path))
        report(NodeFailedEvent(node.name, node.type, describe(fault), 1, path))
        raise self._failed(node, fault) from fault

    async def _executed(self, node: GraphNode, work: Waiting) -> Result | Settled:
        """A node that waits, and that no policy is asked around: `_arrival` for it.

        Policies may be asked when it has failed. Most executions are such, and what has
        nobody to ask is most of what they cost.
        """
        run = self._run
        run.executions = spend_execution(run.executions, node, run.limits)
        context = NodeContext(node, 1, run, self._conversation)
        report = run.services.report
        fault: Fault
        try:
            if node.converts:
                given = await self._input(node)
            else:
                given = node_input(node, self._state, self._ran)
        except Fault as unfed:
            fault = unfed
            report(NodeStarted(node.name, node.type, dict(self._state), 1))
        else:
            report(NodeStarted(node.name, node.type, given, 1))
            context.is_open = True
            try:
                result = await work.execute(given, context)
            except RunFailed as end:
                report_failure(context, end)
                raise
            except Fault as failed:
                fault = failed
            except Exception as bug:  # noqa: BLE001  told as one, and ends this run alone
                fault = EngineFault.of(bug)
            except STOPPED:
                report_stop(context)
                raise
            else:
                report(
                    NodeCompleted(
                        node.name,
                        node.type,
                        result.output,
                        1,
                        context.usage,
                        None,
                        context.model_calls,
                        result.branch,
                    )
                )
                return result
        report_failure(context, fault)
        visit = Visit(node.index)
        decided = await self._recovery(context, visit, fault)
        if decided is None:
            raise self._failed(node, fault) from fault
        if isinstance(decided, Again):
            return await self._arrival(node, await self._next_visit(decided, visit))
        context.discard_text()
        self._report_completion(context, decided)
        return decided

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


def _branch_of(end: GraphNode) -> str | None:
    named: str = getattr(end.component, "branch_name", NEXT)
    return None if named == NEXT else named
