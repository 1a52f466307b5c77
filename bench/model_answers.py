"""What the stub models of benchmarks say, as it goes over the wire."""

from typing import Final

import msgspec

TEXT: Final = "The quick brown fox jumps over the lazy dog. "

WHOLE: Final = msgspec.json.encode(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "stub",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": TEXT * 5},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 30, "completion_tokens": 50, "total_tokens": 80},
    }
)


def chunk(delta: dict[str, str], finish: str | None = None) -> bytes:
    """One event of the stub's stream, as an HTTP chunk."""
    data = msgspec.json.encode(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "stub",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        }
    )
    event = b"data: %b\n\n" % data
    return b"%x\r\n%b\r\n" % (len(event), event)


HEAD: Final = b"HTTP/1.1 200 OK\r\nDate: Wed, 02 Dec 2026 00:00:00 GMT\r\nServer: stub\r\n"
BUFFERED: Final = (
    HEAD
    + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(WHOLE)
    + WHOLE
)
STREAMED: Final = (
    HEAD
    + b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    + chunk({"role": "assistant", "content": TEXT}),
    chunk({"content": TEXT}),
    chunk({"content": TEXT}),
    chunk({"content": TEXT}),
    chunk({"content": TEXT}, "stop") + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n",
)
