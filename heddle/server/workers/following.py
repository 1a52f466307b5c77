"""A run of a sibling, followed for a socket: its frames as the sibling encoded them.

    kind (1 byte)  length (4 bytes)  a WebSocket frame, whole

The sibling frames events once for all who follow them, here or there, and its reader lags
by its own rule when the client of the socket is slow: what is not taken here stays there.
"""

from collections.abc import Callable
from typing import Final

import trio

from heddle.server.failures import unknown_run
from heddle.server.workers.peers import Incoming, Peers

MORE: Final = 0
END: Final = 1
_HEAD: Final = 5


def pack(kind: int, frame: bytes) -> bytes:
    """A frame as it travels."""
    return kind.to_bytes(1) + len(frame).to_bytes(4) + frame


class Remote:
    """A reader of a sibling's run, by its frames. Used by one task, fed by another.

    Attributes:
        run: The run's id.
        over: Whether the end of the run has been taken.
    """

    def __init__(self, run: str, start: int, ready: Callable[[], object]) -> None:
        self.run = run
        self.over = False
        self._start = start
        self._ready = ready
        self._scope = trio.CancelScope()
        self._frames: list[bytes] = []
        self._taken = trio.Event()
        self._ended = False

    def take(self) -> bytes:
        """What there is; nothing means that ``ready`` is called when there is more."""
        data = b"".join(self._frames)
        self._frames.clear()
        self._taken.set()
        self.over = self._ended
        return data

    def close(self) -> None:
        """Want no more."""
        self._scope.cancel()

    async def follow(self, peers: Peers, row: int) -> None:
        """Read until the end of the run or `close`.

        Raises:
            Refusal: There is no such run, or its worker is gone before the run has ended.
        """
        with self._scope:
            query = (("from", str(self._start)),)
            incoming = await peers.open(row, "GET", f"/-/follow/{self.run}", query)
            try:
                if incoming.status != 200:
                    raise unknown_run()
                await self._read(incoming)
            finally:
                incoming.close()

    async def _read(self, incoming: Incoming) -> None:
        waiting = b""
        while not self._ended:
            data = await incoming.next()
            waiting += data
            at = 0
            while len(waiting) - at >= _HEAD:
                end = at + _HEAD + int.from_bytes(waiting[at + 1 : at + _HEAD])
                if len(waiting) < end:
                    break
                self._ended = waiting[at] == END
                self._frames.append(waiting[at + _HEAD : end])
                at = end
            waiting = waiting[at:]
            if self._frames:
                self._taken = trio.Event()
                self._ready()
                await self._taken.wait()
            if not data:
                return
