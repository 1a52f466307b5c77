"""Lines that a plugin writes on its stdout."""

from contextlib import suppress

from plugins_host.frames import FrameError, FrameReader, Unreadable, decode
from tests.fuzz.target import Target, cut

# Little enough that lines over it, and over twice of it, are tried too.
LIMIT = 300


def read(data: bytes) -> None:
    """Any bytes are frames, strays, frames of no use or the end, however they are cut."""
    pieces = cut(data)
    whole, reader = FrameReader(limit=LIMIT), FrameReader(limit=LIMIT)
    at_once = [*whole.feed(b"".join(pieces)), *whole.end()]
    in_pieces = [each for piece in pieces for each in reader.feed(piece)]
    in_pieces += reader.end()
    assert in_pieces == at_once
    for arrival in at_once:
        if isinstance(arrival, Unreadable):
            assert arrival.why
    for line in b"".join(pieces).split(b"\n"):
        with suppress(FrameError):
            decode(line, where="here")


FRAMES = Target(
    read,
    seeds=(
        b'\x00{"id":1,"method":"evaluate","params":{"input":{"a":1}}}\n',
        b'\x03{"id":1,"result":{"action":"proceed"}}\n{"id":"x","partial":{"delta":"y"}}\n',
        b'\x00{"id":2,"error":{"name":"RateLimit","message":"m","status":429,'
        b'"retryAfterMs":1.5,"retryable":true}}\n',
        b'\x00printed\n{"id":3,"result":NaN}\n',
        b'\x05{"id":1,"result":"\\ud83d"}\n',
        b'\x00{"id":7,"result":"' + b"x" * 700 + b'"}\n{"id":8,"result":1}\n',
        b"\x00{" + b'"id":9,"result":' + b"[" * 2000 + b"\n",
    ),
    words=(
        *(b'"id":', b'"method":', b'"params":', b'"result":', b'"error":', b'"partial":'),
        *(
            b"\\ud800",
            b"\\udc00",
            b"\\\\",
            b"NaN",
            b"1e999",
            b"null",
            b"[[[[",
            b"{\n",
            b"\r",
        ),
    ),
)
