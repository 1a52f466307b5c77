"""Agent Spec documents: read, checked and compiled, from JSON and YAML."""

import copy
import json
from collections.abc import Iterator
from contextlib import suppress
from time import process_time
from typing import Any

from heddle.preparing import prepare
from heddle.spec import DocumentError, Effort, EffortExceeded, spending
from heddle.spec.syntax import parse
from tests.fuzz.target import Target
from tests.support import flows

STEPS = 10_000
"""Of effort: what a document may cost in a task that others wait for."""

MOST = 5.0
"""Seconds of a processor for that: a hundred times as many as it should be, as a document
is looked at by instrumented code, and machines are slow."""


def prepared(data: bytes, kind: str) -> str | None:
    """Read, check and compile a document in bounded time; what is wrong with it."""
    began = process_time()
    try:
        with spending(Effort(STEPS)):
            prepare(data, name="flow", format=kind)
    except (DocumentError, EffortExceeded) as error:
        return str(error)
    finally:
        assert process_time() - began < MOST, "that took too long"
    return None


def read(data: bytes) -> None:
    """Any text is a document that can be compiled, or all that is wrong with it."""
    prepared(data[1:], "yaml" if data[:1] == b"y" else "json")


def formats(data: bytes) -> None:
    """What both formats can read is the same in both, and can be written down as JSON."""
    found = {}
    for kind in ("json", "yaml"):
        with suppress(DocumentError):
            found[kind] = parse(data, name="flow", format=kind)
    for value in found.values():
        text = json.dumps(value, allow_nan=False).encode()
        assert _same(parse(text, name="flow", format="json"), value)
    if len(found) == 2:
        assert _same(found["json"], found["yaml"])


def _same(one: Any, other: Any) -> bool:
    """Whether two values are equal, and of the same kinds."""
    return repr(one) == repr(other)


def edit(data: bytes) -> None:
    """A good document with other values in some places is still one, or is refused."""
    document = edited(data)
    if document is not None:
        said = prepared(document, "json")
        assert said is None or "line " in said or "$" in said or "takes too long" in said


def edited(data: bytes) -> bytes | None:
    """A good document with other values in some places: a place and a value a line.

    None where a value is none that JSON can carry.
    """
    document = copy.deepcopy(BASE)
    for line in data.split(b"\n"):
        with suppress(ValueError, RecursionError):
            value = json.loads(line[2:])
            path = PLACES[int.from_bytes(line[:2]) % len(PLACES)]
            with suppress(LookupError, TypeError):
                _put(document, path, value)
    with suppress(ValueError):
        # Python reads NaN and halves of characters, and no document may have them.
        return json.dumps(document, allow_nan=False, ensure_ascii=False).encode()
    return None


def _put(document: Any, path: tuple[Any, ...], value: Any) -> None:
    *way, last = path
    for step in way:
        document = document[step]
    document[last] = value


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to everything in a value, but for itself."""
    steps = value.items() if isinstance(value, dict) else enumerate(value)
    for step, inner in steps:
        yield (*path, step)
        if isinstance(inner, (dict, list)):
            yield from _places(inner, (*path, step))


def _base() -> dict[str, Any]:
    """A document with most of what there is, each a few times."""
    number, text = flows.prop("n", "integer", default=3), flows.prop("text")
    many = flows.prop("many", "array", items={"type": "integer"})
    either = flows.prop("text", None, anyOf=[{"type": "string"}, {"type": "null"}])
    inner = flows.inner(
        "inner",
        [flows.start("in", inputs=[number]), flows.end("out", outputs=[number])],
        ["inner.in", "inner.out"],
    )
    nodes = [
        flows.start(inputs=[text, number, many]),
        flows.branching("which", {"a": "long", "b": "short"}, inputs=[text]),
        flows.llm("ask", "Say {{text}}", inputs=[text], outputs=[text]),
        flows.agent(
            "help",
            tools=[
                flows.server_tool("look", inputs=[text], outputs=[either]),
            ],
            system_prompt="Help with {{text}}.",
        ),
        flows.component(
            "ApiNode",
            "fetch",
            url="https://host.example/{{n}}",
            http_method="GET",
            inputs=[number],
            outputs=[flows.prop("answer", "object", properties={"x": {"type": "null"}})],
        ),
        flows.component("FlowNode", "within", subflow=flows.ref("inner")),
        flows.component(
            "MapNode",
            "each",
            subflow=flows.ref("inner"),
            reducers={"n": "append"},
        ),
        flows.component("CatchExceptionNode", "catch", subflow=flows.ref("inner")),
        flows.end(outputs=[text]),
        flows.end("short"),
    ]
    return flows.flow(
        nodes,
        ["start", "which"],
        [
            flows.edge("which", "ask", "long"),
            flows.edge("which", "short", "short"),
            flows.edge("which", "short", "default"),
            flows.edge("ask", "help"),
            flows.edge("help", "fetch"),
            flows.edge("fetch", "within"),
            flows.edge("within", "each"),
            flows.edge("each", "catch"),
            flows.edge("catch", "end"),
            flows.edge("catch", "short", "caught_exception_branch"),
        ],
        data_edges=[
            flows.data("start", "text", "which", "text"),
            flows.data("start", "text", "ask", "text"),
            flows.data("start", "many", "each", "iterated_n"),
            flows.data("ask", "text", "end", "text"),
        ],
        shared=[flows.model(), inner],
        inputs=[text, number, many],
    )


BASE = _base()
PLACES = tuple(_places(BASE))

SMALL = flows.flow([flows.start(inputs=[flows.prop("a")]), flows.end()], ["start", "end"])
YAML = b"""component_type: Flow
agentspec_version: 26.1.2
name: &n flow
start_node: {$component_ref: start}
nodes: [{$component_ref: start}, {$component_ref: end}]
control_flow_connections:
  - {component_type: ControlFlowEdge, name: e, from_node: {$component_ref: start},
     to_node: {$component_ref: end}}
$referenced_components:
  start: {component_type: StartNode, name: start, inputs: []}
  end:
    component_type: EndNode
    name: "end"
    description: >-
      folded
      text
    metadata: {a: *n, b: ~, c: 0x1F, d: 1.5e3}
"""
WORDS = (
    *(b"null", b"true", b"-0.0", b"1e400", b"[]", b"{}", b'""', b"\\ud800", b"[[[[[[[[["),
    *(b'{"$component_ref":"start"}', b'{"$component_ref":"inner"}', b'"component_type":'),
    *(
        b'{"$ref":"#"}',
        b'"$ref":',
        b'"anyOf":[',
        b'"properties":{',
        b'"items":',
        b'"type":',
    ),
    *(b'"pattern":"(a*)*"', b'"default":', b'"title":', b'"enum":[', b"{{n}}", b"26.1.0"),
)
YAML_WORDS = (
    *(b"&a ", b"*a", b"<<: ", b"!!str ", b"!!int ", b"? ", b"- ", b": ", b"|\n", b">-\n"),
    *(b"---\n", b"...\n", b"%YAML 1.1\n", b"#", b"'", b'"', b"~", b"yes", b"0o17", b"\t"),
    *(b".inf", b".nan", b"0x1f", b"1_000", b"2026-12-02", b"1:30", b"\xc2\x85", b"\\x00"),
)


def _edit(place: int, value: Any) -> bytes:
    return place.to_bytes(2) + json.dumps(value).encode()


DOCUMENTS = Target(
    read,
    seeds=(b"j" + json.dumps(SMALL).encode(), b"y" + YAML),
    words=(*WORDS, *YAML_WORDS),
)
DOCUMENT_EDITS = Target(
    edit,
    seeds=(
        b"",
        _edit(3, "26.1.0"),
        _edit(7, [{"$component_ref": "start"}]) + b"\n" + _edit(40, {"type": "number"}),
    ),
    words=WORDS,
)
DOCUMENT_FORMATS = Target(
    formats,
    seeds=(
        json.dumps(SMALL["$referenced_components"]).encode(),
        YAML,
        b'{"a": [1, -2.5e3, true, null, "\\u00e9\\ud83d\\ude00/"], "b\\n": {}}',
    ),
    words=(*WORDS, *YAML_WORDS),
)
