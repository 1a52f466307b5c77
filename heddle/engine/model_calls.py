"""One model call: put together, shown to policies, sent, streamed, made again if they say.

modelCall.before once ──▶ attempt 1 ──▶ modelCall.after ──retry──▶ attempt 2 …
                  └──replace──▶ the answer; nothing is sent, nothing comes after
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from heddle.engine.decisions import Substitute
from heddle.engine.faults import EngineFault
from heddle.engine.work import NodeContext
from heddle.spec import Component
from plugins_host import Fault, Message, ModelRequest, ModelResponse, ToolDefinition

if TYPE_CHECKING:
    from heddle.engine.gate import Gate

MAX_ATTEMPTS: Final = 3
"""Requests for one model call. A ceiling that a policy could raise would be none."""


CUT_SHORT: Final[Mapping[str, str]] = {
    "length": "it reached the largest number of tokens (max_tokens)",
    "content_filter": "the provider's filter took a part away",
}
"""Finish reasons of answers that are used and that somebody should know about."""


async def call_model(
    context: NodeContext,
    llm: Component,
    messages: tuple[Message, ...],
    *,
    tools: tuple[ToolDefinition, ...] = (),
    schema: dict[str, Any] | None = None,
) -> ModelResponse:
    """Ask the model on behalf of a node.

    Args:
        context: The execution that asks.
        llm: The LLM configuration of the document.
        messages: The whole conversation.
        tools: What the model may ask for.
        schema: The JSON Schema of the object to answer with; None for text.

    Raises:
        Fault: There is no answer; a `ModelError` when the provider is why.
        StoppedByPolicy: A policy does not let it be made, or does not accept it.
    """
    request = ModelRequest(
        model=getattr(llm, "model_id", ""),
        messages=messages,
        tools=tools,
        response_format=None if schema is None else "json",
        response_schema=schema,
        **context.services.models.defaults(llm),
    )
    gate = context.run.gate
    if gate is not None and gate.asked.model_before:
        decided = await gate.model_before(context, request, MAX_ATTEMPTS)
        if isinstance(decided, Substitute):
            return _instead(context, decided.value)
        request = decided
    if gate is None or not gate.asked.model_after:
        response = await _attempt(context, llm, request)
        if isinstance(response, Fault):
            raise response
        return response
    return await _attempts(context, gate, llm, request)


async def _attempts(
    context: NodeContext, gate: "Gate", llm: Component, request: ModelRequest
) -> ModelResponse:
    """Send the request until an outcome stands; the last attempt's always does."""
    before = context.shown_text
    for attempt in range(1, MAX_ATTEMPTS + 1):
        outcome = await _attempt(context, llm, request)
        decided = await gate.model_after(context, outcome, attempt, MAX_ATTEMPTS)
        if decided is None:
            if isinstance(outcome, Fault):
                raise outcome
            return outcome
        context.discard_text(before)
        if isinstance(decided, Substitute):
            return _instead(context, decided.value)
        await _wait(decided.delay)
    raise AssertionError("the chain grants no retry of the last attempt")


async def _attempt(
    context: NodeContext, llm: Component, request: ModelRequest
) -> ModelResponse | Fault:
    """Send the request once; what came of it, with its tokens counted."""
    try:
        response = await context.services.models.chat(
            llm, request, on_text=context.show_text if context.services.stream else None
        )
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


def _instead(context: NodeContext, response: ModelResponse) -> ModelResponse:
    """An answer that no model gave, shown as if one had."""
    if context.services.stream and response.content:
        context.show_text(response.content)
    return response
