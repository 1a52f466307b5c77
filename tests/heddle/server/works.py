"""Runs made of test code: what a flow does, said in a function."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import trio
from msgspec import Struct

from heddle import preparing
from heddle.events import Event, NodeStarted
from tests.support.flows import document, end, flow, start

Report = Callable[[Event], None]
Does = Callable[[Report, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]


class Node(Struct, frozen=True):
    """Where a run is."""

    name: str
    type: str


class ScriptedRun:
    """Does what a function says."""

    def __init__(self, report: Report, does: Does) -> None:
        self._report = report
        self._does = does
        self.at: Node | None = None
        self.executions = 0

    async def execute(self, inputs: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Do it, at a node."""
        self.at = Node("work", "TestNode")
        self.executions = 1
        self._report(NodeStarted("work", "TestNode", dict(inputs), 1))
        return await self._does(self._report, inputs)


class Scripted:
    """Makes runs of one function, or of the one that ``inputs`` name."""

    def __init__(self, does: Does) -> None:
        self.does = does
        self.refuse: Exception | None = None
        self.streamed: list[bool] = []

    def new_run(
        self,
        _prepared: preparing.Prepared,
        report: Report,
        /,
        *,
        stream: bool,
        trace: bool = False,
    ) -> ScriptedRun:
        """One that has not begun."""
        if self.refuse is not None:
            raise self.refuse
        self.streamed.append(stream)
        return ScriptedRun(report, self.does)


async def echo(_report: Report, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """End at once with what was given."""
    await trio.lowlevel.checkpoint()
    return dict(inputs)


async def hang(_report: Report, _inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Never end."""
    await trio.sleep_forever()
    raise AssertionError


PREPARED: Final = preparing.prepare(
    document(flow([start(), end()], ["start", "end"])), name="flow.json"
)
