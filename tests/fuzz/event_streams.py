"""Server-sent events, of models and of servers."""

from heddle.http import SseParser
from tests.fuzz.target import Target, cut


def read(data: bytes) -> None:
    """Any bytes are events, and how they are cut changes nothing about them."""
    pieces = cut(data)
    whole, parser = SseParser(), SseParser()
    at_once = [*whole.feed(b"".join(pieces)), *whole.end()]
    in_pieces = [each for piece in pieces for each in parser.feed(piece)]
    assert [*in_pieces, *parser.end()] == at_once
    assert not any(b"\r" in each.name or b"\n" in each.name for each in at_once)


EVENT_STREAMS = Target(
    read,
    seeds=(
        b"\x00data: {}\n\ndata: [DONE]\n\n",
        b"\x01\xef\xbb\xbfevent: error\r\nid: 7\r\ndata: a\r\ndata:b\r\n\r\n: c\r\r",
        b"\x02data: x\r\ndata: y\n",
    ),
    words=(b"data: ", b"event:", b"id: ", b"\r\n\r\n", b"\n\n", b"\r\r", b"\xef\xbb\xbf"),
)
