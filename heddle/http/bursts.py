"""Small sends of one turn of the event loop, made together at its end.

Who sends a little, works a tenth of a millisecond for another run, and sends a little again
finds the other side asleep each time, and waking it is the larger part of a send on one
machine. Sends that come one right after the other find it awake. So where many runs take
turns, answers and requests that nothing follows wait for the end of the turn, or until
there are enough of them; nobody waits longer than for those who were to be served anyway.

    with open_bursts():
        …                               wires that are made here wait for each other
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

import trio

SMALL: Final = 8 * 1024
"""Bytes that may wait: what a socket with nothing on its way takes whole."""

_ENOUGH: Final = 16


class Sender(Protocol):
    """A wire on which something waits to be sent."""

    def send_waiting(self) -> None:
        """Send what waits, if it still does. Waits for nothing and raises nothing."""
        ...

    def resume(self) -> None:
        """Wake the task that waits on the wire, if there is something left to be sent."""
        ...


class Bursts(trio.abc.Instrument):
    """What waits for the end of this turn of the loop."""

    def __init__(self) -> None:
        self._waiting: list[Sender] = []
        self._token = trio.lowlevel.current_trio_token()

    def add(self, sender: Sender) -> None:
        """Have ``sender`` send soon; at once when it is one too many."""
        self._waiting.append(sender)
        if len(self._waiting) >= _ENOUGH:
            self.flush()

    def flush(self) -> None:
        """Send what waits."""
        waiting, self._waiting = self._waiting, []
        for sender in waiting:
            sender.send_waiting()

    def before_io_wait(self, timeout: float) -> None:  # noqa: ARG002  as trio calls it
        """Called by trio when all tasks of a turn have had it."""
        if self._waiting:
            self.flush()

    def wake(self, sender: Sender) -> None:
        """Have ``sender`` told soon to `resume`: the loop may be at its wait already."""
        self._token.run_sync_soon(sender.resume)


_of_this_loop: Final = trio.lowlevel.RunVar[Bursts | None](
    "heddle.http.bursts", default=None
)


def bursts_of_this_loop() -> Bursts | None:
    """None where each send is made at once."""
    return _of_this_loop.get()


@contextmanager
def open_bursts() -> Iterator[Bursts]:
    """Have wires that are made from now on in this event loop wait for each other."""
    bursts = Bursts()
    trio.lowlevel.add_instrument(bursts)
    token = _of_this_loop.set(bursts)
    try:
        yield bursts
    finally:
        _of_this_loop.reset(token)
        trio.lowlevel.remove_instrument(bursts)
        bursts.flush()
