"""One plugin process at work: frames out and in, calls matched to answers, its end.

    request ─▶ outbox ─▶ one writer task ─▶ stdin     all that waits goes in one write
    slot   ◀─ calls   ◀─ one reader task ◀─ stdout    all that arrived is read in one pass

A `Channel` lives as long as its process. What it may do is its phase (`lifecycle`); who
starts the next one is `process`. Whoever waits for an answer waits in its own task: a
reverse call runs there too, so that it belongs to the run and ends with it.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal, TypeAlias

import msgspec
import trio
from msgspec import Raw, Struct

from actors import ReplySlot
from plugins_host import frames
from plugins_host.calls import CEILING, MAX_REVERSE, Call, ids
from plugins_host.child import Child
from plugins_host.faults import Fault
from plugins_host.frames import (
    MAX_LINE,
    Answer,
    Arrival,
    Broken,
    FrameReader,
    Id,
    Progress,
    Refusal,
    Request,
    Stray,
    Unreadable,
)
from plugins_host.handlers import about_error
from plugins_host.lifecycle import PHASES, Phase, Signal, following
from plugins_host.plugin_faults import (
    PluginFailed,
    PluginFault,
    PluginGone,
    PluginOverdue,
    ProtocolBroken,
    ending,
)
from plugins_host.program import CAPABILITIES, PluginProgram
from plugins_host.reverse import (
    CallModel,
    CallServices,
    ReverseRefused,
    RunTool,
    Waited,
    read_asked,
    read_attribution,
    serve,
    tell,
)
from plugins_host.seams import HANDSHAKE_HALVES, HANDSHAKE_SEAMS

PROTOCOL: Final = 1
EVENT_CONTRACT: Final = 1
FEATURES: Final = ("consult",)

# A plugin has this long to stop a cancelled call; past it, it cannot be trusted to have
# stopped. Seconds.
CANCEL_PATIENCE: Final = 0.5

# A plugin that was asked to leave has this long to. Seconds.
LEAVE_PATIENCE: Final = 1.0

# A process that SIGKILL has not ended by then hangs in the kernel, and is left to it.
# Seconds.
UNKILLABLE: Final = 5.0

# A process that closed its stdout without being asked has this long to end by itself, so
# that its exit status can be told. Seconds.
LAST_BREATH: Final = 1.0

# Longest line of stderr, of stray text or of an error that is shown whole. Characters.
MAX_LOG_LINE: Final = 8 * 1024

# How much of what a plugin wrote on stderr last is kept, for the error of its end.
TAIL: Final = 4 * 1024

# Answers to reverse calls that a plugin may leave unread before heddle stops reading it:
# a plugin that asks without end and listens to nothing must not cost memory without end.
MAX_UNREAD: Final = 16 * 1024 * 1024

# Reads in a row without waiting: together more than a pipe holds.
_BURST: Final = 16


class PluginLine(Struct, frozen=True):
    """Something for the log: what a plugin printed or wrote, or what heddle did to it."""

    plugin: str
    source: Literal["stdout", "stderr", "host"]
    text: str


PluginLog = Callable[[PluginLine], None]

Elsewhere: TypeAlias = Callable[..., Awaitable[Raw]]
"""Takes what `Channel.request` was given, but for itself, and asks another process."""


class Counts:
    """What happened with one plugin since heddle started, over all of its processes."""

    __slots__ = ("late", "retired", "started", "stray", "trouble")

    def __init__(self) -> None:
        self.started = 0
        self.trouble = ""  # why no process takes calls; empty while one does
        self.retired = 0
        self.late = 0  # answers that nobody waited for any more
        self.stray = 0  # lines on stdout that are no frames


class _Cancel(Struct, frozen=True):
    """A cancel frame that is not answered yet, and the call to fail when it is."""

    call: Call | None
    due: float


class Channel:
    """The life of one process. `run` it, `greet` it, then `request`.

    Attributes:
        ready: Whether it takes calls.
        features: What both sides announced.
        died_of: Why it ended, once it has; what its calls failed with.
    """

    def __init__(
        self,
        program: PluginProgram,
        child: Child,
        *,
        log: PluginLog,
        counts: Counts,
        max_line: int = MAX_LINE,
    ) -> None:
        self.ready = False
        self.features: frozenset[str] = frozenset()
        self.died_of: PluginFault | None = None
        self._phase = following(Phase.ABSENT, Signal.SPAWNED)
        self._program = program
        self._name = program.name
        self._child = child
        self._log = log
        self._counts = counts
        self._frames = FrameReader(limit=max_line)
        self._calls: dict[Id, Call] = {}
        self._cancels: dict[Id, _Cancel] = {}
        self._outbox: list[bytes] = []
        self._sent = 0  # bytes of all frames that were to be written
        self._unread = 0  # bytes of answers to reverse calls in the outbox
        self._writer: ReplySlot[None] | None = None
        self._read_on: trio.Event | None = None
        self._closing = False
        self._holds = 0
        self._deaf = False  # nobody reads its stdin any more
        self._over = trio.Event()
        self._now = trio.lowlevel.current_clock().current_time
        self._watch_at = float("inf")
        self._watch_scope = trio.CancelScope()
        self._tail = b""
        self._error_lines = _Lines(MAX_LOG_LINE)
        self._shutdown: Id | None = None

    # --- its life -----------------------------------------------------------------------

    async def run(self) -> None:
        """Move frames until the process is over; when this returns, nothing of it is left.

        Cancelled, it ends the process at once.
        """
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write, name=f"{self._name}: writer")
                nursery.start_soon(self._read, name=f"{self._name}: reader")
                nursery.start_soon(self._read_errors, name=f"{self._name}: stderr")
                nursery.start_soon(self._watch, name=f"{self._name}: deadlines")
                nursery.start_soon(self._await_exit, name=f"{self._name}: exit")
                await self._over.wait()
                if self._phase is Phase.DYING:
                    with trio.move_on_after(LAST_BREATH):
                        await self._child.wait()
                nursery.cancel_scope.cancel()
        finally:
            if not self._over.is_set():
                self.died_of = PluginGone(self._name, "heddle is ending it")
            with trio.CancelScope(shield=True):
                await self._bury()

    async def _bury(self) -> None:
        """End what is left of the process, and fail what waited for it."""
        child = self._child
        heard = self._phase is not Phase.ENDING
        child.kill()
        status: int | None = None
        with trio.move_on_after(UNKILLABLE):
            status = await child.wait()
        child.outlet.close()
        # What it wrote before it ended counts. Not without end: what it started may have
        # left its group, and go on writing.
        if heard:
            self._pump_burst()
            self._take(self._frames.end())
        for _ in range(_BURST):
            if data := child.errors.read_nowait():
                self._take_errors(data)
        self._tell_lines(self._error_lines.end())
        child.inlet.close()
        child.errors.close()
        self._signal(Signal.EXITED)
        if self.died_of is None:
            self.died_of = self._gone(status)
            self._fail_all(self.died_of, taken=child.outlet.taken())
        else:
            self._fail_all(self.died_of)

    def _fail_all(self, fault: PluginFault, taken: float = float("inf")) -> None:
        """No call will be answered any more; of what was sent ``taken`` bytes were read."""
        for call in self._calls.values():
            own = fault.again()
            if isinstance(own, PluginGone):
                own.unread = call.end > taken
            call.settle(own)
        for cancel in self._cancels.values():
            if cancel.call is not None:
                cancel.call.settle(self._overdue(cancel.call))
        self._calls.clear()
        self._cancels.clear()

    def _gone(self, status: int | None) -> PluginGone:
        what = ending(status)
        tail = self._tail.decode(errors="replace").strip()
        if tail and not self._program.shared:
            what = f"{what}; on stderr it said: {tail}"
        return PluginGone(self._name, what, status=status)

    def _signal(self, signal: Signal) -> None:
        self._phase = following(self._phase, signal)
        self.ready = PHASES[self._phase].takes_calls
        if self._phase in {Phase.DYING, Phase.ENDING}:
            self._over.set()

    async def greet(self) -> PluginFault | None:
        """Make the handshake; None when it went well, else why not. Takes its time."""
        try:
            raw = await self.request("init", _init_params(self._program))
            greeting = _GREETING.decode(raw)
        except PluginFailed:
            greeting = _Greeting()  # it does not know `init`: version 1
        except PluginFault as fault:
            return fault
        except msgspec.DecodeError:
            greeting = _Greeting()
        if greeting.protocol is not None and greeting.protocol != PROTOCOL:
            self._signal(Signal.REFUSED)
            return ProtocolBroken(
                self._name,
                f"it speaks version {greeting.protocol!r} of the protocol, and heddle "
                f"speaks {PROTOCOL}",
                fix="Install a version of the plugin that speaks the same.",
            )
        self.features = frozenset(
            name for name in greeting.features if isinstance(name, str)
        ).intersection(FEATURES)
        self._signal(Signal.GREETED)
        return None

    def give_up(self) -> None:
        """It did not greet in time: end it."""
        self._signal(Signal.REFUSED)

    async def leave(self) -> None:
        """Ask it to shut down, and wait for its end. One that does not end is killed."""
        self._signal(Signal.STOP_ASKED)
        if self._phase is Phase.LEAVING:
            self._shutdown = next(ids)
            self._closing = True
            self._send(frames.request(self._shutdown, "shutdown"))
            with trio.move_on_after(LEAVE_PATIENCE):
                await self._child.wait()
                return
            self._signal(Signal.OVERDUE)

    # --- calls --------------------------------------------------------------------------

    async def request(
        self,
        verb: str,
        params: bytes,
        services: CallServices | None = None,
        components: Sequence[str] = (),
        patience: float = float("inf"),
        on_partial: Callable[[Raw], None] | None = None,
        elsewhere: Elsewhere | None = None,
    ) -> Raw:
        """Ask, and wait for the answer, a JSON text that has been checked for its form.

        Look at ``ready`` first, unless it is to greet. Cancelled, or when it takes too
        long, the plugin is told to stop; an answer that comes later goes nowhere. When the
        process ends before it has read the question, it is asked ``elsewhere``.

        Raises:
            PluginFault: There is no answer; the class says why.
        """
        # Sent first: the plugin is at work while heddle writes down that it is.
        id_ = next(ids)
        line = b'{"id":%d,"method":"%b","params":%b}\n'
        self._send(line % (id_, verb.encode(), params), callers=0)
        now = self._now()
        call = Call(
            patience,
            now,
            now + patience,
            0,
            0.0,
            verb,
            services,
            components,
            on_partial,
            id_,
            self._sent,
        )
        self._calls[id_] = call
        if call.due < self._watch_at:
            self._watch_from(call.due)
        try:
            await call.wait()
            if call.outcome is None:
                await self._serve_until_settled(call)
        except BaseException:
            self._abandon(call)
            raise
        if call.asked:
            self._refuse_asked(call)
        outcome = call.outcome
        if type(outcome) is Raw:
            return outcome
        assert isinstance(outcome, Exception)
        if elsewhere is not None and isinstance(outcome, PluginGone) and outcome.unread:
            del call, outcome
            return await elsewhere(verb, params, services, components, patience, on_partial)
        try:
            raise outcome
        finally:
            # An error that its own traceback leads back to would be kept for the collector,
            # and with it the run that it ended.
            del call, outcome

    # --- calls that are answered in order -------------------------------------------------

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep the process although it takes no new calls, until the context is left."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
            self._removed()

    @property
    def open(self) -> bool:
        """Whether somebody reads what it is asked."""
        return PHASES[self._phase].answers and not self._deaf

    def submit(self, verb: str, params: bytes, component_type: str) -> Call:
        """Ask without waiting; whoever holds the process collects or abandons the call.

        Its budget of silence is the collector's, for it begins when the calls before it
        are answered.
        """
        never = float("inf")
        call = Call(never, self._now(), never, 0, 0.0, verb, None, (component_type,), None)
        if self.open:
            self._calls[call.id] = call
            line = b'{"id":%d,"method":"%b","params":%b}\n'
            self._send(line % (call.id, verb.encode(), params))
        else:
            gone = self.died_of or PluginGone(self._name, "its process is ending")
            call.settle(gone.again())
        return call

    def settled(self, call: Call) -> bool:
        """Whether it is answered."""
        return call.outcome is not None

    async def collect(self, call: Call, patience: float) -> Raw:
        """The answer of a call that was submitted; waits for ``patience`` seconds.

        Raises:
            PluginFault: There is none.
        """
        if call.outcome is None:
            with trio.move_on_after(patience):
                await call.wait()
            if call.outcome is None:
                self.abandon(call)
                raise PluginOverdue(self._name, patience, verb=call.verb)
        outcome = call.outcome
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def abandon(self, call: Call) -> None:
        """Nobody needs the answer any more."""
        if call.outcome is None:
            self._abandon(call)

    def _abandon(self, call: Call) -> None:
        """The task that waited was cancelled: nobody needs the answer any more."""
        self._refuse_asked(call)
        if self._calls.pop(call.id, None) is not None:
            self._cancel(call, None)
            self._removed()

    def _removed(self) -> None:
        """End a process that was retired, once all that it has read is done with.

        What it has not read by then, it would never get to: others can.
        """
        if self._phase is not Phase.RETIRING or self._holds:
            return
        taken = self._child.outlet.taken() if self._calls else 0
        if all(call.end > taken for call in self._calls.values()):
            self._signal(Signal.EMPTIED)

    def _cancel(self, call: Call, failing: Call | None) -> None:
        """Have the plugin stop a call; ``failing`` learns from the answer where it was."""
        id_ = next(ids)
        due = self._now() + CANCEL_PATIENCE
        self._cancels[id_] = _Cancel(failing, due)
        if due < self._watch_at:
            self._watch_from(due)
        self._send(frames.request(id_, "cancel", b'{"call":%d}' % call.id))

    # --- deadlines ----------------------------------------------------------------------

    def _watch_from(self, due: float) -> None:
        self._watch_at = due
        self._watch_scope.deadline = due

    async def _watch(self) -> None:
        """Give up what is due. One deadline serves all calls: the earliest."""
        while True:
            with trio.CancelScope(deadline=self._watch_at) as self._watch_scope:
                await trio.sleep_forever()
            # The loop may have been busy: an answer that has arrived is in time.
            self._pump_burst()
            self._watch_at = self._give_up(self._now())

    def _give_up(self, now: float) -> float:
        """Give up what is due; the next instant at which something is.

        Not in the task that waits, whose variables would keep a run that has ended.
        """
        for call in [call for call in self._calls.values() if call.due <= now]:
            self._expire(call)
        for id_, cancel in [*self._cancels.items()]:
            if cancel.due <= now:
                self._cancel_ended(id_, stopped=False, at=None)
        dues = [call.due for call in self._calls.values()]
        dues += [cancel.due for cancel in self._cancels.values()]
        return min(dues, default=float("inf"))

    def _expire(self, call: Call) -> None:
        """No answer in time: give up the call, and tell the plugin."""
        del self._calls[call.id]
        if len(call.components) > 1 and PHASES[self._phase].answers:
            self._cancel(call, call)
        else:
            self._cancel(call, None)
            call.settle(self._overdue(call))
        self._removed()

    def _overdue(self, call: Call) -> PluginOverdue:
        alive = call.due >= call.ceiling
        allowed = call.patience * CEILING if alive else call.patience
        return PluginOverdue(self._name, allowed, verb=call.verb, alive=alive, at=call.at)

    def _cancel_ended(self, id_: Id, *, stopped: bool, at: str | None) -> None:
        """A cancel was answered, or it is past its time."""
        cancel = self._cancels.pop(id_)
        if cancel.call is not None:
            cancel.call.at = at or cancel.call.at
            cancel.call.settle(self._overdue(cancel.call))
        if not stopped and self.ready:
            self._retire()

    def _retire(self) -> None:
        self._counts.retired += 1
        self._tell(
            "host",
            f"it did not stop a cancelled call within {CANCEL_PATIENCE:g} s; "
            "a fresh process takes its place",
        )
        self._signal(Signal.RETIRED)
        self._removed()

    # --- the two tasks of the pipes -----------------------------------------------------

    def _send(self, line: bytes, *, callers: int = 1) -> None:
        """Have a frame written; ``callers`` are open calls when nobody else's is."""
        self._sent += len(line)
        if self._deaf:
            return
        if self._writer is None:
            self._outbox.append(line)
            return
        if len(self._calls) == callers and not self._outbox and not self._closing:
            # Nobody else is talking to it, so there is nothing to wait for: the turn of
            # the loop that collects what others send would be a fifth of the way.
            line = self._write_now(line)
            if not line:
                return
        self._outbox.append(line)
        writer, self._writer = self._writer, None
        writer.set(None)

    def _write_now(self, line: bytes) -> bytes:
        """Write a frame; the writer, who sleeps, takes what is left."""
        try:
            written = self._child.outlet.write_nowait(line)
        except OSError:
            return line  # the writer will meet the same, and knows what to do
        if written == len(line):
            self._unread = 0
        return line[written:]

    async def _write(self) -> None:
        outlet = self._child.outlet
        try:
            while True:
                while self._outbox:
                    if len(self._outbox) == 1:
                        data = self._outbox[0]
                    else:
                        data = b"".join(self._outbox)
                    self._outbox.clear()
                    self._unread = 0
                    written = outlet.write_nowait(data)
                    if written < len(data):
                        await self._write_rest(memoryview(data)[written:])
                    if self._read_on is not None:
                        self._read_on.set()
                if self._closing:
                    break
                self._writer = ReplySlot()
                await self._writer.wait()
        except OSError:
            # Nobody reads it: it has ended, or is of no use any more.
            self._outbox.clear()
            self._unread = 0
            self._signal(Signal.HUNG_UP)
        self._deaf = True
        if self._read_on is not None:
            self._read_on.set()
        outlet.close()

    async def _write_rest(self, rest: memoryview) -> None:
        outlet = self._child.outlet
        while rest:
            await outlet.wait_writable()
            rest = rest[outlet.write_nowait(rest) :]

    async def _read(self) -> None:
        inlet = self._child.inlet
        while True:
            await inlet.wait_readable()
            data = inlet.read_nowait()
            if data:
                self._take(self._frames.feed(data))
                while self._unread > MAX_UNREAD:
                    self._read_on = trio.Event()
                    await self._read_on.wait()
            elif data is not None:
                break
        self._take(self._frames.end())
        self._signal(Signal.HUNG_UP)

    def _pump_burst(self) -> None:
        """Read what has arrived, without waiting: more than a pipe holds, and not more."""
        for _ in range(_BURST):
            data = self._child.inlet.read_nowait()
            if not data:
                break
            self._take(self._frames.feed(data))

    async def _await_exit(self) -> None:
        await self._child.wait()
        self._signal(Signal.HUNG_UP)

    async def _read_errors(self) -> None:
        errors = self._child.errors
        while True:
            await errors.wait_readable()
            data = errors.read_nowait()
            if data == b"":
                break
            if data:
                self._take_errors(data)

    def _take_errors(self, data: bytes) -> None:
        self._tail = (self._tail + data[-TAIL:])[-TAIL:]
        self._tell_lines(self._error_lines.feed(data))

    def _tell_lines(self, lines: Sequence[str]) -> None:
        for line in lines:
            self._tell("stderr", line)

    def _tell(self, source: Literal["stdout", "stderr", "host"], text: str) -> None:
        self._log(PluginLine(self._name, source, text))

    # --- what arrives -------------------------------------------------------------------

    def _take(self, arrivals: Sequence[Arrival]) -> None:
        for arrival in arrivals:
            match arrival:
                case Answer(id=id_):
                    call = self._calls.pop(id_, None)
                    if call is not None:
                        call.settle(arrival.result)
                    else:
                        self._answered_otherwise(id_, arrival.result)
                case Progress(id=id_, partial=partial):
                    self._progress(id_, partial)
                case Request(id=id_, method=method, params=params):
                    self._requested(id_, method, params)
                case Refusal(id=id_):
                    self._fail(id_, _failed(self._name, arrival))
                case Unreadable(id=id_, why=why, request=True):
                    self._reply(frames.refusal(id_, "FrameError", why))
                case Unreadable(id=id_, why=why):
                    self._fail(id_, ProtocolBroken(self._name, f"its answer: {why}"))
                case Stray(text=text):
                    self._counts.stray += 1
                    self._tell("stdout", _cut(text, MAX_LOG_LINE))
                case Broken():
                    self._broke(arrival)
        if arrivals and not self.ready:
            self._removed()

    def _answered_otherwise(self, id_: Id, result: Raw) -> None:
        """An answer to no call: to a cancel, to a shutdown, or to nobody any more."""
        if id_ in self._cancels:
            self._cancel_ended(id_, stopped=True, at=_where(result))
        elif id_ != self._shutdown:
            self._counts.late += 1

    def _fail(self, id_: Id, fault: PluginFault) -> None:
        call = self._calls.pop(id_, None)
        if call is not None:
            call.settle(fault)
        elif id_ in self._cancels:
            self._cancel_ended(id_, stopped=False, at=None)
        elif id_ != self._shutdown:
            self._counts.late += 1

    def _broke(self, broken: Broken) -> None:
        error = broken.error(where="")
        self.died_of = ProtocolBroken(
            self._name, error.what, fix=error.fix, quote=error.quote
        )
        self._fail_all(self.died_of)
        self._signal(Signal.BROKE)

    def _progress(self, id_: Id, partial: Raw) -> None:
        call = self._calls.get(id_)
        if call is None:
            self._counts.late += 1
            return
        call.progress(self._now())
        if call.on_partial is not None:
            try:
                call.on_partial(partial)
            except Exception as error:  # noqa: BLE001  its own call's fault, and nobody else's
                del self._calls[id_]
                call.settle(error)
                self._cancel(call, None)
        elif len(call.components) > 1:
            call.at = _where(partial) or call.at

    # --- reverse calls ------------------------------------------------------------------

    def _reply(self, line: bytes) -> None:
        self._unread += len(line)
        self._send(line)

    def _requested(self, id_: Id, verb: str, params: Raw) -> None:
        """The plugin asks for something: see whose call it is, and serve it there."""
        try:
            call, component = self._attribute(verb, params)
            asked = read_asked(verb, params)
            if isinstance(asked, RunTool | CallModel):
                if call.holds >= MAX_REVERSE:
                    raise ReverseRefused(
                        f"{MAX_REVERSE} requests of this call are open already",
                        fix="Wait for some of them first.",
                    )
                call.hand_over((id_, asked, component), self._now())
            else:
                call.progress(self._now())
                assert call.services is not None
                tell(asked, component, call.services)
                self._reply(frames.answer(id_))
        except Fault as fault:
            self._reply(frames.refusal(id_, type(fault).__name__, str(fault)))
        except Exception as error:  # noqa: BLE001  one run's events must not end a shared process
            self._tell("host", f"its {verb} could not be served: {error!r}")
            self._reply(frames.refusal(id_, type(error).__name__, str(error)))

    def _attribute(self, verb: str, params: Raw) -> tuple[Call, str]:
        """The open call that a reverse call was made inside, and for which component."""
        if verb in CAPABILITIES and verb not in self._program.capabilities:
            raise ReverseRefused(
                f"{verb} is not granted to this plugin",
                fix=f"Name {verb!r} in the manifest's 'capabilities'.",
            )
        named = read_attribution(params)
        if named.call is None:
            raise ReverseRefused(
                f"{verb} names no call", fix="Send the id of the request in 'call'."
            )
        call = self._calls.get(named.call)
        if call is None:
            raise ReverseRefused(
                f"the call {named.call!r} is not open: it has ended, or was never this "
                "plugin's",
                fix="Ask while you answer the call, and name its own id.",
            )
        if call.services is None:
            raise ReverseRefused(f"inside {call.verb!r} there is nothing to ask for")
        components = call.components
        if not components:
            return call, ""
        if len(components) > 1 or named.component_type is not None:
            if named.component_type not in components:
                raise ReverseRefused(
                    f"componentType {named.component_type!r} is not asked in this call",
                    fix=f"Name one of: {', '.join(components)}.",
                )
            return call, str(named.component_type)
        return call, components[0]

    def _refuse_asked(self, call: Call) -> None:
        """What was asked for and not begun when the call ended."""
        asked, call.asked = call.asked, ()
        for id_, _, _ in asked:
            self._reply(_too_late(id_))

    async def _serve_until_settled(self, call: Call) -> None:
        """In the task that asked: run what the plugin asks for, until it has answered."""
        async with trio.open_nursery() as nursery:
            while call.outcome is None:
                asked, call.asked = call.asked, ()
                for id_, waited, component in asked:
                    nursery.start_soon(self._serve, call, id_, waited, component)
                await call.wait()
            nursery.cancel_scope.cancel()

    async def _serve(self, call: Call, id_: Id, waited: Waited, component: str) -> None:
        assert call.services is not None
        try:
            line = frames.answer(id_, await serve(waited, component, call.services))
        except trio.Cancelled:
            self._reply(_too_late(id_))
            raise
        except Exception as error:  # noqa: BLE001  whatever a tool raises is told to the plugin
            about = about_error(error)
            line = frames.refusal(id_, type(error).__name__, str(error), about)
        except BaseExceptionGroup as group:
            # It failed while it was being ended. That is nobody's business any more, and
            # the cancellation belongs to whoever cancelled.
            self._reply(_too_late(id_))
            _, rest = group.split(Exception)
            assert rest is not None  # Or it would be an ExceptionGroup.
            raise rest from None
        call.release(self._now())
        if call.due < self._watch_at:
            self._watch_from(call.due)
        self._reply(line)


def _too_late(id_: Id) -> bytes:
    return frames.refusal(id_, "Cancelled", "the call that it was made inside has ended")


class _Greeting(Struct, frozen=True):
    """What a plugin answers to `init`."""

    protocol: Any = None
    features: list[Any] = []


class _At(Struct, frozen=True):
    at: Any = None


_GREETING: Final = msgspec.json.Decoder(_Greeting)
_AT: Final = msgspec.json.Decoder(_At)


def _where(raw: Raw) -> str | None:
    """The component that a plugin says it is at; None when it does not say."""
    try:
        at = _AT.decode(raw).at
    except (msgspec.DecodeError, RecursionError):
        return None
    return at if isinstance(at, str) else None


def _init_params(program: PluginProgram) -> bytes:
    return msgspec.json.encode(
        {
            "protocol": PROTOCOL,
            "events": EVENT_CONTRACT,
            "capabilities": sorted(program.capabilities),
            "seams": HANDSHAKE_SEAMS,
            "halves": HANDSHAKE_HALVES,
            "features": FEATURES,
        }
    )


def _failed(plugin: str, refusal: Refusal) -> PluginFailed:
    return PluginFailed(
        plugin,
        refusal.name,
        _cut(refusal.message, MAX_LOG_LINE),
        status=refusal.status,
        retry_after_ms=refusal.retry_after_ms,
        retryable=refusal.retryable,
    )


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}…"


class _Lines:
    """Cuts stderr into lines for a log. A longer one is cut short, and not kept."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open = b""

    def feed(self, data: bytes) -> list[str]:
        """The lines that these bytes completed."""
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0] = self._open + lines[0]
        else:
            rest = self._open + rest
        self._open = rest[: self._limit + 1]
        return [self._text(line) for line in lines if line.strip()]

    def end(self) -> list[str]:
        """The last line, if nothing ended it."""
        line, self._open = self._open, b""
        return [self._text(line)] if line.strip() else []

    def _text(self, line: bytes) -> str:
        return _cut(
            line[: self._limit + 1].decode(errors="replace").rstrip("\r"), self._limit
        )
