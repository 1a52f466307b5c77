"""What only traced runs tell of: model calls, agents, tool nodes, flows inside, states.

One `Trace` a run, made when somebody reads it. It numbers pieces of work of a kind, so that
those that go on side by side can be told apart: ``model-1``, ``agent-1``, …
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from heddle.engine.faults import NodeStopped, describe
from heddle.engine.state import State
from heddle.events import (
    AgentCompleted,
    AgentStarted,
    InputAsked,
    InputGiven,
    ModelAnswered,
    ModelAsked,
    StateShown,
    SubflowCompleted,
    SubflowStarted,
    ToolCalled,
    ToolReturned,
)
from heddle.spec import Component
from plugins_host import Fault, ModelRequest, ModelResponse, NodePath, response_fields

if TYPE_CHECKING:
    from heddle.engine.plan import Plan
    from heddle.engine.work import Conversation, Ended, NodeContext, RunContext

OnText = Callable[[str], None] | None


def _stopped() -> NodeStopped:
    return NodeStopped("it was stopped while it went on")


class Asking:
    """A request to a model that is being traced.

    Attributes:
        on_text: Where its text goes.
        outcome: What came of it; to be set.
    """

    __slots__ = ("on_text", "outcome")

    def __init__(self, on_text: OnText) -> None:
        self.on_text = on_text
        self.outcome: ModelResponse | Fault = _stopped()


class AtWork:
    """A piece of work of an agent that is being traced; ``output`` is to be set, or
    ``heir``, who goes on in its place."""

    __slots__ = ("heir", "identity", "output")

    def __init__(self, identity: str) -> None:
        self.identity = identity
        self.output: State | None = None
        self.heir: str | None = None


class Using:
    """A ToolNode's use of its tool that is being traced; ``output`` is to be set."""

    __slots__ = ("identity", "output")

    def __init__(self, identity: str) -> None:
        self.identity = identity
        self.output: Mapping[str, Any] | None = None


class Trace:
    """Tells of one run what is told of traced ones alone."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def number(self, kind: str) -> str:
        """An id that nothing else of this kind has in the run."""
        self._counts[kind] += 1
        return f"{kind}-{self._counts[kind]}"

    async def entering(
        self,
        within: "NodeContext",
        plan: "Plan",
        state: State,
        place: tuple[int, ...],
        conversation: "Conversation",
    ) -> "Ended":
        """Walk a flow inside a node, between its start and its end."""
        path: NodePath = (*(within.path or (within.name,)), *place)
        flow = plan.graph.name
        within.report(SubflowStarted(within.name, flow, dict(state), path))
        ended: Ended = await within.run.enter(plan, state, within, place, conversation)
        within.report(SubflowCompleted(within.name, flow, ended.output, path, ended.branch))
        return ended

    @contextmanager
    def asking(
        self, context: "NodeContext", llm: Component, request: ModelRequest, on_text: OnText
    ) -> Iterator[Asking]:
        """Around one request to a model."""
        identity = self.number("model")

        def show(piece: str) -> None:
            context.show_text(piece, identity)

        asking = Asking(None if on_text is None else show)
        context.report(
            ModelAsked(
                context.name,
                identity,
                llm.name,
                request,
                context.path,
                context.speaker,
                context.agent_id,
            )
        )
        began = time.monotonic()
        try:
            yield asking
        finally:
            outcome = asking.outcome
            answer, error = None, None
            if isinstance(outcome, Fault):
                error = describe(outcome)
            else:
                answer = response_fields(outcome)
            context.report(
                ModelAnswered(
                    context.name,
                    identity,
                    llm.name,
                    (time.monotonic() - began) * 1000,
                    answer,
                    error,
                    context.path,
                    context.speaker,
                    context.agent_id,
                )
            )

    @contextmanager
    def working(
        self,
        context: "NodeContext",
        agent: Component,
        given: State,
        within: str | None = None,
    ) -> Iterator[AtWork]:
        """Around a piece of work of an agent or a team; ``context`` is its own."""
        work = AtWork(self.number("agent"))
        context.agent_id = work.identity
        kind = agent.component_type
        context.report(
            AgentStarted(
                context.name, agent.name, kind, work.identity, given, within, context.path
            )
        )
        yield work
        # Not when it failed: then it ends with what is around it.
        context.report(
            AgentCompleted(
                context.name,
                agent.name,
                kind,
                work.identity,
                work.output,
                work.heir,
                context.path,
            )
        )

    @contextmanager
    def using(
        self, context: "NodeContext", tool: str, arguments: Mapping[str, Any]
    ) -> Iterator[Using]:
        """Around a ToolNode's use of its tool."""
        using = Using(self.number("tool"))
        identity = using.identity
        began = time.time()
        context.report(
            ToolCalled(context.name, tool, arguments, identity, began, context.path)
        )
        clock = time.monotonic()
        error: BaseException | None = None
        try:
            yield using
        except BaseException as raised:
            error = raised
            raise
        finally:
            told: Exception | None = error if isinstance(error, Exception) else None
            if told is None and error is not None:
                told = _stopped()
            context.report(
                ToolReturned(
                    context.name,
                    tool,
                    identity,
                    (time.monotonic() - clock) * 1000,
                    using.output,
                    None if told is None else describe(told),
                    context.path,
                )
            )

    def question(self, context: "NodeContext", text: str) -> str:
        """A person is asked for a text; the id of the question."""
        identity = self.number("input")
        context.report(InputAsked(context.name, identity, text or None, context.path))
        return identity

    def answer(self, context: "NodeContext", question: str, text: str) -> None:
        """What the person answered."""
        context.report(InputGiven(context.name, question, text, context.path))

    def snapshot(
        self,
        run: "RunContext",
        node: str,
        state: State,
        conversation: "Conversation",
        path: NodePath | None,
    ) -> None:
        """What a flow carries on after a node."""
        messages = tuple(conversation.messages)
        run.services.report(StateShown(node, dict(state), messages, path))
