"""The page of events: every type, its fields and an example, from `heddle.events`."""

import inspect
from collections.abc import Iterator
from typing import Final, get_args

import msgspec

from heddle.events import EVENT_CONTRACT, Event, PluginEmitted

OPENING: Final = """\
# Events

{printed}

What a run tells about itself, in order: the frames of `heddle run --protocol heddle`, the
`data` of Server-Sent Events, the `event` of a WebSocket's messages. This is version
{version} of the contract: fields may be added, none is renamed or removed, and a reader
ignores what it does not know.

A field marked `?` is left out where there is nothing to say. `nodePath` is there for
nodes of flows inside a node: the names from the outermost node to this one, each followed
by a number where it has several flows under way.
"""


def _text(each: type) -> Iterator[str]:
    for paragraph in (inspect.getdoc(each) or "").split("\n\n"):
        yield " ".join(paragraph.split()).replace("``", "`")


def _name(each: type[msgspec.Struct]) -> str:
    if each is PluginEmitted:
        return "plugin:TYPE:NAME"
    return str(each.__struct_config__.tag)


def page(printed: str) -> Iterator[str]:
    """The page, line by line."""
    yield OPENING.format(printed=printed, version=EVENT_CONTRACT)
    for each in get_args(Event):
        yield f"## `{_name(each)}`"
        yield ""
        for paragraph in _text(each):
            yield paragraph
            yield ""
        fields = [field for field in msgspec.structs.fields(each) if field.name != "type"]
        if not fields:
            continue
        yield "| field | JSON type |"
        yield "|---|---|"
        schema = msgspec.json.schema(each)
        properties = next(iter(schema["$defs"].values()))["properties"]
        for field in fields:
            mark = "" if field.required else "?"
            shown = _json_type(properties[field.encode_name], schema)
            yield f"| `{field.encode_name}`{mark} | {shown} |"
        yield ""


def _json_type(found: dict[str, object], whole: dict[str, object]) -> str:
    match found:
        case {"anyOf": list(several)}:
            each = [_json_type(one, whole) for one in several]
            return " or ".join(dict.fromkeys(one for one in each if one != "null"))
        case {"$ref": str(ref)}:
            name = ref.rsplit("/", 1)[-1]
            definitions = whole["$defs"]
            assert isinstance(definitions, dict)
            properties = definitions[name]["properties"]
            return "object with " + ", ".join(f"`{key}`" for key in properties)
        case {"enum": list(values)}:
            return " or ".join(f'`"{value}"`' for value in values)
        case {"type": "array"}:
            return "list"
        case {"type": str(name)}:
            return name
        case _:
            return "any"
