"""Installed plugins opened: what runs use of them while the context is open.

Processes start with the first question to them, or at once where a server asks for that,
and end when the context is left.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from heddle.installation.reading import Installed

if TYPE_CHECKING:
    from heddle.engine.gate import Policies
    from heddle.plugin_tools import AnyTool
    from heddle.policy_counts import PolicyCounts
    from heddle.tools import Mount
    from plugins_host import Answerer, Encoder, Fleet, Plugin, PluginLog, Served


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
    from plugins_host import Fleet, OutOfProcess
    from plugins_host.processes.child import spawn
    from plugins_host.processes.guard import guarding

    programs = [
        plugin.home.program
        for plugin in loaded.plugins
        if isinstance(plugin.home, OutOfProcess) and plugin.home.program is not None
    ]
    async with AsyncExitStack() as stack:
        guard = stack.enter_context(guarding()) if programs else None
        fleet = Fleet(programs, log=log, spawn=partial(spawn, guard=guard))
        await stack.enter_async_context(fleet)
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
            _components(installed, askers, patience),
            _encoders(loaded.plugins, askers, patience),
            askers,
            *_tools_and_files(loaded.plugins, askers, patience, log),
        )


def _components(
    installed: Installed, askers: Mapping[str, Any], patience: float
) -> "Mapping[str, Served]":
    from plugins_host import Served

    return {
        name: Served(name, one.plugin, askers[one.plugin], patience)
        for name, one in installed.provided.items()
        if one.plugin in askers
    }


def _encoders(
    plugins: "Sequence[Plugin]", askers: Mapping[str, Any], patience: float
) -> "Mapping[str, Encoder]":
    from plugins_host import Encoder

    return {
        each.protocol: Encoder(
            each.protocol,
            each.content_type,
            each.component_type,
            askers[plugin.name],
            patience,
        )
        for plugin in plugins
        for each in plugin.manifest.encoders
    }


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
