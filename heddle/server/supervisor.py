"""The parent of the workers: starts, watches and replaces them, and serves nothing itself.

    first worker loads  ->  the others load  ->  the port is opened  ->  all serve
    SIGHUP              the same with new workers; then those that served retire
    SIGTERM, SIGINT     all drain; the second one does not wait
    a worker ends       it is replaced, at once the first time, then after longer waits

It is one plain loop without tasks or threads, since it forks. Everything that can go wrong
with what the flags name goes wrong in the first worker that reads it, so that it is told
once. Sockets to listen on are the parent's, and all workers accept from the same ones: who
comes while workers change waits in their queue, and is lost to none.
"""

import gc
import os
import selectors
import signal
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum, auto
from math import inf
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from heddle.server.notify import notify
from heddle.server.numbers import add_gone
from heddle.server.serve import GRACE
from heddle.server.worker import Given, Load, run_worker
from heddle.server.workers import LEAVING, SERVING, STATE, Board, Ledger, Mailboxes, Peers
from heddle.server.workers import control as wire
from heddle.server.workers.orphans import end_with
from plugins_host import Fault, shortage

if TYPE_CHECKING:
    from heddle.server.http import Listener
    from heddle.server.logs import DirectLog

ROWS_EACH: Final = 4
"""Generations of workers that may be there at once, while old ones wait for long runs."""

FIRST_WAIT: Final = 0.25
LONGEST_WAIT: Final = 30.0
"""Seconds until a worker that ended is replaced; doubled each time."""

ALONE_WAIT: Final = 1.0
"""The longest of these waits where no other worker serves meanwhile."""

LIVED: Final = 60.0
"""Seconds of service after which an end is not taken for a part of a series."""

LATE: Final = 10.0
"""Seconds beyond what a worker has for its end, after which it is killed."""

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


class WorkerFailed(Fault):
    """A worker did not come to serve. What it said is the message, or how it ended."""


class Phase(Enum):
    """What a worker is doing, as far as the parent knows."""

    LOADING = auto()
    LOADED = auto()
    GOING = auto()
    SERVING = auto()
    LEAVING = auto()


class Child:
    """A worker."""

    def __init__(self, row: int, pid: int, control: socket.socket, age: int) -> None:
        self.row = row
        self.pid = pid
        self.control = control
        self.age = age
        self.phase = Phase.LOADING
        self.since = time.monotonic()
        self.kill_at = inf
        self.heard = b""
        self.broken = ""

    def order(self, order: bytes) -> None:
        """Tell it something; one that is gone need not know."""
        with suppress(OSError):
            self.control.send(order)


class Plan(Struct, frozen=True):
    """What is to be supervised.

    Attributes:
        load: As of `heddle.server.worker`.
        bind: Opens the port; called once.
        count: How many workers.
        max_concurrent: Runs at a time, of all together.
        drain_timeout: Seconds.
        json_logs: How logs look.
        tls: Whether workers speak TLS on the port.
    """

    load: Load
    bind: "Callable[[], Sequence[Listener]]"
    count: int
    max_concurrent: int
    drain_timeout: float
    json_logs: bool
    tls: bool = False


class Supervisor:
    """Starts the workers of a plan, and ends with them."""

    def __init__(self, plan: Plan, log: "DirectLog", lock: int) -> None:
        self._plan = plan
        self._log = log
        self._lock = lock
        rows = max(8, plan.count * ROWS_EACH)
        self._board = Board(rows)
        self._ledger = Ledger(rows)
        self._mail = Mailboxes(rows)
        self._listeners: Sequence[Listener] = ()
        self._children: dict[int, Child] = {}
        self._started = time.time()
        self._age = 0
        # The age of workers that are to take over; None when there are none.
        self._coming: int | None = None
        self._again = False
        self._stopping = False
        self._failure: WorkerFailed | None = None
        self._waits: list[float] = []
        self._failures = 0
        self._selector = selectors.DefaultSelector()

    def run(self) -> None:
        """Serve until told to end.

        Raises:
            WorkerFailed: The first workers did not come to serve.
            Fault: The port can't be opened.
        """
        wake_up, waker = socket.socketpair()
        for end in (wake_up, waker):
            end.setblocking(False)
        before = signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        handlers = {each: signal.signal(each, _noted) for each in _SIGNALS}
        self._selector.register(wake_up, selectors.EVENT_READ, None)
        try:
            self._begin()
            while self._children or self._waits:
                self._turn(wake_up)
            if self._failure is not None:
                raise self._failure
        finally:
            self._end_all()
            for number, handler in handlers.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(before)
            self._selector.close()
            wake_up.close()
            waker.close()
            for listener in self._listeners:
                listener.close()
        self._log.say("info", "stopped")

    # What happens

    def _turn(self, wake_up: socket.socket) -> None:
        deadlines = [*self._waits, *(each.kill_at for each in self._children.values())]
        until = min(deadlines, default=inf)
        timeout = None if until == inf else max(0.0, until - time.monotonic())
        for key, _ in self._selector.select(timeout):
            if key.data is None:
                for number in wake_up.recv(256):
                    self._signalled(number)
            elif key.data.pid in self._children:
                self._listen(key.data)
        self._reap()
        now = time.monotonic()
        for child in self._children.values():
            if child.kill_at <= now:
                child.kill_at = inf
                self._log.say("error", "worker killed", worker=child.row, pid=child.pid)
                os.kill(child.pid, signal.SIGKILL)
        due = [each for each in self._waits if each <= now]
        self._waits = [each for each in self._waits if each > now]
        for _ in due:
            self._fork(self._age)

    def _signalled(self, number: int) -> None:
        if number in (signal.SIGTERM, signal.SIGINT):
            self._stop()
        elif number == signal.SIGHUP and not self._stopping:
            if self._coming is None:
                self._log.say("info", "reloading")
                notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")
                self._begin()
            else:
                self._again = True

    def _listen(self, child: Child) -> None:
        try:
            data = child.control.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            # It is about to be gone, or closed this by mistake: then it can't be led.
            self._selector.unregister(child.control)
            return
        heard, child.heard = wire.words(child.heard + data)
        for word in heard:
            match word:
                case wire.Loaded(warnings=warnings):
                    child.phase = Phase.LOADED
                    self._loaded(child, warnings)
                case wire.Serving():
                    self._serves(child)
                case wire.Broken(message=message):
                    child.broken = message

    def _loaded(self, child: Child, warnings: Sequence[str]) -> None:
        if self._stopping:
            child.order(wire.HURRY)
            return
        if child.age != self._coming:
            self._go(child)
            return
        ours = self._of(child.age)
        if len(ours) == 1 < self._plan.count or self._plan.count == 1:
            for warning in warnings:
                self._log.say("warning", warning)
        for _ in range(self._plan.count - len(ours)):
            if not self._fork(child.age):
                return
        ours = self._of(child.age)
        if all(each.phase is Phase.LOADED for each in ours):
            if not self._listeners:
                self._listeners = self._plan.bind()
            for each in ours:
                self._go(each)

    def _serves(self, child: Child) -> None:
        if child.phase is not Phase.GOING:
            return
        child.phase = Phase.SERVING
        child.since = time.monotonic()
        self._board.set(child.row, STATE, SERVING)
        ours = self._of(child.age)
        if child.age != self._coming:
            self._log.say("info", "worker replaced", worker=child.row, pid=child.pid)
            return
        if any(each.phase is not Phase.SERVING for each in ours):
            return
        self._coming = None
        first = not self._age
        self._age = child.age
        self._waits.clear()
        for each in self._children.values():
            if each.age != self._age and each.phase is not Phase.LEAVING:
                self._leave(each, wire.RETIRE)
        pids = [each.pid for each in ours]
        if first:
            for listener in self._listeners:
                self._log.say(
                    "info", "listening", address=self._url(listener), pid=os.getpid(),
                    workers=pids,
                )  # fmt: skip
        else:
            self._log.say("info", "reloaded", workers=pids)
        notify("READY=1", f"STATUS=Serving with {len(ours)} workers")
        if self._again:
            self._again = False
            self._signalled(signal.SIGHUP)

    def _reap(self) -> None:
        for child in tuple(self._children.values()):
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            if pid:
                # What it said last may not have been read.
                with suppress(KeyError, ValueError):
                    self._listen(child)
                self._gone(child, os.waitstatus_to_exitcode(status))

    def _gone(self, child: Child, status: int) -> None:
        """It has ended: clear up behind it, and see what follows."""
        del self._children[child.pid]
        with suppress(KeyError, ValueError):
            self._selector.unregister(child.control)
        child.control.close()
        self._ledger.settle(child.row, add_gone)
        self._board.clear(child.row)
        self._mail.empty(child.row)
        if self._stopping or child.phase is Phase.LEAVING:
            return
        why = child.broken or f"a worker {_how(status)}"
        if child.age == self._coming:
            self._failed(why)
            return
        served = child.phase is Phase.SERVING
        if served and time.monotonic() - child.since > LIVED:
            self._failures = 0
        self._board.count_restart()
        self._log.say(
            "error", "worker ended", worker=child.row, pid=child.pid,
            reason=why, restart_seconds=self._again_later(),
        )  # fmt: skip

    def _again_later(self) -> float:
        """Have a worker started after a while; the seconds until then."""
        wait = wait_after(self._failures, somebody=bool(self._of(self._age)))
        self._failures += 1
        self._waits.append(time.monotonic() + wait)
        return wait

    def _not_started(self, age: int, error: OSError) -> None:
        """There was no process to be had: those who serve go on without."""
        why = str(shortage(error, starting=True) or error)
        if age == self._coming:
            self._failed(f"a worker cannot be started: {why}")
            return
        wait = self._again_later()
        self._log.say("error", "worker not started", reason=why, restart_seconds=wait)

    def _failed(self, why: str) -> None:
        """Those who were to take over can't."""
        for each in self._of(self._coming or 0):
            self._leave(each, wire.HURRY)
        self._coming = None
        if self._age:
            self._log.say("error", "reload failed", reason=why, kept="the old workers")
            notify("READY=1")
        else:
            self._failure = WorkerFailed(why)
            self._stopping = True

    # What is done

    def _begin(self) -> None:
        """Begin with workers that are to take over, one first."""
        if len(self._children) + self._plan.count > self._board.rows:
            self._log.say("error", "reload failed", reason="too many old workers are left")
            notify("READY=1")
            return
        self._coming = 1 + max((each.age for each in self._children.values()), default=0)
        self._fork(self._coming)

    def _fork(self, age: int) -> bool:
        """Start a worker; whether there were the means to."""
        taken = {each.row for each in self._children.values()}
        row = next((n for n in range(self._board.rows) if n not in taken), None)
        if row is None:
            self._waits.append(time.monotonic() + LONGEST_WAIT)
            return True
        try:
            pid, ours = self._begun(row)
        except OSError as error:
            self._not_started(age, error)
            return False
        child = Child(row, pid, ours, age)
        self._children[pid] = child
        self._selector.register(ours, selectors.EVENT_READ, child)
        return True

    def _begun(self, row: int) -> tuple[int, socket.socket]:
        """A new process, and our end of the way to it."""
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setblocking(False)
        gc.freeze()
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError:
            for end in (ours, theirs):
                end.close()
            raise
        if not pid:
            self._be_worker(row, theirs, ours, parent)
        theirs.close()
        return pid, ours

    def _be_worker(
        self, row: int, control: socket.socket, parents: socket.socket, parent: int
    ) -> None:
        """What the child does from here on; does not return."""
        status = 70
        try:
            end_with(parent)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            # An end that a sibling held open would never tell that the parent is gone.
            parents.close()
            for each in self._children.values():
                each.control.close()
            self._selector.close()
            peers = Peers(
                self._board,
                self._mail,
                self._ledger,
                row,
                self._plan.max_concurrent,
                self._started,
            )
            status = run_worker(
                Given(self._plan.load, control, peers, self._lock, self._plan.json_logs)
            )
        except BaseException:  # noqa: BLE001  nothing of the parent's may go on here
            import traceback

            self._log.say(
                "error", "worker failed", worker=row, traceback=traceback.format_exc()
            )
        finally:
            os._exit(status)

    def _go(self, child: Child) -> None:
        child.phase = Phase.GOING
        places = [wire.Place(each.host, each.path) for each in self._listeners]
        with suppress(OSError):
            wire.hand_over(child.control, places, [each.sock for each in self._listeners])

    def _leave(self, child: Child, order: bytes) -> None:
        patience = self._plan.drain_timeout + GRACE + LATE
        if order == wire.HURRY:
            patience = LATE
        if child.phase is Phase.SERVING:
            self._board.set(child.row, STATE, LEAVING)
        child.phase = Phase.LEAVING
        child.kill_at = min(child.kill_at, time.monotonic() + patience)
        child.order(order)

    def _stop(self) -> None:
        """Let all end; the second time at once."""
        self._waits.clear()
        order = wire.HURRY if self._stopping else wire.DRAIN
        if not self._stopping:
            self._log.say("info", "draining", workers=len(self._children))
            notify("STOPPING=1")
        for child in self._children.values():
            if order == wire.HURRY or child.phase is not Phase.LEAVING:
                self._leave(child, order)
        self._stopping = True

    def _end_all(self) -> None:
        """Nothing is left behind, whatever happened."""
        for child in self._children.values():
            self._leave(child, wire.HURRY)
        while self._children:
            until = time.monotonic() + LATE
            for child in tuple(self._children.values()):
                while not os.waitpid(child.pid, os.WNOHANG)[0]:
                    if time.monotonic() > until:
                        os.kill(child.pid, signal.SIGKILL)
                    time.sleep(0.01)
                del self._children[child.pid]
                child.control.close()

    def _url(self, listener: "Listener") -> str:
        """Where clients find it, which the parent opened without its certificate."""
        address = listener.address
        return address.replace("http:", "https:", 1) if self._plan.tls else address

    def _of(self, age: int) -> list[Child]:
        return [
            each
            for each in self._children.values()
            if each.age == age and each.phase is not Phase.LEAVING
        ]


def wait_after(failures: int, *, somebody: bool) -> float:
    """Seconds until a worker that ended is replaced, after so many that did before it.

    ``somebody`` is whether another serves meanwhile.
    """
    longest = LONGEST_WAIT if somebody else ALONE_WAIT
    return min(longest, FIRST_WAIT * 2.0 ** min(failures, 10))


def _noted(_: int, __: object) -> None:
    """The loop is woken by the number that the interpreter writes."""


def _how(status: int) -> str:
    if status < 0:
        with suppress(ValueError):  # not all numbers have a name
            return f"was ended by {signal.Signals(-status).name}"
        return f"was ended by signal {-status}"
    return f"ended with status {status}"
