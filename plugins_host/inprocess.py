"""A plugin that is part of heddle: the same handlers, asked without a process between.

    plugin = InProcessPlugin("audit", table, capabilities=frozenset({"log"}), log=log)
    verdict = await plugin.request("after", params, services=run, components=("Audit",))

It stands where a `PluginProcess` stands in a chain, and a handler sees and may do here
what it would there: its own copy of what it is shown, the capabilities of its manifest,
the same budget of silence. Async handlers run under trio. A plain one runs on heddle's own
loop, which nothing can interrupt: it has to be quick.
"""

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import msgspec
import trio
from msgspec import Raw

from plugins_host.authoring.dispatch import Dispatch, Question
from plugins_host.authoring.handlers import HandlerTable, about_error, describe_error
from plugins_host.authoring.surface import HostError, Services, Signal
from plugins_host.faults import Fault
from plugins_host.plugin_faults import PluginFailed, PluginOverdue
from plugins_host.plugin_log import PluginLine, PluginLog
from plugins_host.processes.calls import CEILING, Budget, Onward
from plugins_host.program import PATIENCE
from plugins_host.reverse import (
    CallModel,
    CallServices,
    EmitEvent,
    Log,
    ReverseRefused,
    RunTool,
    read_asked,
    serve,
    tell,
)
from plugins_host.seams import SEAMS, admitted

# How long the plain handlers of one caller may keep the loop. Seconds.
_TURN: Final = 0.001

_question: Final = msgspec.json.Decoder(Question).decode
_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode

# What a handler is told that it may answer, as a process is told in the handshake.
_ADMITS: Final = {
    (seam.value, half.value): tuple(action.value for action in admitted(seam, half))
    for seam, row in SEAMS.items()
    for half in row.halves
}


class InProcessPlugin:
    """The handlers of one plugin, asked like a process.

    Args:
        name: The plugin's name.
        handlers: By component type.
        capabilities: The reverse calls that its manifest asks for and the host grants.
        log: Told what the plugin's own mistakes are, as of a process's stderr.
        tools: Functions by the names of their tools.
        list_tools: Says which tools the plugin found.
    """

    def __init__(
        self,
        name: str,
        handlers: HandlerTable,
        *,
        capabilities: frozenset[str],
        log: PluginLog,
        tools: Mapping[str, Any] | None = None,
        list_tools: Callable[[], Any] | None = None,
    ) -> None:
        self.name = name
        self._dispatch = Dispatch(
            handlers, tools=tools, list_tools=list_tools, admits=_ADMITS
        )
        self._capabilities = capabilities
        self._log = log

    @property
    def features(self) -> frozenset[str]:
        """None that would be of use: there is no frame to save."""
        return frozenset()

    async def start(self) -> frozenset[str]:
        """It is there; its features."""
        return self.features

    async def request(
        self,
        verb: str,
        params: bytes,
        *,
        services: CallServices | None = None,
        components: Sequence[str] = (),
        patience: float = PATIENCE,
        on_partial: Callable[[Raw], None] | None = None,
        onward: Onward | None = None,  # noqa: ARG002  whoever asks is not woken here
    ) -> object:
        """Call the handler that answers ``verb``.

        Returns:
            What it answered, as objects: for a middleware a dict at least.

        Raises:
            PluginFailed: The handler raised, or answered what is no answer at all.
            PluginOverdue: It did not answer in time.
        """
        await trio.lowlevel.checkpoint()
        return await self.ask(verb, params, components, patience, services, on_partial)

    async def ask(
        self,
        verb: str,
        params: bytes,
        components: Sequence[str],
        patience: float,
        services: CallServices | None = None,
        on_partial: Callable[[Raw], None] | None = None,
    ) -> object:
        """The same without giving way before a handler that is plain."""
        asked = _Asked(
            self, verb, services, components[0] if components else "", patience, on_partial
        )
        try:
            found, args, read = self._dispatch.step(
                verb, _question(params), lambda: _said(params), asked
            )
            asked.label = found.label
            asked.plain = not found.is_async
            if not found.is_async:
                # Nothing can interrupt it, so a deadline would say nothing.
                return read(found.function(*args))
            with asked.scope:
                return read(await found.function(*args))
        except (trio.Cancelled, GeneratorExit):
            raise
        except BaseException as error:
            # What a handler raises because it was cancelled is not its fault.
            await trio.lowlevel.checkpoint_if_cancelled()
            if asked.scope.cancel_called:
                raise asked.overdue() from error
            raise self._failed(error, asked) from error
        finally:
            asked.open = False
        raise asked.overdue()

    @asynccontextmanager
    async def line(self) -> "AsyncIterator[_Line]":
        """A way to ask it in order."""
        await trio.lowlevel.checkpoint()
        yield _Line(self)

    def _failed(self, error: BaseException, asked: "_Asked") -> PluginFailed:
        name, message = describe_error(error, asked.label)
        said = about_error(error)
        return PluginFailed(
            self.name,
            name,
            message,
            status=said.get("status"),
            retry_after_ms=said.get("retryAfterMs"),
            retryable=said.get("retryable"),
        )

    def tell(self, text: str) -> None:
        """Put a line into the log, as if the plugin had written it on stderr."""
        self._log(PluginLine(self.name, "stderr", text))

    def granted(self, verb: str) -> None:
        """Refuse a reverse call that the manifest does not ask for.

        Raises:
            ReverseRefused: It is not granted.
        """
        if verb not in self._capabilities:
            raise ReverseRefused(
                f"{verb} is not granted to this plugin",
                fix=f"Name {verb!r} in the manifest's 'capabilities'.",
            )


class _Line:
    """Questions in order. Each is asked when its answer is collected, and not before.

    Plain handlers are called one after the other for `_TURN` before anybody else has a
    turn: to give way after each would take longer than most of them do.
    """

    open = True

    def __init__(self, plugin: InProcessPlugin) -> None:
        self._plugin = plugin
        self._turn_ends = 0.0

    def submit(self, verb: str, params: bytes, component_type: str) -> "_Later":
        """Note what to ask."""
        return _Later(verb, params, component_type)

    def settled(self, pending: "_Later") -> bool:  # noqa: ARG002  the protocol's
        """Whether there is time to ask it in this turn."""
        return time.perf_counter() < self._turn_ends

    async def collect(self, pending: "_Later", patience: float) -> object:
        """Ask."""
        if time.perf_counter() >= self._turn_ends:
            await trio.lowlevel.checkpoint()
            self._turn_ends = time.perf_counter() + _TURN
        return await self._plugin.ask(
            pending.verb, pending.params, (pending.component_type,), patience
        )

    def abandon(self, pending: "_Later") -> None:
        """It was not asked, or is being cancelled."""


class _Later(NamedTuple):
    verb: str
    params: bytes
    component_type: str


def _said(params: bytes) -> dict[str, Any]:
    said = _decode(params)
    return said if isinstance(said, dict) else {}


class _Asked(Services):
    """One question that is being answered: its time, and what its handler asks for."""

    def __init__(
        self,
        plugin: InProcessPlugin,
        verb: str,
        services: CallServices | None,
        component_type: str,
        patience: float,
        on_partial: Callable[[Raw], None] | None,
    ) -> None:
        self.open = True
        self.label = component_type or verb
        self._plain = True
        self._plugin = plugin
        self._services = services
        self._component_type = component_type
        self._on_partial = on_partial
        self._verb = verb
        self._budget = Budget.beginning(trio.current_time(), patience)
        self.scope = trio.CancelScope(deadline=self._budget.due)

    @property
    def plain(self) -> bool:
        """Whether the handler was not written with ``async def``."""
        return self._plain

    @plain.setter
    def plain(self, plain: bool) -> None:
        self._plain = plain

    @property
    def signal(self) -> Signal:
        """Its cancellation."""
        return _TRIO_SIGNAL

    async def ask(self, verb: str, params: dict[str, Any]) -> Any:
        """Serve a reverse call; meanwhile the handler's own time stands still."""
        try:
            asked = self._read(verb, params)
            assert isinstance(asked, RunTool | CallModel)
            assert self._services is not None
            self._budget.hold(trio.current_time())
            self._rearm()
            try:
                result = await serve(asked, self._component_type, self._services)
            finally:
                self._budget.release(trio.current_time())
                self._rearm()
        except Exception as error:
            name, about = type(error).__name__, about_error(error)
            raise HostError(name, str(error), about) from error
        return _decode(result)

    def tell(self, verb: str, params: dict[str, Any]) -> None:
        """Serve a reverse call that nobody waits for; a refusal goes to the log."""
        try:
            asked = self._read(verb, params)
            assert isinstance(asked, EmitEvent | Log)
            assert self._services is not None
            tell(asked, self._component_type, self._services)
        except Exception as error:  # noqa: BLE001  the handler goes on, as in a process
            self._plugin.tell(f"heddle refused a call: {error}")
        else:
            self._progress()

    def partial(self, chunk: Any) -> None:
        """Report progress."""
        self._progress()
        if self._on_partial is not None:
            self._on_partial(Raw(_encode(chunk)))

    def _read(self, verb: str, params: dict[str, Any]) -> object:
        self._plugin.granted(verb)
        if not self.open:
            raise ReverseRefused(
                "the call that it was made inside has ended",
                fix="Ask while you answer the call.",
            )
        if self._services is None:
            raise ReverseRefused(f"inside {self._verb!r} there is nothing to ask for")
        return read_asked(verb, Raw(_encode(params)))

    def _progress(self) -> None:
        self._budget.progress(trio.current_time())
        self._rearm()

    def _rearm(self) -> None:
        if self.open:
            self.scope.deadline = self._budget.due

    def overdue(self) -> Fault:
        """It took too long."""
        call = self._budget
        alive = call.due >= call.ceiling
        allowed = call.patience * CEILING if alive else call.patience
        return PluginOverdue(self._plugin.name, allowed, verb=self._verb, alive=alive)


class _TrioSignal:
    """The cancellation of whatever task looks at it."""

    @property
    def cancelled(self) -> bool:
        return trio.current_effective_deadline() <= trio.current_time()

    async def wait(self) -> None:
        await trio.sleep_forever()


_TRIO_SIGNAL: Final = _TrioSignal()
