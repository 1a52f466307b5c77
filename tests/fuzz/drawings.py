"""Pictures of flows, and what is told of them, for any document that can be compiled."""

import json
from contextlib import suppress
from xml.etree import ElementTree as ET

from heddle.cli.drawing.mermaid import mermaid
from heddle.cli.drawing.signs import ASCII, UNICODE
from heddle.cli.drawing.svg import svg
from heddle.cli.drawing.text import text
from heddle.cli.graph import sketch_of
from heddle.installation import NOTHING
from heddle.launch import RunOptions
from heddle.preparing import prepare
from heddle.preview.explanation import explain
from heddle.preview.limits import Bounds
from heddle.spec import DocumentError, Effort, EffortExceeded, spending
from tests.fuzz.documents import PLACES, STEPS, edited
from tests.fuzz.target import Target

OPTIONS = RunOptions()
BOUNDS = Bounds(OPTIONS.limits, OPTIONS.plugin_timeout, OPTIONS.tool_timeout)


def draw(data: bytes) -> None:
    """A width, then edits as of `documents.edit`: what can be compiled can be drawn."""
    document = edited(data[1:])
    if document is None:
        return
    with suppress(DocumentError, EffortExceeded), spending(Effort(STEPS)):
        plan = prepare(document, name="flow", format="json").plan
        sketch = sketch_of(plan, NOTHING)
        width = 20 + data[0] if data else 80
        for signs in (ASCII, UNICODE):
            for line in text(sketch, signs, width):
                assert "\x1b" not in line
                assert signs is UNICODE or line.isascii(), line
        mermaid(sketch).encode()
        ET.fromstring(svg(sketch))
        explain(plan, NOTHING, BOUNDS, everywhere=True)


def _names() -> list[bytes]:
    """Edits that change nothing but names, which are what is drawn."""
    odd = ["", "<b>", "\x1b[2J", "a\nb", "é你👍🏽", '"]; end', "x" * 60, "\u202e\u0000"]
    places = [
        number
        for number, path in enumerate(PLACES)
        if path[-1] in ("name", "description", "system_prompt")
    ]
    return [
        b"\x40"
        + b"\n".join(
            place.to_bytes(2) + json.dumps(f"{each}{place}").encode()
            for place in places[::step]
        )
        for each, step in zip(odd, (1, 2, 3, 1, 2, 3, 1, 2), strict=True)
    ]


DRAWINGS = Target(
    draw,
    seeds=(b"\x40", b"\x00", b"\xff", *_names()),
    words=(
        b"\\u001b",
        b"\\u0000",
        b"<",
        b"]]>",
        b'\\"',
        b"\\ud83d\\ude00",
        b"end\\n",
        b"\n",
    ),
)
