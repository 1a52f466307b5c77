"""Plugins that are Python modules: imported into heddle, and asked there.

manifest = {"name": "gate", "provides": …}    as the JSON file of another plugin
handlers = {"Gate": {"toolCall": …}}          as ``serve`` takes them
tools, list_tools, formats                    where there are any
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

from plugins_host.authoring.handlers import HandlerMissing, HandlerTable
from plugins_host.loading.input_formats import PluginFormat, read_formats
from plugins_host.loading.installed import InProcess, PluginRefused
from plugins_host.loading.modules import import_module
from plugins_host.manifests.manifest import Kind, Manifest
from plugins_host.manifests.reading import check_manifest

SERVED_BY: Final[Mapping[Kind, str]] = {
    Kind.NODE: "execute",
    Kind.TRANSFORM: "apply",
    Kind.PROVIDER: "chat",
    Kind.ENCODER: "encode",
}
"""The handler that a component of a kind can't do without."""


class FromModule(NamedTuple):
    """What a module says of the plugin that it is, and the folder that it is in."""

    manifest: Manifest
    home: InProcess
    formats: tuple[PluginFormat, ...]
    folder: Path


def load_module(source: str, builtin_types: Collection[str]) -> FromModule:
    """Import a plugin, and see that it has all that its manifest declares.

    Raises:
        Fault: It cannot be installed: `ModuleUnusable`, `ManifestError`, `PluginRefused`.
    """
    module, folder = import_module(source)
    raw = _declared(module, "manifest", source)
    handlers = _declared(module, "handlers", source)
    formats = read_formats(getattr(module, "formats", {}), where=source)
    tools = getattr(module, "tools", {})
    lister = getattr(module, "list_tools", None)
    if not isinstance(tools, Mapping):
        raise PluginRefused(
            f"'tools' is {type(tools).__name__}, and should be a dict",
            where=source,
            fix="Write functions by the names of their tools, as for serve(tools=…).",
        )
    manifest = check_manifest(
        raw,
        file=source,
        folder=folder,
        builtin_types=builtin_types,
        provides=bool(formats),
    )
    where = f"{source} (plugin {manifest.name!r})"
    try:
        table = HandlerTable(handlers)
        _check_handlers(manifest, table, tools, lister)
    except HandlerMissing as error:
        raise PluginRefused(str(error), where=where) from error
    except Exception as error:
        raise PluginRefused(
            f"the handlers cannot be made: {type(error).__name__}: {error}", where=where
        ) from error
    return FromModule(manifest, InProcess(table, tools, lister), formats, folder)


def _declared(module: ModuleType, name: str, source: str) -> Mapping[str, Any]:
    """One of the two dicts that a plugin module has."""
    value = getattr(module, name, None)
    if isinstance(value, Mapping):
        return value
    has = f"is {type(value).__name__}" if hasattr(module, name) else "is missing"
    raise PluginRefused(
        f"{name!r} {has}, and should be a dict",
        where=source,
        fix="A plugin module declares 'manifest', a dict like a manifest's JSON, "
        "and 'handlers', the dict that serve() takes.",
    )


def _check_handlers(
    manifest: Manifest, table: HandlerTable, tools: Mapping[str, Any], lister: object
) -> None:
    """See that something serves all that the manifest declares.

    Raises:
        HandlerMissing: Nothing does; says what to write.
    """
    for component in manifest.middleware:
        for seam, halves in component.seams.items():
            for half in halves:
                table.half(component.component_type, seam.value, half.value)
    for other in manifest.components:
        if other.kind in SERVED_BY:
            table.function(other.component_type, SERVED_BY[other.kind])
    for tool in manifest.tools:
        if tool.component_type is not None and not callable(tools.get(tool.name)):
            raise HandlerMissing(
                f"nothing serves the tool {tool.name!r}. "
                f"Write tools = {{{tool.name!r}: function}}."
            )
    if manifest.discover_tools and not callable(lister):
        raise HandlerMissing(
            "the manifest says discoverTools and nothing lists them. "
            "Write a function list_tools."
        )
