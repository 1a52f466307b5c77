"""What an operator installs beside the flows: plugins, and the policies in them.

    installed = install(("policies.json",), ("Gate=@gate.json",))    reads, starts nothing
    async with policies_of(installed, log=print, patience=30) as policies:
        …                                                     runs ask these policies

Loading refuses all that can be refused before anything runs. Processes start with the
first question to them and end when the context is left.
"""

import os
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
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
    format_of,
    read_document,
)
from heddle.spec.llms import Model
from plugins_host import Fault

if TYPE_CHECKING:
    from heddle.engine.gate import Policies
    from heddle.policy_counts import PolicyCounts
    from plugins_host import LoadedPlugins, Plugin, PluginLog

REFUSED: Final = (
    "It is a middleware of plugin {plugin!r}: middleware is installed by whoever runs "
    "heddle and named in no document."
)
LLM_CONFIG: Final = "llm_config"
"""The setting under which a middleware is given a model of its own."""


GIVE_A_MODEL: Final = "Give an LLM configuration, such as an OpenAiCompatibleConfig."


class NotServedYet(Fault):
    """A plugin provides something that this version of heddle reads and does not use."""


class PolicyModelInvalid(Fault):
    """The settings of a middleware name a model that can't be used."""


class Installed(Struct, frozen=True):
    """Plugins that were read and checked.

    ``refused`` are the component types that no document may name, with the reason;
    ``models`` the LLM configurations of middleware, by component type; ``formats`` those
    that documents may be written in.
    """

    plugins: "LoadedPlugins | None" = None
    refused: Mapping[str, str] = {}
    models: Mapping[str, Component] = {}
    formats: Formats = FORMATS
    warnings: tuple[str, ...] = ()


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
    for plugin in loaded.plugins:
        _refuse_unserved(plugin)
    return Installed(
        loaded,
        {
            each.component.component_type: REFUSED.format(plugin=each.plugin.name)
            for each in loaded.middleware
        },
        {
            each.component.component_type: _model(
                each.component.component_type, each.settings[LLM_CONFIG]
            )
            for each in loaded.middleware
            if LLM_CONFIG in each.settings
        },
        _formats(loaded.plugins),
        loaded.warnings,
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
    manifest = plugin.manifest
    unserved = [
        f"component {each.component_type!r} is no middleware"
        for each in manifest.components
        if each not in manifest.middleware
    ]
    if manifest.tools or manifest.discover_tools:
        unserved.append("it provides tools")
    if manifest.files:
        unserved.append("it brings files")
    for what in unserved[:1]:
        raise NotServedYet(
            f"{what}, and middleware is all that this version takes from a plugin",
            where=f"{plugin.source} (plugin {plugin.name!r})",
            fix="Take it out of the manifest.",
        )


def _model(component_type: str, raw: Any) -> Component:
    """The LLM configuration in a middleware's settings."""
    where = f"--plugin-config {component_type} $.{LLM_CONFIG}"
    if not isinstance(raw, dict):
        raise PolicyModelInvalid(f"{raw!r} is no object", where=where, fix=GIVE_A_MODEL)
    named = msgspec.json.encode({"name": component_type, **raw})
    try:
        root = read_document(named, name=where, format="json").root
    except DocumentError as error:
        raise PolicyModelInvalid(error.what, where=where, fix=error.fix) from error
    if not isinstance(root, LlmConfig | Model):
        raise PolicyModelInvalid(
            f"a {root.component_type} is no LLM configuration",
            where=where,
            fix=GIVE_A_MODEL,
        )
    return root


@asynccontextmanager
async def policies_of(
    installed: Installed,
    *,
    log: "PluginLog",
    patience: float,
    start: bool = False,
    watch: "PolicyCounts | None" = None,
) -> "AsyncIterator[Policies | None]":
    """The policies of an installation; None when there are none to be asked.

    Args:
        installed: From `install`.
        log: Told what plugins print, and what heddle does to them.
        patience: The budget of silence of one question, in seconds.
        start: Start the processes now, as a server does.
        watch: Counts what policies say.

    Raises:
        PluginNotStarted: With ``start``: one of them does not start.
    """
    if installed.plugins is None or not installed.plugins.middleware:
        yield None
        return
    from heddle.engine.gate import Policies, asked_by
    from plugins_host import Chain, Fleet, InProcess, InProcessPlugin, Link, OutOfProcess

    plugins = installed.plugins.plugins
    programs = [
        plugin.home.program
        for plugin in plugins
        if isinstance(plugin.home, OutOfProcess) and plugin.home.program is not None
    ]
    async with Fleet(programs, log=log) as fleet:
        if watch is not None:
            watch.installed(fleet)
        if start:
            await fleet.start()
        askers = {
            plugin.name: InProcessPlugin(
                plugin.name,
                plugin.home.handlers,
                capabilities=frozenset(each.value for each in plugin.manifest.capabilities),
                log=log,
            )
            if isinstance(plugin.home, InProcess)
            else fleet[plugin.name]
            for plugin in plugins
            if plugin.manifest.middleware
        }
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
        yield Policies(chain, asked_by(chain), patience, installed.models)
