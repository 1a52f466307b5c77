"""What goes to a model and what comes back, as every provider and policy sees it.

    request   {model, messages, tools?, temperature?, maxTokens?, topP?, responseFormat?,
               responseSchema?, parameters?}
    message   {role: system|user|assistant|tool, content, tool_calls?, tool_call_id?}
    call      {id, name, arguments: a string that should hold a JSON object, provider_data?}
    response  {content, finish_reason, tool_calls?, usage?: {inputTokens, outputTokens}}
    chunk     a piece of a streamed response

The words are the published wire format: camelCase and snake_case are mixed as it has them.
"""

from typing import Any, Literal

from msgspec import Struct

Role = Literal["system", "user", "assistant", "tool"]


class ToolCall(Struct, frozen=True, omit_defaults=True):
    """A model asks for a tool. ``arguments`` is the text that the model wrote.

    ``provider_data`` is what the provider wants back with the call as it came, such as
    signed thoughts, under a name of the provider's protocol; nothing else reads it.
    """

    id: str
    name: str
    arguments: str
    provider_data: dict[str, Any] | None = None


class Message(Struct, frozen=True, omit_defaults=True):
    """One entry of a conversation. ``tool_call_id`` answers a call of the same id."""

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None


class ToolDefinition(Struct, frozen=True):
    """A tool as a model is offered it; ``parameters`` is the JSON Schema of an object."""

    name: str
    description: str
    parameters: dict[str, Any]


class ModelRequest(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Everything that is sent for one answer.

    ``response_format`` "json" asks for a JSON object, of ``response_schema`` when there
    is one. ``parameters`` holds generation parameters that have no field of their own;
    they reach the provider under their own names.
    """

    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...] = ()
    temperature: float | None = None
    max_tokens: int | None = None
    top_p: float | None = None
    response_format: Literal["text", "json"] | None = None
    response_schema: dict[str, Any] | None = None
    parameters: dict[str, Any] = {}


class Usage(Struct, frozen=True, rename="camel"):
    """Tokens, as the provider counted them."""

    input_tokens: int
    output_tokens: int

    def __add__(self, other: "Usage") -> "Usage":
        """Both together."""
        return Usage(
            self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens
        )


class ModelResponse(Struct, frozen=True, omit_defaults=True):
    """One whole answer. ``usage`` is None when the provider did not say."""

    content: str = ""
    finish_reason: str = "stop"
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage | None = None
