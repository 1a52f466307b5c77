"""What all Agent Spec components share, and the marks that their fields carry.

A component is an object of a document with a ``component_type``. Each type is one frozen
struct, tagged by that word, and its annotations are the schema that documents are read
against: the modules `llms`, `tools`, `datastores` and `flows` hold them by family.
"""

from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType, field

OLDEST_VERSION: Final = "25.4.1"


def new_in(version: str) -> Meta:
    """Mark a field that documents older than ``version`` can't use."""
    return Meta(extra={"since": version})


# Marks what an error never shows.
SECRET: Final = Meta(extra={"secret": True})
Secret: TypeAlias = Annotated[str, SECRET]


class Property(Struct, frozen=True):
    """An input or output: its name, and the whole JSON Schema that declares it."""

    title: str
    schema: dict[str, Any]
    default: Any | UnsetType = UNSET

    @property
    def has_default(self) -> bool:
        """Whether a missing value is filled; a default of null is one."""
        return self.default is not UNSET


class Component(
    Struct, frozen=True, kw_only=True, eq=False, tag_field="component_type", tag=True
):
    """Base of every component.

    Two components are equal when they are one and the same: a document says what is
    shared by referring to it. ``id`` is the JSON path when the author gave none.
    """

    since: ClassVar[str] = OLDEST_VERSION

    id: str = ""
    name: str
    description: str | None = None
    metadata: dict[str, Any] | None = None

    @property
    def component_type(self) -> str:
        """The word that documents call this type by."""
        return type(self).__name__

    def __repr__(self) -> str:
        # Not the fields: some hold secrets, and what is shared would be written again
        # for each that refers to it.
        return f"<{self.component_type} {self.name!r}>"


class ComponentWithIO(Component, frozen=True, kw_only=True):
    """Base of components that take and give values.

    None means that the author left them out, an empty tuple that he wrote an empty list.
    """

    inputs: tuple[Property, ...] | None = None
    outputs: tuple[Property, ...] | None = None


class ProvidedType(Struct, frozen=True):
    """A component type that a plugin provides, as far as documents have to know it.

    ``schema`` is the JSON Schema of the fields that the plugin reads. ``inputs``,
    ``outputs`` and ``branches`` are those of every component of the type that declares no
    others. ``phase`` is when a transform is applied.
    """

    kind: str = ""
    plugin: str = ""
    schema: dict[str, Any] | None = None
    inputs: tuple[Property, ...] = ()
    outputs: tuple[Property, ...] = ()
    branches: tuple[str, ...] = ()
    phase: str = ""
    stream: bool = False


class PluginComponent(ComponentWithIO, frozen=True, kw_only=True):
    """A component of a type that a plugin provides, wherever a document may name one.

    ``fields`` holds everything else the author wrote, with references replaced by the
    components they stand for. ``written`` is all of it as JSON in the document's own
    words, with each reference replaced by what it stands for: what the plugin is shown.
    """

    type_name: str
    provided: ProvidedType = ProvidedType()
    fields: dict[str, Any] = {}
    written: dict[str, Any] = {}
    branches: tuple[str, ...] | None = None

    @property
    def component_type(self) -> str:
        """The word that documents call this type by."""
        return self.type_name


class RetryPolicy(Struct, frozen=True):
    """When a failed request to a remote service is sent again. Delays are in seconds."""

    max_attempts: Annotated[int, Meta(ge=0)] = 2
    request_timeout: Annotated[float, Meta(gt=0)] | None = None
    initial_retry_delay: Annotated[float, Meta(ge=0)] = 1.0
    max_retry_delay: Annotated[float, Meta(ge=0)] = 8.0
    backoff_factor: Annotated[float, Meta(gt=0)] = 2.0
    jitter: (
        Literal["equal", "full", "full_and_equal_for_throttle", "decorrelated"] | None
    ) = "full_and_equal_for_throttle"
    service_error_retry_on_any_5xx: bool = True
    recoverable_statuses: dict[str, tuple[str, ...]] = field(
        default_factory=lambda: {"409": (), "429": ()}
    )

    def __post_init__(self) -> None:
        """Refuse what can't be meant.

        Raises:
            ValueError: The longest delay is shorter than the first.
        """
        if self.max_retry_delay < self.initial_retry_delay:
            raise ValueError(
                f"max_retry_delay {self.max_retry_delay:g} is below initial_retry_delay "
                f"{self.initial_retry_delay:g}"
            )
