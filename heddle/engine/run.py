"""One run: a walk with a time-out, from the first event of its stream to the last.

The run is one trio task; flows side by side inside it are tasks under it. Everything it
starts lives inside its cancel scope, so that when the scope is left, by the end, an
error, the time-out or a cancellation, nothing of the run is still going on.
"""

from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from math import inf
from typing import Any

import trio

from heddle.engine.earlier import as_state
from heddle.engine.faults import timed_out
from heddle.engine.graph import GraphNode
from heddle.engine.plan import Plan
from heddle.engine.state import State, start_state
from heddle.engine.walk import Limits
from heddle.engine.walking import Walking
from heddle.engine.work import Conversation, Ended, NodeContext, RunContext, Services
from heddle.events import FlowCompleted, FlowStarted, Warned
from plugins_host import Message


class Run:
    """One execution of a plan. `execute` may be called once."""

    def __init__(self, plan: Plan, services: Services, limits: Limits) -> None:
        self._plan = plan
        policies = services.policies
        gate = None if policies is None else policies.gate(limits.max_node_attempts)
        self._context = RunContext(services, gate, limits, enter)
        if services.trace:
            # Few runs are traced, and the others need not load it.
            from heddle.engine.tracing import Trace

            self._context.trace = Trace()
        self._report = services.report
        self._limits = limits

    @property
    def at(self) -> GraphNode | None:
        """The node where the run is, of a flow inside it too."""
        return self._context.at

    @property
    def executions(self) -> int:
        """How many executions of nodes it has begun."""
        return self._context.executions

    def execute(
        self, inputs: Mapping[str, Any], history: Sequence[Message] | None = None
    ) -> Coroutine[Any, Any, State]:
        """Walk from the start to an EndNode and return the flow's outputs.

        Args:
            inputs: What it starts from.
            history: The turns of the conversation that this run goes on with; None when it
                is no turn of one.

        Raises:
            RunFailed: A node failed, a limit was reached, or there was no way on.
        """
        graph = self._plan.graph
        turns = None if history is None else as_state(history)
        state = start_state(graph, inputs, turns)
        self._report(FlowStarted())
        for warning in graph.warnings:
            self._report(Warned(str(warning)))
        timeout = self._limits.timeout
        # Without one nobody bounds it, or who started it does.
        return self._walk(state) if timeout == inf else self._bounded(state, timeout)

    async def _bounded(self, state: State, timeout: float) -> State:
        with trio.move_on_after(timeout):
            return await self._walk(state)
        raise timed_out(timeout, self.at, self._plan.graph.name)

    async def _walk(self, state: State) -> State:
        context = self._context
        walking = Walking(self._plan, context, Conversation())
        remote = context.services.remote
        if remote is None or not self._plan.servers:
            ended = await walking.walk(state)
        else:
            async with remote.sessions() as context.servers:
                ended = await walking.walk(state)
        self._report(FlowCompleted(ended.output, context.usage, context.model_calls))
        return ended.output


def enter(
    plan: Plan,
    state: State,
    within: NodeContext,
    place: tuple[int, ...],
    conversation: Conversation,
) -> Awaitable[Ended]:
    """Walk a flow inside a node, in the task of who awaits it."""
    return Walking(plan, within.run, conversation, within, place).walk(state)
