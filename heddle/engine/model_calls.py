"""One model call: put together, shown to policies, sent, streamed, made again if they say.

modelCall.before once ──▶ attempt 1 ──▶ modelCall.after ──retry──▶ attempt 2 …
                  └──replace──▶ the answer; nothing is sent, nothing comes after

What policies let stand, the `retry_policy` of the LLM configuration may have sent again.
All attempts count against one ceiling, whoever wanted them.
"""

from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any, Final

from heddle.engine.decisions import Again, Substitute
from heddle.engine.faults import EngineFault, RunFailed
from heddle.engine.plugin_calls import OnText, answer, model_name
from heddle.engine.retries import Retries, failure_of
from heddle.engine.work import NodeContext
from heddle.spec import Component, RetryPolicy
from plugins_host import Fault, Message, ModelRequest, ModelResponse, ToolDefinition

if TYPE_CHECKING:
    from heddle.engine.gate import Gate
    from heddle.engine.tracing import Trace

MAX_ATTEMPTS: Final = 3
"""Requests for one model call. A ceiling that a policy or a document could raise would be
none: it is the operator who pays for the requests."""


CUT_SHORT: Final[Mapping[str, str]] = {
    "length": "it reached the largest number of tokens (max_tokens)",
    "content_filter": "the provider's filter took a part away",
}
"""Finish reasons of answers that are used and that somebody should know about."""


def call_model(
    context: NodeContext,
    llm: Component,
    messages: tuple[Message, ...],
    *,
    tools: tuple[ToolDefinition, ...] = (),
    schema: dict[str, Any] | None = None,
    shown: bool = True,
) -> Awaitable[ModelResponse]:
    """Ask the model on behalf of a node.

    Args:
        context: The execution that asks.
        llm: The LLM configuration of the document.
        messages: The whole conversation.
        tools: What the model may ask for.
        schema: The JSON Schema of the object to answer with; None for text.
        shown: Whether readers may see its text as it comes.

    Raises:
        Fault: There is no answer; a `ModelError` when the provider is why.
        StoppedByPolicy: A policy does not let it be made, or does not accept it.
    """
    request = ModelRequest(
        model=model_name(llm),
        messages=messages,
        tools=tools,
        response_format=None if schema is None else "json",
        response_schema=schema,
        **context.services.models.defaults(llm),
    )
    return _send(context, llm, request, shown=shown)


async def send_unseen(
    context: NodeContext, llm: Component, request: ModelRequest
) -> ModelResponse:
    """Make a model call of a plugin that works for a node: no part of the node's answer.

    heddle sends it like any other, so policies are asked about it like about any other.

    Raises:
        Fault: There is no answer.
        StoppedByPolicy: A policy does not let it be made, or does not accept it.
    """
    return await _send(context, llm, request, shown=False)


async def _send(
    context: NodeContext, llm: Component, request: ModelRequest, *, shown: bool
) -> ModelResponse:
    """A call, from its policies to the answer that stands."""
    gate = context.run.gate
    shown = shown and context.services.stream
    if gate is not None and gate.asked.model_before:
        decided = await gate.model_before(context, request, MAX_ATTEMPTS)
        if isinstance(decided, Substitute):
            return _instead(context, decided.value, shown=shown)
        request = decided
    policy: RetryPolicy | None = getattr(llm, "retry_policy", None)
    asked = gate if gate is not None and gate.asked.model_after else None
    if asked is None and policy is None:
        response = await _attempt(context, llm, request, shown=shown)
        if isinstance(response, Fault):
            raise response
        return response
    return await _attempts(context, asked, Retries(policy), llm, request, shown=shown)


async def _attempts(
    context: NodeContext,
    gate: "Gate | None",
    retries: Retries,
    llm: Component,
    request: ModelRequest,
    *,
    shown: bool,
) -> ModelResponse:
    """Send the request until an outcome stands.

    Policies are asked about each attempt, and decide first; what they let stand may be
    tried again by the document. Neither is granted an attempt beyond `MAX_ATTEMPTS`.
    """
    before = context.shown_text
    attempt = 0
    while True:
        attempt += 1
        outcome = await _attempt(context, llm, request, shown=shown)
        decided: Substitute | Again | None = None
        if gate is not None:
            decided = await gate.model_after(context, outcome, attempt, MAX_ATTEMPTS)
        if decided is None:
            if not isinstance(outcome, Fault):
                return outcome
            decided = _by_document(context, retries, outcome, attempt)
        if shown:
            context.discard_text(before)
        if isinstance(decided, Substitute):
            return _instead(context, decided.value, shown=shown)
        await _wait(decided.delay)


def _by_document(
    context: NodeContext, retries: Retries, failed: Fault, attempt: int
) -> Again:
    """What the ``retry_policy`` of the configuration makes of a failure that stands.

    Raises:
        Fault: The failure; it is not tried again.
    """
    delay = retries.after(failure_of(failed))
    if delay is None:
        raise failed
    what = f"node {context.name!r}: {failed}"
    if attempt >= MAX_ATTEMPTS:
        context.warn(
            f"{what}; not trying again, as its retry_policy would: there are at most "
            f"{MAX_ATTEMPTS} attempts at a model call"
        )
        raise failed
    context.warn(retries.announced(what, delay, attempt=attempt, most=MAX_ATTEMPTS))
    return Again(delay)


def _attempt(
    context: NodeContext, llm: Component, request: ModelRequest, *, shown: bool
) -> Awaitable[ModelResponse | Fault]:
    """Send the request once; what came of it, with its tokens counted."""
    on_text = context.show_text if shown else None
    trace = context.run.trace
    if trace is None:
        return _sent(context, llm, request, on_text)
    return _traced(trace, context, llm, request, on_text)


async def _traced(
    trace: "Trace",
    context: NodeContext,
    llm: Component,
    request: ModelRequest,
    on_text: OnText,
) -> ModelResponse | Fault:
    with trace.asking(context, llm, request, on_text) as traced:
        traced.outcome = await _sent(context, llm, request, traced.on_text)
    return traced.outcome


async def _sent(
    context: NodeContext, llm: Component, request: ModelRequest, on_text: OnText
) -> ModelResponse | Fault:
    try:
        response = await answer(context, llm, request, on_text, send_unseen)
    except RunFailed:
        raise
    except Fault as fault:
        return fault
    except Exception as bug:  # noqa: BLE001  told as one, to policies too
        return EngineFault.of(bug)
    context.spend(response.usage)
    if response.finish_reason in CUT_SHORT:
        context.warn(
            f"node {context.name!r}: the model's answer is not whole: "
            f"{CUT_SHORT[response.finish_reason]}"
        )
    return response


async def _wait(seconds: float) -> None:
    import trio

    await trio.sleep(seconds)


def _instead(
    context: NodeContext, response: ModelResponse, *, shown: bool
) -> ModelResponse:
    """An answer that no model gave, shown as if one had."""
    if shown and response.content:
        context.show_text(response.content)
    return response
