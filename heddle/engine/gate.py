"""The five seams as the engine meets them: a question to the chain, an answer to act on.

One `Gate` a run, and only for runs with policies. Each method is one half of one seam: it
builds the question from what that half is shown, and turns what the chain decided into
what the engine does. What ends the run is raised as a `RunFailed`, what fails the node as
a `NodeFault`; the rest is returned. Call sites look at `Gate.asked` first.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar, assert_never

import msgspec

from heddle.engine.decisions import Again, Asked, Refusal, Substitute
from heddle.engine.faults import NodeFault, PolicyFailed, RefusedByPolicy, StoppedByPolicy
from heddle.engine.plugin_calls import RunServices, answer, whole_request
from heddle.spec import Component
from plugins_host import (
    AfterOutcome,
    AgentSubject,
    Asking,
    BeforeOutcome,
    Chain,
    Erred,
    Failed,
    Fault,
    Half,
    MiddlewareFailure,
    ModelRequest,
    ModelResponse,
    NodeSubject,
    Open,
    Outcome,
    Passed,
    Payload,
    Proceeded,
    Questions,
    Rejected,
    Replaced,
    RetryGranted,
    Seam,
    ShownError,
    Succeeded,
    ToolSubject,
    Walk,
    response_fields,
)

if TYPE_CHECKING:
    from heddle.engine.work import NodeContext

State = dict[str, Any]

_T = TypeVar("_T")


class Policies(msgspec.Struct, frozen=True):
    """What is installed, shared by all runs.

    ``patience`` is the budget of silence of one question, in seconds; ``models`` are the
    LLM configurations of middleware that have one in their settings, by component type.
    """

    chain: Chain
    asked: Asked
    patience: float
    models: Mapping[str, Component] = {}

    def gate(self, max_node_attempts: int) -> "Gate":
        """Where the nodes of one run ask them."""
        return Gate(self, max_node_attempts)


PLACES: Final[Mapping[str, tuple[Seam, Half]]] = {
    "node_before": (Seam.NODE, Half.BEFORE),
    "node_error": (Seam.NODE_ERROR, Half.AFTER),
    "node_after": (Seam.NODE, Half.AFTER),
    "tool_before": (Seam.TOOL_CALL, Half.BEFORE),
    "tool_after": (Seam.TOOL_CALL, Half.AFTER),
    "model_before": (Seam.MODEL_CALL, Half.BEFORE),
    "model_after": (Seam.MODEL_CALL, Half.AFTER),
    "round_before": (Seam.AGENT_ROUND, Half.BEFORE),
    "round_after": (Seam.AGENT_ROUND, Half.AFTER),
}
"""Which half of which seam each field of `Asked` stands for; a test holds it total."""


def asked_by(chain: Chain) -> Asked:
    """Where the chain is to be asked."""
    return Asked(**{name: chain.asks(*place) for name, place in PLACES.items()})


NOTHING_GIVEN: Final = Payload.encoded(b"{}")
"""What an after half is asked with where it is shown no input."""


class Gate:
    """Where the nodes of one run ask the policies."""

    __slots__ = ("_chain", "_max_attempts", "_policies", "asked")

    def __init__(self, policies: Policies, max_node_attempts: int) -> None:
        self._policies = policies
        self._chain = policies.chain
        self._max_attempts = max_node_attempts
        self.asked = policies.asked

    # -- around a node -----------------------------------------------------------------

    def in_a_row(self, questions: Questions) -> Coroutine[Any, Any, Open | None]:
        """Ask these, while all let things be; the first that was not let be, if any was.

        It is for `node_before` or `node_after` to go on with.
        """
        return self._chain.in_a_row(questions)

    def about_node_before(self, context: "NodeContext", given: State) -> Walk:
        """The question of `node_before`, for a row."""
        return self._chain.about_before(
            Seam.NODE, _subject(context), Payload.of(given), self._asking(context)
        )

    def about_node_after(self, context: "NodeContext", result: State | Fault) -> Walk:
        """The question of `node_after`, for a row."""
        return self._chain.about_after(
            Seam.NODE, _subject(context), _outcome(result), self._asking(context)
        )

    async def node_before(
        self, context: "NodeContext", given: State, opened: Open | None = None
    ) -> State | Substitute:
        """The input to go on with, or a result that stands in for the execution.

        ``opened`` is the question, if a row left it open.

        Raises:
            RefusedByPolicy: The node must not run, which ends the run.
        """
        opened = opened or Open(self.about_node_before(context, given))
        outcome = await _settled(context, self._chain.settle_before(opened))
        match outcome:
            case Proceeded(input=payload):
                return _object(payload)
            case Replaced(value=value, by=by, input=payload):
                return Substitute(value.value, by, _object(payload))
            case Rejected(reason=reason, by=by):
                raise _refused(
                    context, by, "does not let this node run (node.before)", reason
                )
            case _:
                assert_never(outcome)

    async def node_error(
        self, context: "NodeContext", fault: Fault, retry_refused: str | None
    ) -> Substitute | Again | None:
        """What becomes of a failed execution; None when the error stands.

        ``retry_refused`` is why there can be no further execution, when there can't.

        Raises:
            RefusedByPolicy: The run ends here.
        """
        asking = self._asking(context, retry_refused=retry_refused)
        outcome = await self._after(
            Seam.NODE_ERROR, context, _subject(context), Erred(shown_error(fault)), asking
        )
        match outcome:
            case Passed():
                return None
            case Replaced(value=value, by=by):
                return Substitute(value.value, by)
            case RetryGranted(delay=delay):
                return Again(delay)
            case Failed(reason=reason, by=by):
                did = f"ends the run (nodeError.after) after this node failed ({fault})"
                raise _refused(context, by, did, reason)
            case _:
                assert_never(outcome)

    async def node_after(
        self, context: "NodeContext", result: State | Fault, opened: Open | None = None
    ) -> Substitute | None:
        """What becomes of a settled execution; None when it stands.

        ``opened`` is the question, if a row left it open.

        Raises:
            RefusedByPolicy: The run ends here.
        """
        opened = opened or Open(self.about_node_after(context, result))
        outcome = await _settled(context, self._chain.settle_after(opened))
        match outcome:
            case Passed():
                return None
            case Replaced(value=value, by=by):
                return Substitute(value.value, by)
            case Failed(reason=reason, by=by):
                failed = f", after this node failed ({result})" if _is_fault(result) else ""
                raise _refused(context, by, f"ends the run (node.after){failed}", reason)
            case RetryGranted():  # pragma: no cover  not admitted here
                raise AssertionError(outcome)
            case _:
                assert_never(outcome)

    # -- around a tool call ------------------------------------------------------------

    async def tool_before(
        self,
        context: "NodeContext",
        call: tuple[str, str],
        arguments: State,
        wrong: Callable[[State], str | None],
    ) -> State | Substitute | Refusal:
        """The arguments to run with, a value in place of a run, or a refusal.

        Args:
            context: The execution that the call belongs to.
            call: The tool's name and the call's id.
            arguments: What would be used.
            wrong: What is wrong with arguments by the tool's declared inputs, if anything.
        """
        asking = self._asking(context, check_input=wrong)
        outcome = await self._before(
            Seam.TOOL_CALL, context, _tool(context, call), Payload.of(arguments), asking
        )
        match outcome:
            case Proceeded(input=payload):
                return _object(payload)
            case Replaced(value=value, by=by, input=payload):
                return Substitute(value.value, by, _object(payload))
            case Rejected(reason=reason, by=by, input=payload):
                return Refusal(reason, by, _object(payload))
            case _:
                assert_never(outcome)

    async def tool_after(
        self,
        context: "NodeContext",
        call: tuple[str, str],
        arguments: State,
        result: Mapping[str, Any] | Fault,
    ) -> Substitute | None:
        """What becomes of a call's result or error; None when it stands.

        Raises:
            RefusedByPolicy: The run ends here.
        """
        outcome = await self._after(
            Seam.TOOL_CALL,
            context,
            _tool(context, call),
            _outcome(result),
            self._asking(context),
            Payload.of(arguments),
        )
        match outcome:
            case Passed():
                return None
            case Replaced(value=value, by=by):
                return Substitute(value.value, by)
            case Failed(reason=reason, by=by):
                failed = f", after it failed ({result})" if _is_fault(result) else ""
                did = f"ends the run at tool {call[0]!r} (toolCall.after){failed}"
                raise _refused(context, by, did, reason)
            case RetryGranted():  # pragma: no cover  not admitted here
                raise AssertionError(outcome)
            case _:
                assert_never(outcome)

    # -- around a model call -----------------------------------------------------------

    async def model_before(
        self, context: "NodeContext", request: ModelRequest, max_attempts: int
    ) -> ModelRequest | Substitute:
        """The request to send, or an answer with which nothing is sent.

        Raises:
            StoppedByPolicy: The call must not be made, which fails the node.
        """
        asking = self._asking(context, attempt=1, max_attempts=max_attempts)
        outcome = await self._before(
            Seam.MODEL_CALL, context, _agent(context), Payload.of(request), asking
        )
        match outcome:
            case Proceeded(input=payload):
                edited: ModelRequest = payload.value
                return edited
            case Replaced(value=value, by=by):
                return Substitute(value.value, by)
            case Rejected(reason=reason, by=by):
                did = "does not let this model call be made (modelCall.before)"
                raise StoppedByPolicy(by=by, did=did, reason=reason)
            case _:
                assert_never(outcome)

    async def model_after(
        self,
        context: "NodeContext",
        result: ModelResponse | Fault,
        attempt: int,
        max_attempts: int,
    ) -> Substitute | Again | None:
        """What becomes of one attempt at a model call; None when it stands.

        Raises:
            StoppedByPolicy: The node fails here.
        """
        shown = (
            Succeeded(Payload.of(response_fields(result)))
            if isinstance(result, ModelResponse)
            else Erred(shown_error(result))
        )
        asking = self._asking(context, attempt=attempt, max_attempts=max_attempts)
        outcome = await self._after(
            Seam.MODEL_CALL, context, _agent(context), shown, asking
        )
        match outcome:
            case Passed():
                return None
            case Replaced(value=value, by=by):
                return Substitute(value.value, by)
            case RetryGranted(delay=delay):
                return Again(delay)
            case Failed(reason=reason, by=by):
                failed = f", after it failed ({result})" if _is_fault(result) else ""
                did = f"does not accept this model call (modelCall.after){failed}"
                raise StoppedByPolicy(by=by, did=did, reason=reason)
            case _:
                assert_never(outcome)

    # -- around an agent's round -------------------------------------------------------

    async def round_before(
        self, context: "NodeContext", number: int, max_rounds: int
    ) -> None:
        """Ask whether there may be another round.

        Raises:
            StoppedByPolicy: There may not, which ends the node.
        """
        given = Payload.of({"round": number, "maxRounds": max_rounds})
        outcome = await self._before(
            Seam.AGENT_ROUND, context, _agent(context), given, self._asking(context)
        )
        if isinstance(outcome, Rejected):
            did = f"does not let round {number} begin (agentRound.before)"
            raise StoppedByPolicy(by=outcome.by, did=did, reason=outcome.reason)

    async def round_after(
        self, context: "NodeContext", number: int, tools: list[str]
    ) -> None:
        """Tell of a round that ran tools, by their names in call order.

        Raises:
            StoppedByPolicy: It was the last one, which ends the node.
        """
        value = Succeeded(Payload.of({"round": number, "toolCalls": tools}))
        outcome = await self._after(
            Seam.AGENT_ROUND, context, _agent(context), value, self._asking(context)
        )
        if isinstance(outcome, Failed):
            did = f"ends the agent after round {number} (agentRound.after)"
            raise StoppedByPolicy(by=outcome.by, did=did, reason=outcome.reason)

    # -- asking ------------------------------------------------------------------------

    def _asking(
        self,
        context: "NodeContext",
        *,
        attempt: int | None = None,
        max_attempts: int | None = None,
        retry_refused: str | None = None,
        check_input: Callable[[State], str | None] | None = None,
    ) -> Asking:
        return Asking(
            ConsultationServices(context, self._policies.models),
            context.warn_of_policy,
            context.attempt if attempt is None else attempt,
            self._max_attempts if max_attempts is None else max_attempts,
            self._policies.patience,
            retry_refused,
            check_input,
        )

    def _before(
        self,
        seam: Seam,
        context: "NodeContext",
        subject: NodeSubject | ToolSubject,
        given: Payload,
        asking: Asking,
    ) -> Coroutine[Any, Any, BeforeOutcome]:
        return _settled(context, self._chain.before(seam, subject, given, asking))

    def _after(
        self,
        seam: Seam,
        context: "NodeContext",
        subject: NodeSubject | ToolSubject,
        outcome: Outcome,
        asking: Asking,
        given: Payload = NOTHING_GIVEN,
    ) -> Coroutine[Any, Any, AfterOutcome]:
        asked = self._chain.after(seam, subject, outcome, asking, given=given)
        return _settled(context, asked)


class ConsultationServices(RunServices):
    """What a policy may use of the run while it answers: that run's tools and events."""

    __slots__ = ("_models",)

    def __init__(self, context: "NodeContext", models: Mapping[str, Component]) -> None:
        # Made for each consultation, so without a call more.
        self._context = context
        self._workspace = None
        self._models = models

    async def call_model(
        self, component_type: str, request: ModelRequest, /
    ) -> ModelResponse:
        """Ask the model in the component's own settings."""
        llm = self._models.get(component_type)
        if llm is None:
            raise NodeFault(
                f"{component_type!r} has no 'llm_config' in its settings",
                fix=f"Give it one with --plugin-config {component_type}=….",
            )
        whole = whole_request(self._context, llm, request)
        response = await _unasked(self._context, llm, whole)
        self._context.spend(response.usage)
        return response


async def _unasked(
    context: "NodeContext", llm: Component, request: ModelRequest
) -> ModelResponse:
    """A policy's own model call: no policy is asked about it, or it would never end."""
    return await answer(context, llm, request, None, _unasked)


def shown_error(fault: Exception) -> ShownError:
    """An error as policies see it, with what a provider said about trying again."""
    return ShownError(
        type(fault).__name__,
        str(fault),
        getattr(fault, "status", None),
        getattr(fault, "retry_after_ms", None),
        getattr(fault, "retryable", None),
    )


def _outcome(result: Mapping[str, Any] | Fault) -> Outcome:
    if isinstance(result, Fault):
        return Erred(shown_error(result))
    return Succeeded(Payload.of(result))


def _is_fault(result: object) -> bool:
    return isinstance(result, Fault)


def _object(payload: Payload) -> State:
    value: State = payload.value
    return value


def _subject(context: "NodeContext") -> NodeSubject:
    return NodeSubject(context.name, context.type, context.path)


def _agent(context: "NodeContext") -> AgentSubject:
    return AgentSubject(context.name, context.type, context.path, context.speaker)


def _tool(context: "NodeContext", call: tuple[str, str]) -> ToolSubject:
    return ToolSubject(context.name, context.type, *call, context.path, context.speaker)


async def _settled(context: "NodeContext", settling: Awaitable[_T]) -> _T:
    """What the chain comes to; a policy that fails is told with the node."""
    try:
        return await settling
    except MiddlewareFailure as failure:
        raise _policy_failed(context, failure) from failure


def _where(context: "NodeContext") -> str:
    return f"node {context.name!r} ({context.type})"


def _refused(context: "NodeContext", by: str, did: str, reason: str) -> RefusedByPolicy:
    return RefusedByPolicy(by=by, did=did, reason=reason, where=_where(context))


def _policy_failed(context: "NodeContext", failure: MiddlewareFailure) -> PolicyFailed:
    return PolicyFailed(
        f"{failure.where}: {failure.what}", where=_where(context), fix=failure.fix
    )
