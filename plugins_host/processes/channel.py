"""One plugin process at work: frames out and in, calls matched to answers, its end.

    request ─▶ outbox ─▶ one writer task ─▶ stdin     all that waits goes in one write
    slot   ◀─ calls   ◀─ one reader task ◀─ stdout    all that arrived is read in one pass

A `Channel` lives as long as its process. What it may do is its phase (`lifecycle`); who
starts the next one is `process`. Whoever waits for an answer waits in its own task: a
reverse call runs there too, so that it belongs to the run and ends with it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Literal

import trio
from msgspec import Raw

from plugins_host import frames
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
from plugins_host.plugin_faults import (
    PluginFailed,
    PluginFault,
    PluginGone,
    PluginOverdue,
    ProtocolBroken,
    ending,
    failed,
)
from plugins_host.plugin_log import (
    MAX_LOG_LINE,
    Counts,
    Lines,
    PluginLine,
    PluginLog,
    shortened,
)
from plugins_host.processes.calls import Call, Elsewhere, Onward, ids
from plugins_host.processes.child import LAST_BREATH, LEAVE_PATIENCE, UNKILLABLE, Child
from plugins_host.processes.greeting import agreed, init_params
from plugins_host.processes.lifecycle import PHASES, Phase, Signal, following
from plugins_host.processes.onward import goes_on
from plugins_host.processes.open_calls import CANCEL_PATIENCE, OpenCalls, where
from plugins_host.processes.reverse_serving import ReverseServing
from plugins_host.processes.writer import Writer
from plugins_host.program import PluginProgram
from plugins_host.reverse import CallServices

# Answers to reverse calls that a plugin may leave unread before heddle stops reading it:
# a plugin that asks without end and listens to nothing must not cost memory without end.
MAX_UNREAD: Final = 16 * 1024 * 1024

# Reads in a row without waiting: together more than a pipe holds.
_BURST: Final = 16


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
        self._writer = Writer(child.outlet)
        self._calls = OpenCalls(self._name, self)
        self._open = self._calls.open
        self._reverse = ReverseServing(
            self._calls,
            program.capabilities,
            reply=self._reply,
            tell=lambda text: self._tell("host", text),
        )
        self._holds = 0
        self._over = trio.Event()
        self._now = trio.lowlevel.current_clock().current_time
        self._error_lines = Lines(MAX_LOG_LINE)
        self._shutdown: Id | None = None
        # Which of its streams it closed first, and whether it went on then.
        self._closed = ""
        self._went_on = False

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
                nursery.start_soon(self._calls.watch, name=f"{self._name}: deadlines")
                nursery.start_soon(self._await_exit, name=f"{self._name}: exit")
                await self._over.wait()
                if self._phase is Phase.DYING:
                    with trio.move_on_after(LAST_BREATH) as breath:
                        await self._child.wait()
                    self._went_on = bool(self._closed) and breath.cancelled_caught
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
            self.look()
            self._take(self._frames.end())
        for _ in range(_BURST):
            if data := child.errors.read_nowait():
                self._tell_lines(self._error_lines.feed(data))
        self._tell_lines(self._error_lines.end())
        child.inlet.close()
        child.errors.close()
        self._signal(Signal.EXITED)
        if self.died_of is None:
            self.died_of = self._gone(status)
            self._calls.fail_all(self.died_of, taken=child.outlet.taken())
        else:
            self._calls.fail_all(self.died_of)

    def _gone(self, status: int | None) -> PluginGone:
        what, fix = ending(status), ""
        if self._went_on:
            what = f"it closed its {self._closed} and went on, so heddle ended it"
            fix = "stdin and stdout carry the protocol: leave both open."
        tail = self._error_lines.tail.decode(errors="replace").strip()
        if tail and not self._program.shared:
            what = f"{what}; on stderr it said: {tail}"
        return PluginGone(self._name, what, fix=fix, status=status)

    def _signal(self, signal: Signal) -> None:
        self._phase = following(self._phase, signal)
        self.ready = PHASES[self._phase].takes_calls
        if self._phase in {Phase.DYING, Phase.ENDING}:
            self._over.set()

    async def greet(self, patience: float) -> PluginFault | None:
        """Make the handshake; None when it went well, else why not."""
        raw: Raw | None = None
        init = self.submit("init", init_params(self._program), "")
        try:
            # No sign of life makes it longer.
            raw = await self.collect(init, patience)
        except PluginFailed:
            pass  # it does not know `init`
        except PluginFault as fault:
            return fault
        finally:
            # The error in it must not lead back to itself.
            del init
        try:
            self.features = agreed(self._name, raw)
        except ProtocolBroken as fault:
            self._signal(Signal.REFUSED)
            return fault
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
            self._writer.finish()
            self.send(frames.request(self._shutdown, "shutdown"))
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
        onward: Onward | None = None,
    ) -> Raw:
        """Ask, and wait for the answer, a JSON text that has been checked for its form.

        Look at ``ready`` first, unless it is to greet. Cancelled, or when it takes too
        long, the plugin is told to stop; an answer that comes later goes nowhere. When the
        process ends before it has read the question, it is asked ``elsewhere``. As long as
        ``onward`` has another question to an answer, that is asked, and the last answer is
        what this returns.

        Raises:
            PluginFault: There is no answer; the class says why.
        """
        # Sent first: the plugin is at work while heddle writes down that it is.
        id_ = next(ids)
        line = b'{"id":%d,"method":"%b","params":%b}\n'
        self._writer.send(line % (id_, verb.encode(), params), alone=not self._open)
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
            self._writer.sent,
            onward=onward,
            params=params,
        )
        self._open[id_] = call
        if call.due < self._calls.watched:
            self._calls.watch_from(call.due)
        try:
            await call.wait()
            if call.outcome is None:
                call.onward = None
                await self._reverse.serve_until_settled(call)
        except BaseException:
            self._abandon(call)
            raise
        if call.asked:
            self._reverse.refuse_asked(call)
        outcome = call.outcome
        if type(outcome) is Raw:
            return outcome
        assert isinstance(outcome, Exception)
        if elsewhere is not None and isinstance(outcome, PluginGone) and outcome.unread:
            asked = call.verb, call.params, call.services, call.components, call.patience
            del call, outcome, params, services
            return await elsewhere(*asked, on_partial)
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
            self.removed()

    @property
    def open(self) -> bool:
        """Whether somebody reads what it is asked."""
        return PHASES[self._phase].answers and not self._writer.deaf

    def submit(self, verb: str, params: bytes, component_type: str) -> Call:
        """Ask without waiting; whoever holds the process collects or abandons the call.

        Its budget of silence is the collector's, for it begins when the calls before it
        are answered.
        """
        never = float("inf")
        call = Call(never, self._now(), never, 0, 0.0, verb, None, (component_type,), None)
        if self.open:
            self._open[call.id] = call
            line = b'{"id":%d,"method":"%b","params":%b}\n'
            self.send(line % (call.id, verb.encode(), params))
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
            with trio.move_on_after(max(0.0, patience)):
                await call.wait()
            if call.outcome is None:
                # The loop may have been busy, or all of heddle suspended: an answer that
                # has arrived is in time.
                self.look()
            if call.outcome is None:
                self.abandon(call)
                raise PluginOverdue(self._name, patience, verb=call.verb)
        outcome = call.outcome
        if not isinstance(outcome, Exception):
            return outcome
        try:
            raise outcome
        finally:
            # As in `request`: not for the collector.
            del call, outcome

    def abandon(self, call: Call) -> None:
        """Nobody needs the answer any more."""
        if call.outcome is None:
            self._abandon(call)

    def _abandon(self, call: Call) -> None:
        """The task that waited was cancelled: nobody needs the answer any more."""
        self._reverse.refuse_asked(call)
        self._calls.abandon(call)

    def removed(self) -> None:
        """End a process that was retired, once all that it has read is done with.

        What it has not read by then, it would never get to: others can.
        """
        if self._phase is not Phase.RETIRING or self._holds:
            return
        taken = self._child.outlet.taken() if self._open else 0
        if all(call.end > taken for call in self._open.values()):
            # At once: what it reads from here on would count as begun, and fail with it.
            self._child.kill()
            self._signal(Signal.EMPTIED)

    def distrust(self) -> None:
        """It did not stop a cancelled call: let it finish the others, and take no more."""
        if not self.ready:
            return
        self._counts.retired += 1
        self._tell(
            "host",
            f"it did not stop a cancelled call within {CANCEL_PATIENCE:g} s; "
            "a fresh process takes its place",
        )
        self._signal(Signal.RETIRED)
        self.removed()

    # --- the pipes ------------------------------------------------------------------------

    @property
    def answers(self) -> bool:
        """Whether it is in a phase in which what it is sent is read."""
        return PHASES[self._phase].answers

    def send(self, line: bytes) -> None:
        """Have a frame written; the call that it is about is open, if any is."""
        self._writer.send(line, alone=len(self._open) == 1)

    def _reply(self, line: bytes) -> None:
        self._writer.reply(line, alone=len(self._open) == 1)

    async def _write(self) -> None:
        if not await self._writer.run():
            self._hung_up("stdin")

    async def _read(self) -> None:
        inlet = self._child.inlet
        while True:
            await inlet.wait_readable()
            data = inlet.read_nowait()
            if data:
                self._take(self._frames.feed(data))
                while self._writer.unread > MAX_UNREAD:
                    await self._writer.wrote()
            elif data is not None:
                break
        self._take(self._frames.end())
        self._hung_up("stdout")

    def _hung_up(self, closed: str) -> None:
        self._closed = self._closed or closed
        self._signal(Signal.HUNG_UP)

    def look(self) -> None:
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
                self._tell_lines(self._error_lines.feed(data))

    def _tell_lines(self, lines: Sequence[str]) -> None:
        for line in lines:
            self._tell("stderr", line)

    def _tell(self, source: Literal["stdout", "stderr", "host"], text: str) -> None:
        self._log(PluginLine(self._name, source, text))

    # --- what arrives -------------------------------------------------------------------

    def _take(self, arrivals: Sequence[Arrival]) -> None:
        calls, writer = self._calls, self._writer
        for arrival in arrivals:
            match arrival:
                case Answer(id=id_):
                    call = self._open.pop(id_, None)
                    if call is None:
                        self._answered_otherwise(id_, arrival.result)
                    elif not (self.ready and goes_on(call, arrival.result, calls, writer)):
                        call.settle(arrival.result)
                case Progress(id=id_, partial=partial):
                    self._progress(id_, partial)
                case Request(id=id_, method=method, params=params):
                    self._reverse.requested(id_, method, params)
                case Refusal(id=id_):
                    self._fail(id_, failed(self._name, arrival))
                case Unreadable(id=id_, why=why, request=True):
                    self._reply(frames.refusal(id_, "FrameError", why))
                case Unreadable(id=id_, why=why):
                    self._fail(id_, ProtocolBroken(self._name, f"its answer: {why}"))
                case Stray(text=text):
                    self._tell("stdout", shortened(text, MAX_LOG_LINE))
                case Broken():
                    self._broke(arrival)
        if arrivals and not self.ready:
            self.removed()

    def _answered_otherwise(self, id_: Id, result: Raw | None) -> None:
        """An answer to no call: to a cancel, to a shutdown, or to nobody any more."""
        if not self._calls.answered(id_, result) and id_ != self._shutdown:
            self._counts.late += 1

    def _fail(self, id_: Id, fault: PluginFault) -> None:
        call = self._open.pop(id_, None)
        if call is not None:
            call.settle(fault)
        else:
            self._answered_otherwise(id_, None)

    def _broke(self, broken: Broken) -> None:
        error = broken.error(where="")
        self.died_of = ProtocolBroken(
            self._name, error.what, fix=error.fix, quote=error.quote
        )
        self._calls.fail_all(self.died_of)
        self._signal(Signal.BROKE)

    def _progress(self, id_: Id, partial: Raw) -> None:
        call = self._open.get(id_)
        if call is None:
            self._counts.late += 1
            return
        call.progress(self._now())
        if call.on_partial is not None:
            try:
                call.on_partial(partial)
            except Exception as error:  # noqa: BLE001  its own call's fault, and nobody else's
                del self._open[id_]
                call.settle(error)
                self._calls.cancel(call, None)
        elif len(call.components) > 1:
            call.at = where(partial) or call.at
