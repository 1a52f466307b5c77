"""What is sent on a socket: JSON objects in unmasked text frames (RFC 6455, 5.2).

    {"type":"event","run":ID,"seq":3,"event":{…}}          one
    [{"type":"event",…},{"type":"event",…}]                several that were waiting

Frames are made by hand from events that are JSON already, once for all who read them.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from heddle.server.endings import Cancelled, Completed, Ended, Failed, ShownError

CLOSING: Final = b"\x88"
"""The first byte of the frame that ends a connection."""

LONGEST_REASON: Final = 123

_encode: Final = msgspec.json.Encoder().encode


def frame(payload: bytes) -> bytes:
    """A whole text message from a server."""
    length = len(payload)
    if length < 126:
        head = bytes((0x81, length))
    elif length < 65_536:
        head = b"\x81\x7e" + length.to_bytes(2)
    else:
        head = b"\x81\x7f" + length.to_bytes(8)
    return head + payload


def close(code: int, reason: str) -> bytes:
    """The frame that ends a connection; of a long reason its beginning."""
    payload = code.to_bytes(2) + reason.encode("ascii", "replace")[:LONGEST_REASON]
    return CLOSING + bytes((len(payload),)) + payload


def message(objects: Sequence[bytes]) -> bytes:
    """One object as itself, several as an array."""
    return frame(objects[0] if len(objects) == 1 else b"[%b]" % b",".join(objects))


def events(run: str, first: int, encoded: Sequence[bytes]) -> bytes:
    """Events that follow one another, as one message."""
    name = run.encode()
    return message(
        [
            b'{"type":"event","run":"%b","seq":%d,"event":%b}' % (name, number, event)
            for number, event in enumerate(encoded, first)
        ]
    )


def plain(**fields: Any) -> bytes:
    """Any other object."""
    return _encode(fields)


def ended(run: str, ending: Ended) -> bytes:
    """How a run ended."""
    match ending:
        case Completed(state=state):
            return plain(type="end", run=run, status="completed", state=state)
        case Failed(error=error):
            return plain(type="end", run=run, status="failed", error=error)
        case Cancelled(error=error):
            return plain(type="end", run=run, status="cancelled", error=error)
        case _:  # pragma: no cover  the base class has no instances
            raise AssertionError(ending)


def refused(ref: str | None, status: int, error: ShownError) -> bytes:
    """A run was not begun."""
    return plain(type="refused", ref=ref, status=status, error=error)


def error(seen: ShownError, **about: Any) -> bytes:
    """Something that was asked for can't be done."""
    return plain(type="error", error=seen, **about)
