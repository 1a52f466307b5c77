"""The calls that a process has open: what is due when, and what is cancelled.

    open       id ──▶ Call       asked and not answered
    cancels    id ──▶ the call that is failed when the cancel is answered, if any

One deadline serves all: the earliest. A call that is given up is cancelled in the plugin,
and a plugin that does not answer the cancel in time is not to be trusted any more.
"""

from typing import Any, Final, Protocol

import msgspec
import trio
from msgspec import Raw, Struct

from plugins_host import frames
from plugins_host.frames import Id
from plugins_host.plugin_faults import PluginFault, PluginGone, PluginOverdue
from plugins_host.processes.calls import CEILING, Call, ids

# A plugin has this long to stop a cancelled call; past it, it cannot be trusted to have
# stopped. Seconds.
CANCEL_PATIENCE: Final = 0.5


class Process(Protocol):
    """Whose calls they are."""

    @property
    def answers(self) -> bool:
        """Whether what it is sent is read."""
        ...

    def send(self, line: bytes) -> None:
        """Have a frame written."""
        ...

    def look(self) -> None:
        """Take what has arrived already."""
        ...

    def distrust(self) -> None:
        """It did not stop a cancelled call."""
        ...

    def removed(self) -> None:
        """A call was taken away otherwise than by an answer."""
        ...


class _Cancel(Struct, frozen=True):
    """A cancel frame that is not answered yet, and the call to fail when it is."""

    call: Call | None
    due: float


class OpenCalls:
    """The table of one process; `watch` is the task that gives up what is due.

    Attributes:
        open: By id.
        watched: When `watch` looks next, on trio's clock.
        now: The time on that clock.
    """

    def __init__(self, name: str, process: Process) -> None:
        self.open: dict[Id, Call] = {}
        self.watched = float("inf")
        self._name = name
        self._process = process
        self._cancels: dict[Id, _Cancel] = {}
        self.now = trio.lowlevel.current_clock().current_time
        self._scope = trio.CancelScope()

    def __len__(self) -> int:
        """How many frames are not answered, those that cancel included."""
        return len(self.open) + len(self._cancels)

    # --- their end ------------------------------------------------------------------------

    def abandon(self, call: Call) -> None:
        """Nobody needs the answer any more: have it stopped, if it is open."""
        if self.open.pop(call.id, None) is not None:
            self.cancel(call, None)
            self._process.removed()

    def cancel(self, call: Call, failing: Call | None) -> None:
        """Have the plugin stop a call; ``failing`` learns from the answer where it was."""
        id_ = next(ids)
        due = self.now() + CANCEL_PATIENCE
        self._cancels[id_] = _Cancel(failing, due)
        if due < self.watched:
            self.watch_from(due)
        self._process.send(frames.request(id_, "cancel", b'{"call":%d}' % call.id))

    def answered(self, id_: Id, result: Raw | None) -> bool:
        """Take an answer to a cancel, None for an error; False when it is to none."""
        if id_ not in self._cancels:
            return False
        at = None if result is None else where(result)
        self._cancel_ended(id_, stopped=result is not None, at=at)
        return True

    def _cancel_ended(self, id_: Id, *, stopped: bool, at: str | None) -> None:
        """A cancel was answered, or it is past its time."""
        cancel = self._cancels.pop(id_)
        if cancel.call is not None:
            cancel.call.at = at or cancel.call.at
            cancel.call.settle(self._overdue(cancel.call))
        if not stopped:
            self._process.distrust()

    def fail_all(self, fault: PluginFault, taken: float = float("inf")) -> None:
        """No call will be answered any more; of what was sent ``taken`` bytes were read."""
        for call in self.open.values():
            own = fault.again()
            if isinstance(own, PluginGone):
                own.unread = call.end > taken
            call.settle(own)
        for cancel in self._cancels.values():
            if cancel.call is not None:
                cancel.call.settle(self._overdue(cancel.call))
        self.open.clear()
        self._cancels.clear()

    # --- deadlines ------------------------------------------------------------------------

    def watch_from(self, due: float) -> None:
        """Look then: something is due earlier than all that was known."""
        self.watched = due
        self._scope.deadline = due

    async def watch(self) -> None:
        """Give up what is due. One deadline serves all calls: the earliest."""
        while True:
            with trio.CancelScope(deadline=self.watched) as self._scope:
                await trio.sleep_forever()
            # The loop may have been busy: an answer that has arrived is in time.
            self._process.look()
            self.watched = self._give_up(self.now())

    def _give_up(self, now: float) -> float:
        """Give up what is due; the next instant at which something is.

        Not in the task that waits, whose variables would keep a run that has ended.
        """
        for call in [call for call in self.open.values() if call.due <= now]:
            self._expire(call)
        for id_, cancel in [*self._cancels.items()]:
            if cancel.due <= now:
                self._cancel_ended(id_, stopped=False, at=None)
        dues = [call.due for call in self.open.values()]
        dues += [cancel.due for cancel in self._cancels.values()]
        return min(dues, default=float("inf"))

    def _expire(self, call: Call) -> None:
        """No answer in time: give up the call, and tell the plugin."""
        del self.open[call.id]
        if len(call.components) > 1 and self._process.answers:
            self.cancel(call, call)
        else:
            self.cancel(call, None)
            call.settle(self._overdue(call))
        self._process.removed()

    def _overdue(self, call: Call) -> PluginOverdue:
        alive = call.due >= call.ceiling
        allowed = call.patience * CEILING if alive else call.patience
        return PluginOverdue(self._name, allowed, verb=call.verb, alive=alive, at=call.at)


class _At(Struct, frozen=True):
    at: Any = None


_AT: Final = msgspec.json.Decoder(_At)


def where(raw: Raw) -> str | None:
    """The component that a plugin says it is at; None when it does not say."""
    try:
        at = _AT.decode(raw).at
    except (msgspec.DecodeError, RecursionError):
        return None
    return at if isinstance(at, str) else None
