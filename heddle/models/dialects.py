"""The protocols that models are spoken to in, as a table: how each is written and read."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

from msgspec import Struct

from heddle import __version__
from heddle.http import SseEvent
from heddle.models import completion, gemini, messages, responses
from heddle.models.endpoint import ApiType, HttpEndpoint, basic
from heddle.models.proxies import Proxy
from plugins_host import ModelRequest, ModelResponse


class AnswerStream(Protocol):
    """A streamed answer while it arrives, in the words of one protocol."""

    done: bool

    @property
    def finished(self) -> bool:
        """Whether the answer is whole, though more may follow."""
        ...

    def feed(self, events: Iterable[SseEvent]) -> list[str]:
        """Take events in; the pieces of text in them."""
        ...

    def response(self) -> ModelResponse:
        """The whole answer, or `UnreadableAnswer`."""
        ...


class Dialect(Struct, frozen=True):
    """One protocol: how to write a request, and how to read both kinds of answer.

    ``target`` is where to send it, when that depends on the model and on streaming;
    ``headers`` go with each request.
    """

    encode: Callable[[ModelRequest, bool, str], bytes]
    decode: Callable[[bytes], ModelResponse]
    stream: Callable[[], AnswerStream]
    target: Callable[[str, str, bool], str] | None = None
    headers: tuple[str, ...] = ()


DIALECTS: Final[Mapping[ApiType, Dialect]] = {
    "chat_completions": Dialect(
        completion.encode, completion.decode, completion.CompletionStream
    ),
    "responses": Dialect(responses.encode, responses.decode, responses.ResponseStream),
    "messages": Dialect(
        messages.encode,
        messages.decode,
        messages.MessageStream,
        headers=("anthropic-version: 2023-06-01",),
    ),
    "gemini": Dialect(gemini.encode, gemini.decode, gemini.GeminiStream, gemini.target),
}


def request_head(endpoint: HttpEndpoint, proxy: Proxy | None) -> bytes:
    """The head of all requests to ``endpoint``, up to the value of Content-Length."""
    through = proxy is not None and endpoint.origin.scheme == "http"
    target = f"{endpoint.origin}{endpoint.target}" if through else endpoint.target
    lines = [
        f"POST {target} HTTP/1.1",
        f"Host: {endpoint.origin.authority}",
        f"User-Agent: heddle/{__version__}",
        "Accept: application/json, text/event-stream",
        "Accept-Encoding: identity",
        "Content-Type: application/json",
    ]
    if endpoint.authorization is not None:
        lines.append(f"Authorization: {endpoint.authorization}")
    if endpoint.key_header is not None and endpoint.api_key is not None:
        lines.append(f"{endpoint.key_header}: {endpoint.api_key.reveal()}")
    lines += DIALECTS[endpoint.api_type].headers
    if through and proxy is not None and proxy.userinfo is not None:
        lines.append(f"Proxy-Authorization: {basic(proxy.userinfo)}")
    return "\r\n".join([*lines, "Content-Length: "]).encode("latin-1")
