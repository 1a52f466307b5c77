"""One node executed, from its arrival until an execution settles, with the policies that
are asked around it.

    arrival    executions, until one settles
    execution  node.before, the work, nodeError.after, node.after

`heddle.engine.walking` says which node is next; where policies let everything be, and where
none are asked, it does the same in less time.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

import trio

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
from heddle.engine.state import Ran, State, node_input
from heddle.engine.stretch import start
from heddle.engine.walk import RetryRefused, Visit, retry, spend_execution
from heddle.engine.work import (
    Conversation,
    NodeContext,
    Pure,
    Result,
    RunContext,
    Waiting,
)
from heddle.events import NodeCompleted
from heddle.events import NodeFailed as NodeFailedEvent
from heddle.long_work import bounded
from plugins_host import Fault, NodePath

if TYPE_CHECKING:
    from heddle.engine.gate import Gate
    from plugins_host import Open


STOPPED: Final = (trio.Cancelled, BaseExceptionGroup)
"""What a cancelled node raises: where several tasks worked for it, a group of it."""


class Settled(NamedTuple):
    """What an execution came to. ``replaced_by`` is the policy that supplied it."""

    output: State
    branch: str | None = None
    replaced_by: str | None = None


class Begun(NamedTuple):
    """An execution on its way: as far as a stretch has come.

    ``opened`` is the question that it left open: ``node.after`` where there is a result.
    """

    context: NodeContext
    given: State
    result: Result | None
    fault: Fault | None
    opened: "Open | None"


class Executions:
    """Those of one walk.

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

    def _path_of(self, node: GraphNode) -> NodePath | None:
        return None if self._path is None else (*self._path, node.name)

    async def _arrival(
        self, node: GraphNode, visit: Visit | None = None, begun: "Begun | None" = None
    ) -> Settled:
        """Execute a node until an execution settles; policies may have it tried again.

        ``begun`` is how far the first execution has come.
        """
        run, path = self._run, self._path_of(node)
        visit = visit or Visit(node.index)
        while True:
            if begun is not None:
                context = begun.context
            else:
                run.executions = spend_execution(run.executions, node, run.limits)
                context = NodeContext(
                    node, visit.attempt, run, self._conversation, path, self._within
                )
            try:
                outcome = await self._execution(context, visit, begun)
            except STOPPED:
                if context.is_open:
                    report_stop(context)
                raise
            if isinstance(outcome, Again):
                begun = None
                visit = await self._next_visit(outcome, visit)
                continue
            self._report_completion(context, outcome)
            return outcome

    async def _next_visit(self, again: Again, visit: Visit) -> Visit:
        """Wait as long as the policy wants, and count."""
        if again.delay:
            await trio.sleep(again.delay)
        return Visit(visit.node, visit.attempt + 1)

    def _report_completion(self, context: NodeContext, settled: Settled) -> None:
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

    async def _execution(
        self, context: NodeContext, visit: Visit, begun: "Begun | None" = None
    ) -> "Settled | Again":
        """One attempt, from ``node.before`` or where it is to ``node.after``.

        Raises:
            RunFailed: The node failed and its error stands, or a policy ended the run.
        """
        settled: Settled | Fault
        opened = None
        if begun is None:
            settled = await self._begin_and_work(context)
        elif begun.result is not None:
            settled, opened = Settled(*begun.result), begun.opened
        elif begun.fault is not None:
            settled = begun.fault
        else:
            settled = await self._asked_and_work(context, begun.given, begun.opened)
        gate = self._run.gate
        if isinstance(settled, Fault):
            report_failure(context, settled)
            decided = await self._recovery(context, visit, settled)
            if isinstance(decided, Again):
                return decided
            settled = decided or settled
        if gate is not None and gate.asked.node_after:
            settled = await self._after(gate, context, settled, opened)
        if isinstance(settled, Fault):
            raise self._failed(context.node, settled) from settled
        if settled.replaced_by is not None:
            context.discard_text()
        return settled

    async def _recovery(
        self, context: NodeContext, visit: Visit, fault: Fault
    ) -> "Settled | Again | None":
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
            return Settled(decided.value, None, decided.by)
        return None

    async def _begin_and_work(self, context: NodeContext) -> "Settled | Fault":
        """The input, ``node.before``, the event that the node starts, and its work."""
        try:
            given = await self._input(context.node)
        except Fault as unfed:
            start(context, dict(self._state))
            return unfed
        return await self._asked_and_work(context, given)

    async def _asked_and_work(
        self, context: NodeContext, given: State, opened: "Open | None" = None
    ) -> "Settled | Fault":
        """``node.before``, of which a row left ``opened``, and what follows."""
        gate = self._run.gate
        if gate is None or not gate.asked.node_before:
            return await self._started(context, given, None)
        decided = await gate.node_before(context, given, opened)
        if isinstance(decided, Substitute):
            # What a policy took out before another one stood in is shown to nobody.
            return await self._started(context, decided.given or {}, decided)
        return await self._started(context, decided, None)

    async def _started(
        self, context: NodeContext, given: State, substitute: Substitute | None
    ) -> "Settled | Fault":
        """The event that the node starts, and its work, or what stands in for that."""
        start(context, given)
        if substitute is not None:
            return Settled(substitute.value, None, substitute.by)
        try:
            result = await self._work(context, given)
        except RunFailed as end:
            report_failure(context, end)
            raise
        except Fault as failed:
            return failed
        except Exception as bug:  # noqa: BLE001  told as one, and ends this run alone
            return EngineFault.of(bug)
        return Settled(result.output, result.branch)

    async def _input(self, node: GraphNode) -> State:
        """What the node is given; its values converted."""
        state, ran = self._state, self._ran
        if not node.converts:
            return node_input(node, state, ran)
        return await bounded(lambda: node_input(node, state, ran))

    async def _after(
        self,
        gate: "Gate",
        context: NodeContext,
        settled: "Settled | Fault",
        opened: "Open | None",
    ) -> "Settled | Fault":
        """``node.after``: once for each settled execution."""
        result = settled if isinstance(settled, Fault) else settled.output
        try:
            decided = await gate.node_after(context, result, opened)
        except RunFailed as end:
            if not isinstance(settled, Fault):
                report_failure(context, end)
            raise
        return settled if decided is None else Settled(decided.value, None, decided.by)

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


def report_stop(context: NodeContext) -> None:
    """Whoever saw the node begin sees it end, whether the run goes on without it or not."""
    report_failure(context, NodeStopped("it was stopped while it worked"))


def report_failure(context: NodeContext, fault: Fault) -> None:
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
