"""What the writers of several protocols share: what has no field of its own there."""

from typing import Any

import msgspec

from plugins_host import ModelRequest, ToolCall


def json_wanted(request: ModelRequest) -> list[str]:
    """How a model is asked in words for the JSON that the request wants."""
    if request.response_schema is not None:
        schema = msgspec.json.encode(request.response_schema).decode()
        wanted = f"Give your final answer as one JSON object of this schema: {schema}"
    elif request.response_format == "json":
        wanted = "Give your final answer as one JSON object"
    else:
        return []
    return [f"{wanted}\nWrite the object and nothing else: no explanation, no code fence."]


def as_object(text: str, name: str) -> dict[str, Any]:
    """The JSON object in ``text``; anything else is sent under ``name``."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        value = text
    return value if isinstance(value, dict) else {name: value}


def arguments_of(call: ToolCall) -> dict[str, Any]:
    """The arguments as the object that is sent; none at all is an empty one."""
    return as_object(call.arguments, "arguments") if call.arguments.strip() else {}
