"""What the tests of policies share: scripted plugins installed, runs watched, leaks found.

`installed` puts scripted policies into processes that all runs share; `watched` runs the
flow of a story over them and tells what was seen, in the story's own words; `check_whole`
compares the two. `nothing_left` is around it all.
"""

import gc
import json
import os
import re
import shutil
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import trio
from msgspec import Struct

from heddle.engine.faults import RunFailed
from heddle.engine.gate import Policies
from heddle.engine.plan import make_plan
from heddle.engine.run import Run
from heddle.engine.testing import FakeModels, FakeTools
from heddle.engine.walk import Limits
from heddle.engine.work import Services
from heddle.events import (
    Event,
    NodeCompleted,
    NodeFailed,
    NodeStarted,
    PluginEmitted,
    ToolCalled,
    ToolReturned,
    Warned,
)
from heddle.installation import install, open_plugins
from heddle.spec import read_document
from plugins_host import Chain, Fault, PluginLine, PluginLog, PluginProcess
from plugins_host.conversation import ModelRequest, ModelResponse, ToolCall
from plugins_host.loading.entry_point import RUNTIME
from tests.conformance.policies.sequential import Item, Member, Plain, Story
from tests.support.flows import (
    agent,
    branching,
    document,
    edge,
    end,
    flow,
    llm,
    model,
    prop,
    server_tool,
    start,
    tool,
)

HERE: Final = Path(__file__).parent
NO_NODE: Final = "needs Node.js, which is not installed"
LANGUAGES: Final = [
    "python",
    pytest.param(
        "javascript", marks=pytest.mark.skipif(not shutil.which("node"), reason=NO_NODE)
    ),
]

# Longer than any machine is busy: what is late is late for a reason of the test.
PATIENCE: Final = 60.0


def log_nothing(_: PluginLine) -> None:
    """A log for who does not listen."""


class Broken(Fault):
    """What tools and models of the tests fail with."""


# --- plugins ----------------------------------------------------------------------------


class Plugin(Struct, frozen=True):
    """A plugin of scripted policies.

    ``one_by_one`` leaves out the feature `consult`, in Python. ``frames`` is a file for all
    that heddle writes to it, as it comes out of the pipe.
    """

    name: str
    members: Sequence[Member]
    language: str = "python"
    one_by_one: bool = False
    frames: Path | None = None


def write_plugin(folder: Path, plugin: Plugin) -> str:
    """Put the manifest of scripted policies into a folder; the value for ``--plugin``."""
    command = program("scripted", plugin.language)
    command += ["--one-by-one"] if plugin.one_by_one else []
    if plugin.frames is not None:
        command = ["sh", "-c", f"tee -a '{plugin.frames}' | \"$@\"", "sh", *command]
    halves = {member.name: member.halves for member in plugin.members}
    return write_manifest(folder, plugin.name, command, halves)


def program(name: str, language: str) -> list[str]:
    """How heddle would run the plugin of this name in this folder."""
    if language == "javascript":
        return ["node", "--import", RUNTIME.as_uri(), str(HERE / f"{name}.mjs")]
    return [sys.executable, str(HERE / f"{name}.py")]


def write_manifest(
    folder: Path, name: str, command: Sequence[str], halves: Mapping[str, Iterable[str]]
) -> str:
    """Put a manifest of middleware at these halves into a folder; where it is."""
    manifest = {
        "name": name,
        "version": "1.0.0",
        "command": list(command),
        "capabilities": ["emitEvent", "runTool", "log"],
        "components": [
            {"componentType": member, "kind": "middleware", "seams": _seams(declared)}
            for member, declared in halves.items()
        ],
    }
    path = folder / f"{name}.json"
    path.write_text(json.dumps(manifest), encoding="utf-8")
    return str(path)


def _seams(halves: Iterable[str]) -> dict[str, list[str]]:
    seams: dict[str, list[str]] = {}
    for place in sorted(halves):
        seam, _, half = place.partition(".")
        seams.setdefault(seam, []).append(half)
    return seams


class Installation(Struct, frozen=True):
    """Policies, and the plugins behind them in the order of the chain."""

    policies: Policies
    plugins: list[PluginProcess]

    @property
    def started(self) -> list[int]:
        """How many processes each plugin has had."""
        return [each.counts.started for each in self.plugins]

    @property
    def pids(self) -> list[int]:
        """The processes that take calls, or took the last ones."""
        channels = (each._channel for each in self.plugins)
        return [channel._child.pid for channel in channels if channel is not None]

    @property
    def open_calls(self) -> int:
        """The calls and cancellations that some process has not answered."""
        channels = (each._channel for each in self.plugins)
        return sum(len(c._calls) for c in channels if c is not None)


def installed(
    folder: Path,
    plugins: Sequence[Plugin],
    script: str | Mapping[str, Mapping[str, Any]],
    *,
    patience: float = PATIENCE,
    log: PluginLog = log_nothing,
) -> AbstractAsyncContextManager[Installation]:
    """The policies of scripted plugins in processes that all runs share.

    ``script`` is a file, for all of them, or the settings ``script`` of each by its name.
    """
    sources = [write_plugin(folder, plugin) for plugin in plugins]
    names = [member.name for plugin in plugins for member in plugin.members]
    settings = {
        name: {"script": script if isinstance(script, str) else script.get(name, {})}
        for name in names
    }
    return installing(sources, settings, patience=patience, log=log)


@asynccontextmanager
async def installing(
    sources: Sequence[str],
    settings: Mapping[str, Any],
    *,
    patience: float = PATIENCE,
    log: PluginLog = log_nothing,
) -> AsyncIterator[Installation]:
    """The policies of any plugins, with settings by component type."""
    flags = [f"{name}={json.dumps(value)}" for name, value in settings.items()]
    loaded = install(sources, flags, shared=True)
    async with open_plugins(loaded, log=log, patience=patience) as opened:
        policies = opened.policies
        assert policies is not None
        assert loaded.plugins is not None
        plugins = {each.name: each for each in plugins_behind(policies.chain)}
        names = [each.name for each in loaded.plugins.plugins]
        yield Installation(policies, [plugins[name] for name in names])


def plugins_behind(chain: Chain) -> list[PluginProcess]:
    """The plugins that a chain asks.

    Found by following what it holds on to: how it keeps them is its own affair.
    """
    found: dict[PluginProcess, None] = {}
    waiting: deque[object] = deque([chain])
    seen = {id(chain)}
    while waiting:
        for each in gc.get_referents(waiting.popleft()):
            if isinstance(each, PluginProcess):
                found[each] = None
            elif isinstance(each, dict | list | tuple | Struct) and id(each) not in seen:
                seen.add(id(each))
                waiting.append(each)
    return [*found]


async def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    """Wait for something that another process does, which nothing tells."""
    with trio.fail_after(seconds):
        while not condition():  # noqa: ASYNC110  nobody would set an event
            await trio.sleep(0.01)


# --- what must be left: nothing ---------------------------------------------------------


def children() -> set[int]:
    """The processes that this one has started and not seen the end of."""
    pids = [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()]
    return {pid for pid in pids if _state_and_parent(pid)[1] == str(os.getpid())}


def alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    return _state_and_parent(pid)[0] not in {"", "Z"}


def _state_and_parent(pid: int) -> tuple[str, str]:
    """Both empty when there is no such process."""
    try:
        state, parent, *_ = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return "", ""
    return state, parent


def descriptors() -> int:
    """How many files are open."""
    return len(list(Path("/proc/self/fd").iterdir()))


@contextmanager
def nothing_left() -> Iterator[None]:
    """Check that what is done inside leaves no process, no open file and no task."""
    before = children(), descriptors(), tasks()
    yield
    assert (children(), descriptors(), tasks()) == before


def tasks() -> int:
    """How many tasks trio has; 0 outside of it."""
    try:
        return trio.lowlevel.current_statistics().tasks_living
    except RuntimeError:
        return 0


# --- runs -------------------------------------------------------------------------------


def story_flow(story: Story) -> bytes:
    """The flow of a story; its nodes carry the tag."""
    name = story.node_name
    tools = [server_tool(each, inputs=[prop("where", default="here")]) for each in LANES]
    prompt = "You serve {{tag}}."
    nodes = [
        start(name("start")),
        tool(name("work"), uses=server_tool("work")),
        branching(name("pick"), {"again": "again"}, inputs=[prop("go")]),
        llm(name("ask"), "{{text}} {{n}}"),
        agent(name("talk"), tools=tools, system_prompt=prompt),
        end(name("end")),
    ]
    edges = [
        edge(name("pick"), name("work"), "again"),
        edge(name("pick"), name("ask"), "default"),
        edge(name("ask"), name("talk")),
        edge(name("talk"), name("end")),
    ]
    chain = [name("start"), name("work"), name("pick")]
    return document(flow(nodes, chain, edges, shared=[model()]))


LANES: Final = ("look", "peek")


class Seen(Struct):
    """What was seen of a run, in the words of a story."""

    ending: tuple[str, Any]
    trace: list[Item]
    requests: list[Plain]
    calls: dict[str, list[Plain]]


async def watched(
    story: Story,
    policies: Policies,
    *,
    stream: bool = False,
    timeout: float = 300.0,
    cancel_at: int | None = None,
) -> Seen:
    """Run the flow of a story, with the model and the tools that it tells of.

    Args:
        story: What it should come to.
        policies: Who is asked; the same script as the story's behind them.
        stream: Whether somebody reads the model's text as it comes.
        timeout: The run's time, in seconds.
        cancel_at: Cancel it when this many questions were told of; its ending is then
            ``("cancelled", None)``.
    """
    answers = iter(story.answers)
    results = {name: iter(said) for name, said in story.results.items()}
    events: list[Event] = []
    asked = 0
    scope = trio.CancelScope()

    async def answer(_request: ModelRequest) -> ModelResponse:
        await trio.lowlevel.checkpoint()
        said = next(answers)
        if isinstance(said, str):
            raise Broken(said)
        calls = tuple(ToolCall(**each) for each in said.get("tool_calls", ()))
        return ModelResponse(said["content"], said["finish_reason"], calls)

    def told(name: str) -> Callable[..., Any]:
        async def function(**_: Any) -> Plain:
            await trio.lowlevel.checkpoint()
            said = next(results[name])
            if isinstance(said, str):
                raise Broken(said)
            return said

        return function

    def report(event: Event) -> None:
        nonlocal asked
        events.append(event)
        if isinstance(event, PluginEmitted):
            asked += event.type.endswith(":asked")
            if asked == cancel_at:
                scope.cancel()

    models = FakeModels(answer)
    tools = FakeTools(
        {**{name: told(name) for name in results}, "whoami": lambda **_: {"tag": story.tag}}
    )
    services = Services(models, tools, report, stream, policies)
    bounds = story.bounds
    limits = Limits(bounds.iterations, bounds.node_attempts, timeout)
    run = Run(make_plan(read_document(story_flow(story))), services, limits)
    ending: tuple[str, Any] = ("cancelled", None)
    try:
        with scope:
            ending = ("completed", await run.execute(story.inputs))
    except RunFailed as failure:
        ending = (type(failure).__name__, str(failure))
    assert tools.open_workspaces == 0
    return Seen(
        ending,
        [item for event in events if (item := item_of(event)) is not None],
        [json.loads(msgspec.json.encode(each)) for each in models.requests],
        {name: [given for of, given in tools.calls if of == name] for name in results},
    )


_WARNING: Final = re.compile(
    r"middleware '(\w+)' of plugin '[^']+', (\w+\.\w+): "
    r"(replaces|refuses|retries|asked to retry|asked for a delay)"
)
_TOOL: Final = re.compile(r"call of tool '(\w+)'")


def item_of(event: Event) -> Item | None:
    """An event as an entry of a story's trace; None for those that no story tells."""
    match event:
        case NodeStarted(node_name=node, attempt=attempt, state=state):
            return ("started", "", node, attempt, state)
        case NodeCompleted(node_name=node, attempt=attempt, state=state):
            return ("completed", "", node, attempt, state)
        case NodeFailed(node_name=node, attempt=attempt, error=error):
            return ("failed", "", node, attempt, error.name)
        case ToolCalled(tool_name=name, tool_args=arguments):
            return ("tool", name, arguments)
        case ToolReturned(tool_name=name, error=error):
            return ("returned", name, error is None)
        case Warned(message=message, node_name=node):
            found = _WARNING.match(message)
            lane = _TOOL.search(message)
            assert found is not None, message
            return ("warned", lane[1] if lane else "", found[1], found[2], node, found[3])
        case PluginEmitted(type=kind, node_name=node, node_type=of, data=data):
            return _told(kind, node, of, data)
        case _:
            return None


def _told(kind: str, node: str, of: str, data: Plain) -> Item:
    who = data["who"]
    if kind == f"plugin:{who}:used":
        return ("used", data["tool"], who, data["found"]["tag"])
    assert kind == f"plugin:{who}:asked"
    # The event is one of the node that the question was about.
    assert (data["node"], data["type"]) == (node, of)
    numbers = (data["attempt"], data["maxAttempts"])
    return ("asked", data["tool"], who, data["place"], node, *numbers, data["shown"])


def asked_in(events: Iterable[Event]) -> list[Plain]:
    """What scripted policies told that they were asked, in order."""
    told = [event for event in events if isinstance(event, PluginEmitted)]
    return [event.data for event in told if event.type.endswith(":asked")]


def in_lanes(trace: Sequence[Item]) -> list[Item]:
    """The same with what happened side by side told lane by lane."""
    told: list[Item] = []
    beside: list[Item] = []
    for item in trace:
        if item[1]:
            beside.append(item)
            continue
        told += sorted(beside, key=lambda each: str(each[1]))
        beside = []
        told.append(item)
    return told + sorted(beside, key=lambda each: str(each[1]))


def check_whole(story: Story, seen: Seen, where: str) -> None:
    """Check that a run came to what its story says, step by step."""
    told, was = in_lanes(story.trace), in_lanes(seen.trace)
    for number, (expected, found) in enumerate(zip_longest(told, was)):
        if expected != found:
            pytest.fail(
                f"{where}, step {number}:\n  told {expected}\n  was  {found}\n"
                f"  told {story.ending}\n  was  {seen.ending}"
            )
    assert story.ending == seen.ending, where
    assert story.requests == seen.requests, where
    assert story.calls == seen.calls, where


def check_beginning(story: Story, seen: Seen, where: str) -> None:
    """Check that a run that was broken off had gone as its story says until then."""
    kinds = ("asked", "warned", "started", "used")
    for lane in ("", *LANES):
        told, was = (
            [item for item in trace if item[1] == lane and item[0] in kinds]
            for trace in (story.trace, seen.trace)
        )
        assert was == told[: len(was)], f"{where}, lane {lane!r}"
