"""What a policy may do to a model call: edit its request, or stand in with an answer.

    edited(request, {"temperature": 0})      every other field keeps its value
    read_response({"content": "hi"})         a whole answer, as if a model had given it

A present field is checked, messages one by one and then together: a provider refuses a
conversation in which a call goes unanswered or an answer has no call. Raises `EditError`
with the path of what is wrong; the chain adds who did it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from plugins_host.conversation import (
    Message,
    ModelRequest,
    ModelResponse,
    ToolCall,
    ToolDefinition,
    Usage,
)
from plugins_host.faults import Fault, nearest


class EditError(Fault):
    """The edit or the answer would not survive the way to the provider and back."""


class _Edit(Struct, frozen=True, rename="camel"):
    """A request of which every field may be absent."""

    model: str | UnsetType = UNSET
    messages: tuple[Message, ...] | UnsetType = UNSET
    tools: tuple[ToolDefinition, ...] | UnsetType = UNSET
    temperature: float | UnsetType = UNSET
    max_tokens: int | UnsetType = UNSET
    top_p: float | UnsetType = UNSET
    response_format: Literal["text", "json"] | UnsetType = UNSET
    response_schema: dict[str, Any] | UnsetType = UNSET
    parameters: dict[str, Any] | UnsetType = UNSET


class _Response(Struct, frozen=True):
    content: str
    finish_reason: str | UnsetType = UNSET
    tool_calls: tuple[ToolCall, ...] | None = None
    usage: Usage | None = None


_FIELDS: Final = dict(
    zip(_Edit.__struct_fields__, _Edit.__struct_encode_fields__, strict=True)
)


def edited(request: ModelRequest, edit: Mapping[str, Any]) -> ModelRequest:
    """The request with every field of ``edit`` (names as on the wire) in its place.

    Raises:
        EditError: A field has the wrong type, or the conversation no longer holds
            together.
    """
    for name in edit:
        guess = None if name in _FIELDS.values() else nearest(name, _FIELDS.values())
        if guess is not None and guess not in edit:
            raise EditError(
                f"a model request has no field {name!r}", fix=f"Did you mean {guess!r}?"
            )
    try:
        read = msgspec.convert(edit, _Edit)
    except msgspec.ValidationError as error:
        raise EditError(
            f"'input' is no edit of a model request ({error})",
            fix="Give the fields that change, each in its own type.",
        ) from None
    if not isinstance(read.messages, UnsetType):
        check_conversation(read.messages)
    changes = {name: getattr(read, name) for name, word in _FIELDS.items() if word in edit}
    return msgspec.structs.replace(request, **changes)


def read_response(value: object) -> ModelResponse:
    """A model's answer from its JSON; ``content`` must be there, the rest may be.

    Raises:
        EditError: It is no well-formed answer.
    """
    try:
        read = msgspec.convert(value, _Response)
    except msgspec.ValidationError as error:
        raise EditError(
            f"'value' is no answer of a model ({error})",
            fix="Give {content, finish_reason?, tool_calls?: [{id, name, arguments}]}, "
            "all texts.",
        ) from None
    calls = read.tool_calls or ()
    reason = read.finish_reason
    if isinstance(reason, UnsetType):
        reason = "tool_calls" if calls else "stop"
    return ModelResponse(read.content, reason, calls, read.usage)


def response_fields(response: ModelResponse) -> dict[str, Any]:
    """The answer as it is on the wire: ``content`` and ``finish_reason`` always there."""
    fields: dict[str, Any] = {
        "content": response.content,
        "finish_reason": response.finish_reason,
    }
    if response.tool_calls:
        fields["tool_calls"] = response.tool_calls
    if response.usage is not None:
        fields["usage"] = response.usage
    return fields


def check_conversation(messages: Sequence[Message]) -> None:
    """Check that every call is answered once, right after it, and every answer has a call.

    Raises:
        EditError: It is not so; names the message.
    """
    waiting: dict[str, int] = {}
    for index, message in enumerate(messages):
        if message.role == "tool":
            call = message.tool_call_id
            if call is None:
                raise EditError(
                    f"messages[{index}] is of a tool and has no 'tool_call_id'",
                    fix="Name the call that it answers.",
                )
            if waiting.pop(call, None) is None:
                raise EditError(
                    f"messages[{index}] answers the call {call!r}, which is gone",
                    fix="Remove the answer with its call, or keep both.",
                )
            continue
        _check_answered(waiting)
        if message.tool_calls and message.role != "assistant":
            raise EditError(
                f"messages[{index}] calls tools and is of the {message.role}",
                fix="Only the assistant calls tools.",
            )
        waiting = {call.id: index for call in message.tool_calls}
    _check_answered(waiting)


def _check_answered(waiting: Mapping[str, int]) -> None:
    for call, index in waiting.items():
        raise EditError(
            f"the call {call!r} of messages[{index}] has lost its answer",
            fix="Remove the call with its answer, or keep both.",
        )
