"""What the suites of the model client share."""

from typing import Any

from heddle.models import HttpEndpoint
from heddle.models.endpoint import ApiType, Secret, read_url
from plugins_host.conversation import Message, ModelRequest

KEY = "sk-very-secret-0123456789"


def endpoint_at(
    url: str, api_type: ApiType = "chat_completions", **fields: Any
) -> HttpEndpoint:
    """An endpoint with a credential."""
    origin, target, userinfo = read_url(url, api_type, where="test")
    return HttpEndpoint(
        name="model",
        origin=origin,
        target=target,
        userinfo=userinfo,
        api_type=api_type,
        **{"api_key": Secret(KEY), **fields},
    )


def ask(text: str = "hi", **fields: Any) -> ModelRequest:
    """A request with one user message."""
    return ModelRequest(model="m-1", messages=(Message("user", text),), **fields)
