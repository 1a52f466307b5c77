"""The page of routes: parameters, bodies and answers, from ``openapi.json``."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from heddle.server.routes.openapi import document

OPENING: Final = """\
# HTTP routes

{printed}

`GET /openapi.json` of a server says the same for programs. Every error has the body
`{{"error": {{"type": …, "message": …}}}}`; [the types](errors.md) are a page of their
own. What goes over the WebSocket of `/v1/stream` is on [its page](websocket.md).
"""


def page(printed: str) -> Iterator[str]:
    """The page, line by line."""
    yield OPENING.format(printed=printed)
    described = msgspec.json.decode(document())
    shapes = described["components"]["schemas"]
    for path, operations in described["paths"].items():
        shared = operations.get("parameters", [])
        for method, operation in operations.items():
            if method == "parameters":
                continue
            yield from _operation(f"{method.upper()} {path}", operation, shared, shapes)
    yield "## Shapes"
    yield ""
    for name, schema in shapes.items():
        yield from _shape(name, schema)


def _operation(
    title: str,
    operation: Mapping[str, Any],
    shared: list[dict[str, Any]],
    known: Mapping[str, Any],
) -> Iterator[str]:
    yield f"## `{title}`"
    yield ""
    yield f"{operation['summary'].rstrip('.')}."
    yield ""
    if parameters := [*shared, *operation.get("parameters", [])]:
        yield "| parameter | in | |"
        yield "|---|---|---|"
        for each in parameters:
            told = _cell(each.get("description", ""))
            yield f"| `{each['name']}` | {each['in']} | {told} |"
        yield ""
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        yield f"Body, `{kind}`: {_type(content.get('schema', {}))}."
        yield ""
    yield "| status | answer |"
    yield "|---|---|"
    for status, answer in operation["responses"].items():
        shapes = ", ".join(
            dict.fromkeys(
                f"{_type(content['schema'])} as `{kind}`"
                if "schema" in content
                else f"`{kind}`"
                for kind, content in answer.get("content", {}).items()
            )
        )
        told = _cell(answer.get("description", ""))
        if told in known:
            told = ""  # the shape's own name says it
        yield f"| {status} | {told}{': ' if told and shapes else ''}{shapes} |"
    yield ""


def _shape(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {name}"
    yield ""
    if "description" in schema:
        yield schema["description"]
        yield ""
    properties = schema.get("properties", {})
    if not properties:
        yield f"{_type(schema)}.".capitalize()
        yield ""
        return
    required = set(schema.get("required", ()))
    yield "| field | JSON type | |"
    yield "|---|---|---|"
    for field, inner in properties.items():
        mark = "" if field in required else "?"
        told = _cell(inner.get("description", ""))
        yield f"| `{field}`{mark} | {_type(inner)} | {told} |"
    yield ""


def _type(schema: Mapping[str, Any]) -> str:
    match schema:
        case {"$ref": str(ref)}:
            name = ref.rsplit("/", 1)[-1]
            return f"[{name}](#{name.lower()})"
        case {"oneOf": list(several)} | {"anyOf": list(several)} if (
            "properties" not in schema
        ):
            return " or ".join(_type(each) for each in several)
        case {"enum": list(values)}:
            return " or ".join(f"`{value}`" for value in values)
        case {"const": value}:
            return f"`{msgspec.json.encode(value).decode()}`"
        case {"type": list(names)}:
            return " or ".join(names)
        case {"type": "array", "items": inner}:
            return f"list of {_type(inner)}"
        case {"type": str(name)}:
            return name
        case _:
            return "any"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
