"""An LLM config of a document made into an endpoint and the defaults of its requests.

{"component_type": "OllamaConfig", "url": "localhost:11434", "model_id": "llama3",
 "default_generation_parameters": {"temperature": 0, "seed": 7}}
    ->  http://localhost:11434 /v1/chat/completions, no credential
        {"temperature": 0.0, "parameters": {"seed": 7}}
"""

import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from msgspec import Struct

from heddle.models.endpoint import (
    ApiType,
    Endpoint,
    HttpEndpoint,
    ScriptedEndpoint,
    Secret,
    TlsFiles,
    read_url,
)
from heddle.models.errors import CredentialMissing, EndpointInvalid
from heddle.models.scripted import SCRIPTED_URL, read_script
from heddle.spec import (
    Component,
    GeminiAIStudioAuthConfig,
    GeminiConfig,
    LlmConfig,
    Model,
    OpenAiCompatibleConfig,
    OpenAiConfig,
)
from plugins_host import one_of

Reachable: TypeAlias = OpenAiCompatibleConfig | OpenAiConfig | LlmConfig | GeminiConfig
"""The LLM configs that say where to call. `PROVIDERS` knows what is particular to each."""

CHOICES: Final[tuple[ApiType, ...]] = ("chat_completions", "responses")
"""The protocols that a document chooses between by ``api_type``."""

_REFERENCE: Final = re.compile(r"\$(?:(\w+)|\{(\w+)\})")


class Provider(Struct, frozen=True):
    """What is particular to one type of LLM config.

    Args:
        url: Where it is when the document does not say.
        key_variable: The environment variable that the key comes from when the document
            names none. With one, a key is required.
        limit_name: How it calls the largest number of tokens to generate.
        key_header: The header for the key; None for a bearer token.
        api_type: The protocol, where the document has no choice.
    """

    url: str | None = None
    key_variable: str | None = None
    limit_name: str = "max_tokens"
    key_header: str | None = None
    api_type: ApiType | None = None


ANTHROPIC: Final = "LlmConfig of api_provider anthropic"
"""It has no type of its own."""

PROVIDERS: Final[Mapping[str, Provider]] = {
    # Newer models there refuse `max_tokens`; all take the other name.
    "OpenAiConfig": Provider(
        "https://api.openai.com/v1", "OPENAI_API_KEY", "max_completion_tokens"
    ),
    "OpenAiCompatibleConfig": Provider(),
    "VllmConfig": Provider(),
    "OllamaConfig": Provider(),
    "GeminiConfig": Provider(
        "https://generativelanguage.googleapis.com/v1beta",
        "GEMINI_API_KEY",
        key_header="x-goog-api-key",
        api_type="gemini",
    ),
    ANTHROPIC: Provider(
        "https://api.anthropic.com/v1",
        "ANTHROPIC_API_KEY",
        key_header="x-api-key",
        api_type="messages",
    ),
}


# What a bare LlmConfig may name; with a url it need not name any.
API_PROVIDERS: Final[Mapping[str | None, str]] = {
    None: "OpenAiCompatibleConfig",
    "openai": "OpenAiConfig",
    "vllm": "VllmConfig",
    "ollama": "OllamaConfig",
    "google": "GeminiConfig",
    "anthropic": ANTHROPIC,
}


def endpoint_for(llm_config: Component, environ: Mapping[str, str]) -> Endpoint:
    """The endpoint of an LLM config. For the first call: it needs the credential.

    Args:
        llm_config: A component of one of the types in `PROVIDERS`, or a bare LlmConfig.
        environ: Where ``$NAME`` credentials are read from. On a server, what callers may
            name, because a document decides where the credential is sent.

    Raises:
        EndpointInvalid: The type, URL or another field cannot be used.
        CredentialMissing: The credential is named and not there, or is no header value.
        ScriptFault: The script of a scripted model is malformed.
    """
    where = f"llm_config {llm_config.name!r}"
    if not isinstance(llm_config, Reachable):
        raise _unknown(llm_config.component_type, where)
    provider = _provider(llm_config, where)
    url = llm_config.url or provider.url
    if url is None:
        raise EndpointInvalid("has no url", where=where, fix="Set url.")
    if url.strip().lower() == SCRIPTED_URL:
        script = read_script(llm_config.metadata, where=where)
        return ScriptedEndpoint(llm_config.name, script)
    api_type = provider.api_type or _api_type(llm_config, where)
    origin, target, userinfo = read_url(url, api_type, where=where)
    tls = TlsFiles()
    if isinstance(llm_config, OpenAiCompatibleConfig):
        tls = TlsFiles(llm_config.ca_file, llm_config.cert_file, llm_config.key_file)
    policy = llm_config.retry_policy
    return HttpEndpoint(
        name=llm_config.name,
        origin=origin,
        target=target,
        api_key=_api_key(llm_config, provider, environ, where),
        userinfo=userinfo,
        api_type=api_type,
        limit_name=provider.limit_name,
        key_header=provider.key_header,
        tls=tls,
        timeout=None if policy is None else policy.request_timeout,
    )


def _provider(llm_config: Reachable, where: str) -> Provider:
    """A bare LlmConfig says by ``api_provider`` what the others say by their type."""
    if not isinstance(llm_config, LlmConfig):
        return PROVIDERS[llm_config.component_type]
    serving = llm_config.api_provider or ("openai" if llm_config.url is None else None)
    if serving not in API_PROVIDERS:
        raise EndpointInvalid(
            f"api_provider {serving!r} is none that heddle can call",
            where=where,
            fix=one_of(str(serving), [name for name in API_PROVIDERS if name]),
        )
    return PROVIDERS[API_PROVIDERS[serving]]


def _unknown(kind: str, where: str) -> EndpointInvalid:
    return EndpointInvalid(
        f"{kind!r} is not an LLM config that heddle can call",
        where=where,
        fix=one_of(kind, PROVIDERS),
    )


def _api_type(llm_config: Reachable, where: str) -> ApiType:
    name = llm_config.api_type or "chat_completions"
    for known in CHOICES:
        if name == known:
            return known
    raise EndpointInvalid(
        f"api_type {name!r} is unknown", where=where, fix=one_of(name, CHOICES)
    )


def _api_key(
    llm_config: Reachable, provider: Provider, environ: Mapping[str, str], where: str
) -> Secret | None:
    key = llm_config.api_key
    if isinstance(llm_config, GeminiConfig):
        if not isinstance(llm_config.auth, GeminiAIStudioAuthConfig):
            raise EndpointInvalid(
                f"auth is of type {llm_config.auth.component_type}, and heddle logs in "
                "to Gemini by key only",
                where=where,
                fix="Use a GeminiAIStudioAuthConfig, which has an api_key.",
            )
        key = llm_config.auth.api_key or key
    written = (key or "").strip()
    if not written:
        if provider.key_variable is None:
            return None
        written = f"${provider.key_variable}"
    reference = _REFERENCE.fullmatch(written)
    if reference is None:
        key, source = written, "api_key"
    else:
        source = reference[1] or reference[2]
        # A key that was read from a file often ends with a newline.
        key = environ.get(source, "").strip()
        if not key:
            raise CredentialMissing(
                f"needs the credential in {source}, which is not set",
                where=where,
                fix=f"Set the environment variable {source}.",
            )
    if not key.isascii() or not key.isprintable():
        raise CredentialMissing(
            f"{source} holds characters that no credential has",
            where=where,
            fix="Check how it was copied.",
        )
    return Secret(key)


def request_defaults(llm_config: Component) -> dict[str, Any]:
    """The fields of a `ModelRequest` that an LLM config sets for every request.

    ``default_generation_parameters`` that have no field of their own go to
    ``parameters``; those that are null are left out.
    """
    if not isinstance(llm_config, Model):
        return {}
    given = llm_config.default_generation_parameters
    if given is None:
        return {}
    fields: dict[str, Any] = {
        "max_tokens": given.max_tokens,
        "temperature": given.temperature,
        "top_p": given.top_p,
        "parameters": {name: it for name, it in given.extras.items() if it is not None},
    }
    return {name: value for name, value in fields.items() if value not in (None, {})}
