"""From a file and options to a run: what the command line and the server both call.

    installed = install(options)                       plugins; starts nothing
    prepared = load("flow.json", installed=installed)  the document; starts nothing
    state = await run(prepared, options, report=print, installed=installed)

Documents are compiled once: plans are kept by a digest of their bytes, bounded, and
shared by all runs of the same document.
"""

import os
from collections import OrderedDict
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from heddle import installation
from heddle.engine.faults import InputsRefused
from heddle.engine.plan import Plan, make_plan
from heddle.engine.state import check_inputs, may_start, start_state
from heddle.engine.walk import Limits
from heddle.engine.work import Services
from heddle.events import Event
from heddle.installation import (
    NONE_OPEN,
    NOTHING,
    OWN_PROTOCOL,
    Installed,
    OpenPlugins,
)
from heddle.spec import (
    MAX_DOCUMENT,
    NOTHING_SUPPLIED,
    DocumentError,
    EffortExceeded,
    Problem,
    Supplied,
    effort,
    read_document,
    read_supplied,
)
from plugins_host import Fault, near_file

if TYPE_CHECKING:
    from heddle.engine.questions import Person
    from heddle.engine.run import Run
    from heddle.plugin_tools import Discovery
    from heddle.policy_counts import PolicyCounts
    from heddle.remote import RemoteService
    from heddle.services import ModelService
    from heddle.tools import ToolProgram, Tools
    from plugins_host import Encoder, Message, PluginLine, PluginLog

MAX_PLANS: Final = 256
"""Compiled flows that are kept. A plan is some 20 times its document; a server with more
flows than this in turn compiles again, which costs it less than a millisecond each."""

MAX_KEPT_BYTES: Final = 8 * 1024 * 1024
"""Bytes of the documents whose plans are kept: with their plans some 160 MiB at the most,
whoever sends them."""

READ_IN_A_STEP: Final = 8
"""Bytes of a document that are read and compiled in the time of a step of an effort."""

MAX_TOLD: Final = 100
"""Tools that are missing and told of, of one flow."""

MAX_KEPT_DOCUMENT: Final = 256 * 1024
"""Bytes above which a document is compiled anew each time rather than kept."""


class UnreadableFile(Fault):
    """A file that was named can't be read."""


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


class Prepared(Struct, frozen=True):
    """A document ready to run. ``warnings`` are for whoever reads or runs it."""

    name: str
    plan: Plan
    warnings: tuple[Problem, ...]


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


class Plans:
    """Compiled documents by the digest of their bytes, the least recently used dropped.

    Args:
        most: How many are kept.
        most_bytes: How many bytes their documents have together.
    """

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._bytes = 0
        # Long documents are read in a thread.
        self._lock = Lock()
        self._kept: OrderedDict[bytes, tuple[Prepared, int]] = OrderedDict()

    def get(self, data: bytes, key: str, compile_it: Callable[[], Prepared]) -> Prepared:
        if len(data) > MAX_KEPT_DOCUMENT:
            return compile_it()
        # A file name that is no UTF-8 has halves of pairs in it.
        digest = blake2b(key.encode(errors="surrogatepass") + data, digest_size=20).digest()
        with self._lock:
            found = self._kept.get(digest)
            if found is not None:
                self._kept.move_to_end(digest)
                return found[0]
        made = compile_it()
        with self._lock:
            found = self._kept.get(digest)
            if found is not None:
                # Another thread has been as far: all are to share one plan.
                return found[0]
            self._kept[digest] = made, len(data)
            self._bytes += len(data)
            while len(self._kept) > self._most or self._bytes > self._most_bytes:
                _, (_, size) = self._kept.popitem(last=False)
                self._bytes -= size
        return made


_PLANS: Final = Plans(MAX_PLANS, MAX_KEPT_BYTES)


def prepare(
    data: bytes,
    *,
    name: str,
    format: str | None = None,  # noqa: A002  the word users know
    installed: Installed = NOTHING,
    supplied: Supplied = NOTHING_SUPPLIED,
) -> Prepared:
    """Read, check and compile a document's bytes, or take the plan that is kept of them.

    Args:
        data: The document.
        name: What errors call it, a file name mostly.
        format: The name of its format; None to go by its own name, then by its look.
        installed: What is installed beside it: what it may name, and what it may not.
        supplied: What it may refer to beyond what it defines itself.

    Raises:
        DocumentError: With every problem of the document.
        FormatRefused: There is no such format.
        EffortExceeded: It takes longer than whoever asks for it wants to wait.
    """

    def compile_it() -> Prepared:
        effort().spend(len(data) // READ_IN_A_STEP)
        document = read_document(
            data,
            name=name,
            format=format,
            formats=installed.formats,
            component_types=installed.provided,
            refused=installed.refused,
            supplied=supplied,
        )
        try:
            plan = make_plan(document, name=name)
        except DocumentError as error:
            raise supplied.relocate(error) from None
        warnings = map(supplied.locate, (*document.warnings, *plan.graph.warnings))
        return Prepared(name, plan, tuple(warnings))

    read_with = (
        f"{format}\0{installed.formats.serial}\0{installed.digest}\0{supplied.digest}"
    )
    return _PLANS.get(data, f"{read_with}\0{name}\0", compile_it)


def load(
    path: str,
    *,
    format: str | None = None,  # noqa: A002  the word users know
    installed: Installed = NOTHING,
    supplied: Supplied = NOTHING_SUPPLIED,
) -> Prepared:
    """Prepare the document in a file.

    Raises:
        UnreadableFile: It can't be read.
        DocumentError: With every problem of the document.
    """
    return prepare(
        _read_file(path), name=path, format=format, installed=installed, supplied=supplied
    )


def supply(paths: Iterable[str], installed: Installed = NOTHING) -> Supplied:
    """Read files of components that documents may refer to.

    Raises:
        UnreadableFile: One can't be read.
        DocumentError: One holds something else.
    """
    files = ((path, _read_file(path)) for path in paths)
    return read_supplied(files, formats=installed.formats)


DOCUMENTS: Final = (".json", ".yaml", ".yml")
"""How the names of documents end, but for those of formats that plugins read."""


def _read_file(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            # A pipe has no size: one byte more than fits tells that it is too large.
            data = b"" if size > MAX_DOCUMENT else file.read(MAX_DOCUMENT + 1)
    except OSError as error:
        raise UnreadableFile(
            f"cannot read it: {error.strerror or error}",
            where=path,
            fix=near_file(path, DOCUMENTS),
        ) from error
    if size > MAX_DOCUMENT:
        raise UnreadableFile(
            f"it has {size >> 20} MiB, and a document has at most {MAX_DOCUMENT >> 20}",
            where=path,
            fix="Check that it is the document you mean.",
        )
    return data


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
    from plugins_host.guard import Guard

    guard = Guard()
    at_end.callback(guard.close)
    return Tools(
        slots=Slots(options.max_tools or default_limit()),
        timeout=options.tool_timeout,
        guard=guard,
    )
