"""Which component types plugins provide, as documents are read with them.

A node, a transform, a provider or plain configuration may be named in a document; its
manifest says what fields it has and, for a node, what it takes, gives and may branch to.
The other kinds are named in no document, and a document that does is told why.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from heddle.spec import ProvidedType, read_properties
from plugins_host import (
    Kind,
    ManifestError,
    ManifestProblem,
    NodeComponent,
    PlainComponent,
    ProviderComponent,
    TransformComponent,
)

if TYPE_CHECKING:
    from plugins_host import Plugin

REFUSED_KINDS: Final[Mapping[Kind, str]] = {
    Kind.MIDDLEWARE: "It is a middleware of plugin {plugin!r}: middleware is installed "
    "by whoever runs heddle and named in no document.",
    Kind.ENCODER: "It is an encoder of plugin {plugin!r}: a reader chooses it by its "
    "protocol, and it is named in no document.",
    Kind.STORE: "It is a store of plugin {plugin!r}: sessions are kept for whoever runs "
    "heddle, and it is named in no document.",
}
"""The kinds that no document names, and what a document is told that does."""


def provided_types(plugins: "Sequence[Plugin]") -> dict[str, ProvidedType]:
    """What documents may name of these plugins, by component type.

    Raises:
        ManifestError: A node declares inputs or outputs that are none.
    """
    return {
        each.component_type: one
        for plugin in plugins
        for index, each in enumerate(plugin.manifest.components)
        if (one := _provided(plugin, each, f"$.components[{index}]")) is not None
    }


def _provided(plugin: "Plugin", component: Any, path: str) -> ProvidedType | None:
    kind, name = component.kind.value, plugin.name
    match component:
        case NodeComponent():
            return ProvidedType(
                kind,
                name,
                component.schema,
                _properties(plugin, component, "inputs", path),
                _properties(plugin, component, "outputs", path),
                component.branches,
            )
        case TransformComponent():
            phase = component.phase.value
            return ProvidedType(kind, name, component.schema, phase=phase)
        case ProviderComponent():
            return ProvidedType(kind, name, component.schema, stream=component.stream)
        case PlainComponent():
            return ProvidedType(kind, name, component.schema)
        case _:
            return None


def _properties(
    plugin: "Plugin", component: NodeComponent, field: str, path: str
) -> tuple[Any, ...]:
    found, problems = read_properties(getattr(component, field))
    if problems:
        raise ManifestError(
            [
                ManifestProblem(
                    f"{path}.{field}{each.path.removeprefix('$')}",
                    each.what,
                    each.fix,
                    component.component_type,
                )
                for each in problems
            ],
            file=plugin.source,
            plugin=plugin.name,
        )
    return found
