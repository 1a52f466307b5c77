"""The verb ``chat``: a plugin answers a model call, whole or piece by piece.

    partial  {"content": "Hel"}
    partial  {"content": "lo", "tool_calls": [{"index": 0, "id": "c1", "name": "find"}]}
    partial  {"tool_calls": [{"index": 0, "arguments": "{}"}]}
    result   {"finish_reason": "tool_calls", "usage": {"inputTokens": 3, "outputTokens": 5}}

The result is the last piece, so that an answer that was not streamed is one of one piece.
Texts and arguments are joined in the order in which they come; a tool call is told by its
``index``, and one without is whole.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from plugins_host.conversation import ModelRequest, ModelResponse, ToolCall, Usage
from plugins_host.frames import MAX_LINE
from plugins_host.reverse import CallServices
from plugins_host.verbs.rows import AnswerRefused, AnswerShape, Served, Verb

# What one line may hold, an answer of many may not exceed: a provider that streams without
# end costs no memory without end.
MAX_ANSWER: Final = MAX_LINE


class CallPiece(Struct, frozen=True):
    """A piece of a tool call; without ``index`` a whole one."""

    index: int | None = None
    id: str | None = None
    name: str | None = None
    arguments: str | None = None
    provider_data: dict[str, Any] | None = None


class Chunk(Struct, frozen=True, gc=False):
    """A piece of an answer. Any field may be missing."""

    content: str | None = None
    finish_reason: str | None = None
    tool_calls: tuple[CallPiece, ...] | None = None
    usage: Usage | None = None


CHAT: Final = Verb(
    "chat",
    Chunk,
    "{content: '…', finish_reason: 'stop', tool_calls?: [{id, name, arguments: '{…}'}], "
    "usage?: {inputTokens, outputTokens}}",
)
PIECE: Final = Verb(
    "chat",
    Chunk,
    "{content?: '…', tool_calls?: [{index, id?, name?, arguments?: '…'}], "
    "finish_reason?: '…'} in each partial",
)


_decode_piece: Final = msgspec.json.Decoder(Chunk).decode


class Assembly:
    """One answer as its pieces arrive."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._calls: dict[int, list[str]] = {}
        self._data: dict[int, dict[str, Any]] = {}
        self._size = 0
        self._said = False
        self._reason: str | None = None
        self._usage: Usage | None = None

    def add(self, piece: Chunk) -> str:
        """Take a piece; the text in it.

        Raises:
            AnswerShape: The answer is larger than any may be.
        """
        text = piece.content or ""
        if piece.content is not None:
            self._said = True
        if text:
            self._texts.append(text)
            self._size += len(text)
            if self._size > MAX_ANSWER:
                raise _endless()
        if piece.tool_calls:
            self._add_calls(piece.tool_calls)
        if piece.finish_reason:
            self._reason = piece.finish_reason
        if piece.usage is not None:
            self._usage = piece.usage
        return text

    def _add_calls(self, pieces: Sequence[CallPiece]) -> None:
        for place, call in enumerate(pieces):
            if call.index is None:
                index = max(self._calls, default=-1) + 1
            else:
                index = call.index
            # The id, the name and the arguments; the last come in pieces.
            known = self._calls.setdefault(index, ["", "", ""])
            known[0] = known[0] or call.id or ""
            known[1] = known[1] or call.name or ""
            known[2] += call.arguments or ""
            self._size += len(call.arguments or "")
            if call.provider_data is not None:
                self._data[index] = call.provider_data
            if index < 0:
                path = f"$.tool_calls[{place}].index"
                raise AnswerShape(f"{index} is no index", path=path, fix="Count from 0.")
        if self._size > MAX_ANSWER:
            raise _endless()

    def response(self) -> ModelResponse:
        """The whole answer.

        Raises:
            AnswerShape: There is nothing in it, or a tool call has no id or no name.
        """
        if not self._said and not self._calls:
            raise AnswerShape("there is no 'content'", fix=f"Answer {CHAT.wanted}.")
        calls = []
        for place, index in enumerate(sorted(self._calls)):
            identity, name, arguments = self._calls[index]
            for word, found in (("id", identity), ("name", name)):
                if not found:
                    raise AnswerShape(
                        f"this tool call has no {word!r}",
                        path=f"$.tool_calls[{place}].{word}",
                        fix="Give each call an id and a name, in its first piece.",
                    )
            data = self._data.get(index)
            calls.append(ToolCall(identity, name, arguments, data))
        reason = self._reason or ("tool_calls" if calls else "stop")
        return ModelResponse("".join(self._texts), reason, tuple(calls), self._usage)


def _endless() -> AnswerShape:
    what = f"the answer is longer than {MAX_ANSWER >> 20} MiB"
    return AnswerShape(what, fix="Let it end.")


async def chat(
    served: Served,
    config: Mapping[str, Any] | Raw,
    request: ModelRequest,
    *,
    stream: bool,
    on_text: Callable[[str], None] | None = None,
    services: CallServices | None = None,
) -> ModelResponse:
    """Have a plugin answer a model call.

    Args:
        served: The provider.
        config: The LLM configuration as the document writes it.
        request: What is asked.
        stream: Whether it may answer in pieces.
        on_text: Called with each piece of text as it arrives.
        services: What it may use of the run meanwhile.

    Raises:
        PluginFault: There is no answer, or none of the right form.
    """
    answer = Assembly()
    wrong: list[AnswerRefused] = []

    def take(piece: Chunk) -> None:
        text = answer.add(piece)
        if text and on_text is not None:
            on_text(text)

    def on_partial(raw: Raw) -> None:
        try:
            try:
                piece = _decode_piece(raw)
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
                piece = PIECE.read(raw)  # which says what is wrong
            take(piece)
        except AnswerShape as error:
            wrong.append(served.refused("chat (partial)", error))
            raise wrong[0] from error

    params = {"config": config, "request": request, "stream": stream}
    try:
        last = await served.ask(CHAT, params, services=services, on_partial=on_partial)
    except Exception:
        # A handler inside heddle may have met the refusal of its piece, and told it anew.
        if wrong:
            raise wrong[0] from None
        raise
    if wrong:
        raise wrong[0]
    try:
        take(last)
        return answer.response()
    except AnswerShape as error:
        raise served.refused("chat", error) from error
