"""The built-in scripted model: answers from the document, without network or credential.

    {"component_type": "OpenAiCompatibleConfig", "url": "scripted:", "model_id": "demo",
     "metadata": {"script": [
        {"tool_calls": [{"name": "count_words", "arguments": {"path": "{{path}}"}}]},
        {"content": "{{path}} has {{words}} words."}]}}

The step is chosen by how many answers follow the last user message, so that the model
keeps no state and every run begins at the first step. ``{{name}}`` is a key of the JSON
objects in the conversation: of the last user message, then of the tool messages, the
latest one winning; ``{{user}}`` is the whole last user message. One pass; an unknown
name is kept as it stands. Reads no files and no environment.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
import trio
from msgspec import Struct

from heddle.models.errors import ScriptFault
from plugins_host import Message, ModelRequest, ModelResponse, ToolCall

SCRIPTED_URL: Final = "scripted:"

_PLACEHOLDER: Final = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_WORD: Final = re.compile(r"\s*\S+\s*|\s+")
_FIX: Final = (
    'Give metadata a "script": a list of {"content": …} or {"tool_calls": [{"name": …, '
    '"arguments": {…}}]}.'
)


class ScriptedCall(Struct, frozen=True, forbid_unknown_fields=True):
    """A tool call of a step. Text in the arguments may hold placeholders."""

    name: str
    arguments: dict[str, Any] = {}


class Step(Struct, frozen=True, forbid_unknown_fields=True):
    """One answer."""

    content: str = ""
    tool_calls: tuple[ScriptedCall, ...] = ()


def read_script(metadata: Mapping[str, Any] | None, *, where: str) -> tuple[Step, ...]:
    """The steps in the metadata of an LLM config.

    Raises:
        ScriptFault: There is no script, or it is malformed.
    """
    script = (metadata or {}).get("script")
    if not isinstance(script, list | tuple) or not script:
        raise ScriptFault(
            "a scripted model without a script", where=f"{where} metadata", fix=_FIX
        )
    steps: list[Step] = []
    for index, step in enumerate(script):
        place = f"{where} metadata.script[{index}]"
        try:
            read = msgspec.convert(step, Step)
        except msgspec.ValidationError as error:
            raise ScriptFault(str(error), where=place, fix=_FIX) from error
        if not read.content and not read.tool_calls:
            raise ScriptFault("a step that says nothing", where=place, fix=_FIX)
        steps.append(read)
    return tuple(steps)


def answer(script: tuple[Step, ...], request: ModelRequest, *, where: str) -> ModelResponse:
    """The next answer of ``script`` in the conversation of ``request``.

    Raises:
        ScriptFault: The conversation is longer than the script.
    """
    position = 0
    for message in reversed(request.messages):
        if message.role == "user":
            break
        position += message.role == "assistant"
    if position >= len(script):
        raise ScriptFault(
            f"the script has {len(script)} step{'s' if len(script) > 1 else ''} and was "
            "asked for one more",
            where=where,
            fix="Add a step to metadata.script.",
        )
    step = script[position]
    values = _values(request.messages)
    asked = sum(len(message.tool_calls) for message in request.messages)
    calls = tuple(
        ToolCall(
            id=f"call_{asked + number}",
            name=call.name,
            arguments=msgspec.json.encode(_filled(call.arguments, values)).decode(),
        )
        for number, call in enumerate(step.tool_calls, start=1)
    )
    return ModelResponse(
        content=_fill(step.content, values),
        finish_reason="tool_calls" if calls else "stop",
        tool_calls=calls,
    )


async def play(
    script: tuple[Step, ...],
    request: ModelRequest,
    *,
    where: str,
    on_text: Callable[[str], None] | None,
) -> ModelResponse:
    """`answer`, handed to ``on_text`` word by word."""
    response = answer(script, request, where=where)
    await trio.lowlevel.checkpoint()
    if on_text is not None:
        for word in _WORD.findall(response.content):
            on_text(word)
            await trio.lowlevel.checkpoint()
    return response


def _values(messages: tuple[Message, ...]) -> dict[str, Any]:
    said = next((m.content for m in reversed(messages) if m.role == "user"), "")
    values = _object(said)
    for message in messages:
        if message.role == "tool":
            values.update(_object(message.content))
    values["user"] = said
    return values


def _object(text: str) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _fill(template: str, values: Mapping[str, Any]) -> str:
    def text(match: re.Match[str]) -> str:
        if match[1] not in values:
            return match[0]
        value = values[match[1]]
        return value if isinstance(value, str) else msgspec.json.encode(value).decode()

    return _PLACEHOLDER.sub(text, template)


def _filled(value: Any, values: Mapping[str, Any]) -> Any:
    match value:
        case str():
            return _fill(value, values)
        case list():
            return [_filled(item, values) for item in value]
        case dict():
            return {key: _filled(item, values) for key, item in value.items()}
        case _:
            return value
