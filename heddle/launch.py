"""From a file and options to a run: what the command line and the server both call.

    installed = install(options)                       plugins; starts nothing
    prepared = preparing.load("flow.json", …)          the document; starts nothing
    state = await run(prepared, options, report=print, installed=installed)

What becomes of a document before it runs is in `heddle.preparing`.
"""

import os
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from heddle import installation
from heddle.engine.faults import InputsRefused
from heddle.engine.state import check_inputs, may_start, start_state
from heddle.engine.walk import Limits
from heddle.engine.work import Services
from heddle.events import Event
from heddle.installation import (
    NONE_OPEN,
    OWN_PROTOCOL,
    Installed,
    OpenPlugins,
)
from heddle.preparing import Prepared
from heddle.spec import (
    EffortExceeded,
)
from plugins_host import Fault

if TYPE_CHECKING:
    from heddle.engine.questions import Person
    from heddle.engine.run import Run
    from heddle.plugin_tools import Discovery
    from heddle.policy_counts import PolicyCounts
    from heddle.remote import RemoteService
    from heddle.services import ModelService
    from heddle.tools import ToolProgram, Tools
    from plugins_host import Encoder, Message, PluginLine, PluginLog

MAX_TOLD: Final = 100
"""Tools that are missing and told of, of one flow."""


class ToolsMissing(Fault):
    """The flow uses tools that are not there or can't be run; all of them at once.

    ``faults`` are (node, fault) pairs.
    """

    def __init__(self, faults: Sequence[tuple[str, Fault]]) -> None:
        self.faults = tuple(faults)
        node, first = self.faults[0]
        super().__init__(str(first), where=f"node {node!r}")

    def __str__(self) -> str:
        if len(self.faults) == 1:
            return super().__str__()
        lines = [f"the flow uses {len(self.faults)} tools that can't be run:"]
        lines += [f"  node {node!r}: {fault}" for node, fault in self.faults]
        return "\n".join(lines)


class RunOptions(Struct, frozen=True):
    """How to run it. Times are in seconds; ``max_tools`` None is four for each core."""

    inputs: Mapping[str, Any] = {}
    tools_dir: str | None = None
    max_iterations: int = 50
    max_node_attempts: int = 3
    timeout: float = 300.0
    tool_timeout: float = 30.0
    plugin_timeout: float = 30.0
    max_tools: int | None = None
    stream: bool = True
    trace: bool = False
    plugins: tuple[str, ...] = ()
    plugin_config: tuple[str, ...] = ()
    plugin_env: tuple[str, ...] = ()
    discover_tools: bool = False

    @property
    def limits(self) -> Limits:
        """What the engine bounds a run by."""
        return Limits(self.max_iterations, self.max_node_attempts, self.timeout)


def install(options: RunOptions, *, shared: bool = False) -> Installed:
    """Read the plugins that the options name and check their settings; starts nothing.

    ``shared`` is whether one process of each plugin serves many runs.

    Raises:
        Fault: What stands against installing them.
    """
    return installation.install(
        options.plugins,
        options.plugin_config,
        variables=options.plugin_env,
        shared=shared,
    )


class Engine:
    """What all runs share: models, tools, plugins, limits. From `open_engine`."""

    def __init__(
        self,
        models: "ModelService",
        tools: "Tools | None",
        plugins: OpenPlugins,
        limits: Limits,
        discovery: "Discovery | None" = None,
        remote: "RemoteService | None" = None,
        within: str | None = None,
        no_tools: "Callable[[], Tools] | None" = None,
    ) -> None:
        # What carries runs out is loaded by what may, and not to check a document.
        from heddle.engine.run import Run
        from heddle.services import ToolService

        self._made: type[Run] = Run
        self._models = models
        self._tools = tools
        self._within = within
        # What runs bring takes turns in it, where there are no tools beside them.
        self._no_tools = no_tools
        self._tool_service = ToolService(tools, within=within, mounts=plugins.mounts)
        self._plugins = plugins
        self._discovery = discovery
        self._limits = limits
        self._remote = remote

    def tool_names(self) -> list[str]:
        """The tools of the folder and of plugins, sorted."""
        return sorted(self.taken_tools)

    @property
    def taken_tools(self) -> Collection[str]:
        """The names of the same, as they come and go."""
        return () if self._tools is None else self._tools.names

    def encoder(self, protocol: str) -> "Encoder | None":
        """What renders events in this protocol; None for heddle's own.

        Raises:
            KeyError: Nothing does.
        """
        return None if protocol == OWN_PROTOCOL else self._plugins.encoders[protocol]

    def with_models(
        self, models: "ModelService", remote: "RemoteService | None" = None
    ) -> "Engine":
        """The same, with model calls, and requests when ``remote`` is given, by others."""
        remote = remote or self._remote
        return Engine(
            models,
            self._tools,
            self._plugins,
            self._limits,
            self._discovery,
            remote,
            self._within,
            self._no_tools,
        )

    async def run(
        self,
        prepared: Prepared,
        inputs: Mapping[str, Any],
        report: Callable[[Event], None],
        *,
        stream: bool,
        person: "Person | None" = None,
        history: "Sequence[Message] | None" = None,
        trace: bool = False,
    ) -> dict[str, Any]:
        """Run a document once.

        Args:
            prepared: From `load` or `prepare`.
            inputs: The starting state.
            report: Called with each event, in order; must not block.
            stream: Whether somebody reads the text of models as it comes.
            person: Whom the run talks to; None when there is nobody to ask.
            history: The turns before it, when the run is one of a conversation.
            trace: Whether somebody reads the events of traced runs.

        Returns:
            The flow's result.

        Raises:
            ToolsMissing: The flow uses tools that are not there; nothing has run.
            RunFailed: The run did not reach an end.
        """
        made = self.new_run(prepared, report, stream=stream, person=person, trace=trace)
        return await made.execute(inputs, history)

    def new_run(
        self,
        prepared: Prepared,
        report: Callable[[Event], None],
        *,
        stream: bool,
        person: "Person | None" = None,
        trace: bool = False,
    ) -> "Run":
        """One that can be watched from outside while it executes; else like `run`.

        Raises:
            ToolsMissing: The flow uses tools that are not there.
        """
        self.check(prepared)
        plugins = self._plugins
        services = Services(
            self._models,
            self._tool_service,
            report,
            stream,
            plugins.policies,
            plugins.components,
            person=person,
            remote=self._remote,
            trace=trace,
        )
        return self._made(prepared.plan, services, self._limits)

    def bringing(
        self,
        tools: "Mapping[str, ToolProgram]",
        *,
        within: str,
        plugins: OpenPlugins = NONE_OPEN,
    ) -> "Engine":
        """The same for one run that brings tools and plugins of its own.

        Args:
            tools: By name; they are usable by this engine's runs alone, and take turns
                with all others.
            within: The folder that workspaces are made in.
            plugins: Opened around the run.
        """
        own = self._tools
        if own is None:
            from heddle.tools import Tools

            own = Tools() if self._no_tools is None else self._no_tools()
        both = own.and_also({**plugins.tools, **tools})
        all_plugins = self._plugins.and_also(plugins)
        return Engine(
            self._models,
            both,
            all_plugins,
            self._limits,
            self._discovery,
            self._remote,
            within,
            self._no_tools,
        )

    async def look_for_tools(self, prepared: Prepared) -> None:
        """Ask plugins that find tools again, where that may bring some the flow uses."""
        if self._discovery is not None and prepared.plan.tools:
            wanted = {name for names in prepared.plan.tools.values() for name in names}
            await self._discovery.look_for(wanted)

    def check_inputs(self, prepared: Prepared, inputs: Mapping[str, Any]) -> None:
        """See that a run could start from these inputs, as far as that is known before.

        Policies around the StartNode may change what it is given or stand in for it: with
        one of them it is only known when the run begins.

        Raises:
            InputsRefused: It could not.
        """
        graph, glance = prepared.plan.graph, prepared.plan.glance
        if glance is not None and may_start(glance, inputs):
            return
        state = start_state(graph, inputs)
        policies = self._plugins.policies
        if policies is not None:
            asked = policies.asked
            if asked.node_before or asked.node_error or asked.node_after:
                return
        try:
            check_inputs(graph.inputs, state)
        except EffortExceeded:
            raise
        except Fault as fault:
            raise InputsRefused(fault.what, where="inputs", fix=fault.fix) from fault

    def check(self, prepared: Prepared, *, also: Collection[str] = ()) -> None:
        """See that all the tools that the flow uses are there.

        Args:
            prepared: The flow.
            also: Names of tools that will be there when it runs.

        Raises:
            ToolsMissing: They are not.
        """
        wanted = prepared.plan.tools
        if not wanted:
            return
        from heddle.tools import Tools

        tools = Tools() if self._tools is None else self._tools
        # A flow may have as many nodes as it likes, and nobody reads as many sentences.
        faults = islice(
            (
                (node, fault)
                for node, names in wanted.items()
                for name in names
                if name not in also
                for fault in tools.problems((name,))
            ),
            MAX_TOLD,
        )
        if found := list(faults):
            raise ToolsMissing(found)


@asynccontextmanager
async def open_engine(
    options: RunOptions,
    *,
    installed: Installed | None = None,
    plugin_log: "PluginLog | None" = None,
    start_plugins: bool = False,
    watch: "PolicyCounts | None" = None,
    within: str | None = None,
) -> AsyncIterator[Engine]:
    """What any number of runs share, ended when the context is left.

    Args:
        options: Tools, plugins and limits; inputs and streaming are each run's own.
        installed: From `install`; None to install what the options name.
        plugin_log: Told what plugins print; None to send it to Python's logging.
        start_plugins: Start their processes now rather than when they are first asked.
        watch: Counts what policies say.
        within: The folder that workspaces are made in; None for the system's temporary one.

    Raises:
        Fault: The folder of tools or a plugin can't be used.
    """
    from heddle.services import open_models, open_remote

    # Closed below, when nothing runs any more; until then it holds nothing.
    at_end = AsyncExitStack()
    no_tools = cache(lambda: _no_tools(options, at_end))
    tools = _tools(options, no_tools)
    installed = install(options) if installed is None else installed
    _refuse_taken(installed, tools)
    log = plugin_log or log_plugin_line
    async with (
        at_end,
        installation.open_plugins(
            installed,
            log=log,
            patience=options.plugin_timeout,
            start=start_plugins,
            watch=watch,
        ) as plugins,
        open_models(os.environ) as models,
        open_remote(os.environ, options.tool_timeout) as remote,
    ):
        if plugins.tools:
            tools = (tools or no_tools()).and_also(plugins.tools)
        discovery = _discovery(options, installed, plugins, tools, log)
        if discovery is not None:
            await discovery.begin()
            tools = (tools or no_tools()).and_also(discovery.tools)
        limits = options.limits
        yield Engine(models, tools, plugins, limits, discovery, remote, within, no_tools)


def _refuse_taken(installed: Installed, tools: "Tools | None") -> None:
    """See that plugins and the operator's folder have no tool in common."""
    loaded = installed.plugins
    if loaded is None or tools is None:
        return
    if any(plugin.manifest.tools for plugin in loaded.plugins):
        from heddle.plugin_tools import refuse_taken

        refuse_taken(loaded.plugins, tools.names)


def _discovery(
    options: RunOptions,
    installed: Installed,
    plugins: OpenPlugins,
    tools: "Tools | None",
    log: "PluginLog",
) -> "Discovery | None":
    """The tools that plugins find, when the operator lets them."""
    loaded = installed.plugins
    finders = [
        plugin
        for plugin in (() if loaded is None else loaded.plugins)
        if plugin.manifest.discover_tools
    ]
    if not finders:
        return None
    if not options.discover_tools:
        from plugins_host import PluginLine

        for plugin in finders:
            told = "it finds tools when it is asked, which --discover-tools allows"
            log(PluginLine(plugin.name, "host", told))
        return None
    from heddle.plugin_tools import Discovery

    return Discovery(
        finders,
        plugins.askers,
        () if tools is None else tools.names,
        patience=options.plugin_timeout,
        log=log,
    )


async def run(
    prepared: Prepared,
    options: RunOptions,
    report: Callable[[Event], None],
    *,
    installed: Installed | None = None,
    plugin_log: "PluginLog | None" = None,
) -> dict[str, Any]:
    """Run a document once, with everything that it needs started and ended around it.

    Raises:
        Fault: As `open_engine` and `Engine.run`.
    """
    async with open_engine(options, installed=installed, plugin_log=plugin_log) as engine:
        return await engine.run(
            prepared, options.inputs, report, stream=options.stream, trace=options.trace
        )


def log_plugin_line(line: "PluginLine") -> None:
    """Send what a plugin printed to Python's logging, under the plugin's name."""
    import logging

    logging.getLogger(f"heddle.plugin.{line.plugin}").warning(
        "%s: %s", line.source, line.text
    )


def _tools(options: RunOptions, no_tools: "Callable[[], Tools]") -> "Tools | None":
    """The tools of the folder; None without one."""
    if options.tools_dir is None:
        return None
    from heddle.tools import find_tools

    return no_tools().and_also(find_tools(Path(options.tools_dir)))


def _no_tools(options: RunOptions, at_end: AsyncExitStack) -> "Tools":
    """None, with the limits and the guard of those that are added."""
    from heddle.tools import Slots, Tools, default_limit
    from plugins_host.processes.guard import Guard

    guard = Guard()
    at_end.callback(guard.close)
    return Tools(
        slots=Slots(options.max_tools or default_limit()),
        timeout=options.tool_timeout,
        guard=guard,
    )
