"""A plugin that runs in processes of its own: started when needed, replaced when bad.

    plugin = PluginProcess(program, supervisor, log=log)
    raw = await plugin.request("before", params, services=run, components=("Gate",))

`PluginProcess` is the client; the rest of heddle calls it and never sees a process. Its
`_Keeper` is the actor that decides which process takes calls: it starts one when a call
needs it, lets a bad one end, and after too many deaths at start only probes.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, assert_never

import trio
from msgspec import Raw, Struct

from actors import Actor, ActorCrashed, ActorGone, Call, LateReply, Restart, Supervisor
from plugins_host.frames import MAX_LINE
from plugins_host.plugin_faults import PluginGone, PluginNotStarted, PluginOverdue
from plugins_host.plugin_log import Counts, PluginLine, PluginLog
from plugins_host.processes.calls import Elsewhere, Onward
from plugins_host.processes.channel import Channel
from plugins_host.processes.child import Child, SpawnError, spawn
from plugins_host.processes.lifecycle import WELL, StartHistory
from plugins_host.program import PATIENCE, PluginProgram
from plugins_host.reverse import CallServices
from plugins_host.shortages import shortage
from plugins_host.verbs.encoding import Line

# From the start of the process to its answer to `init`. Seconds.
START_TIMEOUT: Final = 10.0

Spawn = Callable[[PluginProgram], Awaitable[Child]]


class _NotStarted(Struct, frozen=True):
    """Why no process takes calls. An answer: a plugin that does not start is no crash."""

    what: str
    fix: str
    status: int | None


class _Connect(Call["Channel | _NotStarted"], frozen=True):
    """A call needs a process that takes calls."""


class _Greeted(Struct, frozen=True):
    channel: Channel


class _Died(Struct, frozen=True):
    """An attempt to start has failed."""

    reason: _NotStarted


class _Probe(Struct, frozen=True):
    """It is time to see whether a plugin that was given up starts again."""


class PluginProcess:
    """One plugin, whatever process it is in at the moment.

    Args:
        program: What to start.
        supervisor: Runs the tasks behind it. Leaving it ends the process.
        log: Told what the plugin prints, and what heddle does to it.
        max_line: Bytes in one frame from the plugin.
        spawn: Starts a process; tests pass their own.
    """

    def __init__(
        self,
        program: PluginProgram,
        supervisor: Supervisor,
        *,
        log: PluginLog,
        max_line: int = MAX_LINE,
        spawn: Spawn = spawn,
    ) -> None:
        self.program = program
        self.counts = Counts()
        self._channel: Channel | None = None
        self._keeper = supervisor.start(
            lambda: _Keeper(program, self.counts, log, max_line, spawn),
            name=f"plugin {program.name}",
            restart=Restart.PERMANENT,
        )

    @property
    def name(self) -> str:
        """The plugin's name."""
        return self.program.name

    @property
    def features(self) -> frozenset[str] | None:
        """What both sides announced; None while no process takes calls."""
        channel = self._channel
        return channel.features if channel is not None and channel.ready else None

    async def start(self) -> frozenset[str]:
        """Start it if it is not running; the features that both sides announced.

        Raises:
            PluginNotStarted: It does not start; says why.
        """
        return (await self._connected()).features

    def request(
        self,
        verb: str,
        params: bytes,
        *,
        services: CallServices | None = None,
        components: Sequence[str] = (),
        patience: float = PATIENCE,
        on_partial: Callable[[Raw], None] | None = None,
        onward: Onward | None = None,
    ) -> Coroutine[Any, Any, Raw]:
        """Ask the plugin, starting it first if need be, and wait for its answer.

        Args:
            verb: What is asked.
            params: A JSON object, spliced into the frame as it is.
            services: What reverse calls made inside this call may use; None refuses them.
            components: The component types that are asked: whose events and model it is.
            patience: The budget of silence in seconds; see `calls`.
            on_partial: Called with each progress frame; must not raise.
            onward: Called with the answer, where its task need not be woken for it; see
                there. It may be left out at any time.

        Returns:
            The last answer: a JSON text of valid form. Numbers in it may be too large to
            decode.

        Raises:
            PluginFault: There is no answer; the class says why.
        """
        channel = self._channel
        if channel is not None and channel.ready:
            # Not awaited here: on the way to a running process a coroutine less counts.
            return channel.request(
                verb,
                params,
                services,
                components,
                patience,
                on_partial,
                self._ask_again,
                onward,
            )
        return self._start_and_request(
            verb, params, services, components, patience, on_partial, self._ask_again
        )

    async def _start_and_request(
        self,
        verb: str,
        params: bytes,
        services: CallServices | None,
        components: Sequence[str],
        patience: float,
        on_partial: Callable[[Raw], None] | None,
        elsewhere: Elsewhere | None = None,
    ) -> Raw:
        channel = await self._connected()
        return await channel.request(
            verb, params, services, components, patience, on_partial, elsewhere
        )

    # Once only: a plugin whose every process ends before it reads is not started for ever.
    _ask_again = _start_and_request

    @asynccontextmanager
    async def line(self) -> AsyncIterator[Line]:
        """A way to ask it in order, all in the process that takes calls now.

        Raises:
            PluginNotStarted: It does not start; says why.
        """
        channel = await self._connected()
        with channel.held():
            yield channel

    async def _connected(self) -> Channel:
        while self._channel is None or not self._channel.ready:
            try:
                answer = await self._keeper.call(_Connect())
            except ActorCrashed as crash:
                short = shortage(crash.__cause__ or crash)
                what = "heddle itself failed while it looked after it"
                raise PluginGone(self.name, short.what if short else what) from crash
            except ActorGone as gone:
                raise PluginGone(self.name, "heddle is ending it") from gone
            if isinstance(answer, _NotStarted):
                raise PluginNotStarted(
                    self.name, answer.what, fix=answer.fix, status=answer.status
                )
            self._channel = answer
        return self._channel


class _Keeper(Actor["_Connect | _Greeted | _Died | _Probe"]):
    """The server: owns the processes of one plugin, and is the only one to start any."""

    def __init__(
        self,
        program: PluginProgram,
        counts: Counts,
        log: PluginLog,
        max_line: int,
        spawn: Spawn,
    ) -> None:
        self._program = program
        self._counts = counts
        self._log = log
        self._max_line = max_line
        self._spawn = spawn
        self._channel: Channel | None = None
        self._alive: set[Channel] = set()
        self._waiting: list[LateReply[Channel | _NotStarted]] = []
        self._starting = False
        self._probing = False
        self._history: StartHistory = WELL
        self._reason = _NotStarted("", "", None)
        self._nursery: trio.Nursery | None = None

    @asynccontextmanager
    async def living(self) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            yield
            async with trio.open_nursery() as leaving:
                for channel in self._alive:
                    leaving.start_soon(channel.leave)
            nursery.cancel_scope.cancel()

    async def receive(self, message: _Connect | _Greeted | _Died | _Probe) -> object:
        match message:
            case _Connect():
                if self._channel is not None and self._channel.ready:
                    return self._channel
                if self._history.given_up:
                    self._probe_later()
                    return self._reason
                self._waiting.append(self.answer_later())
                self._start()
                return None
            case _Greeted(channel=channel):
                self._starting = False
                self._history = WELL
                self._channel = channel
                self._counts.trouble = ""
                self._answer(channel)
                return None
            case _Died(reason=reason):
                self._starting = False
                self._history = self._history.died(trio.current_time(), reason.what)
                self._reason = reason
                self._counts.trouble = reason.what
                if self._history.given_up:
                    self._tell("it does not start and is only probed from now on")
                self._answer(reason)
                return None
            case _Probe():
                self._probing = False
                self._start()
                return None
            case _:
                assert_never(message)

    def _answer(self, answer: Channel | _NotStarted) -> None:
        waiting, self._waiting = self._waiting, []
        for reply in waiting:
            reply.set(answer)

    def _start(self) -> None:
        if not self._starting:
            self._starting = True
            assert self._nursery is not None
            self._nursery.start_soon(self._live, name=f"plugin {self._program.name}: life")

    def _probe_later(self) -> None:
        if not (self._probing or self._starting):
            self._probing = True
            assert self._nursery is not None
            self._nursery.start_soon(self._probe)

    async def _probe(self) -> None:
        await trio.sleep_until(self._history.next_start())
        await self._say(_Probe())

    async def _live(self) -> None:
        """One attempt to start, and the whole life of the process if it succeeds."""
        await trio.sleep_until(max(self._history.next_start(), trio.current_time()))
        began = trio.current_time()
        try:
            child = await self._spawn(self._program)
        except SpawnError as error:
            await self._say(_Died(_NotStarted(error.what, error.fix, None)))
            return
        self._counts.started += 1
        channel = Channel(
            self._program,
            child,
            log=self._log,
            counts=self._counts,
            max_line=self._max_line,
        )
        self._alive.add(channel)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(channel.run)
                await self._say(await self._greet(channel, began + START_TIMEOUT))
        finally:
            self._alive.discard(channel)
            # One that was replaced before it ended is nobody's trouble any more.
            if channel is self._channel and channel.died_of is not None:
                self._counts.trouble = channel.died_of.what

    async def _greet(self, channel: Channel, deadline: float) -> _Greeted | _Died:
        fault = await channel.greet(deadline - trio.current_time())
        if isinstance(fault, PluginOverdue):
            channel.give_up()
            return _Died(
                _NotStarted(
                    f"it did not answer 'init' within {START_TIMEOUT:g} s",
                    "See that it reads its stdin and answers, or make it start faster.",
                    None,
                )
            )
        if fault is None:
            return _Greeted(channel)
        status = fault.status if isinstance(fault, PluginGone) else None
        return _Died(_NotStarted(f"it did not start: {fault.what}", fault.fix, status))

    async def _say(self, message: _Greeted | _Died | _Probe) -> None:
        """Tell the actor. If it is ending, it need not know."""
        with suppress(ActorGone):
            await self.ref.cast(message)

    def _tell(self, text: str) -> None:
        self._log(PluginLine(self._program.name, "host", text))
