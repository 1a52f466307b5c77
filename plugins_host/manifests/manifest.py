"""Manifests: what a plugin says about itself, as types.

    {"name": "retry-policy", "version": "1.0.0",
     "components": [{"componentType": "RetryPolicy", "kind": "middleware",
                     "seams": {"nodeError": ["after"]}, "schema": {…}}]}

The structs below are the schema of the JSON; `plugins_host.manifests.reading` makes them of
a file and says what is wrong. Which kinds an engine serves is the engine's business.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final, TypeAlias

from msgspec import Meta, Struct
from msgspec.structs import fields

from plugins_host.seams import Half, Seam

Name: TypeAlias = Annotated[str, Meta(min_length=1)]


class Capability(StrEnum):
    """What a plugin may ask of heddle, once it is granted."""

    RUN_TOOL = "runTool"
    CALL_MODEL = "callModel"
    EMIT_EVENT = "emitEvent"
    LOG = "log"


class Kind(StrEnum):
    """What a component is."""

    NODE = "node"
    TRANSFORM = "transform"
    COMPONENT = "component"
    PROVIDER = "provider"
    MIDDLEWARE = "middleware"
    ENCODER = "encoder"
    STORE = "store"


class Phase(StrEnum):
    """When a transform is applied to a conversation."""

    PRE = "pre"
    POST = "post"
    BOTH = "both"


class Component(Struct, frozen=True, rename="camel"):
    """Base of every kind: the name that it goes by."""

    kind: ClassVar[Kind]

    component_type: Name


class NodeComponent(Component, frozen=True, rename="camel", kw_only=True):
    """A node that flows name."""

    kind: ClassVar[Kind] = Kind.NODE

    inputs: tuple[dict[str, Any], ...] = ()
    outputs: tuple[dict[str, Any], ...] = ()
    branches: tuple[Name, ...] = ()
    schema: dict[str, Any] | None = None


class TransformComponent(Component, frozen=True, rename="camel", kw_only=True):
    """Changes a conversation before or after a model call."""

    kind: ClassVar[Kind] = Kind.TRANSFORM

    phase: Phase = Phase.BOTH
    schema: dict[str, Any] | None = None


class PlainComponent(Component, frozen=True, rename="camel", kw_only=True):
    """Configuration that other components refer to."""

    kind: ClassVar[Kind] = Kind.COMPONENT

    schema: dict[str, Any] | None = None


class ProviderComponent(Component, frozen=True, rename="camel", kw_only=True):
    """Answers model calls."""

    kind: ClassVar[Kind] = Kind.PROVIDER

    stream: bool = False
    schema: dict[str, Any] | None = None


class MiddlewareComponent(Component, frozen=True, rename="camel", kw_only=True):
    """Is asked at seams; installed by an operator and named by no flow."""

    kind: ClassVar[Kind] = Kind.MIDDLEWARE

    seams: Mapping[Seam, frozenset[Half]]
    schema: dict[str, Any] | None = None


class EncoderComponent(Component, frozen=True, rename="camel", kw_only=True):
    """Renders a run's events in a protocol of its own."""

    kind: ClassVar[Kind] = Kind.ENCODER

    protocol: Name
    content_type: Name


class StoreComponent(Component, frozen=True, rename="camel", kw_only=True):
    """Keeps sessions."""

    kind: ClassVar[Kind] = Kind.STORE

    schema: dict[str, Any] | None = None


KINDS: Final[Mapping[Kind, type[Component]]] = {
    each.kind: each
    for each in (
        NodeComponent,
        TransformComponent,
        PlainComponent,
        ProviderComponent,
        MiddlewareComponent,
        EncoderComponent,
        StoreComponent,
    )
}


class ToolEntry(Struct, frozen=True, rename="camel"):
    """A tool: an executable at ``path``, or served by the plugin as ``component_type``."""

    name: Name
    path: Name | None = None
    component_type: Name | None = None
    description: str = ""
    input_schema: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None
    shadows: bool = False


class FileEntry(Struct, frozen=True):
    """A file that nodes find in their workspace, at ``dest``."""

    path: Name
    dest: Name


class Manifest(Struct, frozen=True, rename="camel"):
    """A manifest that is fit for use.

    ``warnings`` holds what is odd and no reason to refuse it; it is no field of the file.
    """

    name: Name
    version: Name
    command: Annotated[tuple[Name, ...], Meta(min_length=1)] | None = None
    capabilities: tuple[Capability, ...] = ()
    components: tuple[Component, ...] = ()
    tools: tuple[ToolEntry, ...] = ()
    files: tuple[FileEntry, ...] = ()
    discover_tools: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def middleware(self) -> tuple[MiddlewareComponent, ...]:
        """The components that are asked at seams, in the order of the manifest."""
        return tuple(c for c in self.components if isinstance(c, MiddlewareComponent))

    @property
    def encoders(self) -> "tuple[EncoderComponent, ...]":
        """The components that render events, in the order of the manifest."""
        return tuple(c for c in self.components if isinstance(c, EncoderComponent))

    @property
    def needs_program(self) -> bool:
        """Whether anything in it is answered by a process."""
        asked = any(not isinstance(each, PlainComponent) for each in self.components)
        return asked or self.discover_tools or any(tool.path is None for tool in self.tools)


def known_name(struct: type[Struct], attribute: str) -> str:
    """How a field is called in the JSON."""
    return next(info.encode_name for info in fields(struct) if info.name == attribute)
