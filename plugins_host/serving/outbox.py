"""What a plugin process has to say: written together, and held up by nothing.

All frames of one turn go out in one write, which is worth twice the throughput. But a
turn may call a handler that was quick a thousand times and now sleeps for a minute, and
the answers made before it must not wait for that. So a thread looks after them: it is
started when first an answer waits while a handler runs, and asleep when none does.
"""

import os
import time
from _thread import allocate_lock, start_new_thread
from typing import Final

# How long a frame may wait in a turn that turns out slow. Seconds; the thread looks twice
# in that time, so that a busy plugin spends some 50 µs of each 10 ms on it.
HELD_UP: Final = 0.02


class Outbox:
    """Frames on their way to a pipe.

    Attributes:
        waiting: What is not written yet.
        awake: Whether the thread looks after it.
        gone: Nobody reads the pipe any more.
    """

    __slots__ = (
        "_lock",
        "_started",
        "_target",
        "_turn",
        "_wake",
        "awake",
        "gone",
        "waiting",
    )

    def __init__(self, target: int) -> None:
        self.gone = False
        self._target = target
        self.waiting: list[bytes] = []
        self._lock = allocate_lock()
        self._started = False
        self.awake = False
        self._turn = 0
        self._wake = allocate_lock()

    def put(self, frame: bytes) -> None:
        """Add a frame, to be written by the next `flush`."""
        self.waiting.append(frame)

    def flush(self) -> None:
        """Write all there is. Blocks while the pipe is full."""
        self._turn += 1
        if self.waiting:
            self._write()

    def _write(self) -> None:
        with self._lock:
            # One step each, so that a frame put meanwhile is in the one or in the other.
            frames = self.waiting[:]
            del self.waiting[: len(frames)]
            if not frames:
                return
            frames.append(b"")
            data = b"\n".join(frames)
            try:
                written = os.write(self._target, data)
                if written < len(data):
                    rest = memoryview(data)[written:]
                    while rest:
                        rest = rest[os.write(self._target, rest) :]
            except OSError:
                # heddle is gone, and with it whoever this was for.
                self.gone = True

    def look_after(self) -> None:
        """What is waiting may have to wait for long: see to it that it does not."""
        if self.awake or not self.waiting:
            return
        if not self._started:
            self._started = True
            self._wake.acquire()
            start_new_thread(self._look, ())
        with self._lock:
            if not self.awake:
                self.awake = True
                self._wake.release()

    def _look(self) -> None:  # pragma: no cover  coverage does not look into this thread
        while True:
            self._wake.acquire()
            while self._still_needed():
                if self.waiting:
                    self._write()

    def _still_needed(self) -> bool:  # pragma: no cover  the same thread
        """Whether frames are put or waiting still; goes to sleep when not."""
        seen = self._turn
        time.sleep(HELD_UP / 2)
        with self._lock:
            # Asleep first and then a look: who puts a frame after the look sees that it has
            # to wake us, and who put one before is seen.
            self.awake = False
            self.awake = self._turn != seen or bool(self.waiting)
            return self.awake
