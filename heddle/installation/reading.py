"""Plugins read and checked: what documents may name, which policies there are.

Refuses all that can be refused before anything runs, and starts nothing.
"""

import os
from collections.abc import Collection, Mapping, Sequence
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
    from plugins_host import (
        LoadedPlugins,
        Plugin,
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
    from heddle.installation.provided import REFUSED_KINDS, provided_types

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
