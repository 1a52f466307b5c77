"""An LLM config of a document becomes an endpoint, or says what is wrong with it."""

import json
from typing import Any

import pytest

from heddle.models import (
    CredentialMissing,
    Endpoint,
    EndpointInvalid,
    HttpEndpoint,
    ScriptedEndpoint,
    ScriptFault,
    Secret,
    endpoint_for,
    request_defaults,
)
from heddle.models.configs import API_PROVIDERS, PROVIDERS
from heddle.models.endpoint import Origin, TlsFiles
from heddle.spec import (
    Component,
    DbmsVectorChainLlmConfig,
    GeminiAIStudioAuthConfig,
    GeminiConfig,
    GeminiVertexAIAuthConfig,
    LlmConfig,
    LlmGenerationConfig,
    OllamaConfig,
    OpenAiCompatibleConfig,
    OpenAiConfig,
    PluginComponent,
    RetryPolicy,
    VllmConfig,
)
from plugins_host.conversation import ModelRequest

LOCAL = (OpenAiCompatibleConfig, VllmConfig, OllamaConfig)


def http(config: Component, **environ: str) -> HttpEndpoint:
    endpoint: Endpoint = endpoint_for(config, environ)
    assert isinstance(endpoint, HttpEndpoint)
    return endpoint


@pytest.mark.parametrize("kind", LOCAL)
def test_a_local_provider_needs_no_key(kind: type[OpenAiCompatibleConfig]) -> None:
    endpoint = http(kind(name="local", url="localhost:11434", model_id="m"))

    assert endpoint == HttpEndpoint(
        name="local",
        origin=Origin("http", "localhost", 11434),
        target="/v1/chat/completions",
    )
    assert endpoint.authorization is None


def test_openai_has_its_own_url_key_and_words() -> None:
    endpoint = http(OpenAiConfig(name="gpt", model_id="m"), OPENAI_API_KEY="key-1")

    assert str(endpoint.origin) == "https://api.openai.com"
    assert endpoint.target == "/v1/chat/completions"
    assert endpoint.authorization == "Bearer key-1"
    assert endpoint.limit_name == "max_completion_tokens"


def test_openai_may_be_elsewhere_and_have_another_key() -> None:
    config = OpenAiConfig(name="gpt", model_id="m", url="http://proxy/v1", api_key="$MINE")

    endpoint = http(config, MINE="key-2", OPENAI_API_KEY="key-1")

    assert str(endpoint.origin) == "http://proxy"
    assert endpoint.api_key == Secret("key-2")


@pytest.mark.parametrize("written", ["$MY_KEY", "${MY_KEY}", " $MY_KEY "])
def test_a_key_is_read_from_the_environment_that_it_names(written: str) -> None:
    config = OpenAiCompatibleConfig(name="m", url="host", model_id="m", api_key=written)

    assert http(config, MY_KEY="key-1\n").api_key == Secret("key-1")


def test_a_key_that_is_written_out_is_taken_as_it_is() -> None:
    config = OpenAiCompatibleConfig(name="m", url="host", model_id="m", api_key="sk-$x")

    assert http(config).api_key == Secret("sk-$x")


@pytest.mark.parametrize("environ", [{}, {"OPENAI_API_KEY": " "}])
def test_a_key_that_is_not_set_is_refused_by_its_name(environ: dict[str, str]) -> None:
    with pytest.raises(CredentialMissing) as caught:
        endpoint_for(OpenAiConfig(name="gpt", model_id="m"), environ)

    assert str(caught.value) == (
        "llm_config 'gpt': needs the credential in OPENAI_API_KEY, which is not set. "
        "Set the environment variable OPENAI_API_KEY."
    )


@pytest.mark.parametrize("key", ["sk-a\r\nX: y", "sk-ü", "sk-\x00"])
def test_a_key_that_no_header_can_hold_is_refused_and_not_shown(key: str) -> None:
    config = OpenAiCompatibleConfig(name="m", url="host", model_id="m", api_key="$K")

    with pytest.raises(CredentialMissing, match="holds characters") as caught:
        endpoint_for(config, {"K": key})

    assert key[3:] not in str(caught.value)


def test_certificate_files_and_the_limit_of_a_request_are_kept() -> None:
    config = VllmConfig(
        name="m",
        url="https://host",
        model_id="m",
        ca_file="ca.pem",
        cert_file="cert.pem",
        key_file="key.pem",
        retry_policy=RetryPolicy(request_timeout=7.5),
    )

    endpoint = http(config)

    assert endpoint.tls == TlsFiles("ca.pem", "cert.pem", "key.pem")
    assert endpoint.timeout == 7.5


def test_the_other_protocol_is_asked_for_by_api_type() -> None:
    config = OllamaConfig(name="m", url="host", model_id="m", api_type="responses")

    assert http(config).target == "/v1/responses"


def test_an_unknown_protocol_is_refused_with_a_guess() -> None:
    config = LlmConfig(name="m", url="host", model_id="m", api_type="response")

    with pytest.raises(EndpointInvalid, match=r"'response' is unknown.*'responses'\?"):
        endpoint_for(config, {})


def test_a_bare_config_says_who_serves_it_or_where_it_is() -> None:
    openai = LlmConfig(name="m", model_id="m", api_provider="openai", api_key="k-123456")
    vllm = LlmConfig(name="m", model_id="m", api_provider="vllm", url="host")
    unnamed = LlmConfig(name="m", model_id="m", url="host")

    assert str(http(openai).origin) == "https://api.openai.com"
    assert http(vllm) == http(unnamed)
    with pytest.raises(CredentialMissing):
        endpoint_for(LlmConfig(name="m", model_id="m"), {})
    with pytest.raises(EndpointInvalid, match="api_provider 'oci' is none"):
        endpoint_for(LlmConfig(name="m", model_id="m", api_provider="oci"), {})
    with pytest.raises(EndpointInvalid, match="has no url"):
        endpoint_for(LlmConfig(name="m", model_id="m", api_provider="vllm"), {})


def test_other_components_are_refused_by_name_with_the_known_ones() -> None:
    oracle = DbmsVectorChainLlmConfig(name="o", model_id="m", provider="p", url="u")
    plugin = PluginComponent(name="p", type_name="OpenAICompatibleConfig")

    with pytest.raises(EndpointInvalid, match="'DbmsVectorChainLlmConfig' is not an"):
        endpoint_for(oracle, {})
    with pytest.raises(EndpointInvalid, match="Did you mean 'OpenAiCompatibleConfig'?"):
        endpoint_for(plugin, {})


def test_every_name_that_serves_a_bare_config_is_a_known_provider() -> None:
    assert set(API_PROVIDERS.values()) == set(PROVIDERS)


def test_a_scripted_model_needs_neither_url_nor_key() -> None:
    script = [{"content": "hi"}]
    config = OpenAiCompatibleConfig(
        name="demo", url="scripted:", model_id="m", metadata={"script": script}
    )

    endpoint = endpoint_for(config, {})

    assert isinstance(endpoint, ScriptedEndpoint)
    assert endpoint.label == "llm_config 'demo'"
    assert [step.content for step in endpoint.script] == ["hi"]


def test_a_scripted_model_without_a_script_is_refused() -> None:
    config = OpenAiCompatibleConfig(name="demo", url="scripted:", model_id="m")

    with pytest.raises(ScriptFault, match="llm_config 'demo' metadata"):
        endpoint_for(config, {})


def test_generation_parameters_become_fields_of_the_request() -> None:
    given = LlmGenerationConfig(
        max_tokens=5, temperature=0.0, extras={"seed": 7, "stop": None}
    )
    config = OpenAiConfig(name="m", model_id="m", default_generation_parameters=given)

    fields = request_defaults(config)

    assert fields == {"max_tokens": 5, "temperature": 0.0, "parameters": {"seed": 7}}
    assert ModelRequest(model="m", messages=(), **fields).max_tokens == 5


def test_without_generation_parameters_nothing_is_decided() -> None:
    empty: dict[str, Any] = {"default_generation_parameters": LlmGenerationConfig()}

    assert request_defaults(OpenAiConfig(name="m", model_id="m")) == {}
    assert request_defaults(OpenAiConfig(name="m", model_id="m", **empty)) == {}
    assert request_defaults(PluginComponent(name="p", type_name="X")) == {}


def test_no_field_of_an_endpoint_shows_the_key() -> None:
    config = OpenAiCompatibleConfig(name="m", url="host", model_id="m", api_key="sk-123456")

    assert "sk-123456" not in repr(http(config))
    assert "sk-123456" not in json.dumps(str(http(config)))


def test_gemini_is_reached_by_the_key_of_its_auth() -> None:
    auth = GeminiAIStudioAuthConfig(name="a", api_key="$MINE")
    endpoint = http(GeminiConfig(name="g", model_id="m", auth=auth), MINE="k-1")

    assert str(endpoint.origin) == "https://generativelanguage.googleapis.com"
    assert (endpoint.target, endpoint.api_type) == ("/v1beta", "gemini")
    assert (endpoint.key_header, endpoint.authorization) == ("x-goog-api-key", None)
    assert endpoint.api_key == Secret("k-1")
    with pytest.raises(CredentialMissing, match="GEMINI_API_KEY"):
        endpoint_for(
            GeminiConfig(name="g", model_id="m", auth=GeminiAIStudioAuthConfig(name="a")),
            {},
        )
    with pytest.raises(EndpointInvalid, match="by key only"):
        endpoint_for(
            GeminiConfig(name="g", model_id="m", auth=GeminiVertexAIAuthConfig(name="v")),
            {},
        )


def test_anthropic_is_named_by_api_provider() -> None:
    config = LlmConfig(name="c", model_id="m", api_provider="anthropic")
    endpoint = http(config, ANTHROPIC_API_KEY="k-2")

    assert (str(endpoint.origin), endpoint.target) == (
        "https://api.anthropic.com",
        "/v1/messages",
    )
    assert (endpoint.key_header, endpoint.api_key) == ("x-api-key", Secret("k-2"))
