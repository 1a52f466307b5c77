"""``GET /openapi.json``: the routes described for programs.

What every route has in common (errors, security, parameters in its path) is put together
from `OPERATIONS`; a test holds this table and the table of routes together.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, get_args

import msgspec
from msgspec import Struct

from heddle import __version__
from heddle.events import EVENT_CONTRACT
from heddle.server.http import ERROR_TYPES
from heddle.server.submitted.code.reading import NAME, SUFFIXES, Language
from heddle.spec import FORMATS

Schema = dict[str, Any]


def _object(required: str = "", **properties: Schema) -> Schema:
    shown: Schema = {"type": "object", "properties": properties}
    return {**shown, "required": required.split()} if required else shown


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


TEXT: Final[Schema] = {"type": "string"}
NUMBER: Final[Schema] = {"type": "number"}
WHOLE: Final[Schema] = {"type": "integer", "minimum": 0}
SWITCH: Final[Schema] = {"type": "boolean"}
ANY_OBJECT: Final[Schema] = {"type": "object"}
NAME_PATTERN: Final = f"^{NAME.pattern}$"

SCHEMAS: Final[Mapping[str, Schema]] = {
    "Error": _object("error", error=_object("type message", type=TEXT, message=TEXT)),
    "RunRequest": {
        **_object(
            flow={"oneOf": [ANY_OBJECT, TEXT], "description": "A document, or its text."},
            flowPath={**TEXT, "description": "A flow of the server's own."},
            format={**TEXT, "examples": list(FORMATS.names)},
            inputs={**ANY_OBJECT, "description": "The starting state."},
            tools={"type": ["array", "null"], "items": _ref("Tool")},
            plugins={"type": ["array", "null"], "items": _ref("Plugin")},
        ),
        "oneOf": [{"required": ["flow"]}, {"required": ["flowPath"]}],
    },
    "Tool": {
        **_object(
            "name source interpreter",
            name={**TEXT, "pattern": NAME_PATTERN},
            source=TEXT,
            interpreter={"enum": list(SUFFIXES)},
        ),
        "description": "A program of this run's, where the server takes code.",
        "additionalProperties": False,
    },
    "Plugin": {
        **_object(
            "name manifest source",
            name={**TEXT, "pattern": NAME_PATTERN},
            manifest={"oneOf": [ANY_OBJECT, TEXT]},
            source=TEXT,
            language={"enum": list(get_args(Language)), "default": "js"},
        ),
        "description": "A plugin of this run's, where the server takes code.",
        "additionalProperties": False,
    },
    "RunResult": _object("flow state run", flow=TEXT, state=ANY_OBJECT, run=TEXT),
    "RunStarted": _object("run", run=TEXT),
    "Problem": _object("path what fix", path=TEXT, what=TEXT, fix=TEXT, file=TEXT),
    "Valid": _object(
        "valid",
        valid={"const": True},
        flow=TEXT,
        warnings={"type": "array", "items": _ref("Problem")},
    ),
    "Invalid": _object(
        "valid error problems",
        valid={"const": False},
        error=_object("type message", type=TEXT, message=TEXT),
        problems={"type": "array", "items": _ref("Problem")},
    ),
    "Run": _object(
        "run flow status startedAt seconds nodes events detached readers",
        run=TEXT,
        flow=TEXT,
        status={"enum": ["running", "completed", "failed", "cancelled"]},
        startedAt={**NUMBER, "description": "Seconds since the epoch."},
        seconds=NUMBER,
        nodes={**WHOLE, "description": "Executions of nodes that have begun."},
        events=WHOLE,
        detached=SWITCH,
        readers=WHOLE,
        node=TEXT,
        nodeType=TEXT,
        state=ANY_OBJECT,
        error=_object("type message", type=TEXT, message=TEXT),
    ),
    "Runs": _object(
        "runs",
        runs={"type": "array", "items": _ref("Run")},
        unansweredWorkers={
            "type": "array",
            "items": WHOLE,
            "description": "Of several workers those that did not answer within a second: "
            "their runs are not in the list. Absent when there are none.",
        },
    ),
    "Status": _object("status", status={"enum": ["ok", "draining"]}),
    "Index": _object("name version status", name=TEXT, version=TEXT, status=TEXT),
    "Capabilities": _object(
        "version allowRequestCode allowTrace interpreters acceptsFlowPath tools protocols "
        "formats middleware components eventContract limits runsInFlight runSaturation",
        version=TEXT,
        allowRequestCode=SWITCH,
        allowTrace=SWITCH,
        interpreters={"type": "array", "items": {"enum": list(SUFFIXES)}},
        acceptsFlowPath=SWITCH,
        tools={"type": "array", "items": TEXT},
        protocols={"type": "array", "items": TEXT},
        formats={"type": "array", "items": TEXT},
        middleware={"type": "array", "items": TEXT},
        components={
            "type": "object",
            "additionalProperties": {"type": "array", "items": TEXT},
        },
        eventContract={"const": EVENT_CONTRACT},
        limits=ANY_OBJECT,
        runsInFlight=WHOLE,
        runSaturation=NUMBER,
    ),
}


class Operation(Struct, frozen=True):
    """What one route does: its good answers by status, and which errors it has.

    An answer is the name of a schema, or a media type of something else than JSON.
    """

    summary: str
    answers: Mapping[int, str]
    errors: tuple[int, ...] = ()
    query: Mapping[str, Schema] = {}
    takes: str | None = None
    open: bool = False


_EVENTS: Final = "text/event-stream"
_RUN_ERRORS: Final = (400, 404, 413, 415, 429, 500, 503, 504)

OPERATIONS: Final[Mapping[tuple[str, str], Operation]] = {
    ("GET", "/"): Operation(
        "What this is; a status page for who accepts text/html", {200: "Index"}, open=True
    ),
    ("GET", "/healthz"): Operation("Whether it answers", {200: "Status"}, open=True),
    ("GET", "/readyz"): Operation(
        "Whether it takes runs; 503 once it drains",
        {200: "Status", 503: "Status"},
        open=True,
    ),
    ("GET", "/openapi.json"): Operation(
        "This description", {200: "application/json"}, open=True
    ),
    ("GET", "/metrics"): Operation("Numbers for Prometheus", {200: "text/plain"}),
    ("GET", "/v1/capabilities"): Operation(
        "What may be asked of this server", {200: "Capabilities"}
    ),
    ("POST", "/v1/validate"): Operation(
        "Everything that is wrong with a flow; runs nothing",
        {200: "Valid", 400: "Invalid"},
        (404, 413, 415),
        takes="RunRequest",
    ),
    ("POST", "/v1/runs"): Operation(
        "Run a flow: to its end, as a stream of its events, or on its own",
        {200: "RunResult", 202: "RunStarted"},
        _RUN_ERRORS,
        {
            "stream": {**SWITCH, "description": "Answer with the run's events."},
            "detach": {**SWITCH, "description": "Answer at once; the run goes on alone."},
            "trace": {**SWITCH, "description": "Tell of model calls and agents, too."},
            "protocol": {**TEXT, "description": "How a stream's events are rendered."},
        },
        "RunRequest",
    ),
    ("GET", "/v1/runs"): Operation(
        "The runs in memory",
        {200: "Runs"},
        (400,),
        {
            "status": {**TEXT, "description": "Those that stand so alone."},
            "limit": {
                "type": "integer",
                "minimum": 1,
                "description": "The newest so many.",
            },
        },
    ),
    ("GET", "/v1/runs/{id}"): Operation("One run, with its result", {200: "Run"}, (404,)),
    ("DELETE", "/v1/runs/{id}"): Operation("Cancel a run", {202: "RunStarted"}, (404, 409)),
    ("GET", "/v1/runs/{id}/events"): Operation(
        "A run's events, from the start, 'from' or Last-Event-ID",
        {200: _EVENTS},
        (400, 404),
        {
            "from": {
                "type": "integer",
                "minimum": 1,
                "description": "The first event's number.",
            }
        },
    ),
    ("GET", "/v1/stream"): Operation(
        "A WebSocket (subprotocol heddle.v1) that carries many runs, and the status",
        {101: ""},
        (426,),
    ),
}


@cache
def document() -> bytes:
    """The description as JSON."""
    paths: dict[str, Schema] = {}
    for (method, path), operation in OPERATIONS.items():
        paths.setdefault(path, {})[method.lower()] = _described(path, operation)
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": "heddle-server", "version": __version__},
            "paths": paths,
            "components": {
                "schemas": SCHEMAS,
                "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            },
        }
    )


def _described(path: str, operation: Operation) -> Schema:
    parameters: list[Schema] = [
        {
            "name": name,
            "in": "query",
            "description": schema["description"],
            "schema": {key: value for key, value in schema.items() if key != "description"},
        }
        for name, schema in operation.query.items()
    ]
    if "{id}" in path:
        known = {"description": "The run's id.", "required": True, "schema": TEXT}
        parameters.append({"name": "id", "in": "path", **known})
    # Whoever calls it by a stranger's name is refused everywhere.
    everywhere = (403,) if operation.open else (401, 403)
    errors = sorted({*everywhere, *operation.errors})
    described: Schema = {
        "summary": operation.summary,
        "parameters": parameters,
        "responses": {
            **{str(status): _answer(name) for status, name in operation.answers.items()},
            **{
                str(status): {"description": ERROR_TYPES[status], **_json("Error")}
                for status in errors
            },
        },
        "security": [] if operation.open else [{"token": []}],
    }
    if operation.query.get("stream"):
        described["responses"]["200"]["content"][_EVENTS] = {"schema": TEXT}
    if path == "/":
        described["responses"]["200"]["content"]["text/html"] = {"schema": TEXT}
    if operation.takes:
        described["requestBody"] = {"required": True, **_json(operation.takes)}
    return described


def _answer(name: str) -> Schema:
    if not name:
        return {"description": "switches protocols"}
    if "/" in name:
        return {"description": "ok", "content": {name: {}}}
    return {"description": name, **_json(name)}


def _json(schema: str) -> Schema:
    return {"content": {"application/json": {"schema": _ref(schema)}}}
