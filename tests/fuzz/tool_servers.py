"""What a tool server (MCP) says of its tools, and what these answer."""

import json
from contextlib import suppress
from typing import Any

import msgspec

from heddle.engine.faults import OutputMismatch
from heddle.engine.http_answer import shape_answer
from heddle.engine.requests.request import HttpAnswer
from heddle.engine.tool_calls import argument_faults
from heddle.engine.tool_servers import (
    Offered,
    ToolAnswer,
    ToolServerFault,
    shape_tool_answer,
    tools_of_box,
)
from heddle.spec import (
    Effort,
    EffortExceeded,
    MCPToolBox,
    MCPToolSpec,
    StdioTransport,
    read_properties,
    spending,
)
from tests.fuzz.target import Target

TRANSPORT = StdioTransport(id="t", name="t", command="none")
INPUTS, _ = read_properties([{"title": "a", "type": "string"}])
BOXES = tuple(
    MCPToolBox(id="b", name="b", client_transport=TRANSPORT, tool_filter=wanted)
    for wanted in (None, ("t",), (MCPToolSpec(id="s", name="t", inputs=INPUTS),))
)
OUTPUTS = tuple(
    read_properties(each)[0]
    for each in (
        [],
        [{"title": "a", "type": "string"}],
        [{"title": "a", "type": "object"}],
        [{"title": "a", "type": "integer", "default": 1}, {"title": "b"}],
        [{"title": "http_response", "type": "string"}],
    )
)


def offer(data: bytes) -> None:
    """A schema and arguments: the tool can be used with them or not, as a fault says."""
    try:
        schema, arguments = msgspec.json.decode(b"[%b]" % data, type=tuple[dict, dict])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return
    for box in BOXES:
        with suppress(ToolServerFault, EffortExceeded), spending(Effort(10_000)):
            for boxed in tools_of_box(box, [Offered("t", "", schema)]):
                msgspec.json.encode(boxed.definition)
                argument_faults(boxed.tool, arguments)


def answer(data: bytes) -> None:
    """Any text is the declared outputs of a tool or a request, or a fault."""
    text = data.decode(errors="replace")
    structured: Any = None
    with suppress(msgspec.MsgspecError, RecursionError):
        structured = msgspec.json.decode(data)
    for declared in OUTPUTS:
        with spending(Effort(10_000)):
            with suppress(OutputMismatch, EffortExceeded):
                shape_answer(declared, HttpAnswer(200, data), of="it")
            for given in (None, structured if isinstance(structured, dict) else {}):
                with suppress(ToolServerFault):
                    shape_tool_answer(declared, ToolAnswer(text, given), of="it")


def _case(schema: Any, arguments: Any) -> bytes:
    return json.dumps([schema, arguments], separators=(",", ":")).encode()[1:-1]


TOOL_SERVERS = Target(
    offer,
    seeds=(
        _case(
            {
                "type": "object",
                "properties": {
                    "a": {"type": "string", "minLength": 1},
                    "b": {"anyOf": [{"$ref": "#/$defs/x"}, {"type": "null"}]},
                },
                "required": ["a"],
                "$defs": {"x": {"type": "array", "items": {"type": "integer"}}},
            },
            {"a": "x", "b": [1]},
        ),
        _case({}, {}),
        _case({"properties": {"a": {"enum": ["x", 1]}, "c": True}}, {"a": 2, "c": {}}),
        _case({"properties": {"a": {"$ref": "http://h/x#/y"}}}, {"a": 2}),
        _case({"properties": {"a": {"pattern": "(a+)+$", "format": "date"}}}, {"a": "aab"}),
    ),
    words=(
        *(
            b'"$ref":"#"',
            b'"$ref":"#/properties/a"',
            b'"type":',
            b'"required":',
            b'"items":',
        ),
        *(
            b'"properties":',
            b'"allOf":[',
            b'"not":',
            b'"pattern":"["',
            b'"const":',
            b"null",
        ),
        *(
            b'"additionalProperties":',
            b'"$schema":"x"',
            b'"$id":"http://["',
            b'"if":',
            b"1e99",
        ),
    ),
)
REMOTE_ANSWERS = Target(
    answer,
    seeds=(b'{"a":"x"}', b'{"result":[1]}', b'{"a":1,"b":null}', b"plain", b"", b'"\xff"'),
    words=(b'"a":', b'"b":', b'"result":', b"null", b"1e999", b"\\ud800", b"[[[[[[[["),
)
