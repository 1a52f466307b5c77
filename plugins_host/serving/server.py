"""The loop of a plugin's own process: frames in on one pipe, and out on another.

Plain handlers are called in order as their questions are read, and all the answers to one
read go out in one write. The first ``async`` handler moves the loop into asyncio, which is
imported only then: a plugin starts as fast as its imports do.

    read → inbox of frames → a coroutine per question → out → write
                             └ runs to its end at once, unless it needs to wait
"""

import os
import select
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET

from plugins_host.authoring.handlers import Handlers
from plugins_host.authoring.surface import HostError
from plugins_host.serving.answers import Answers
from plugins_host.serving.call import Call
from plugins_host.serving.complaints import complain
from plugins_host.serving.outbox import Outbox
from plugins_host.serving.wire import (
    NO_PARAMS,
    Answer,
    Frame,
    Id,
    Refusal,
    decode_frame,
    encode,
)

if TYPE_CHECKING:
    import asyncio

# A pipe holds this much by default, so that one read empties it. Larger reads cost twice
# the time for large states: their buffers come fresh from the system each time.
_READ: Final = 64 * 1024

# How long the coroutines that are at work when stdin closes may take to end. Seconds;
# heddle kills the process after one.
_LAST_WORDS: Final = 0.8

# When the process ends whatever still goes on in it, seconds after stdin closed: when
# heddle itself was killed nobody else ends a coroutine that will not be cancelled.
_OUTLIVED: Final = 1.0


class Server:
    """The questions, answers and reverse calls of one plugin process.

    Args:
        handlers: By component type, as `HandlerTable` reads them.
        tools, list_tools, shutdown: The options of ``serve``.
        source, target: File descriptors of the two pipes.
    """

    def __init__(
        self,
        handlers: Handlers,
        *,
        tools: Mapping[str, Callable[..., Any]],
        list_tools: Callable[[], Any] | None,
        shutdown: Callable[[], Any] | None,
        source: int,
        target: int,
    ) -> None:
        self._source = source
        self._inbox: deque[tuple[Frame, bytes]] = deque()
        self._cut: list[bytes] = []
        self._outbox = Outbox(target)
        self._ended = False
        self._calls: dict[Id, Call] = {}
        self._starting: list[tuple[Call, Coroutine[Any, Any, None]]] = []
        self._last_reverse = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._flushing = False
        self._closed: asyncio.Event | None = None
        self.replies: dict[int, asyncio.Future[Any]] = {}
        self._answers = Answers(
            handlers,
            tools=tools,
            list_tools=list_tools,
            shutdown=shutdown,
            outbox=self._outbox,
            flush=self._flush,
            done=self._done,
        )

    # --- the loop ----------------------------------------------------------------------

    def run(self) -> None:
        """Answer until heddle closes stdin."""
        while not self._ended and not self._starting:
            self._read()
            self._serve_inbox()
        if self._starting or self._answers.has_goodbye:
            import asyncio

            asyncio.run(self._run_in_asyncio())
        elif (threading := sys.modules.get("threading")) and threading.active_count() > 1:
            _end_for_certain()

    async def _run_in_asyncio(self) -> None:
        import asyncio

        self._loop = loop = asyncio.get_running_loop()
        self._closed = asyncio.Event()
        starting, self._starting = self._starting, []
        for call, coroutine in starting:
            self._start_task(call, coroutine)
        try:
            if not self._ended:
                loop.add_reader(self._source, self._readable)
                await self._closed.wait()
        except PermissionError:
            # A file cannot be waited for, and need not be: reading it never blocks.
            while not self._ended:
                self._read()
                self._serve_inbox()
                await asyncio.sleep(0)
        _end_for_certain()
        await self._end_tasks()
        if self._answers.has_goodbye:
            await self._answers.say_goodbye(Call(self, in_task=True))
        self._flush()

    async def _end_tasks(self) -> None:
        """Nobody asks any more: who is still at it may finish, unless told to end."""
        import asyncio

        for patience in (
            0.0 if self._answers.told_to_end else _LAST_WORDS / 2,
            _LAST_WORDS / 2,
        ):
            tasks = [call.task for call in self._calls.values() if call.task is not None]
            if tasks:
                await asyncio.wait(tasks, timeout=patience)
            for task in tasks:
                task.cancel()

    def _readable(self) -> None:
        self._read()
        self._serve_inbox()
        if self._ended and self._loop is not None and self._closed is not None:
            self._loop.remove_reader(self._source)
            self._closed.set()

    def _read(self) -> None:
        try:
            chunk = os.read(self._source, _READ)
        except InterruptedError:  # pragma: no cover  PEP 475 retries all but odd handlers
            return
        if not chunk:
            self._ended = True
            self._take((b"".join(self._cut),))
            self._cut.clear()
            return
        lines = chunk.split(b"\n")
        if len(lines) == 1:
            self._cut.append(chunk)
            return
        if self._cut:
            lines[0] = b"".join((*self._cut, lines[0]))
        tail = lines.pop()
        self._cut = [tail] if tail else []
        self._take(lines)

    def _take(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            try:
                self._inbox.append((decode_frame(line), line))
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
                if line.strip():
                    self._unreadable(line, error)

    def _unreadable(self, line: bytes, error: Exception) -> None:
        """heddle said something that this version cannot read: say so under its id."""
        try:
            frame = msgspec.json.decode(line, type=dict[str, Any])
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            complain(f"heddle sent a line that is no frame: {line[:200]!r}")
            return
        if "method" in frame:
            message = f"this frame cannot be read: {error}"
            refusal = Refusal(
                frame.get("id"), {"name": "ProtocolError", "message": message}
            )
            self.send(encode(refusal))

    def _serve_inbox(self) -> None:
        inbox = self._inbox
        while inbox:
            frame, line = inbox.popleft()
            if not frame.method:
                self._settle(frame)
            elif frame.method == "cancel":
                self._cancel(frame)
            else:
                params = frame.params or NO_PARAMS
                call = Call(self, frame.id, frame.method, params, line)
                self._calls[frame.id] = call
                self._begin(call, self._answers.answer(call))
        self._flush()

    def _begin(self, call: Call, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a question to its end, or to where it has to wait."""
        try:
            coroutine.send(None)
        except StopIteration:
            return
        if self._loop is None:
            self._starting.append((call, coroutine))
        else:
            self._start_task(call, coroutine)

    def _start_task(self, call: Call, coroutine: Coroutine[Any, Any, None]) -> None:
        assert self._loop is not None
        call.task = self._loop.create_task(coroutine)
        if call.cancels:
            call.task.cancel()

    def _done(self, call: Call, answer: bytes) -> None:
        """A question has its answer; who cancelled it hears that alone."""
        del self._calls[call.id]
        if call.cancels:
            stopped = {"at": call.component_type} if call.verb == "consult" else {}
            for cancel in call.cancels:
                self.send(encode(Answer(cancel, stopped)))
        else:
            self.send(answer)

    # --- out ---------------------------------------------------------------------------

    def send(self, frame: bytes, *, now: bool = False) -> None:
        """Write a frame: ``now``, or with the others that this turn brings."""
        self._outbox.put(frame)
        if now:
            self._flush()
        elif self._loop is not None and not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        self._outbox.flush()
        if self._outbox.gone:
            self._ended = True
            if self._closed is not None:
                self._closed.set()

    def reverse(self, call: Call, verb: str, params: dict[str, Any]) -> int:
        """Send a reverse call made inside ``call``; its id."""
        self._last_reverse = id = self._last_reverse + 1  # noqa: A001  a frame's word
        attributed = {"call": call.id, "componentType": call.component_type, **params}
        frame = encode({"id": id, "method": verb, "params": attributed})
        self.send(frame, now=call.plain)
        return id

    # --- in ----------------------------------------------------------------------------

    def _settle(self, frame: Frame) -> None:
        """heddle answered a reverse call."""
        refused = frame.error is not UNSET
        waiting = self.replies.get(frame.id) if isinstance(frame.id, int) else None
        if waiting is None:
            if refused:
                complain(f"heddle refused a call: {_error_text(frame.error)}")
        elif waiting.done():
            return
        elif refused:
            error = frame.error if isinstance(frame.error, dict) else {}
            name = str(error.get("name", "Error"))
            waiting.set_exception(HostError(name, _error_text(frame.error), error))
        else:
            waiting.set_result(None if frame.result is UNSET else frame.result)

    def _cancel(self, frame: Frame) -> None:
        call = self._calls.get(frame.params.call) if frame.params is not None else None
        if call is None:
            self.send(encode(Answer(frame.id, {})))
            return
        call.cancels.append(frame.id)
        if call.woken is not None:
            call.woken.set()
        if call.task is not None:
            call.task.cancel()

    def look_for_cancels(self) -> None:
        """Read what has arrived and act on the ``cancel`` frames in it; the rest waits."""
        while not self._ended and select.select([self._source], [], [], 0)[0]:
            self._read()
        waiting = [entry for entry in self._inbox if entry[0].method == "cancel"]
        for entry in waiting:
            params = entry[0].params
            if params is not None and params.call in self._calls:
                self._inbox.remove(entry)
                self._cancel(entry[0])


def _error_text(error: Any) -> str:
    if isinstance(error, dict):
        return str(error.get("message", error))
    return str(error)


def _end_for_certain() -> None:
    """End this process soon, though coroutines and threads of handlers go on in it."""
    import threading

    def end() -> None:
        # Who read it may be gone as well.
        with suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(0)

    timer = threading.Timer(_OUTLIVED, end)
    timer.daemon = True
    timer.start()
