"""What a tool prints on its stdout."""

from contextlib import suppress

import msgspec

from heddle.tools.answer import read_answer
from heddle.tools.faults import ToolAnswerInvalid
from tests.fuzz.target import Target


def read(data: bytes) -> None:
    """Any bytes are an object that can be written down again, or `ToolAnswerInvalid`."""
    with suppress(ToolAnswerInvalid):
        answer = read_answer("tool", data)
        assert msgspec.json.decode(msgspec.json.encode(answer)) == answer


TOOL_ANSWERS = Target(
    read,
    seeds=(
        b"",
        b' {"hits": 3}\n',
        b'\xef\xbb\xbf{"a": "\\ud83d\\ude00"}',
        b'{"a": ' + b"[" * 200 + b"]" * 200 + b"}",
        b"[1]",
        b"\x1b[2J",
    ),
    words=(b"\\ud800", b"1e999", b"NaN", b"[[[[[[[[", b'{"a":', b"\x00", b"\xff"),
)
