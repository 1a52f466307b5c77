"""The walk of one flow carried out: at the top of a run, or inside a node of another.

All walks of a run share its events, its counts and its policies (`RunContext`); each has
a state and a place of its own. Where no policy is asked around nodes, a pure node is a
plain call between two events.
"""

from typing import TYPE_CHECKING, Final, NamedTuple, cast

import trio

from heddle.engine.conventions import NEXT
from heddle.engine.decisions import Again, Substitute
from heddle.engine.faults import (
    EngineFault,
    InputMismatch,
    InputMissing,
    NodeFailed,
    NodeStopped,
    RunFailed,
    StartRefused,
    describe,
)
from heddle.engine.graph import GraphNode
from heddle.engine.plan import Plan
from heddle.engine.state import Ran, State, declared_outputs, node_input
from heddle.engine.walk import (
    Finish,
    RetryRefused,
    Visit,
    next_step,
    retry,
    spend_execution,
)
from heddle.engine.work import (
    Conversation,
    Ended,
    NodeContext,
    Pure,
    Result,
    RunContext,
    Waiting,
)
from heddle.events import NodeCompleted, NodeStarted
from heddle.events import NodeFailed as NodeFailedEvent
from heddle.long_work import BRIEF, bounded
from heddle.spec import Effort, EffortExceeded, spending
from plugins_host import Fault, NodePath

if TYPE_CHECKING:
    from heddle.engine.gate import Gate


PURE_IN_A_ROW: Final = 8
"""Steps without a wait until others get their turn: a few tenths of a millisecond, and much
longer only where a single step is."""


_STOPPED: Final = (trio.Cancelled, BaseExceptionGroup)
"""What a cancelled node raises: where several tasks worked for it, a group of it."""


class _Settled(NamedTuple):
    """What an execution came to. ``replaced_by`` is the policy that supplied it."""

    output: State
    branch: str | None = None
    replaced_by: str | None = None


class Walking:
    """One walk through a plan. `walk` may be called once.

    Args:
        plan: The flow.
        run: The run that it belongs to.
        conversation: What its nodes say and hear.
        within: The execution of the node that it is inside; None at the top.
        place: Which of the walks of that execution it is.
    """

    __slots__ = (
        "_asks_errors",
        "_conversation",
        "_path",
        "_plan",
        "_ran",
        "_run",
        "_state",
        "_unasked",
        "_within",
    )

    def __init__(
        self,
        plan: Plan,
        run: RunContext,
        conversation: Conversation,
        within: NodeContext | None = None,
        place: tuple[int, ...] = (),
    ) -> None:
        self._plan = plan
        self._run = run
        self._conversation = conversation
        self._within = within
        self._path: NodePath | None = None
        if within is not None:
            self._path = (*(within.path or (within.name,)), *place)
        gate = run.gate
        self._unasked = gate is None or not (
            gate.asked.node_before or gate.asked.node_after
        )
        self._asks_errors = gate is not None and gate.asked.node_error
        self._ran = Ran()
        self._state: State = {}

    async def walk(self, state: State) -> Ended:
        """Go from the start to an EndNode; ``state`` is this walk's own from now on.

        Raises:
            RunFailed: A node failed, a limit was reached, or there was no way on.
        """
        self._state = state
        run, graph, works = self._run, self._plan.graph, self._plan.work
        nested = self._path is not None
        number = graph.start
        in_a_row = 0
        while True:
            node, work = graph.nodes[number], works[number]
            run.at = node
            settled: Result | _Settled | None = None
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
                output, branch, replaced_by = cast("_Settled", settled)
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

    def _path_of(self, node: GraphNode) -> NodePath | None:
        return None if self._path is None else (*self._path, node.name)

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

    async def _executed(self, node: GraphNode, work: Waiting) -> Result | _Settled:
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
                _report_failure(context, end)
                raise
            except Fault as failed:
                fault = failed
            except Exception as bug:  # noqa: BLE001  told as one, and ends this run alone
                fault = EngineFault.of(bug)
            except _STOPPED:
                _report_stop(context)
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
        _report_failure(context, fault)
        visit = Visit(node.index)
        decided = await self._recovery(context, visit, fault)
        if decided is None:
            raise self._failed(node, fault) from fault
        if isinstance(decided, Again):
            return await self._arrival(node, await self._next_visit(decided, visit))
        context.discard_text()
        self._report_completion(context, decided)
        return decided

    async def _arrival(self, node: GraphNode, visit: Visit | None = None) -> _Settled:
        """Execute a node until an execution settles; policies may have it tried again."""
        run, path = self._run, self._path_of(node)
        visit = visit or Visit(node.index)
        while True:
            run.executions = spend_execution(run.executions, node, run.limits)
            context = NodeContext(
                node, visit.attempt, run, self._conversation, path, self._within
            )
            try:
                outcome = await self._execution(context, visit)
            except _STOPPED:
                if context.is_open:
                    _report_stop(context)
                raise
            if isinstance(outcome, Again):
                visit = await self._next_visit(outcome, visit)
                continue
            self._report_completion(context, outcome)
            return outcome

    async def _next_visit(self, again: Again, visit: Visit) -> Visit:
        """Wait as long as the policy wants, and count."""
        if again.delay:
            await trio.sleep(again.delay)
        return Visit(visit.node, visit.attempt + 1)

    def _report_completion(self, context: NodeContext, settled: _Settled) -> None:
        node = context.node
        context.report(
            NodeCompleted(
                node.name,
                node.type,
                settled.output,
                context.attempt,
                context.usage,
                context.path,
                context.model_calls,
                settled.branch,
            )
        )

    async def _execution(self, context: NodeContext, visit: Visit) -> "_Settled | Again":
        """One attempt, from ``node.before`` to ``node.after``.

        Raises:
            RunFailed: The node failed and its error stands, or a policy ended the run.
        """
        settled = await self._begin_and_work(context)
        gate = self._run.gate
        if isinstance(settled, Fault):
            _report_failure(context, settled)
            decided = await self._recovery(context, visit, settled)
            if isinstance(decided, Again):
                return decided
            settled = decided or settled
        if gate is not None and gate.asked.node_after:
            settled = await self._after(gate, context, settled)
        if isinstance(settled, Fault):
            raise self._failed(context.node, settled) from settled
        if settled.replaced_by is not None:
            context.discard_text()
        return settled

    async def _recovery(
        self, context: NodeContext, visit: Visit, fault: Fault
    ) -> "_Settled | Again | None":
        """What policies make of a failure; None when it stands."""
        run = self._run
        if run.gate is None or not self._asks_errors:
            return None
        refused = retry(visit, run.executions, run.limits)
        reason = refused.reason if isinstance(refused, RetryRefused) else None
        decided = await run.gate.node_error(context, fault, reason)
        if isinstance(decided, Again):
            context.discard_text()
            return decided
        if isinstance(decided, Substitute):
            return _Settled(decided.value, None, decided.by)
        return None

    async def _begin_and_work(self, context: NodeContext) -> "_Settled | Fault":
        """``node.before``, the event that the node starts, and its work."""
        node, gate = context.node, self._run.gate
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
        context.report(
            NodeStarted(node.name, node.type, given, context.attempt, context.path)
        )
        context.is_open = True
        if fault is not None:
            return fault
        if substitute is not None:
            return _Settled(substitute.value, None, substitute.by)
        try:
            result = await self._work(context, given)
        except RunFailed as end:
            _report_failure(context, end)
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
                _report_failure(context, end)
            raise
        return settled if decided is None else _Settled(decided.value, None, decided.by)

    async def _work(self, context: NodeContext, given: State) -> Result:
        """What the node does, in the task of its walk: see docs/design.md, "Tasks"."""
        work = self._plan.work[context.node.index]
        if isinstance(work, Pure):
            # Who asks a policy around each node gives way there: to a process it is a wait,
            # and a handler inside heddle is called behind a turn for the others.
            if self._unasked:
                await trio.lowlevel.checkpoint()
            step = work.step
            return await bounded(lambda: step(given)) if work.checks else step(given)
        assert isinstance(work, Waiting)
        return await work.execute(given, context)

    def _failed(self, node: GraphNode, fault: Fault) -> NodeFailed:
        """How a node's failure that stands ends its flow."""
        refused = (
            self._path is None
            and node.index == self._plan.graph.start
            and isinstance(fault, InputMissing | InputMismatch)
        )
        kind = StartRefused if refused else NodeFailed
        return kind(fault, node_name=node.name, node_type=node.type)

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


def _report_stop(context: NodeContext) -> None:
    """Whoever saw the node begin sees it end, whether the run goes on without it or not."""
    _report_failure(context, NodeStopped("it was stopped while it worked"))


def _report_failure(context: NodeContext, fault: Fault) -> None:
    context.is_open = False
    context.report(
        NodeFailedEvent(
            context.name,
            context.type,
            describe(fault),
            context.attempt,
            context.path,
            context.usage,
            context.model_calls,
        )
    )
