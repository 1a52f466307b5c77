"""Runs that bring code: what is made of it, and the run around which it is there.

brought = bring(code, folders, installed)      tools and plugins; nothing is written
work = CodeRun(engine, brought, prepared, …)   written, opened and removed around it
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import trio
from msgspec import Struct

from heddle.events import Event
from heddle.installation import (
    NOTHING,
    Installed,
    OpenPlugins,
    installed_of,
    open_plugins,
)
from heddle.launch import Engine
from heddle.preparing import Prepared
from heddle.server.failures import SubmissionRefused
from heddle.server.runs.folders import RunFolder, RunFolders
from heddle.server.runs.handle import AtNode, Work
from heddle.server.submitted.code.reading import SUFFIXES, Code, command_of
from heddle.spec import COMPONENTS
from heddle.tools import ToolProgram
from plugins_host import BroughtPlugin, PluginLine, load_brought

NO_ENVIRONMENT: Final[Mapping[str, str]] = {}
PLUGIN_FILES: Final = {"js": "plugin.mjs", "py": "plugin.py"}


class Brought(Struct, frozen=True):
    """What one run brings: its folder, not made yet, and what will be in it."""

    folder: RunFolder
    tools: Mapping[str, ToolProgram]
    plugins: Installed = NOTHING

    @property
    def served_tools(self) -> frozenset[str]:
        """The names of tools that its plugins serve."""
        loaded = () if self.plugins.plugins is None else self.plugins.plugins.plugins
        return frozenset(tool.name for each in loaded for tool in each.manifest.tools)

    def check(self, engine: Engine, prepared: Prepared) -> None:
        """See that a flow has all its tools once this is there.

        Raises:
            ToolsMissing: It has not.
        """
        with_tools = engine.bringing(self.tools, within=self.folder.work)
        with_tools.check(prepared, also=self.served_tools)


def bring(
    code: Code, folders: RunFolders, installed: Installed, taken: Collection[str]
) -> Brought:
    """What the engine makes of code. Nothing is written or started.

    Each tool and plugin has a folder of its own: a program finds modules beside itself,
    and a tool called ``json`` is not to be one of them.

    Args:
        code: What came.
        folders: Where it will be written.
        installed: What is there for every run.
        taken: The names of the server's own tools.

    Raises:
        Fault: A plugin can't be used, or not beside what is there already.
    """
    path = folders.reserve()
    files: dict[str, str] = {}
    tools: dict[str, ToolProgram] = {}
    for tool in code.tools:
        name = f"tools/{tool.name}/main{SUFFIXES[tool.interpreter]}"
        files[name] = tool.source
        tools[tool.name] = ToolProgram(
            tool.name,
            str(path / name),
            interpreter=command_of(tool.interpreter),
            environment=NO_ENVIRONMENT,
        )
    scripts: list[BroughtPlugin] = []
    for index, plugin in enumerate(code.plugins):
        name = f"plugins/{plugin.name}/{PLUGIN_FILES[plugin.language]}"
        files[name] = plugin.source
        scripts.append(
            BroughtPlugin(f"plugins[{index}].manifest", plugin.manifest, path / name)
        )
    folder = RunFolder(path, files)
    brought = Brought(folder, tools, _plugins(scripts, installed))
    for name in sorted(brought.served_tools):
        if name in taken or name in tools:
            whose = "this server" if name in taken else "the request"
            raise SubmissionRefused(
                f"{whose} has a tool {name!r} already",
                where="plugins",
                fix="Give the plugin's another name.",
            )
    return brought


def _plugins(scripts: list[BroughtPlugin], installed: Installed) -> Installed:
    if not scripts:
        return NOTHING
    loaded = load_brought(scripts, builtin_types=COMPONENTS)
    theirs = () if installed.plugins is None else installed.plugins.plugins
    taken = {each.name for each in theirs}
    for each in loaded.plugins:
        if each.name in taken:
            raise SubmissionRefused(
                f"a plugin called {each.name!r} is installed here",
                where=f"{each.source} $.name",
                fix="Give yours another name.",
            )
    return installed_of(loaded)


def unheard(_line: PluginLine) -> None:
    """What a submitted plugin prints is no business of the server's log: the end of it is
    in the error, when it fails."""


class CodeRun:
    """A run whose code is there while it is executed; a `Work`.

    Args:
        engine: Whose run it is.
        brought: What it brings.
        prepared: The flow.
        report: Called with each event.
        stream: Whether the text of models is wanted as it comes.
        trace: Whether the events of traced runs are wanted.
        patience: The budget of silence of a question to a plugin, in seconds.

    Raises:
        Fault: The flow can't be run.
    """

    def __init__(
        self,
        engine: Engine,
        brought: Brought,
        prepared: Prepared,
        report: Callable[[Event], None],
        *,
        stream: bool,
        trace: bool = False,
        patience: float,
    ) -> None:
        brought.check(engine, prepared)
        self._engine = engine
        self._brought = brought
        self._prepared = prepared
        self._report = report
        self._stream = stream
        self._trace = trace
        self._patience = patience
        self._work: Work | None = None

    @property
    def at(self) -> AtNode | None:
        """The node where it is."""
        return None if self._work is None else self._work.at

    @property
    def executions(self) -> int:
        """How many executions of nodes it has begun."""
        return 0 if self._work is None else self._work.executions

    async def execute(self, inputs: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Do it."""
        brought = self._brought
        result: Mapping[str, Any] = {}
        with trio.CancelScope() as completing:
            async with (
                brought.folder.open(),
                open_plugins(
                    brought.plugins, log=unheard, patience=self._patience
                ) as opened,
            ):
                result = await self._execute(opened, inputs)
                # Who follows it has been told so: whoever hangs up then ends nothing.
                completing.shield = True
        return result

    async def _execute(
        self, opened: OpenPlugins, inputs: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """The same, with everything there."""
        brought = self._brought
        engine = self._engine.bringing(
            brought.tools, within=brought.folder.work, plugins=opened
        )
        work = engine.new_run(
            self._prepared, self._report, stream=self._stream, trace=self._trace
        )
        self._work = work
        return await work.execute(inputs)
