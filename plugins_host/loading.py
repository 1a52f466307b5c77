"""From the ``--plugin`` and ``--plugin-config`` flags to plugins ready to be asked.

    loaded = load_plugins(["./gate.json", "./audit.py"], ["Gate=@gate-settings.json"])
    loaded.middleware      in chain order, each with its settings

Everything that can be refused is refused here, before a process is started or a port is
opened: manifests, programs that are not there, a component type provided twice, settings
that do not fit. A value that ends in ``.json`` is a manifest, whose program runs in a
process of its own; anything else is a Python module, which becomes part of heddle.
"""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final, TypeVar

from msgspec import Struct

from plugins_host.entry_point import find_entry_point, script_command
from plugins_host.faults import Fault
from plugins_host.handlers import HandlerMissing, HandlerTable
from plugins_host.input_formats import PluginFormat, read_formats
from plugins_host.manifest import (
    Capability,
    Kind,
    Manifest,
    MiddlewareComponent,
)
from plugins_host.manifest_paths import nested
from plugins_host.manifest_reading import check_manifest, read_manifest
from plugins_host.program import PluginProgram, chosen_environment
from plugins_host.settings import check_settings, read_settings

ALL_CAPABILITIES: Final = frozenset(Capability)


SERVED_BY: Final[Mapping[Kind, str]] = {
    Kind.NODE: "execute",
    Kind.TRANSFORM: "apply",
    Kind.PROVIDER: "chat",
    Kind.ENCODER: "encode",
}
"""The handler that a component of a kind can't do without."""


class PluginRefused(Fault):
    """A plugin that cannot be installed, alone or beside the others."""


class OutOfProcess(Struct, frozen=True):
    """The plugin is answered by a process. ``program`` is None when nothing is asked."""

    program: PluginProgram | None


class InProcess(Struct, frozen=True):
    """The plugin's handlers are part of heddle.

    ``tools`` are the functions of its tools by name, ``list_tools`` says which it found.
    """

    handlers: HandlerTable
    tools: Mapping[str, Any] = {}
    list_tools: Callable[[], Any] | None = None


class Plugin(Struct, frozen=True):
    """One installed plugin.

    Attributes:
        source: As it was written after ``--plugin``.
        manifest: What it says about itself.
        home: Where its handlers are.
        formats: Of documents; a module may bring some.
        folder: The real path of the folder that its files are in.
        environment: What its tools find in their environment; None for heddle's own.
    """

    source: str
    manifest: Manifest
    home: OutOfProcess | InProcess
    formats: tuple[PluginFormat, ...] = ()
    folder: str = ""
    environment: Mapping[str, str] | None = None

    @property
    def name(self) -> str:
        """The name in its manifest."""
        return self.manifest.name


class Middleware(Struct, frozen=True):
    """One component of the chain, with the operator's settings; ``{}`` if none."""

    plugin: Plugin
    component: MiddlewareComponent
    settings: dict[str, Any]


class LoadedPlugins(Struct, frozen=True):
    """All plugins in the order of the flags, and their middleware in chain order."""

    plugins: tuple[Plugin, ...] = ()
    middleware: tuple[Middleware, ...] = ()
    warnings: tuple[str, ...] = ()


def load_plugins(
    sources: Sequence[str],
    settings: Sequence[str] = (),
    *,
    builtin_types: Collection[str] = (),
    granted: Collection[Capability] = ALL_CAPABILITIES,
    environment: Mapping[str, str] | None = None,
    variables: Collection[str] = (),
    shared: bool = False,
) -> LoadedPlugins:
    """Load plugins and check their settings. Starts no process.

    Args:
        sources: The values of ``--plugin``, in order.
        settings: The values of ``--plugin-config``, in order.
        builtin_types: Component types that no plugin may take.
        granted: The capabilities that plugins may ask for.
        environment: heddle's own environment; None for ``os.environ``.
        variables: What plugin processes find of it beside the usual ones.
        shared: One process of each plugin serves many runs.

    Raises:
        Fault: The first thing that has to be put right: a `ManifestError`,
            `ProgramMissing`, `PluginRefused` or `SettingsError`.
    """
    given = os.environ if environment is None else environment
    home = _Home(chosen_environment(given, granted=variables), shared)
    plugins = tuple(_load(source, builtin_types, granted, home) for source in sources)
    _refuse_duplicates(plugins)
    asked = [(plugin, each) for plugin in plugins for each in plugin.manifest.middleware]
    schemas = {each.component_type: each.schema for _, each in asked}
    fitted = check_settings(read_settings(settings), schemas)
    return LoadedPlugins(
        plugins,
        tuple(
            Middleware(plugin, each, fitted[each.component_type]) for plugin, each in asked
        ),
        tuple(
            f"{plugin.source} (plugin {plugin.name!r}): {warning}"
            for plugin in plugins
            for warning in plugin.manifest.warnings
        ),
    )


class BroughtPlugin(Struct, frozen=True):
    """A plugin that somebody brings for one run: not installed, and not there yet.

    Attributes:
        source: What errors call it.
        manifest: As decoded from JSON.
        script: Where its one source file will be, ``.py`` or ``.mjs``.
    """

    source: str
    manifest: object
    script: Path


def load_brought(
    brought: Sequence[BroughtPlugin],
    *,
    builtin_types: Collection[str] = (),
    granted: Collection[Capability] = ALL_CAPABILITIES,
) -> LoadedPlugins:
    """Check plugins that come with a run. Starts no process and needs no file.

    Each is given a process of its own with nothing in its environment.

    Raises:
        Fault: As `load_plugins`.
    """
    plugins = tuple(_load_brought(each, builtin_types, granted) for each in brought)
    _refuse_duplicates(plugins)
    return LoadedPlugins(
        plugins,
        warnings=tuple(
            f"{plugin.source}: {warning}"
            for plugin in plugins
            for warning in plugin.manifest.warnings
        ),
    )


def _load_brought(
    brought: BroughtPlugin,
    builtin_types: Collection[str],
    granted: Collection[Capability],
) -> Plugin:
    folder = brought.script.parent
    manifest = check_manifest(
        brought.manifest, file=brought.source, folder=folder, builtin_types=builtin_types
    )
    _check_capabilities(manifest, brought.source, granted)
    program = None
    if manifest.needs_program:
        program = PluginProgram(
            manifest.name,
            script_command(brought.script, where=brought.source),
            str(folder),
            chosen_environment({}, submitted=True),
            frozenset(each.value for each in manifest.capabilities),
        )
    home = OutOfProcess(program)
    return Plugin(brought.source, manifest, home, folder=str(folder), environment={})


class _Home(Struct, frozen=True):
    """What all plugin processes have in common."""

    environment: dict[str, str]
    shared: bool


def _load(
    source: str,
    builtin_types: Collection[str],
    granted: Collection[Capability],
    process: _Home,
) -> Plugin:
    home: OutOfProcess | InProcess
    formats: tuple[PluginFormat, ...] = ()
    inside: Path | None = None
    if source.endswith(".json"):
        path = Path(source)
        manifest = read_manifest(path, builtin_types=builtin_types)
        home = OutOfProcess(_program(manifest, path, process))
    else:
        manifest, home, formats, inside = _import_plugin(source, builtin_types)
    _check_capabilities(manifest, source, granted)
    folder = inside or Path(source).resolve().parent
    environment = process.environment if isinstance(home, OutOfProcess) else None
    return Plugin(source, manifest, home, formats, str(folder), environment)


def _check_capabilities(
    manifest: Manifest, source: str, granted: Collection[Capability]
) -> None:
    for capability in manifest.capabilities:
        if capability not in granted:
            raise PluginRefused(
                f"it asks for {capability.value!r}, a capability not granted here",
                where=f"{source} (plugin {manifest.name!r}) $.capabilities",
                fix="Grant it, or install a plugin that does without.",
            )


def _program(manifest: Manifest, path: Path, process: _Home) -> PluginProgram | None:
    # Without a PATH of its own a process finds nothing by name.
    search = process.environment.get("PATH", "")
    entry = find_entry_point(manifest, path, search=search)
    if entry is None:
        return None
    return PluginProgram(
        manifest.name,
        entry.argv,
        str(entry.folder),
        process.environment,
        frozenset(each.value for each in manifest.capabilities),
        process.shared,
    )


def _refuse_duplicates(plugins: Sequence[Plugin]) -> None:
    names: dict[str, Plugin] = {}
    types: dict[str, Plugin] = {}
    tools: dict[str, Plugin] = {}
    shadows: dict[str, Plugin] = {}
    places: dict[PurePosixPath, Plugin] = {}
    formats: dict[str, Plugin] = {}
    protocols: dict[str, Plugin] = {}
    for plugin in plugins:
        _take(names, plugin.name, plugin, "name")
        for component in plugin.manifest.components:
            _take(types, component.component_type, plugin, "component type")
        for tool in plugin.manifest.tools:
            _take(shadows if tool.shadows else tools, tool.name, plugin, "tool")
        for file in plugin.manifest.files:
            dest = PurePosixPath(file.dest)
            clash = next((each for each in places if nested(each, dest)), dest)
            _take(places, clash, plugin, "file")
            places[dest] = plugin
        for each in plugin.formats:
            _take(formats, each.name, plugin, "format")
        for encoder in plugin.manifest.encoders:
            _take(protocols, encoder.protocol, plugin, "protocol")


Name = TypeVar("Name", str, PurePosixPath)


def _take(taken: dict[Name, Plugin], name: Name, plugin: Plugin, what: str) -> None:
    first = taken.setdefault(name, plugin)
    if first is plugin:
        return
    if first.source == plugin.source:
        told = "the plugin is installed twice"
    elif what == "name":
        told = f"{first.source} is called {name!r} as well"
    else:
        told = f"the {what} {str(name)!r} is also provided by {first.source}"
    raise PluginRefused(
        told,
        where=f"{plugin.source} (plugin {plugin.name!r})",
        fix="Install one of them.",
    )


def _import_plugin(
    source: str, builtin_types: Collection[str]
) -> tuple[Manifest, InProcess, tuple[PluginFormat, ...], Path]:
    from plugins_host.modules import import_module

    module, folder = import_module(source)
    raw = getattr(module, "manifest", None)
    handlers = getattr(module, "handlers", None)
    for name, value in (("manifest", raw), ("handlers", handlers)):
        if not isinstance(value, Mapping):
            has = f"is {type(value).__name__}" if hasattr(module, name) else "is missing"
            raise PluginRefused(
                f"{name!r} {has}, and should be a dict",
                where=source,
                fix="A plugin module declares 'manifest', a dict like a manifest's JSON, "
                "and 'handlers', the dict that serve() takes.",
            )
    assert isinstance(handlers, Mapping)
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
    try:
        table = HandlerTable(handlers)
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
    except HandlerMissing as error:
        raise PluginRefused(
            str(error), where=f"{source} (plugin {manifest.name!r})"
        ) from error
    except Exception as error:
        raise PluginRefused(
            f"the handlers cannot be made: {type(error).__name__}: {error}",
            where=f"{source} (plugin {manifest.name!r})",
        ) from error
    return manifest, InProcess(table, tools, lister), formats, folder
