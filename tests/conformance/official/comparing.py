"""One document as two readers understood it: heddle's components beside pyagentspec's.

`differences` walks both trees together. Each component must be of the same type, have the
same name, id and fields, and be shared where the other's is: an object that stands in two
places of one tree stands in the same two of the other. What pyagentspec infers (the inputs
and outputs of a node that declares none, its branches) is held against the shape that the
engine compiles the node with.
"""

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import pyagentspec
from pyagentspec.property import Property as TheirProperty
from pydantic import BaseModel

from heddle.engine.shapes import Shape, reductions, shape_of
from heddle.spec import (
    Component,
    ComponentWithIO,
    EndNode,
    Flow,
    LlmGenerationConfig,
    Node,
    Property,
)

BOOKKEEPING: Final = frozenset(("min_agentspec_version", "max_agentspec_version"))
"""Fields of every component of pyagentspec that no document has."""

DECLARED: Final = frozenset(("inputs", "outputs", "branches"))
"""Fields that are inferred where the author leaves them out."""


def _reducers(ours: Any, name: str) -> Any:
    return reductions(ours)


def _handoff(ours: Any, name: str) -> Any:
    """Booleans are the older form."""
    return {True: "optional", False: "never"}.get(ours.handoff, ours.handoff)


MEANS: Final[Mapping[str, Callable[[Any, str], Any]]] = {
    "reducers": _reducers,
    "handoff": _handoff,
}
"""What a field stands for that pyagentspec fills in as it reads."""

METADATA: Final = frozenset(("metadata",))
"""What is compared by itself: none may be written as nothing, null or an empty object."""


def differences(ours: Component, theirs: pyagentspec.Component) -> list[str]:
    """What the two understood differently, each with its place: ``$.nodes[1].name``."""
    walk = _Walk()
    return list(walk.compare(ours, theirs, "$"))


class _Walk:
    """One comparison. ``met`` and ``met_theirs`` pair the components found so far."""

    def __init__(self) -> None:
        self.met: dict[int, int] = {}
        self.met_theirs: dict[int, int] = {}
        self.flow: list[Flow] = []

    def compare(self, ours: Any, theirs: Any, path: str) -> Iterator[str]:
        """Two values in one place."""
        match ours:
            case Component():
                yield from self.components(ours, theirs, path)
            case Property():
                if not same_property(ours, theirs):
                    yield f"{path}: {ours.schema} is {theirs!r}"
            case LlmGenerationConfig():
                written = {k: v for k, v in plain(theirs).items() if v is not None}
                yield from self.compare({**named(ours), **ours.extras}, written, path)
            case msgspec.Struct():
                for name in ours.__struct_fields__:
                    value = getattr(theirs, name, theirs)
                    yield from self.compare(getattr(ours, name), value, f"{path}.{name}")
            case Mapping():
                other = plain(theirs)
                if not isinstance(other, Mapping) or other.keys() != ours.keys():
                    yield f"{path}: {ours} is {other}"
                    return
                for key, value in ours.items():
                    yield from self.compare(value, other[key], f"{path}.{key}")
            case list() | tuple():
                if not isinstance(theirs, Sequence) or len(theirs) != len(ours):
                    yield f"{path}: {ours} is {theirs}"
                    return
                for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
                    yield from self.compare(one, other, f"{path}[{index}]")
            case _:
                if ours != plain(theirs):
                    yield f"{path}: {ours!r} is {theirs!r}"

    def components(self, ours: Component, theirs: Any, path: str) -> Iterator[str]:
        """Two components, which are one and the same wherever they are met again."""
        if not isinstance(theirs, pyagentspec.Component):
            yield f"{path}: {ours} is {theirs!r}"
            return
        before = (self.met.get(id(ours)), self.met_theirs.get(id(theirs)))
        if before != (None, None):
            if before != (id(theirs), id(ours)):
                yield f"{path}: {ours} is shared by one of the two only"
            return
        self.met[id(ours)], self.met_theirs[id(theirs)] = id(theirs), id(ours)
        if ours.component_type != theirs.component_type:
            yield f"{path}: {ours.component_type} is {theirs.component_type}"
            return
        if isinstance(ours, Flow):
            self.flow.append(ours)
        if isinstance(ours, ComponentWithIO):
            yield from self.connections(ours, theirs, path)
        apart = DECLARED | BOOKKEEPING | METADATA
        fields = [name for name in ours.__struct_fields__ if name not in apart]
        if (ours.metadata or {}) != (theirs.metadata or {}):
            yield f"{path}.metadata: {ours.metadata} is {theirs.metadata}"
        if ours.id.startswith("$"):
            # The author gave it none: each of the two made one up.
            fields.remove("id")
        for name in fields:
            if name not in type(theirs).model_fields:
                yield f"{path}.{name}: not a field of {type(theirs).__name__}"
                continue
            means = MEANS.get(name, getattr)
            yield from self.compare(
                means(ours, name), getattr(theirs, name), f"{path}.{name}"
            )
        written = {
            name for name, each in type(theirs).model_fields.items() if not each.exclude
        }
        unread = written - set(ours.__struct_fields__) - BOOKKEEPING - DECLARED
        yield from (f"{path}.{name}: not read" for name in sorted(unread))
        if isinstance(ours, Flow):
            self.flow.pop()

    def connections(self, ours: ComponentWithIO, theirs: Any, path: str) -> Iterator[str]:
        """What the component takes and gives, declared or inferred."""
        in_flow = self.flow and isinstance(ours, Node)
        shape = shape_of(ours, self.flow[-1]) if in_flow else None
        if shape is not None:
            yield from branches(shape, theirs, path)
        for side in ("inputs", "outputs"):
            declared = getattr(ours, side)
            if declared:
                yield from self.compare(declared, getattr(theirs, side), f"{path}.{side}")
            elif shape is not None:
                listed = shape.inputs if isinstance(ours, EndNode) else getattr(shape, side)
                known = {each.title for each in listed}
                known |= (shape.takes if side == "inputs" else shape.gives) or frozenset()
                found = {each.title for each in getattr(theirs, side)}
                if known != found:
                    yield f"{path}.{side}: {sorted(known)} is {sorted(found)}"


def branches(shape: Shape, theirs: Any, path: str) -> Iterator[str]:
    """Where the node may go: ours leaves out the branch that every node has."""
    ours = set(shape.branches or ())
    if not ours or shape.goes_on:
        ours |= {"next"}
    if ours != set(theirs.branches) and theirs.branches:
        yield f"{path}.branches: {sorted(ours)} is {sorted(theirs.branches)}"


def named(ours: LlmGenerationConfig) -> dict[str, Any]:
    """The generation parameters that have fields of their own, where they are set."""
    fields = (
        (name, getattr(ours, name)) for name in ("max_tokens", "temperature", "top_p")
    )
    return {name: value for name, value in fields if value is not None}


def same_property(ours: Property, theirs: TheirProperty) -> bool:
    """Whether an input or output is declared in the same words."""
    has_default = theirs.default is not TheirProperty.empty_default
    return (
        ours.title == theirs.title
        and ours.schema == theirs.json_schema
        and ours.has_default == has_default
        and (not has_default or ours.default == theirs.default)
    )


def plain(value: Any) -> Any:
    """A value of pyagentspec as JSON has it."""
    match value:
        case enum.Enum():
            return value.value
        case TheirProperty():
            return value.json_schema
        case dict():
            return {name: plain(inner) for name, inner in value.items()}
        case BaseModel() if not isinstance(value, pyagentspec.Component):
            extra = value.model_extra or {}
            return {name: plain(inner) for name, inner in (*value, *extra.items())}
        case _:
            return value
