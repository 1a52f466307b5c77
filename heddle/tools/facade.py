"""The tools of a run or a server, behind one object: names, a check, and a call."""

import os
from collections import ChainMap
from collections.abc import Collection, Hashable, Iterable, Mapping, MutableMapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias, cast

from heddle.tools.faults import ToolFault, ToolUnusable, UnknownTool
from heddle.tools.process import run_program
from heddle.tools.registry import ToolProgram, find_tools
from heddle.tools.served import ServedTool
from heddle.tools.slots import Slots
from heddle.tools.workspace import Workspace
from plugins_host import CallServices, one_of
from plugins_host.processes.guard import Guard

# Seconds one execution may take.
TIMEOUT: Final = 30.0
NONE_FOUND: Final[Mapping[str, ToolProgram]] = MappingProxyType({})

# What `ChainMap` asks for and nobody does with it.
_Changing: TypeAlias = MutableMapping[str, ToolProgram | ServedTool]


def default_limit() -> int:
    """Processes at a time: four for each core, since most tools wait on something."""
    return 4 * (os.cpu_count() or 1)


class Tools:
    """Runs tools by name, at most so many at a time.

    Args:
        programs: From `find_tools`.
        slots: How many run at a time; shared by everyone who is given the same one.
        timeout: Seconds one execution may take, waiting for a slot not counted.
        guard: Ends what runs when this process is killed; None for nobody.
    """

    def __init__(
        self,
        programs: Mapping[str, ToolProgram | ServedTool] = NONE_FOUND,
        *,
        slots: Slots | None = None,
        timeout: float = TIMEOUT,
        guard: Guard | None = None,
    ) -> None:
        self._programs = programs
        self._slots = Slots(default_limit()) if slots is None else slots
        self._timeout = timeout
        self._guard = guard

    @classmethod
    def in_folder(
        cls,
        directory: Path | None,
        *,
        slots: Slots | None = None,
        timeout: float = TIMEOUT,
    ) -> "Tools":
        """The tools of a folder; none at all without one.

        Raises:
            ToolFolderInvalid: The folder cannot be used.
        """
        programs = NONE_FOUND if directory is None else find_tools(directory)
        return cls(programs, slots=slots, timeout=timeout)

    def and_also(self, programs: Mapping[str, ToolProgram | ServedTool]) -> "Tools":
        """These and more, which take turns with them; a name of both means the new one.

        Both are looked at whenever a tool is wanted, so that either may come to have more.
        """
        both: Mapping[str, ToolProgram | ServedTool] = ChainMap(
            cast("_Changing", programs), cast("_Changing", self._programs)
        )
        return Tools(both, slots=self._slots, timeout=self._timeout, guard=self._guard)

    @property
    def names(self) -> Collection[str]:
        """Every name that there is a file for, runnable or not, in order."""
        return self._programs.keys()

    def problems(self, names: Iterable[str]) -> list[ToolFault]:
        """What stands against running these tools; one fault a name, in order."""
        faults = (self._fault(name) for name in dict.fromkeys(names))
        return [fault for fault in faults if fault is not None]

    async def run(
        self,
        name: str,
        input: Mapping[str, Any],  # noqa: A002  the word of the protocol
        *,
        workspace: Workspace,
        run_key: Hashable,
        timeout: float | None = None,
        services: CallServices | None = None,
    ) -> dict[str, Any]:
        """Run a tool when it is this run's turn.

        Args:
            name: Which.
            input: What it is given.
            workspace: Where it works.
            run_key: Whose it is; runs take turns.
            timeout: Seconds, instead of the usual.
            services: What a tool that a plugin serves may use of the run.

        Raises:
            ToolFault: The subclass says what went wrong.
            WorkspaceFailed: It has nowhere to work.
        """
        fault = self._fault(name)
        if fault is not None:
            raise fault
        tool = self._programs[name]
        timeout = self._timeout if timeout is None else timeout
        if isinstance(tool, ServedTool):
            # Its plugin's process is there already: there are no processes to count.
            return await tool.call(input, timeout=timeout, services=services)
        async with self._slots.slot(run_key):
            return await run_program(
                tool, input, workspace=workspace, timeout=timeout, guard=self._guard
            )

    def _fault(self, name: str) -> ToolFault | None:
        program = self._programs.get(name)
        if program is None:
            fix = (
                one_of(name, self._programs)
                if self._programs
                else "There are none: give the folder that it is in with --tools-dir, "
                "or the plugin that serves it with --plugin."
            )
            return UnknownTool(name, "there is no such tool", fix=fix)
        if program.problem:
            return ToolUnusable(name, program.problem, fix=program.fix)
        return None
