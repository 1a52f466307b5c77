"""The tools and files that plugins bring to runs: declared, found by asking, shadowing.

    tools_of(plugins, askers, …)    by name, of all manifests
    refuse_taken(tools, folder)     a name of two sources is refused, unless one shadows
    Discovery                       tools that plugins list when they are asked

A tool is an executable in the plugin's folder, or served by the plugin with ``callTool``.
Nothing here starts a process; asking for a list does, through its plugin.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import trio
from msgspec import Struct

from heddle.tools import Mount, ServedTool, ToolProgram
from plugins_host import (
    LIST_TOOLS,
    Answerer,
    Fault,
    ListedTool,
    Plugin,
    PluginLine,
    PluginLog,
    PluginProcess,
    Served,
    tool_schema_problem,
)

MAX_FOUND: Final = 256
"""Tools that one plugin may list: more than any agent is offered, and each has schemas."""

MAX_NAME: Final = 256

LIST_PATIENCE: Final = 10.0
"""Seconds a plugin may take to list its tools, as it may to start: it may have to connect
to whoever has them."""

AGAIN: Final = 5.0
"""Seconds after which a plugin is asked again for a tool that nobody has."""

AnyTool = ToolProgram | ServedTool


class ToolTaken(Fault):
    """A plugin provides a tool under a name that another source has."""


class ToolsNotListed(Fault):
    """A plugin that finds its tools when it is asked did not say which there are."""


def files_of(plugins: Iterable[Plugin]) -> tuple[Mount, ...]:
    """What workspaces have in them from the beginning."""
    return tuple(
        Mount(str((Path(plugin.folder) / each.path).resolve()), each.dest)
        for plugin in plugins
        for each in plugin.manifest.files
    )


def tools_of(
    plugins: Iterable[Plugin],
    askers: Mapping[str, Answerer],
    *,
    patience: float,
    log: PluginLog,
) -> dict[str, AnyTool]:
    """The tools that manifests declare; one that shadows stands in for another."""
    found: dict[str, AnyTool] = {}
    shadowing: dict[str, AnyTool] = {}
    for plugin in plugins:
        for entry in plugin.manifest.tools:
            tool: AnyTool
            if entry.path is not None:
                path = str((Path(plugin.folder) / entry.path).resolve())
                tool = ToolProgram(entry.name, path, environment=plugin.environment)
            else:
                served = Served(
                    str(entry.component_type), plugin.name, askers[plugin.name], patience
                )
                tool = ServedTool(
                    entry.name,
                    served,
                    _said(plugin.name, log),
                    entry.input_schema,
                    entry.output_schema,
                )
            (shadowing if entry.shadows else found)[entry.name] = tool
    return {**found, **shadowing}


def _said(plugin: str, log: PluginLog) -> Callable[[str], None]:
    return lambda text: log(PluginLine(plugin, "stderr", text))


def refuse_taken(plugins: Iterable[Plugin], folder: Collection[str]) -> None:
    """See that no plugin takes the name of a tool in the operator's folder.

    Raises:
        ToolTaken: One does, and does not say that it shadows it.
    """
    for plugin in plugins:
        for entry in plugin.manifest.tools:
            if entry.name in folder and not entry.shadows:
                raise ToolTaken(
                    f"there is a tool {entry.name!r} in the folder of --tools-dir",
                    where=f"{plugin.source} (plugin {plugin.name!r})",
                    fix="Rename one of them, or let the plugin's say 'shadows': true.",
                )


class _Asked(Struct):
    """When a plugin was asked last, and which process answered."""

    at: float
    process: int


class Discovery:
    """The tools that plugins find, asked for when they are wanted.

    Args:
        plugins: Those whose manifest says ``discoverTools``.
        askers: Who answers for each.
        taken: Names of other sources, which no found tool gets.
        patience: How long a tool may be silent. Seconds.
        log: Told what is left out, and why.

    Attributes:
        tools: What was found last, by name. Changes in place.
    """

    def __init__(
        self,
        plugins: Sequence[Plugin],
        askers: Mapping[str, Answerer],
        taken: Collection[str],
        *,
        patience: float,
        log: PluginLog,
    ) -> None:
        self.tools: dict[str, AnyTool] = {}
        self._plugins = plugins
        self._askers = askers
        self._taken = taken
        self._patience = patience
        self._log = log
        self._asked: dict[str, _Asked] = {}
        self._lock = trio.Lock()

    async def begin(self) -> None:
        """Ask all of them for the first time.

        Raises:
            ToolsNotListed: One does not answer, or lists a tool that is taken.
            PluginFault: One does not start.
        """
        for plugin in self._plugins:
            listed = await self._list(plugin)
            for each in listed:
                other = self._owner(each.name, plugin)
                if other:
                    raise ToolTaken(
                        f"it found a tool {each.name!r}, which {other} has already",
                        where=f"{plugin.source} (plugin {plugin.name!r})",
                        fix="Take one of them away, or have it list the tool differently.",
                    )
            self._replace(plugin, listed)

    async def look_for(self, names: Collection[str]) -> None:
        """Ask again where that may bring what is wanted: tools that nobody has, or of a
        plugin whose process has been replaced. Who does not answer keeps what it had."""
        async with self._lock:
            missing = any(
                each not in self.tools and each not in self._taken for each in names
            )
            for plugin in self._plugins:
                asked = self._asked.get(plugin.name)
                now = trio.current_time()
                stale = asked is None or asked.process != self._process(plugin)
                if stale or (missing and asked is not None and now - asked.at > AGAIN):
                    try:
                        listed = await self._list(plugin)
                    except Fault as fault:
                        self._tell(plugin, f"its tools stay as they were: {fault}")
                    else:
                        self._replace(plugin, listed)

    def _process(self, plugin: Plugin) -> int:
        asker = self._askers[plugin.name]
        return asker.counts.started if isinstance(asker, PluginProcess) else 0

    async def _list(self, plugin: Plugin) -> Sequence[ListedTool]:
        served = Served("", plugin.name, self._askers[plugin.name], LIST_PATIENCE)
        try:
            with trio.fail_after(LIST_PATIENCE):
                answer = await served.ask(LIST_TOOLS, {})
        except trio.TooSlowError:
            raise ToolsNotListed(
                f"it did not list its tools within {LIST_PATIENCE:g} s",
                where=f"plugin {plugin.name!r}",
                fix="See that it reaches whoever has them.",
            ) from None
        finally:
            self._asked[plugin.name] = _Asked(trio.current_time(), self._process(plugin))
        if len(answer.tools) > MAX_FOUND:
            raise ToolsNotListed(
                f"it lists {len(answer.tools)} tools, and may list {MAX_FOUND}",
                where=f"plugin {plugin.name!r}",
                fix="Have it list fewer.",
            )
        seen: dict[str, ListedTool] = {}
        for each in answer.tools:
            problem = _problem(each, seen)
            if problem:
                self._tell(plugin, f"the tool {each.name[:80]!r} is left out: {problem}")
            else:
                seen[each.name] = each
        return tuple(seen.values())

    def _owner(self, name: str, plugin: Plugin) -> str:
        if name in self._taken:
            return "another source"
        tool = self.tools.get(name)
        if isinstance(tool, ServedTool) and tool.served.plugin != plugin.name:
            return f"plugin {tool.served.plugin!r}"
        return ""

    def _replace(self, plugin: Plugin, listed: Sequence[ListedTool]) -> None:
        """What this plugin found takes the place of what it had found before."""
        for name, tool in [*self.tools.items()]:
            if isinstance(tool, ServedTool) and tool.served.plugin == plugin.name:
                del self.tools[name]
        asker = self._askers[plugin.name]
        for each in listed:
            other = self._owner(each.name, plugin)
            if other:
                self._tell(plugin, f"the tool {each.name!r} is left out: {other} has it")
                continue
            served = Served(each.component_type or "", plugin.name, asker, self._patience)
            self.tools[each.name] = ServedTool(
                each.name,
                served,
                _said(plugin.name, self._log),
                each.input_schema,
                each.output_schema,
            )

    def _tell(self, plugin: Plugin, text: str) -> None:
        self._log(PluginLine(plugin.name, "host", text))


def _problem(tool: ListedTool, seen: Collection[str]) -> str:
    """What stands against a tool that was found."""
    if not tool.name or len(tool.name) > MAX_NAME or not tool.name.isprintable():
        return "that is no name"
    if tool.name in seen:
        return "it is listed twice"
    schemas: tuple[dict[str, Any] | None, ...] = (tool.input_schema, tool.output_schema)
    for schema in schemas:
        if schema is not None and (problem := tool_schema_problem(schema)):
            return problem
    return ""
