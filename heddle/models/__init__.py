"""Calls to language models: endpoints, one client a process, and a scripted model.

    endpoint = endpoint_for(llm_config, os.environ)   at the first call: reads the key
    async with ModelClient() as client:
        response = await client.chat(endpoint, request, on_text=print)

Importing this package loads nothing slow: names are fetched on first use, and TLS only
when a URL asks for it.

    client      one a process, for any number of calls; `call`: one of them
    endpoint    where a model is; `configs`: read from a document's LLM config
    dialects    the protocols, as a table: `completion`, `responses`, `messages`, `gemini`;
                `asking` and `answers`: what several of them write and read alike
    connect     new connections; `proxies`: through which
    errors      what can go wrong; `complaints`: read off an error response
    scripted    a model that answers from the document
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from heddle.models.call import Timeouts
    from heddle.models.client import ModelClient
    from heddle.models.configs import endpoint_for, request_defaults
    from heddle.models.endpoint import (
        Endpoint,
        HttpEndpoint,
        ScriptedEndpoint,
        Secret,
    )
    from heddle.models.errors import (
        CredentialMissing,
        EndpointInvalid,
        ModelError,
        ModelProtocolError,
        ModelRateLimited,
        ModelRefused,
        ModelServerError,
        ModelTimedOut,
        ModelUnreachable,
        RequestInvalid,
        ScriptFault,
    )

__all__ = [
    "CredentialMissing",
    "Endpoint",
    "EndpointInvalid",
    "HttpEndpoint",
    "ModelClient",
    "ModelError",
    "ModelProtocolError",
    "ModelRateLimited",
    "ModelRefused",
    "ModelServerError",
    "ModelTimedOut",
    "ModelUnreachable",
    "RequestInvalid",
    "ScriptFault",
    "ScriptedEndpoint",
    "Secret",
    "Timeouts",
    "endpoint_for",
    "request_defaults",
]

_HOMES: Final = {
    "ModelClient": "client",
    "Timeouts": "call",
    "endpoint_for": "configs",
    "request_defaults": "configs",
    **dict.fromkeys(
        (
            "Endpoint",
            "HttpEndpoint",
            "ScriptedEndpoint",
            "Secret",
        ),
        "endpoint",
    ),
    **dict.fromkeys(
        (
            "CredentialMissing",
            "EndpointInvalid",
            "ModelError",
            "ModelProtocolError",
            "ModelRateLimited",
            "ModelRefused",
            "ModelServerError",
            "ModelTimedOut",
            "ModelUnreachable",
            "RequestInvalid",
            "ScriptFault",
        ),
        "errors",
    ),
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
