"""Runs that bring code: beside an engine's own tools they have theirs, in their own folder.

folder, tools = lay_out(code, folders)                    nothing is written yet
work = engine.bringing(tools, within=folder.work).new_run(…)
InFolder(work, folder)                                    it is, while this is executed
"""

from collections.abc import Mapping
from typing import Any, Final

from heddle.server.code import SUFFIXES, Code, command_of
from heddle.server.code_folders import CodeFolders, RunFolder
from heddle.server.runs import AtNode, Work
from heddle.tools import ToolProgram

NO_ENVIRONMENT: Final[Mapping[str, str]] = {}


class InFolder:
    """A run whose folder is there while it is executed; a `Work`."""

    def __init__(self, work: Work, folder: RunFolder) -> None:
        self._work = work
        self._folder = folder

    @property
    def at(self) -> AtNode | None:
        """The node where it is."""
        return self._work.at

    @property
    def executions(self) -> int:
        """How many executions of nodes it has begun."""
        return self._work.executions

    async def execute(self, inputs: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Do it."""
        async with self._folder.open():
            return await self._work.execute(inputs)


def lay_out(code: Code, folders: CodeFolders) -> tuple[RunFolder, dict[str, ToolProgram]]:
    """A run's folder, not made yet, and the tools that will be in it.

    Each has a folder of its own: a program finds modules beside itself, and a tool called
    ``json`` is not to be one of them.
    """
    path = folders.reserve()
    files: dict[str, str] = {}
    programs: dict[str, ToolProgram] = {}
    for tool in code.tools:
        name = f"tools/{tool.name}/main{SUFFIXES[tool.interpreter]}"
        files[name] = tool.source
        programs[tool.name] = ToolProgram(
            tool.name,
            str(path / name),
            interpreter=command_of(tool.interpreter),
            environment=NO_ENVIRONMENT,
        )
    return RunFolder(path, files), programs
