"""The stretches of a walk on which nothing waits and policies let everything be.

    node.after of what has worked ─▶ node.before ─ a pure step ─ node.after ─▶ …
      … ─▶ node.before of a node that waits: its work is the walk's

Where policies are asked around nodes, these questions are most of what a short flow does.
A `Stretch` is their generator: it is resumed when all that are asked let be what it asked
about, in whatever task reads their answers, and does what the walk would do there. Where
anything else happens it ends, and the walk goes on from what it says: an answer to be
weighed, a step that failed, a node that it did not begin.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from heddle.engine.faults import EngineFault
from heddle.engine.graph import GraphNode
from heddle.engine.plan import Plan
from heddle.engine.state import Ran, State, node_input
from heddle.engine.walk import spend_execution
from heddle.engine.work import Conversation, NodeContext, Pure, Result, RunContext
from heddle.events import NodeCompleted, NodeStarted
from plugins_host import Fault, NodePath

if TYPE_CHECKING:
    from heddle.engine.gate import Gate
    from plugins_host import Walk


class Stretch:
    """Where such a walk is.

    Args:
        plan: The flow.
        run: The run that it belongs to.
        gate: Its policies, who are asked around nodes.
        conversation: What its nodes say and hear.
        within: The execution of the node that the walk is inside; None at the top.
        path: Where that is.
        state, ran: Those of the walk.

    Attributes:
        number: The node that it is at.
        context: The execution that has begun; None where the node has not, or has settled.
        given: What that was given.
        result: What its work came to.
        fault: How its work failed.
        settled: What the node at hand came to, when what follows is for the walk to say.
    """

    __slots__ = (
        "_conversation",
        "_gate",
        "_path",
        "_plan",
        "_ran",
        "_run",
        "_state",
        "_within",
        "context",
        "fault",
        "given",
        "number",
        "result",
        "settled",
    )

    def __init__(
        self,
        plan: Plan,
        run: RunContext,
        gate: "Gate",
        conversation: Conversation,
        within: NodeContext | None,
        path: NodePath | None,
        state: State,
        ran: Ran,
    ) -> None:
        self._plan = plan
        self._run = run
        self._gate = gate
        self._conversation = conversation
        self._within = within
        self._path = path
        self._state = state
        self._ran = ran
        self.go_to(plan.graph.start)

    def go_to(self, number: int) -> None:
        """Have this node executed next."""
        self.number = number
        self.context: NodeContext | None = None
        self.given: State = {}
        self.result: Result | None = None
        self.fault: Fault | None = None
        self.settled: Result | None = None

    def questions(self) -> "Iterator[Walk]":
        """What is asked, from where it is.

        Raises:
            LimitReached: The run has had all of its executions.
        """
        asked, gate = self._gate.asked, self._gate
        report = self._run.services.report
        while True:
            context, result = self.context, self.result
            if context is None:
                context = self._begun()
                if context is None:
                    return
                if asked.node_before:
                    yield gate.about_node_before(context, self.given)
                work = self._plan.work[self.number]
                if type(work) is not Pure:
                    return
                start(context, self.given)
                result = self._worked(work)
                if result is None:
                    return
            assert result is not None
            if asked.node_after:
                yield gate.about_node_after(context, result.output)
            node = context.node
            report(
                NodeCompleted(
                    node.name,
                    node.type,
                    result.output,
                    context.attempt,
                    context.usage,
                    context.path,
                    context.model_calls,
                    result.branch,
                )
            )
            if result.branch is not None or node.onward is None:
                self.context = None
                self.settled = result
                return
            self.record(node, result.output)
            self.go_to(node.onward)

    def record(self, node: GraphNode, output: State) -> None:
        """A node has settled with ``output``."""
        self._ran.record(node.index, output)
        self._state.update(output)

    def _begun(self) -> NodeContext | None:
        """The next execution; None where its input takes more than a look, or is wrong."""
        run = self._run
        node, work = self._plan.graph.nodes[self.number], self._plan.work[self.number]
        run.at = node
        if node.converts or (type(work) is Pure and work.checks):
            return None
        executions = spend_execution(run.executions, node, run.limits)
        try:
            self.given = node_input(node, self._state, self._ran)
        except Fault:
            return None
        run.executions = executions
        path = None if self._path is None else (*self._path, node.name)
        self.context = NodeContext(node, 1, run, self._conversation, path, self._within)
        return self.context

    def _worked(self, work: Pure) -> Result | None:
        try:
            self.result = work.step(self.given)
        except Fault as failed:
            self.fault = failed
        except Exception as bug:  # noqa: BLE001  told as one, and ends this run alone
            self.fault = EngineFault.of(bug)
        return self.result


def start(context: NodeContext, given: State) -> None:
    """The work of an execution begins."""
    context.report(
        NodeStarted(context.name, context.type, given, context.attempt, context.path)
    )
    context.is_open = True
