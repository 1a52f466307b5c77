"""One model call: the request put together and sent, its text streamed to readers."""

from typing import Any

from heddle.engine.work import NodeContext
from heddle.events import TokenDelta
from heddle.spec import Component
from plugins_host.conversation import Message, ModelRequest, ModelResponse, ToolDefinition


async def call_model(
    context: NodeContext,
    llm: Component,
    messages: tuple[Message, ...],
    *,
    tools: tuple[ToolDefinition, ...] = (),
    schema: dict[str, Any] | None = None,
) -> ModelResponse:
    """Ask the model once on behalf of a node.

    Args:
        context: The execution that asks.
        llm: The LLM configuration of the document.
        messages: The whole conversation.
        tools: What the model may ask for.
        schema: The JSON Schema of the object to answer with; None for text.
    """
    services = context.services
    request = ModelRequest(
        model=getattr(llm, "model_id", ""),
        messages=messages,
        tools=tools,
        response_format=None if schema is None else "json",
        response_schema=schema,
        **services.models.defaults(llm),
    )

    def on_text(piece: str) -> None:
        context.report(TokenDelta(context.name, piece))

    response = await services.models.chat(
        llm, request, on_text=on_text if services.stream else None
    )
    context.spend(response.usage)
    return response
