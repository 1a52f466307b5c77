"""Where a model is and how it is spoken to: an LLM config made into an endpoint.

    {"component_type": "OllamaConfig", "url": "localhost:11434", "model_id": "llama3"}
        ->  http://localhost:11434 /v1/chat/completions, no credential

A URL is taken with or without scheme (http), trailing slash, version and method path:

    host:8000                        /v1/chat/completions
    https://host/api                 /api/v1/chat/completions
    https://host/v1beta/openai/      /v1beta/openai/chat/completions
    https://host/x/chat/completions  as it stands
"""

import base64
import re
from collections.abc import Mapping
from typing import Any, Final, Literal, Protocol, TypeAlias, cast
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from heddle.models.errors import CredentialMissing, EndpointInvalid
from heddle.models.scripted import SCRIPTED_URL, Step, read_script
from plugins_host import one_of

ApiType: TypeAlias = Literal["chat_completions", "responses"]
Scheme: TypeAlias = Literal["http", "https"]

METHOD_PATHS: Final[Mapping[ApiType, str]] = {
    "chat_completions": "/chat/completions",
    "responses": "/responses",
}
DEFAULT_PORTS: Final[Mapping[Scheme, int]] = {"http": 80, "https": 443}

_REFERENCE: Final = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
_VERSION: Final = re.compile(r"v\d+\w*")
# Shorter ones are stand-ins such as "none" or "EMPTY"; to strike them out of a text
# would only garble it.
_SHORTEST_SECRET: Final = 6


class LlmConfig(Protocol):
    """What every LLM config has. The rest is read where the provider has it."""

    @property
    def name(self) -> str:
        """Its name in the document."""
        ...

    @property
    def model_id(self) -> str:
        """The model, as the provider calls it."""
        ...


class Provider(Struct, frozen=True):
    """What is particular to one type of LLM config.

    Args:
        url: Where it is when the document does not say.
        key_variable: The environment variable that the key comes from when the document
            names none. With one, a key is required.
        limit_name: How it calls the largest number of tokens to generate.
    """

    url: str | None = None
    key_variable: str | None = None
    limit_name: str = "max_tokens"


PROVIDERS: Final[Mapping[str, Provider]] = {
    # Newer models there refuse `max_tokens`; all take the other name.
    "OpenAiConfig": Provider(
        "https://api.openai.com/v1", "OPENAI_API_KEY", "max_completion_tokens"
    ),
    "OpenAiCompatibleConfig": Provider(),
    "VllmConfig": Provider(),
    "OllamaConfig": Provider(),
}


class Secret:
    """A text that shows itself to nobody who does not ask by `reveal`."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text."""
        return self._text

    def strike(self, text: str) -> str:
        """``text`` with the secret replaced by ``***``."""
        if len(self._text) < _SHORTEST_SECRET:
            return text
        return text.replace(self._text, "***")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return "Secret(***)"


class Origin(Struct, frozen=True, cache_hash=True):
    """Scheme, host and port: what connections can be shared within."""

    scheme: Scheme
    host: str
    port: int

    @property
    def authority(self) -> str:
        """Host and port as in a Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}"


class TlsFiles(Struct, frozen=True, cache_hash=True):
    """Paths of certificate files; None means the system's authorities and no client."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None


class HttpEndpoint(Struct, frozen=True, kw_only=True, cache_hash=True):
    """A model behind HTTP.

    Args:
        name: Of the LLM config.
        origin: Where to connect.
        target: Path and query of the requests.
        api_key: Sent as a bearer token.
        userinfo: ``user:password`` of the URL, sent as basic authorization.
        api_type: Which of the two protocols it speaks.
        limit_name: How it calls ``max_tokens``.
        tls: Certificate files.
        timeout: Seconds for a whole call; None leaves it to the caller.
    """

    name: str
    origin: Origin
    target: str
    api_key: Secret | None = None
    userinfo: Secret | None = None
    api_type: ApiType = "chat_completions"
    limit_name: str = "max_tokens"
    tls: TlsFiles = TlsFiles()
    timeout: float | None = None

    @property
    def label(self) -> str:
        """How errors name it."""
        return f"llm_config {self.name!r} ({self.origin})"

    @property
    def authorization(self) -> str | None:
        """The value of the Authorization header. A secret."""
        if self.api_key is not None:
            return f"Bearer {self.api_key.reveal()}"
        if self.userinfo is not None:
            return "Basic " + base64.b64encode(self.userinfo.reveal().encode()).decode()
        return None

    def strike(self, text: str) -> str:
        """``text`` without the credentials of this endpoint."""
        for secret in (self.api_key, self.userinfo):
            if secret is not None:
                text = secret.strike(text)
        return text


class ScriptedEndpoint(Struct, frozen=True):
    """The built-in scripted model."""

    name: str
    script: tuple[Step, ...]

    @property
    def label(self) -> str:
        """How errors name it."""
        return f"llm_config {self.name!r}"


Endpoint: TypeAlias = HttpEndpoint | ScriptedEndpoint


def endpoint_for(llm_config: LlmConfig, environ: Mapping[str, str]) -> Endpoint:
    """The endpoint of an LLM config. For the first call: it needs the credential.

    Args:
        llm_config: A component of one of the types in `PROVIDERS`.
        environ: Where ``$NAME`` credentials are read from. On a server, what callers may
            name, because a document decides where the credential is sent.

    Raises:
        EndpointInvalid: The type, URL or another field cannot be used.
        CredentialMissing: The credential is named and not there, or is no header value.
        ScriptFault: The script of a scripted model is malformed.
    """
    kind = type(llm_config).__name__
    where = f"llm_config {llm_config.name!r}"
    provider = PROVIDERS.get(kind)
    if provider is None:
        raise EndpointInvalid(
            f"{kind!r} is not an LLM config that heddle can call",
            where=where,
            fix=one_of(kind, PROVIDERS),
        )
    url = getattr(llm_config, "url", None) or provider.url
    if not isinstance(url, str):
        raise EndpointInvalid("has no url", where=where, fix="Set url.")
    if url.strip().lower() == SCRIPTED_URL:
        metadata = getattr(llm_config, "metadata", None)
        return ScriptedEndpoint(llm_config.name, read_script(metadata, where=where))
    api_type = _api_type(llm_config, where)
    origin, target, userinfo = read_url(url, api_type, where=where)
    policy = getattr(llm_config, "retry_policy", None)
    return HttpEndpoint(
        name=llm_config.name,
        origin=origin,
        target=target,
        api_key=_api_key(llm_config, provider, environ, where),
        userinfo=userinfo,
        api_type=api_type,
        limit_name=provider.limit_name,
        tls=TlsFiles(
            ca=getattr(llm_config, "ca_file", None),
            cert=getattr(llm_config, "cert_file", None),
            key=getattr(llm_config, "key_file", None),
        ),
        timeout=getattr(policy, "request_timeout", None),
    )


def _api_type(llm_config: LlmConfig, where: str) -> ApiType:
    raw = getattr(llm_config, "api_type", None) or "chat_completions"
    name = str(getattr(raw, "value", raw))
    for known in METHOD_PATHS:
        if name == known:
            return known
    raise EndpointInvalid(
        f"api_type {name!r} is unknown", where=where, fix=one_of(name, METHOD_PATHS)
    )


def read_url(
    url: str, api_type: ApiType, *, where: str
) -> tuple[Origin, str, Secret | None]:
    """Origin, target and userinfo of the URL of an LLM config.

    Raises:
        EndpointInvalid: It is not an HTTP URL.
    """
    text = url.strip()
    if "://" not in text:
        text = f"http://{text}"
    try:
        parts = urlsplit(text)
        origin = origin_of(parts.scheme, parts.hostname, parts.port)
        userinfo = _userinfo(parts.username, parts.password)
    except ValueError as error:
        # The URL itself may hold a password, so only its shape is spoken of.
        raise EndpointInvalid(
            f"url is not an HTTP URL: {error}",
            where=where,
            fix="Write it like http://localhost:8000/v1.",
        ) from None
    method = METHOD_PATHS[api_type]
    path = parts.path.rstrip("/")
    if not path.endswith(method):
        if not any(_VERSION.fullmatch(step) for step in path.split("/")):
            path += "/v1"
        path += method
    target = f"{path}?{parts.query}" if parts.query else path
    if not target.isascii() or not target.isprintable() or " " in target:
        raise EndpointInvalid(
            "url has characters in its path that must be percent-encoded",
            where=where,
            fix="Percent-encode them.",
        )
    return origin, target, userinfo


def origin_of(scheme: str, host: str | None, port: int | None) -> Origin:
    """The origin of a URL's parts.

    Raises:
        ValueError: The scheme is not HTTP's, or there is no usable host.
    """
    if scheme not in DEFAULT_PORTS:
        raise ValueError(f"the scheme is {scheme!r}")
    known = cast("Scheme", scheme)
    if not host:
        raise ValueError("it has no host")
    if not host.isascii():
        try:
            host = host.encode("idna").decode("ascii")
        except UnicodeError:
            raise ValueError("its host name cannot be encoded") from None
    if not host.isprintable() or re.search(r"[\s\"<>\\^`{|}]", host):
        raise ValueError("its host name has characters that no host has")
    return Origin(known, host, DEFAULT_PORTS[known] if port is None else port)


def _userinfo(user: str | None, password: str | None) -> Secret | None:
    if not user and not password:
        return None
    return Secret(f"{unquote(user or '')}:{unquote(password or '')}")


def _api_key(
    llm_config: LlmConfig, provider: Provider, environ: Mapping[str, str], where: str
) -> Secret | None:
    written = getattr(llm_config, "api_key", None)
    written = written.strip() if isinstance(written, str) else ""
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


def request_defaults(llm_config: LlmConfig) -> dict[str, Any]:
    """The fields of a `ModelRequest` that an LLM config sets for every request.

    ``default_generation_parameters`` that have no field of their own go to
    ``parameters``; those that are null are left out.
    """
    given = getattr(llm_config, "default_generation_parameters", None)
    if given is None:
        return {}
    fields = {
        name: value
        for name in ("max_tokens", "temperature", "top_p")
        if (value := getattr(given, name)) is not None
    }
    extras = {name: value for name, value in given.extras.items() if value is not None}
    if extras:
        fields["parameters"] = extras
    return fields
