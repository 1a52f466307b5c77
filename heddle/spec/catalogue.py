"""Every component type by name, and how a document's fields become a struct's.

All of it is derived from the annotations of the structs: there is no second list of
fields anywhere.
"""

import enum
import re
from collections.abc import Mapping
from functools import cache
from types import UnionType
from typing import (
    Annotated,
    Any,
    Final,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from msgspec import NODEFAULT, Meta, Struct
from msgspec.structs import fields

from heddle.spec import datastores, flows, llms, tools
from heddle.spec.component import SECRET, Component, Property

Version: TypeAlias = tuple[int, int, int]

VERSIONS: Final = ("25.4.1", "25.4.2", "26.1.0", "26.1.2", "26.2.0", "26.3.1")
NEWEST_VERSION: Final = VERSIONS[-1]

# Bases that no document names.
_ABSTRACT: Final = frozenset(
    (
        "Component",
        "ComponentWithIO",
        "PluginComponent",
        "Model",
        "Node",
        "Tool",
        "RemoteTransport",
    )
)

COMPONENTS: Final[Mapping[str, type[Component]]] = {
    name: kind
    for module in (llms, datastores, tools, flows)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, Component) and name not in _ABSTRACT
}

# Keys that any component may carry beside its fields.
COMMON_KEYS: Final = frozenset(
    (
        "component_type",
        "$referenced_components",
        "component_plugin_name",
        "component_plugin_version",
    )
)

_VERSION: Final = re.compile(r"([0-9]{2})\.([1-4])\.([0-9]{1,4})")


def parse_version(text: str) -> Version | None:
    """A version as numbers that compare; None when it isn't written YY.Q.PATCH."""
    match = _VERSION.fullmatch(text)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


class Content(enum.Enum):
    """What a field holds, as far as reading it differs."""

    VALUE = enum.auto()
    """Text, numbers, lists and maps of them."""
    FREE = enum.auto()
    """Anything; only references in it mean something."""
    OPAQUE = enum.auto()
    """The author's own notes: nothing in them means anything."""
    PROPERTIES = enum.auto()
    """Inputs or outputs."""
    PARAMETERS = enum.auto()
    """Generation parameters, named ones and free ones."""
    RECORD = enum.auto()
    """An object of known fields that is no component."""
    COMPONENTS = enum.auto()
    """A component, or a collection of them."""


class Field(Struct, frozen=True):
    """One field of a component. ``record`` is the struct of a `Content.RECORD`."""

    name: str
    annotation: Any
    content: Content
    required: bool
    default: Any
    newer: tuple[str, Version] | None
    record: type[Struct] | None = None


class Plan(Struct, frozen=True):
    """How one component type is read.

    ``known`` are all keys that an object of the type may have, ``newer`` the fields that
    came after the type.
    """

    struct: type[Component]
    fields: dict[str, Field]
    known: frozenset[str]
    since: tuple[str, Version]
    newer: tuple[Field, ...]


@cache
def members(annotation: Any) -> tuple[Any, ...]:
    """The alternatives of an annotation, with what is annotated on them taken off."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return members(get_args(annotation)[0])
    if is_union(annotation):
        return tuple(one for part in get_args(annotation) for one in members(part))
    return (annotation,)


def is_union(annotation: Any) -> bool:
    """Whether an annotation offers alternatives."""
    return get_origin(annotation) in (Union, UnionType)


@cache
def component_names(annotation: Any) -> tuple[str, ...]:
    """The component types that an annotation allows in this very place."""
    return tuple(
        one.__name__
        for one in members(annotation)
        if isinstance(one, type)
        and issubclass(one, Component)
        and one.__name__ in COMPONENTS
    )


def is_secret(annotation: Any) -> bool:
    """Whether a field's values are kept out of every text."""
    if get_origin(annotation) is Annotated:
        base, *marks = get_args(annotation)
        return SECRET in marks or is_secret(base)
    return any(map(is_secret, get_args(annotation)))


@cache
def plan_of(struct: type[Component]) -> Plan:
    """The plan of a component type."""
    annotations = get_type_hints(struct, include_extras=True)
    read = {}
    for one in fields(struct):
        annotation = annotations[one.name]
        content, record = _content(one.name, annotation)
        required = one.default is NODEFAULT and one.default_factory is NODEFAULT
        default = one.default
        if one.default_factory is not NODEFAULT:
            default = one.default_factory()
        read[one.name] = Field(
            one.name, annotation, content, required, default, _newer(annotation), record
        )
    version = parse_version(struct.since)
    assert version is not None
    newer = tuple(
        field for field in read.values() if field.newer and field.newer[1] > version
    )
    return Plan(struct, read, COMMON_KEYS.union(read), (struct.since, version), newer)


def _newer(annotation: Any) -> tuple[str, Version] | None:
    if get_origin(annotation) is not Annotated:
        return None
    for mark in get_args(annotation)[1:]:
        if isinstance(mark, Meta) and mark.extra and "since" in mark.extra:
            version = parse_version(mark.extra["since"])
            assert version is not None
            return mark.extra["since"], version
    return None


def _content(name: str, annotation: Any) -> tuple[Content, type[Struct] | None]:
    if name in ("metadata", "datastore_schema"):
        return Content.OPAQUE, None
    inner = _leaves(annotation)
    if any(isinstance(leaf, type) and issubclass(leaf, Component) for leaf in inner):
        return Content.COMPONENTS, None
    if Property in inner:
        return Content.PROPERTIES, None
    if llms.LlmGenerationConfig in inner:
        return Content.PARAMETERS, None
    for leaf in inner:
        if isinstance(leaf, type) and issubclass(leaf, Struct):
            return Content.RECORD, leaf
    return (Content.FREE if Any in inner else Content.VALUE), None


def _leaves(annotation: Any) -> set[Any]:
    """The types at the ends of an annotation, whatever contains them."""
    arguments = get_args(annotation)
    origin = get_origin(annotation)
    if origin is Annotated:
        return _leaves(arguments[0])
    if origin in (tuple, dict) or is_union(annotation):
        return set().union(*(_leaves(part) for part in arguments))
    return {annotation} if origin is None else {origin}
