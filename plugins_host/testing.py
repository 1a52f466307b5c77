"""For tests of plugins and of what asks them: processes made of test code.

    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        nursery.start_soon(plugin.request, "before", b"{}")
        stage = await troupe.on_stage()
        request = await stage.asked("before")
        stage.answers(request, {"action": "proceed"})

A `Stage` is a process as it would be behind the pipes: it reads what heddle wrote, and
writes what a test has it write. Time can be trio's jumping clock. `StubAsker` is less
still: a function in the place of a plugin, for tests of a chain.
"""

import itertools
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec
import trio

from actors import Supervisor
from plugins_host import frames
from plugins_host.frames import MAX_LINE, Answer, FrameReader, Refusal, Request
from plugins_host.plugin_log import PluginLine
from plugins_host.processes.calls import Onward
from plugins_host.processes.child import Child, SpawnError
from plugins_host.processes.process import PluginProcess
from plugins_host.program import CAPABILITIES, PluginProgram
from plugins_host.reverse import CallServices

_PIDS: Final = itertools.count(1)


class MemoryPipe:
    """Both ends of a pipe in memory. A writer waits while ``capacity`` bytes are unread."""

    def __init__(self, capacity: int = 64 * 1024) -> None:
        self.closed = False
        self.on_change: Callable[[], None] = lambda: None
        self._capacity = capacity
        self._held = bytearray()
        self._written = 0
        self._changed = trio.Event()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    def read_nowait(self) -> bytes | None:
        """What is in it; empty at its end, None when nothing is."""
        if self._held:
            data = bytes(self._held)
            self._held.clear()
            self._wake()
            return data
        return b"" if self.closed else None

    async def wait_readable(self) -> None:
        """Wait until there is something, or an end."""
        await trio.lowlevel.checkpoint()
        while not (self._held or self.closed):
            await self._changed.wait()

    def write_nowait(self, data: bytes | memoryview) -> int:
        """Put in what there is room for."""
        if self.closed:
            raise BrokenPipeError
        room = max(0, self._capacity - len(self._held))
        self._held += data[:room]
        self._written += min(room, len(data))
        self._wake()
        self.on_change()
        return min(room, len(data))

    async def wait_writable(self) -> None:
        """Wait until there is room, or nobody who would read it."""
        await trio.lowlevel.checkpoint()
        while len(self._held) >= self._capacity and not self.closed:
            await self._changed.wait()

    def taken(self) -> int:
        """How much of what was written was read."""
        return self._written - len(self._held)

    def close(self) -> None:
        """Nothing more comes; what is in it can still be read."""
        if not self.closed:
            self.closed = True
            self._wake()
            self.on_change()


class Stage:
    """A plugin process made of test code: what a test says through it, the process does.

    Attributes:
        requests: Everything that heddle asked and was read, in order, `init` included.
        killed: Whether heddle killed it.
        stubborn: Whether it lives on when its stdin is closed.
    """

    def __init__(
        self, *, capacity: int = 64 * 1024, greeting: Mapping[str, Any] | None = None
    ) -> None:
        self.stubborn = False
        self._greeting = greeting
        self.pid = next(_PIDS)
        self.stdin = MemoryPipe(capacity)
        self.stdin.on_change = self._stdin_changed
        self.stdout = MemoryPipe()
        self.stderr = MemoryPipe()
        self.requests: list[Request] = []
        self.killed = False
        self._status: int | None = None
        self._exited = trio.Event()
        self._reader = FrameReader()
        self._unseen: list[Request] = []
        self._replies: dict[frames.Id, Answer | Refusal] = {}
        self._ids = itertools.count(1)

    # --- what its channel sees of it ----------------------------------------------------

    @property
    def outlet(self) -> MemoryPipe:
        """Its stdin."""
        return self.stdin

    @property
    def inlet(self) -> MemoryPipe:
        """Its stdout."""
        return self.stdout

    @property
    def errors(self) -> MemoryPipe:
        """Its stderr."""
        return self.stderr

    async def wait(self) -> int:
        """Wait until a test ends it, or heddle kills it."""
        await self._exited.wait()
        assert self._status is not None
        return self._status

    def kill(self) -> None:
        """End it, as SIGKILL does."""
        if self._status is None:
            self.killed = True
            self.exits(-signal.SIGKILL)

    # --- what a test lets it do ---------------------------------------------------------

    async def asked(self, method: str | None = None) -> Request:
        """The next request of heddle, which must be a ``method`` if that is given."""
        while not self._unseen:
            await self._read()
        request = self._unseen.pop(0)
        if method is not None:
            assert request.method == method, f"heddle asked {request.method!r}"
        return request

    async def greets(self, **result: Any) -> Request:
        """Answer `init`, with version 1 unless told otherwise."""
        request = await self.asked("init")
        self.answers(request, {"protocol": 1, **result})
        return request

    def _stdin_changed(self) -> None:
        if self.stdin.closed:
            if not self.stubborn:
                self.exits(0)
        elif self._greeting is not None:
            # The first thing that is written is `init`, and nothing follows before its
            # answer.
            greeting, self._greeting = self._greeting, None
            self._take(self.stdin.read_nowait() or b"")
            self.answers(self._unseen.pop(0), greeting)

    async def _read(self) -> None:
        await self.stdin.wait_readable()
        data = self.stdin.read_nowait()
        assert data != b"", "heddle closed the plugin's stdin"
        self._take(data or b"")

    def _take(self, data: bytes) -> None:
        for frame in self._reader.feed(data):
            if isinstance(frame, Request):
                self.requests.append(frame)
                self._unseen.append(frame)
            else:
                assert isinstance(frame, Answer | Refusal)
                self._replies[frame.id] = frame

    def answers(self, request: Request, result: object) -> None:
        """Answer a request."""
        self.writes(frames.answer(request.id, msgspec.json.encode(result)))

    def refuses(self, request: Request, name: str, message: str) -> None:
        """Answer a request with an error."""
        self.writes(frames.refusal(request.id, name, message))

    def reports(self, request: Request, partial: object) -> None:
        """Report progress on a request."""
        self.writes(frames.progress(request.id, msgspec.json.encode(partial)))

    def asks(self, verb: str, request: Request | None = None, /, **params: Any) -> int:
        """Make a reverse call inside a request, and go on; the id of the reverse call."""
        reverse = next(self._ids)
        inside = {} if request is None else {"call": request.id}
        body = msgspec.json.encode({**inside, **params})
        self.writes(frames.request(reverse, verb, body))
        return reverse

    async def told(self, reverse: int) -> Any:
        """Wait for what came of a reverse call: its result, or the `Refusal`."""
        while reverse not in self._replies:
            await self._read()
        reply = self._replies.pop(reverse)
        return reply if isinstance(reply, Refusal) else msgspec.json.decode(reply.result)

    def writes(self, data: bytes) -> None:
        """Write to stdout, whatever it is. It is a test's mistake to fill the pipe."""
        if self._status is None:
            assert self.stdout.write_nowait(data) == len(data)

    def exits(self, status: int = 0) -> None:
        """End, and with it all three pipes."""
        if self._status is None:
            self._status = status
            for pipe in (self.stdin, self.stdout, self.stderr):
                pipe.close()
            self._exited.set()


class Troupe:
    """Spawns a new `Stage` whenever a process is started; the latest is ``stages[-1]``.

    Attributes:
        refuse: While this is set, nothing can be started, and this is why.
        greet: Whether a stage answers `init` by itself, and with which features.
    """

    def __init__(
        self, *, greet: bool = True, features: Sequence[str] = (), capacity: int = 64 * 1024
    ) -> None:
        self.stages: list[Stage] = []
        self.refuse: SpawnError | None = None
        self.greet = greet
        self.features = features
        self.capacity = capacity
        self._started = trio.Event()

    async def on_stage(self, number: int = 1) -> Stage:
        """Wait until this many processes were started; the latest of them."""
        while len(self.stages) < number:
            await self._started.wait()
        return self.stages[number - 1]

    async def spawn(self, _: PluginProgram) -> Child:
        """Start the next one."""
        await trio.lowlevel.checkpoint()
        if self.refuse is not None:
            raise self.refuse
        greeting = {"protocol": 1, "features": list(self.features)} if self.greet else None
        stage = Stage(capacity=self.capacity, greeting=greeting)
        self.stages.append(stage)
        self._started.set()
        self._started = trio.Event()
        return stage


@asynccontextmanager
async def plugin_pair(
    *,
    capabilities: Sequence[str] = CAPABILITIES,
    shared: bool = False,
    features: Sequence[str] = (),
    greet: bool = True,
    capacity: int = 64 * 1024,
    max_line: int = MAX_LINE,
    log: Callable[[PluginLine], None] = lambda _: None,
) -> AsyncIterator[tuple[PluginProcess, Troupe]]:
    """A plugin whose processes are stages, started like any other: by the first call."""
    troupe = Troupe(greet=greet, features=features, capacity=capacity)
    program = PluginProgram(
        "pair", ("pair",), "/", {}, frozenset(capabilities), shared=shared
    )
    async with Supervisor("plugins") as supervisor:
        yield (
            PluginProcess(
                program, supervisor, log=log, max_line=max_line, spawn=troupe.spawn
            ),
            troupe,
        )


class StubAsker:
    """A function in the place of a plugin: gets the verb and its params, returns or raises.

    Attributes:
        asked: Everything it was asked: the verb and its params as objects.
    """

    def __init__(
        self,
        answer: Callable[[str, dict[str, Any]], object],
        *,
        name: str = "stub",
        features: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self._answer = answer
        self._features = frozenset(features)

    @property
    def features(self) -> frozenset[str]:
        """What it can do."""
        return self._features

    async def start(self) -> frozenset[str]:
        """What it can do."""
        await trio.lowlevel.checkpoint()
        return self._features

    async def request(
        self,
        verb: str,
        params: bytes,
        *,
        services: CallServices | None = None,  # noqa: ARG002  as every asker has it
        components: Sequence[str] = (),  # noqa: ARG002
        patience: float = 0.0,  # noqa: ARG002
        onward: Onward | None = None,  # noqa: ARG002
    ) -> object:
        """Record, and answer."""
        await trio.lowlevel.checkpoint()
        asked = msgspec.json.decode(params)
        self.asked.append((verb, asked))
        return self._answer(verb, asked)


class RecordedServices:
    """`CallServices` that write down what they are asked.

    ``tools`` are functions by name, plain or async; ``model`` answers every model call.
    """

    def __init__(
        self,
        tools: Mapping[str, Callable[[dict[str, Any]], Any]] | None = None,
        model: Any = None,
    ) -> None:
        self.events: list[tuple[Any, ...]] = []
        self._tools = {} if tools is None else tools
        self._model = model

    async def run_tool(self, name: str, arguments: dict[str, Any], /) -> object:
        """Call the function of this name."""
        self.events.append(("runTool", name, arguments))
        result = self._tools[name](arguments)
        return await result if hasattr(result, "__await__") else result

    async def call_model(self, component_type: str, request: Any, /) -> Any:
        """Answer as always."""
        await trio.lowlevel.checkpoint()
        self.events.append(("callModel", component_type, request))
        return self._model

    def emit_event(self, component_type: str, name: str, data: Any, /) -> None:
        """Write it down."""
        self.events.append(("event", component_type, name, data))

    def log(self, component_type: str, level: str, message: str, /) -> None:
        """Write it down."""
        self.events.append(("log", component_type, level, message))
