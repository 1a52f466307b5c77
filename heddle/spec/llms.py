"""The components that say which model to ask and how to reach it."""

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from msgspec import Meta, Struct

from heddle.spec.component import (
    SECRET,
    Component,
    PluginComponent,
    RetryPolicy,
    Secret,
    new_in,
)
from heddle.spec.datastores import AnyOracleConnectionConfig

OpenAiApiType: TypeAlias = Literal["chat_completions", "responses"]


class LlmGenerationConfig(Struct, frozen=True):
    """Parameters that go with each request.

    ``extras`` are those the specification has no name for; they are sent as they are.
    """

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    extras: dict[str, Any] = {}


class Model(Component, frozen=True, kw_only=True):
    """What all of them share: ``provider`` made the model, ``api_provider`` serves it."""

    model_id: str
    provider: Annotated[str | None, new_in("26.1.2")] = None
    api_provider: Annotated[str | None, new_in("26.1.2")] = None
    default_generation_parameters: LlmGenerationConfig | None = None
    retry_policy: Annotated[RetryPolicy | None, new_in("26.1.2")] = None


class LlmConfig(Model, frozen=True, kw_only=True):
    """A model at any provider."""

    since: ClassVar[str] = "26.1.2"

    api_type: str | None = None
    url: str | None = None
    api_key: Secret | None = None


class OpenAiCompatibleConfig(Model, frozen=True, kw_only=True):
    """A model behind an address that speaks OpenAI's protocol."""

    url: str
    api_type: Annotated[OpenAiApiType, new_in("25.4.2")] = "chat_completions"
    api_key: Annotated[Secret | None, new_in("25.4.2")] = None
    key_file: Annotated[str | None, new_in("26.1.2")] = None
    cert_file: Annotated[str | None, new_in("26.1.2")] = None
    ca_file: Annotated[str | None, new_in("26.1.2")] = None


class VllmConfig(OpenAiCompatibleConfig, frozen=True, kw_only=True):
    """A model that vLLM serves."""

    api_provider: Annotated[Literal["vllm"], new_in("26.1.2")] = "vllm"


class OllamaConfig(OpenAiCompatibleConfig, frozen=True, kw_only=True):
    """A model that Ollama serves."""

    api_provider: Annotated[Literal["ollama"], new_in("26.1.2")] = "ollama"


class OpenAiConfig(Model, frozen=True, kw_only=True):
    """A model of OpenAI itself."""

    provider: Annotated[Literal["openai"], new_in("26.1.2")] = "openai"
    api_provider: Annotated[Literal["openai"], new_in("26.1.2")] = "openai"
    api_type: Annotated[OpenAiApiType, new_in("25.4.2")] = "chat_completions"
    url: Annotated[str | None, new_in("26.1.2")] = None
    api_key: Annotated[Secret | None, new_in("26.1.0")] = None


class GeminiAIStudioAuthConfig(Component, frozen=True, kw_only=True):
    """Google AI Studio, by key."""

    since: ClassVar[str] = "26.1.2"

    api_key: Secret | None = None


class GeminiVertexAIAuthConfig(Component, frozen=True, kw_only=True):
    """Google Vertex AI; without ``credentials`` the environment's own are used."""

    since: ClassVar[str] = "26.1.2"

    project_id: str | None = None
    location: str = "global"
    credentials: Annotated[str | dict[str, Any] | None, SECRET] = None


class GeminiConfig(Model, frozen=True, kw_only=True):
    """A Gemini model of Google."""

    since: ClassVar[str] = "26.1.2"

    auth: GeminiAIStudioAuthConfig | GeminiVertexAIAuthConfig | PluginComponent
    provider: Literal["google"] = "google"
    api_type: str | None = None
    url: str | None = None
    api_key: Secret | None = None


class OciClientConfigWithApiKey(Component, frozen=True, kw_only=True):
    """Oracle Cloud, by the key of a profile in a file."""

    service_endpoint: str
    auth_profile: str
    auth_file_location: Secret
    auth_type: Literal["API_KEY"] = "API_KEY"


class OciClientConfigWithSecurityToken(Component, frozen=True, kw_only=True):
    """Oracle Cloud, by the token of a profile in a file."""

    service_endpoint: str
    auth_profile: str
    auth_file_location: Secret
    auth_type: Literal["SECURITY_TOKEN"] = "SECURITY_TOKEN"


class OciClientConfigWithInstancePrincipal(Component, frozen=True, kw_only=True):
    """Oracle Cloud, as the machine this runs on."""

    service_endpoint: str
    auth_type: Literal["INSTANCE_PRINCIPAL"] = "INSTANCE_PRINCIPAL"


class OciClientConfigWithResourcePrincipal(Component, frozen=True, kw_only=True):
    """Oracle Cloud, as the resource this runs in."""

    service_endpoint: str
    auth_type: Literal["RESOURCE_PRINCIPAL"] = "RESOURCE_PRINCIPAL"


AnyOciClientConfig: TypeAlias = (
    OciClientConfigWithApiKey
    | OciClientConfigWithSecurityToken
    | OciClientConfigWithInstancePrincipal
    | OciClientConfigWithResourcePrincipal
    | PluginComponent
)


class OciGenAiConfig(Model, frozen=True, kw_only=True):
    """A model of Oracle Cloud's generative AI service."""

    compartment_id: str
    client_config: AnyOciClientConfig
    provider: Literal["META", "GROK", "XAI", "COHERE", "OTHER"] | None = None
    api_provider: Annotated[Literal["oci"], new_in("26.1.2")] = "oci"
    serving_mode: Literal["ON_DEMAND", "DEDICATED"] = "ON_DEMAND"
    api_type: Annotated[
        Literal["oci", "openai_chat_completions", "openai_responses"], new_in("25.4.2")
    ] = "oci"
    conversation_store_id: Annotated[str | None, new_in("25.4.2")] = None
    url: Annotated[str | None, new_in("26.1.2")] = None
    api_key: Annotated[Secret | None, new_in("26.1.2")] = None


class DbmsVectorChainLlmConfig(Component, frozen=True, kw_only=True):
    """A model that an Oracle database calls from inside."""

    since: ClassVar[str] = "26.3.1"

    model_id: Annotated[str, Meta(min_length=1)]
    provider: Annotated[str, Meta(min_length=1)]
    url: Annotated[str, Meta(min_length=1)]
    credential_name: str | None = None
    host: Literal["local"] | None = None
    transfer_timeout: int | None = None
    connection_config: AnyOracleConnectionConfig | None = None
    default_generation_parameters: LlmGenerationConfig | None = None
    retry_policy: RetryPolicy | None = None


AnyLlmConfig: TypeAlias = (
    LlmConfig
    | OpenAiCompatibleConfig
    | VllmConfig
    | OllamaConfig
    | OpenAiConfig
    | GeminiConfig
    | OciGenAiConfig
    | DbmsVectorChainLlmConfig
    | PluginComponent
)
