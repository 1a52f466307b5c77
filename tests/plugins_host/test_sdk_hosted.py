"""Plugins of both runtimes under heddle's own host: manifest, process, chain, verdict."""

import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from plugins_host.consulting.chain import Chain
from plugins_host.consulting.links import Asking, Link
from plugins_host.consulting.outcomes import (
    Erred,
    MiddlewareFailure,
    Passed,
    PolicyWarning,
    Proceeded,
    Rejected,
    Replaced,
    ShownError,
)
from plugins_host.loading.installed import OutOfProcess
from plugins_host.loading.load import load_plugins
from plugins_host.payload import Payload
from plugins_host.plugin_log import PluginLine
from plugins_host.processes.fleet import Fleet
from plugins_host.seams import Seam, ToolSubject
from plugins_host.testing import RecordedServices

PLUGINS = Path(__file__).with_name("plugins")
SHELL = ToolSubject("ask", "AgentNode", "shell", "call-1")

needs_node = pytest.mark.skipif(
    shutil.which("node") is None, reason="there is no node on PATH"
)


@pytest.fixture(params=["py", pytest.param("mjs", marks=needs_node)])
def manifest(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The contract plugin, its middleware in the order in which the tests want it."""
    shutil.copy(PLUGINS / f"contract.{request.param}", tmp_path)
    halves = {
        "Redactor": "before",
        "Gate": "before",
        "Asks": "before",
        "Tells": "after",
        "Seen": "after",
        "Nothing": "before",
        "Waits": "before",
    }
    components = [
        {"componentType": name, "kind": "middleware", "seams": {"toolCall": [half]}}
        for name, half in halves.items()
    ]
    whole = {
        "name": "contract",
        "version": "1",
        "capabilities": ["runTool", "emitEvent", "log"],
        "components": components,
    }
    path = tmp_path / "contract.json"
    path.write_text(json.dumps(whole))
    return path


class Hosted:
    """The chain of some components of the plugin, and what came of asking it."""

    def __init__(self, chain: Chain, lines: list[PluginLine]) -> None:
        self.chain = chain
        self.lines = lines
        self.warnings: list[PolicyWarning] = []
        self.services: Any = RecordedServices({"lookup": lambda given: {"found": given}})

    async def before(self, given: dict[str, Any], *, patience: float = 30) -> Any:
        asking = Asking(self.services, self.warnings.append, patience=patience)
        return await self.chain.before(Seam.TOOL_CALL, SHELL, Payload.of(given), asking)

    async def after(self, error: str) -> Any:
        asking = Asking(self.services, self.warnings.append)
        outcome = Erred(ShownError("E", error))
        return await self.chain.after(
            Seam.TOOL_CALL, SHELL, outcome, asking, given=Payload.of({"a": 1})
        )


class HeardServices(RecordedServices):
    """Services that tell when a log line came."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = trio.Event()

    def log(self, component_type: str, level: str, message: str, /) -> None:
        super().log(component_type, level, message)
        self.heard.set()


@asynccontextmanager
async def hosted(manifest: Path, *types: str) -> AsyncIterator[Hosted]:
    loaded = load_plugins([str(manifest)])
    home = loaded.plugins[0].home
    assert isinstance(home, OutOfProcess)
    assert home.program is not None
    lines: list[PluginLine] = []
    async with Fleet([home.program], log=lines.append) as fleet:
        links = [
            Link(
                each.component.component_type,
                each.plugin.name,
                msgspec.json.encode(each.settings),
                each.component.seams,
                fleet["contract"],
            )
            for each in loaded.middleware
            if each.component.component_type in types
        ]
        yield Hosted(Chain(links), lines)


async def test_a_redactor_and_a_gate_compose_in_one_frame(manifest: Path) -> None:
    async with hosted(manifest, "Redactor", "Gate") as plugin:
        fine = await plugin.before({"cmd": "ls"})
        refused = await plugin.before({"cmd": "rm"})

    assert isinstance(fine, Proceeded)
    assert fine.input.value == {"cmd": "ls", "secret": "***"}
    assert isinstance(refused, Rejected)
    assert refused.reason == "destructive command"
    assert len(plugin.warnings) == 1


@pytest.mark.parametrize("types", [("Asks",), ("Gate", "Asks")])
async def test_a_tool_is_run_for_the_one_that_asks(
    manifest: Path, types: tuple[str, ...]
) -> None:
    async with hosted(manifest, *types) as plugin:
        outcome = await plugin.before({"key": "k"})

    assert isinstance(outcome, Replaced)
    assert outcome.value.value == {"found": {"found": {"key": "k"}}}
    assert plugin.services.events == [("runTool", "lookup", {"key": "k"})]


@pytest.mark.parametrize("types", [("Tells",), ("Tells", "Seen")])
async def test_events_and_logs_are_those_of_the_one_that_tells(
    manifest: Path, types: tuple[str, ...]
) -> None:
    async with hosted(manifest, *types) as plugin:
        outcome = await plugin.after("broke")

    assert isinstance(outcome, Passed if types == ("Tells",) else Replaced)
    assert plugin.services.events == [
        ("event", "Tells", "seen", {"tool": "shell"}),
        ("log", "Tells", "warn", "careful"),
    ]


async def test_no_answer_is_no_consent_and_the_error_says_whose(manifest: Path) -> None:
    async with hosted(manifest, "Gate", "Nothing") as plugin:
        with pytest.raises(MiddlewareFailure) as caught:
            await plugin.before({"cmd": "ls"})

    assert caught.value.middleware == "Nothing"
    assert "Nothing toolCall.before returned" in caught.value.what


@pytest.mark.parametrize("types", [("Waits",), ("Gate", "Waits")])
async def test_a_cancelled_run_stops_its_question_and_no_other(
    manifest: Path, types: tuple[str, ...]
) -> None:
    async with hosted(manifest, *types) as plugin:
        plugin.services = HeardServices()
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(plugin.before, {"cmd": "ls"})
                await plugin.services.heard.wait()
                scope.cancel()
        # The process answers the cancel before anything that it is asked later.
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                plugin.services = HeardServices()
                nursery.start_soon(plugin.before, {"cmd": "ls"})
                await plugin.services.heard.wait()
                scope.cancel()

    assert [line.text for line in plugin.lines if line.source == "host"] == []


async def test_a_question_that_is_overdue_names_where_it_was(manifest: Path) -> None:
    async with hosted(manifest, "Gate", "Waits") as plugin:
        await plugin.before({"cmd": "rm"})
        with pytest.raises(MiddlewareFailure) as caught:
            await plugin.before({"cmd": "ls"}, patience=0.2)

    assert caught.value.middleware == "Waits"
    assert "did not answer" in caught.value.what
