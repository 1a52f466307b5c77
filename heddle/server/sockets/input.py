"""What a client sends on a socket, measured as it arrives: how many pieces, and how slowly.

    head (2 to 14 bytes)   payload …   head   payload …      however the bytes were cut

The library bounds how long a message is. It keeps every piece of one that is not complete,
and empty pieces have no length; and it waits for the rest of one as long as the client
answers pings. Both are counted here, from the heads of frames alone (RFC 6455, 5.2). What
breaks the protocol is the library's to find.
"""

from math import inf
from typing import Final

MAX_PIECES: Final = 16_384
"""Of one message: the longest one in pieces of half a KiB. Each costs some 60 bytes beside
what is in it."""

PATIENCE: Final = 30.0
"""Seconds to wait for the rest of a message, all waits for it together."""

RATE: Final = 4096
"""Bytes that earn another second; the same as of a request's body."""

_FINAL: Final = 0x80
_MASKED: Final = 0x80
_OPCODE: Final = 0x0F
_LENGTH: Final = 0x7F
_FIRST_CONTROL: Final = 0x8
_MORE_LENGTH: Final = {126: 2, 127: 8}


class Incoming:
    """Follows the frames of one client.

    Attributes:
        pieces: Of the message that is not complete.
        patience: Seconds that its rest may still be waited for; infinite between messages.
    """

    def __init__(self) -> None:
        self.pieces = 0
        self.patience = inf
        self._head = bytearray()
        self._payload = 0  # bytes of the frame's payload that have not come yet
        self._open = False  # whether a message has begun whose last frame has not

    @property
    def complete(self) -> bool:
        """Whether nothing has begun that is to be waited for."""
        return not (self._open or self._head or self._payload)

    @property
    def too_many(self) -> bool:
        """Whether a message has come in more pieces than any needs."""
        return self.pieces > MAX_PIECES

    def waited(self, seconds: float) -> None:
        """It was waited for more."""
        self.patience -= seconds

    def feed(self, data: bytes) -> None:
        """This has arrived."""
        at, end = 0, len(data)
        while at < end:
            if self._payload:
                taken = min(self._payload, end - at)
                self._payload -= taken
                at += taken
            else:
                at += self._feed_head(data, at)
        if self.complete:
            self.patience = inf
        else:
            if self.patience == inf:
                self.patience = PATIENCE
            self.patience += end / RATE

    def _feed_head(self, data: bytes, at: int) -> int:
        """Take of a frame's head what is there; how many bytes that was."""
        head = self._head
        missing = _length_of_head(head) - len(head)
        taken = data[at : at + missing]
        head += taken
        if len(head) == _length_of_head(head):
            self._begin_frame()
            head.clear()
        return len(taken)

    def _begin_frame(self) -> None:
        first, length = self._head[0], self._head[1] & _LENGTH
        more = _MORE_LENGTH.get(length)
        self._payload = length if more is None else int.from_bytes(self._head[2 : 2 + more])
        if first & _OPCODE < _FIRST_CONTROL:
            self.pieces = self.pieces + 1 if self._open else 1
            self._open = not first & _FINAL


def _length_of_head(head: bytearray) -> int:
    """How long a head is, as far as what is there of it says."""
    if len(head) < 2:
        return 2
    mask = 4 if head[1] & _MASKED else 0
    return 2 + _MORE_LENGTH.get(head[1] & _LENGTH, 0) + mask
