"""A flow that only looks at its state, as one line of steps: walked without a wait.

    start ─▶ step ─▶ … ─▶ end      no branches, nothing that waits or is looked through

A map walks such a flow for each of its items. With nobody to ask around its nodes, an item
is a few plain calls between its events: no task, no turn, and nothing to cancel in it. It
comes to what `Walking` comes to, event by event.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from heddle.engine.faults import EngineFault, NodeFailed, SubflowFailed, describe
from heddle.engine.graph import GraphNode
from heddle.engine.state import Ran, State, node_input
from heddle.engine.walk import spend_execution
from heddle.engine.work import NodeContext, Pure, Result, RunContext
from heddle.events import NodeCompleted, NodeStarted
from heddle.events import NodeFailed as NodeFailedEvent
from plugins_host import Fault, NodePath

if TYPE_CHECKING:
    from heddle.engine.plan import Plan


LONGEST: Final = 64
"""Steps that go together. A longer flow lets others have a turn inside it."""


_NOTHING_RAN: Final = Ran()
"""For walks of which nobody is to know what a node put out; nothing is recorded in it."""


class Step(NamedTuple):
    """One node; ``fed`` is whether it is given more than the state as it stands."""

    node: GraphNode
    name: str
    type: str
    step: Callable[[State], Result]
    fed: bool


class Line(NamedTuple):
    """All of them; ``ran`` is whether one is given what another put out."""

    steps: tuple[Step, ...]
    ran: bool


def line_of(plan: "Plan") -> Line | None:
    """The steps of a flow that is one line of them; None for any other."""
    graph = plan.graph
    steps: list[Step] = []
    number: int | None = graph.start
    while number is not None:
        node, work = graph.nodes[number], plan.work[number]
        if type(work) is not Pure or work.checks or node.converts or node.branches:
            return None
        steps.append(Step(node, node.name, node.type, work.step, bool(node.feeds)))
        number = node.onward
        if len(steps) > LONGEST:
            return None  # or it never ends
    if not steps[-1].node.is_whole:
        return None
    return Line(
        tuple(steps), any(feed.sources for each in steps for feed in each.node.feeds)
    )


def open_to(run: RunContext) -> bool:
    """Whether nobody is asked around the nodes of a run, and nobody traces it."""
    if run.trace is not None:
        return False
    if run.gate is None:
        return True
    asked = run.gate.asked
    return not (asked.node_before or asked.node_after or asked.node_error)


def walk_line(line: Line, state: State, context: NodeContext, item: int) -> State:
    """Walk a line inside an execution; ``state`` is the walk's own from now on.

    Args:
        line: The flow.
        state: What it begins with.
        context: The execution.
        item: Which of its walks this is.

    Raises:
        SubflowFailed: A node of it failed.
        LimitReached: The run has had all of its executions.
    """
    run = context.run
    report, most = context.services.report, run.limits.max_iterations
    path: NodePath = (*(context.path or (context.name,)), item)
    steps, keeps = line
    ran = Ran() if keeps else _NOTHING_RAN
    output = state
    for node, name, kind, step, fed in steps:
        if run.executions >= most:
            run.at = node
            spend_execution(run.executions, node, run.limits)
        here = (*path, name)
        run.executions += 1
        given: State | None = None
        try:
            given = node_input(node, state, ran) if fed else dict(state)
            output = step(given).output
        except Exception as failed:  # noqa: BLE001  told as what it is, and ends this flow
            run.at = node
            fault = failed if isinstance(failed, Fault) else EngineFault.of(failed)
            shown = dict(state) if given is None else given
            report(NodeStarted(name, kind, shown, 1, here))
            report(NodeFailedEvent(name, kind, describe(fault), 1, here))
            stands = NodeFailed(fault, node_name=name, node_type=kind)
            raise SubflowFailed(stands, f"item {item}") from stands
        report(NodeStarted(name, kind, given, 1, here))
        report(NodeCompleted(name, kind, output, 1, None, here))
        if keeps:
            ran.record(node.index, output)
        state.update(output)
    return output
