"""The plugin processes of a server or of one run, under one supervisor.

async with Fleet([program, ...], log=log) as fleet:
    await fleet.start()                    a server does before it opens its port
    await fleet["policies"].request(...)
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Final, Self

import trio

from actors import Patience, Supervisor
from plugins_host.faults import Fault, one_of
from plugins_host.frames import MAX_LINE
from plugins_host.plugin_faults import PluginFault
from plugins_host.plugin_log import PluginLog
from plugins_host.processes.child import spawn
from plugins_host.processes.process import PluginProcess, Spawn
from plugins_host.program import PluginProgram

# Plugins are asked to leave together, and each is killed a second after it was asked.
PATIENCE: Final = Patience(drain=3.0, stop=1.0)


class PluginUnknown(Fault):
    """No plugin of this name is in the fleet, or there are two."""


class Fleet(Mapping[str, PluginProcess]):
    """All plugins that run in processes of their own, by name, in the order given.

    Entering it starts none of them: a process starts with the first call into it, or with
    `start`. Leaving it ends all, orderly, and kills what does not end.
    """

    def __init__(
        self,
        programs: Iterable[PluginProgram],
        *,
        log: PluginLog,
        max_line: int = MAX_LINE,
        spawn: Spawn = spawn,
    ) -> None:
        self._programs: dict[str, PluginProgram] = {}
        for program in programs:
            if program.name in self._programs:
                raise PluginUnknown(
                    f"two plugins are called {program.name!r}", fix="Rename one of them."
                )
            self._programs[program.name] = program
        self._log = log
        self._max_line = max_line
        self._spawn = spawn
        self._plugins: dict[str, PluginProcess] = {}
        self._stack = AsyncExitStack()

    async def start(self) -> None:
        """Start all of them, side by side, and wait until all can be asked.

        Raises:
            PluginNotStarted: One does not start: the first in order, if several do not.
        """
        faults: dict[str, PluginFault] = {}

        async def start(plugin: PluginProcess) -> None:
            try:
                await plugin.start()
            except PluginFault as fault:
                faults[plugin.name] = fault

        async with trio.open_nursery() as nursery:
            for plugin in self._plugins.values():
                nursery.start_soon(start, plugin)
        for name in self._plugins:
            if name in faults:
                raise faults[name]

    async def __aenter__(self) -> Self:
        supervisor = await self._stack.enter_async_context(
            Supervisor("plugins", patience=PATIENCE)
        )
        for name, program in self._programs.items():
            self._plugins[name] = PluginProcess(
                program,
                supervisor,
                log=self._log,
                max_line=self._max_line,
                spawn=self._spawn,
            )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._stack.__aexit__(kind, error, traceback)

    def __getitem__(self, name: str) -> PluginProcess:
        try:
            return self._plugins[name]
        except KeyError:
            raise PluginUnknown(
                f"there is no plugin {name!r}", fix=one_of(name, self._plugins)
            ) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._plugins)

    def __len__(self) -> int:
        return len(self._plugins)
