"""The plugin of every kind, opened as a module, a Python and a JavaScript process."""

import json
import shutil
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from heddle.engine.gate import Policies
from heddle.engine.plan import make_plan
from heddle.engine.run import Run
from heddle.engine.testing import FakeModels, FakeTools
from heddle.engine.walk import Limits
from heddle.engine.work import Services
from heddle.events import Event
from heddle.installation import Installed, OpenPlugins, install, open_plugins
from heddle.spec import read_document
from plugins_host import PluginLine
from plugins_host.loading.entry_point import RUNTIME
from tests.heddle.plugins import kinds
from tests.support.flows import component, document, edge, end, flow, model, start

HERE = Path(__file__).parent / "plugins"
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="there is no node on PATH")
HOMES = ["module", "python", pytest.param("javascript", marks=needs_node)]
PROCESSES = HOMES[1:]
Plain = dict[str, Any]


def source(home: str, folder: Path, *arguments: str) -> str:
    """What to write after ``--plugin`` for the plugin in this home."""
    if home == "module":
        return str(HERE / "kinds.py")
    if home == "python":
        command = [sys.executable, str(HERE / "kinds.py"), *arguments]
    else:
        command = [str(NODE), "--import", RUNTIME.as_uri(), str(HERE / "kinds.mjs")]
    path = folder / "kinds.json"
    path.write_text(json.dumps({**kinds.manifest, "command": command}), encoding="utf-8")
    return str(path)


class Bench(Struct):
    """The plugin, open, and runs of documents beside it."""

    installed: Installed
    plugins: OpenPlugins
    log: list[PluginLine]

    async def run(
        self,
        flow_: bytes,
        inputs: Mapping[str, Any] | None = None,
        *,
        models: FakeModels | None = None,
        tools: FakeTools | None = None,
        stream: bool = False,
        policies: Policies | None = None,
        events: list[Event] | None = None,
    ) -> tuple[dict[str, Any], list[Event]]:
        """The result and the events of one run."""
        seen = [] if events is None else events
        services = Services(
            models=models or FakeModels(),
            tools=tools or FakeTools({}),
            report=seen.append,
            stream=stream,
            policies=policies,
            components=self.plugins.components,
        )
        plan = make_plan(self.read(flow_))
        return await Run(plan, services, Limits()).execute(inputs or {}), seen

    def read(self, flow_: bytes) -> Any:
        """The document."""
        return read_document(flow_, component_types=self.installed.provided)


@asynccontextmanager
async def opened(plugin: str, *, patience: float = 20.0) -> AsyncIterator[Bench]:
    """The plugin at work."""
    installed = install([plugin])
    log: list[PluginLine] = []
    async with open_plugins(installed, log=log.append, patience=patience) as plugins:
        yield Bench(installed, plugins, log)


def one(node: Plain, *branches: str, shared: Sequence[Plain] = ()) -> bytes:
    """start -> the node -> end, by each of these branches."""
    name = node["name"]
    edges = [edge(name, "end", branch) for branch in branches]
    chain = ["start", name] if branches else ["start", name, "end"]
    return document(flow([start(), node, end()], chain, edges, shared=[model(), *shared]))


def say(answer: Any, kind: str = "Say", **fields: Any) -> Plain:
    """A node that answers so."""
    return component(kind, "n", answer=answer, **fields)
