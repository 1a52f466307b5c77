"""What the readers of answers share, whatever the protocol: decoding, complaints, streams.

bytes that are no answer                                     UnreadableAnswer
{"message", "code"?} where an answer belongs, or a text      ProviderComplaint
events of a stream, one after the other -> pieces of text    EventReader
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, TypeVar

import msgspec

from heddle.http import SseEvent
from heddle.models.errors import ProviderComplaint, UnreadableAnswer

Read = TypeVar("Read")

DONE: Final = b"[DONE]"
"""What chat completions end a stream with, and gateways those of any protocol."""

# Bytes of a body that is no answer: far more than is shown, so that a credential in what
# is shown is there as a whole, and found.
_KEPT: Final = 4096


_NO_ANSWER: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def read(decoder: msgspec.json.Decoder[Read], data: bytes) -> Read:
    """An answer, or an event of one.

    Raises:
        UnreadableAnswer: It is none.
    """
    try:
        return decoder.decode(data)
    except _NO_ANSWER as error:
        raise _unreadable(data, error) from error


def _unreadable(data: bytes, error: Exception) -> UnreadableAnswer:
    if not data.strip():
        return UnreadableAnswer("the answer is empty")
    start = data[:_KEPT].decode("utf-8", "replace")
    return UnreadableAnswer(f"the answer is not readable ({error})", quote=start)


def complaint(error: Any) -> ProviderComplaint:
    """The error that a provider put where an answer belongs."""
    match error:
        case {"message": str(message)}:
            code = error.get("code", error.get("status"))
        case str(message):
            code = None
        case _:
            message, code = msgspec.json.encode(error).decode(), None
    known = isinstance(code, int) and 400 <= code <= 599
    return ProviderComplaint(message, code if known else None)


class EventReader(ABC, Generic[Read]):
    """A streamed answer while it arrives: decodes events until one of them is the last.

    ``done`` says that nothing that follows counts, though it may be there.

    Args:
        decode: An event of the protocol, from its data.
    """

    def __init__(self, decode: Callable[[bytes], Read]) -> None:
        self._decode = decode
        self.done = False

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Whether the answer is whole, though more may follow."""

    def feed(self, events: Iterable[SseEvent]) -> list[str]:
        """Take events in, and hand out the pieces of text in them, none of them empty.

        Raises:
            UnreadableAnswer: An event is not of this protocol.
            ProviderComplaint: The provider reports an error in the middle.
        """
        pieces: list[str] = []
        for event in events:
            # As `read` does, without a call more for each token.
            try:
                decoded = self._decode(event.data)
            except _NO_ANSWER as error:
                if event.data == DONE:
                    continue
                raise _unreadable(event.data, error) from error
            text = self.take(decoded)
            if text:
                pieces.append(text)
            if self.done:
                break
        return pieces

    @abstractmethod
    def take(self, event: Read) -> str | None:
        """What an event adds; the text in it.

        Raises:
            ProviderComplaint: It is an error.
        """
