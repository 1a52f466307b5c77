"""What is installed beside the flows: plugins, and what each kind of them gives to runs.

    installed = install(("policies.json",), ("Gate=@gate.json",))    reads, starts nothing
    async with open_plugins(installed, log=print, patience=30) as plugins:
        plugins.policies, plugins.components, plugins.encoders …      what runs use

Loading refuses all that can be refused before anything runs. Processes start with the
first question to them and end when the context is left. A run may bring plugins of its
own: installed and opened like these, they come beside them with ``and_also``.
"""

import os
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from heddle.spec import (
    COMPONENTS,
    FORMATS,
    Component,
    DocumentError,
    FormatRefused,
    Formats,
    LlmConfig,
    PluginComponent,
    ProvidedType,
    format_of,
    read_document,
)
from heddle.spec.llms import Model
from plugins_host import Fault

if TYPE_CHECKING:
    from heddle.engine.gate import Policies
    from heddle.plugin_tools import AnyTool
    from heddle.policy_counts import PolicyCounts
    from heddle.tools import Mount
    from plugins_host import (
        Answerer,
        Encoder,
        Fleet,
        LoadedPlugins,
        Plugin,
        PluginLog,
        Served,
    )

LLM_CONFIG: Final = "llm_config"
"""The setting under which a middleware is given a model of its own."""


OWN_PROTOCOL: Final = "heddle"
"""Events as they are."""

GIVE_A_MODEL: Final = "Give an LLM configuration, such as an OpenAiCompatibleConfig."


class NotServedYet(Fault):
    """A plugin provides something that this version of heddle reads and does not use."""


class PolicyModelInvalid(Fault):
    """The settings of a middleware name a model that can't be used."""


class TypeTaken(Fault):
    """A plugin that a run brings provides a component type that is installed already."""


class Installed(Struct, frozen=True):
    """Plugins that were read and checked.

    ``provided`` are the component types that documents may name beside Agent Spec's own;
    ``refused`` those that no document may name, with the reason; ``models`` the LLM
    configurations of middleware, by component type; ``formats`` those that documents may
    be written in. ``digest`` tells two installations apart by what they make of documents.
    """

    plugins: "LoadedPlugins | None" = None
    provided: Mapping[str, ProvidedType] = {}
    refused: Mapping[str, str] = {}
    models: Mapping[str, Component] = {}
    formats: Formats = FORMATS
    warnings: tuple[str, ...] = ()
    digest: str = ""

    @property
    def protocols(self) -> tuple[str, ...]:
        """How events can be rendered: as heddle's own, and by encoders."""
        loaded = self.plugins.plugins if self.plugins is not None else ()
        return (
            OWN_PROTOCOL,
            *(each.protocol for plugin in loaded for each in plugin.manifest.encoders),
        )

    @property
    def middleware(self) -> list[str]:
        """The component types of the policies, sorted."""
        loaded = self.plugins.middleware if self.plugins is not None else ()
        return sorted(each.component.component_type for each in loaded)

    @property
    def offered(self) -> dict[str, list[str]]:
        """The component types that documents may name, sorted, by kind."""
        kinds: dict[str, list[str]] = {}
        for name, one in sorted(self.provided.items()):
            kinds.setdefault(one.kind, []).append(name)
        return kinds

    def and_also(self, brought: "Installed") -> "Installed":
        """The same for a document beside which a run brings plugins of its own.

        Only what documents are read with is joined: each is opened for itself.

        Raises:
            TypeTaken: A component type is provided by both.
        """
        for name, theirs in brought.provided.items():
            if name in self.provided or name in self.refused:
                raise TypeTaken(
                    f"the component type {name!r} is installed here already",
                    where=f"plugin {theirs.plugin!r}",
                    fix="Give yours another name.",
                )
        return msgspec.structs.replace(
            self,
            provided={**self.provided, **brought.provided},
            refused={**self.refused, **brought.refused},
            warnings=(*self.warnings, *brought.warnings),
            digest=f"{self.digest}+{brought.digest}",
        )


NOTHING: Final = Installed()


def install(
    plugins: Collection[str],
    settings: Collection[str] = (),
    *,
    environment: Mapping[str, str] | None = None,
    variables: Collection[str] = (),
    shared: bool = False,
) -> Installed:
    """Read plugins and their settings, in the order of the flags. Starts no process.

    Args:
        plugins: The values of ``--plugin``.
        settings: The values of ``--plugin-config``.
        environment: heddle's own; None for ``os.environ``.
        variables: The values of ``--plugin-env``: what plugins find of it.
        shared: One process of each plugin serves many runs.

    Raises:
        Fault: The first thing that stands against it.
    """
    if not plugins and not settings:
        return NOTHING
    from plugins_host import load_plugins

    given = os.environ if environment is None else environment
    loaded = load_plugins(
        tuple(plugins),
        tuple(settings),
        builtin_types=COMPONENTS,
        environment=given,
        variables=variables,
        shared=shared,
    )
    return installed_of(loaded)


def installed_of(loaded: "LoadedPlugins") -> Installed:
    """What documents and runs have of plugins that are loaded.

    Raises:
        Fault: One of them provides what can't be used.
    """
    from heddle.provided import REFUSED_KINDS, provided_types

    for plugin in loaded.plugins:
        _refuse_unserved(plugin)
    provided = provided_types(loaded.plugins)
    refused = {
        each.component_type: REFUSED_KINDS[each.kind].format(plugin=plugin.name)
        for plugin in loaded.plugins
        for each in plugin.manifest.components
        if each.kind in REFUSED_KINDS
    }
    models = {
        each.component.component_type: _model(
            each.component.component_type, each.settings[LLM_CONFIG], provided
        )
        for each in loaded.middleware
        if LLM_CONFIG in each.settings
    }
    says = msgspec.json.encode([provided, refused])
    return Installed(
        loaded,
        provided,
        refused,
        models,
        _formats(loaded.plugins),
        loaded.warnings,
        blake2b(says, digest_size=12).hexdigest(),
    )


def _formats(plugins: "Sequence[Plugin]") -> Formats:
    """heddle's own formats and those of plugins."""
    formats = FORMATS
    for plugin in plugins:
        brought = [
            format_of(each.name, each.extensions, each.read) for each in plugin.formats
        ]
        if brought:
            try:
                formats = formats.and_also(brought)
            except FormatRefused as error:
                where = f"{plugin.source} (plugin {plugin.name!r})"
                raise FormatRefused(error.what, where=where, fix=error.fix) from error
    return formats


def _refuse_unserved(plugin: "Plugin") -> None:
    from plugins_host import Kind

    manifest = plugin.manifest
    unserved = [
        f"component {each.component_type!r} keeps sessions, which heddle does not have yet"
        for each in manifest.components
        if each.kind is Kind.STORE
    ]
    for what in unserved[:1]:
        raise NotServedYet(
            what,
            where=f"{plugin.source} (plugin {plugin.name!r})",
            fix="Take it out of the manifest.",
        )


def _model(
    component_type: str, raw: Any, provided: Mapping[str, ProvidedType]
) -> Component:
    """The LLM configuration in a middleware's settings."""
    where = f"--plugin-config {component_type} $.{LLM_CONFIG}"
    if not isinstance(raw, dict):
        raise PolicyModelInvalid(f"{raw!r} is no object", where=where, fix=GIVE_A_MODEL)
    named = msgspec.json.encode({"name": component_type, **raw})
    try:
        root = read_document(
            named, name=where, format="json", component_types=provided
        ).root
    except DocumentError as error:
        raise PolicyModelInvalid(error.what, where=where, fix=error.fix) from error
    if isinstance(root, PluginComponent):
        usable = root.provided.kind == "provider"
    else:
        usable = isinstance(root, LlmConfig | Model)
    if not usable:
        raise PolicyModelInvalid(
            f"a {root.component_type} is no LLM configuration",
            where=where,
            fix=GIVE_A_MODEL,
        )
    return root


class OpenPlugins(Struct, frozen=True):
    """What runs use of plugins, by what they call it.

    Attributes:
        policies: What is asked at the seams; None when there is nobody to ask.
        components: Nodes, transforms and providers, by component type.
        encoders: By protocol.
        askers: Who answers for each plugin, by its name.
        tools: Those that manifests declare, by name.
        mounts: Files that workspaces have in them.
    """

    policies: "Policies | None" = None
    components: "Mapping[str, Served]" = {}
    encoders: "Mapping[str, Encoder]" = {}
    askers: "Mapping[str, Answerer]" = {}
    tools: "Mapping[str, AnyTool]" = {}
    mounts: "tuple[Mount, ...]" = ()

    def and_also(self, brought: "OpenPlugins") -> "OpenPlugins":
        """These and what a run brings; policies are the operator's alone."""
        return OpenPlugins(
            self.policies,
            {**self.components, **brought.components},
            {**self.encoders, **brought.encoders},
            {**self.askers, **brought.askers},
            {**self.tools, **brought.tools},
            (*self.mounts, *brought.mounts),
        )


NONE_OPEN: Final = OpenPlugins()


@asynccontextmanager
async def open_plugins(
    installed: Installed,
    *,
    log: "PluginLog",
    patience: float,
    start: bool = False,
    watch: "PolicyCounts | None" = None,
) -> AsyncIterator[OpenPlugins]:
    """All that runs use of an installation, while the context is open.

    Args:
        installed: From `install`.
        log: Told what plugins print, and what heddle does to them.
        patience: The budget of silence of one question, in seconds.
        start: Start the processes now, as a server does.
        watch: Counts what policies say.

    Raises:
        PluginNotStarted: With ``start``: one of them does not start.
    """
    loaded = installed.plugins
    if loaded is None or not loaded.plugins:
        yield NONE_OPEN
        return
    from plugins_host import Encoder, EncoderComponent, Fleet, OutOfProcess, Served

    programs = [
        plugin.home.program
        for plugin in loaded.plugins
        if isinstance(plugin.home, OutOfProcess) and plugin.home.program is not None
    ]
    async with Fleet(programs, log=log) as fleet:
        if watch is not None:
            watch.installed(fleet)
        if start:
            await fleet.start()
        askers = {
            plugin.name: asker
            for plugin in loaded.plugins
            if (asker := _asker(plugin, fleet, log)) is not None
        }
        yield OpenPlugins(
            _policies(installed, askers, patience, watch),
            {
                name: Served(name, one.plugin, askers[one.plugin], patience)
                for name, one in installed.provided.items()
                if one.plugin in askers
            },
            {
                each.protocol: Encoder(
                    each.protocol,
                    each.content_type,
                    each.component_type,
                    askers[plugin.name],
                    patience,
                )
                for plugin in loaded.plugins
                for each in plugin.manifest.components
                if isinstance(each, EncoderComponent)
            },
            askers,
            *_tools_and_files(loaded.plugins, askers, patience, log),
        )


def _tools_and_files(
    plugins: "Sequence[Plugin]",
    askers: Mapping[str, Any],
    patience: float,
    log: "PluginLog",
) -> "tuple[Mapping[str, AnyTool], tuple[Mount, ...]]":
    """What plugins bring to tools; loads nothing when they bring none."""
    if not any(plugin.manifest.tools or plugin.manifest.files for plugin in plugins):
        return {}, ()
    from heddle.plugin_tools import files_of, tools_of

    return tools_of(plugins, askers, patience=patience, log=log), files_of(plugins)


def _asker(plugin: "Plugin", fleet: "Fleet", log: "PluginLog") -> Any:
    """Who answers for a plugin; None for one that nobody has to ask."""
    from plugins_host import InProcess, InProcessPlugin

    if isinstance(plugin.home, InProcess):
        return InProcessPlugin(
            plugin.name,
            plugin.home.handlers,
            capabilities=frozenset(each.value for each in plugin.manifest.capabilities),
            log=log,
            tools=plugin.home.tools,
            list_tools=plugin.home.list_tools,
        )
    return fleet[plugin.name] if plugin.home.program is not None else None


def _policies(
    installed: Installed,
    askers: Mapping[str, Any],
    patience: float,
    watch: "PolicyCounts | None",
) -> "Policies | None":
    assert installed.plugins is not None
    if not installed.plugins.middleware:
        return None
    from heddle.engine.gate import Policies, asked_by
    from plugins_host import Chain, Link

    chain = Chain(
        [
            Link(
                each.component.component_type,
                each.plugin.name,
                msgspec.json.encode(each.settings),
                each.component.seams,
                askers[each.plugin.name],
            )
            for each in installed.plugins.middleware
        ],
        watch=watch,
    )
    return Policies(chain, asked_by(chain), patience, installed.models)
