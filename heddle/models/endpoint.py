"""Where a model is and how it is spoken to.

A URL is taken with or without scheme (http), slash at its end, version, method path:

    host:8000                        /v1/chat/completions
    https://host/api                 /api/v1/chat/completions
    https://host/v1beta/openai/      /v1beta/openai/chat/completions
    https://host/x/chat/completions  as it stands
"""

import base64
import re
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, cast
from urllib.parse import SplitResult, unquote, urlsplit

from msgspec import Struct

from heddle.hosts import DEFAULT_PORTS, ascii_host, authority
from heddle.models.errors import EndpointInvalid
from heddle.models.scripted import Step

ApiType: TypeAlias = Literal["chat_completions", "responses", "messages", "gemini"]
Scheme: TypeAlias = Literal["http", "https"]

METHOD_PATHS: Final[Mapping[ApiType, str]] = {
    "chat_completions": "/chat/completions",
    "responses": "/responses",
    "messages": "/messages",
    # Which method is asked for with which model, so it is not known here.
    "gemini": "",
}

_VERSION: Final = re.compile(r"v\d+\w*")
# Shorter ones are stand-ins such as "none" or "EMPTY"; to strike them out of a text
# would only garble it.
_SHORTEST_SECRET: Final = 6


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


def basic(userinfo: Secret) -> str:
    """The header value for ``user:password``. A secret."""
    token = base64.b64encode(userinfo.reveal().encode())
    return f"Basic {token.decode('ascii')}"


class Origin(Struct, frozen=True, cache_hash=True):
    """Scheme, host and port: what connections can be shared within."""

    scheme: Scheme
    host: str
    port: int

    @property
    def authority(self) -> str:
        """Host and port as in a Host header."""
        return authority(self.scheme, self.host, self.port)

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
        api_key: Sent as a bearer token, or in ``key_header``.
        userinfo: ``user:password`` of the URL, sent as basic authorization.
        api_type: Which protocol it speaks.
        limit_name: How it calls ``max_tokens``.
        key_header: The header that the key is sent in, where it is no bearer token.
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
    key_header: str | None = None
    tls: TlsFiles = TlsFiles()
    timeout: float | None = None

    @property
    def label(self) -> str:
        """How errors name it."""
        return f"llm_config {self.name!r} ({self.origin})"

    @property
    def authorization(self) -> str | None:
        """The value of the Authorization header. A secret."""
        if self.api_key is not None and self.key_header is None:
            return f"Bearer {self.api_key.reveal()}"
        if self.userinfo is not None:
            return basic(self.userinfo)
        return None

    def strike(self, text: str) -> str:
        """``text`` without the credentials of this endpoint, in any form they are sent."""
        if self.api_key is not None:
            text = self.api_key.strike(text)
        if self.userinfo is not None:
            whole = self.userinfo.reveal()
            encoded = basic(self.userinfo).removeprefix("Basic ")
            for form in (whole, whole.partition(":")[2], encoded):
                text = Secret(form).strike(text)
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
        userinfo = userinfo_of(parts)
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
    elif not method and not any(_VERSION.fullmatch(step) for step in path.split("/")):
        path += "/v1beta"
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
    host = ascii_host(host)
    if not host.isprintable() or re.search(r"[\s\"<>\\^`{|}]", host):
        raise ValueError("its host name has characters that no host has")
    return Origin(known, host, DEFAULT_PORTS[known] if port is None else port)


def userinfo_of(parts: SplitResult) -> Secret | None:
    """``user:password`` of a URL's parts, decoded; None where there is neither."""
    if not parts.username and not parts.password:
        return None
    return Secret(f"{unquote(parts.username or '')}:{unquote(parts.password or '')}")
