"""Installed plugins, as data: what each says about itself, and where its handlers are."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from plugins_host.authoring.handlers import HandlerTable
from plugins_host.faults import Fault
from plugins_host.loading.input_formats import PluginFormat
from plugins_host.manifests.manifest import Manifest, MiddlewareComponent
from plugins_host.program import PluginProgram


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
