"""From the ``--plugin`` and ``--plugin-config`` flags to plugins ready to be asked.

    loaded = load_plugins(["./gate.json", "./audit.py"], ["Gate=@gate-settings.json"])
    loaded.middleware      in chain order, each with its settings

Everything that can be refused is refused here, before a process is started or a port is
opened: manifests, programs that are not there, a component type provided twice, settings
that do not fit. A value that ends in ``.json`` is a manifest, whose program runs in a
process of its own; anything else is a Python module, which becomes part of heddle.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final, TypeVar

from msgspec import Struct

from plugins_host.loading.entry_point import find_entry_point, script_command
from plugins_host.loading.input_formats import PluginFormat
from plugins_host.loading.installed import (
    InProcess,
    LoadedPlugins,
    Middleware,
    OutOfProcess,
    Plugin,
    PluginRefused,
)
from plugins_host.loading.settings import check_settings, read_settings
from plugins_host.manifests.manifest import (
    Capability,
    Manifest,
)
from plugins_host.manifests.paths import nested
from plugins_host.manifests.reading import check_manifest, read_manifest
from plugins_host.program import PluginProgram, chosen_environment

ALL_CAPABILITIES: Final = frozenset(Capability)


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
        # Most plugins are programs, and need not load what imports them.
        from plugins_host.loading.python_plugins import load_module

        manifest, home, formats, inside = load_module(source, builtin_types)
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
