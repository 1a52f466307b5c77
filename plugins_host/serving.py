"""Answers heddle's questions in a process of the plugin's own: the loop under ``serve``.

Frames come in on stdin and go out on what was stdout, one JSON object a line. Plain
handlers are called in order as their questions are read, and all the answers to one read
go out in one write. The first ``async`` handler moves the loop into asyncio, which is
imported only then: a plugin starts as fast as its imports do.

    read → inbox of frames → a coroutine per question → out → write
                             └ runs to its end at once, unless it needs to wait
"""

import io
import os
import select
import sys
import time
import types
from collections import deque
from collections.abc import (
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct

from plugins_host.authoring import HostError
from plugins_host.consulting import Plans, edited
from plugins_host.dispatch import Dispatch, Question, arguments
from plugins_host.handlers import (
    AnswerInvalid,
    Found,
    HandlerMissing,
    Handlers,
    HandlerTable,
    about_error,
    describe_error,
)
from plugins_host.outbox import Outbox

if TYPE_CHECKING:
    import asyncio

PROTOCOL: Final = 1
FEATURES: Final = ("consult",)

# A pipe holds this much by default, so that one read empties it. Larger reads cost twice
# the time for large states: their buffers come fresh from the system each time.
_READ: Final = 64 * 1024

# A plain handler that took longer than this holds up the answers made before it, so they
# are written before it is called the next time. Seconds.
_SLOW: Final = 0.000_5

# After this long in one frame for several, heddle is told that the next one is asked, so
# that its budget of silence begins anew. Seconds; small against any budget.
_A_WHILE: Final = 0.1

# How long the coroutines that are at work when stdin closes may take to end. Seconds;
# heddle kills the process after one.
_LAST_WORDS: Final = 0.8

# When the process ends whatever still goes on in it, seconds after stdin closed: when
# heddle itself was killed nobody else ends a coroutine that will not be cancelled.
_OUTLIVED: Final = 1.0

# What is asked before the question ahead of it is answered, and answered as if not.
_IN_TURN: Final = frozenset({"encode", "finishEncode"})

Id: TypeAlias = int | float | str | None

_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode


class _Params(Question, frozen=True, rename="camel"):
    """What any question may carry beside a consultation's own."""

    half: str = ""
    ask: Raw = Raw()
    checked: bool = False
    call: Id = None


class _Frame(Struct, frozen=True):
    """Any frame that heddle sends: a question, or what became of a reverse call."""

    id: Id = None
    method: str = ""
    params: _Params | None = None
    result: Any = UNSET
    error: Any = UNSET


class _Answer(Struct, frozen=True):
    id: Id
    result: Any


class _Refusal(Struct, frozen=True):
    id: Id
    error: dict[str, Any]


_NO_PARAMS: Final = _Params()
_decode_frame: Final = msgspec.json.Decoder(_Frame).decode

# What a question yields, once, when it is about to wait: it needs a task from then on.
_NEEDS_TASK: Final = object()


@types.coroutine
def _enter_task() -> Generator[object, None, None]:
    yield _NEEDS_TASK


class _Call(Struct, eq=False, weakref=True):
    """One question that is being answered; what its handler asks of heddle goes through it.

    ``plain`` says that its handler was not written with ``async def``. ``cancels`` are the
    ids of the ``cancel`` frames that named it: they are answered when it has ended.
    """

    server: "Server"
    id: Id = None
    verb: str = ""
    params: _Params = _NO_PARAMS
    line: bytes = b"{}"
    component_type: str = ""
    plain: bool = True
    in_task: bool = False
    task: "asyncio.Task[None] | None" = None
    cancels: list[Id] = []
    woken: "asyncio.Event | None" = None

    def said(self) -> dict[str, Any]:
        """All that the question carries, for the verbs that are not asked often."""
        params = _decode(self.line).get("params")
        return params if isinstance(params, dict) else {}

    def label(self) -> str:
        """How errors call what is being answered."""
        where = self.params.seam and f" {self.params.seam}.{self.params.half or self.verb}"
        return f"{self.component_type or self.verb}{where}"

    @property
    def signal(self) -> "_Call":
        """Its own cancellation."""
        return self

    @property
    def cancelled(self) -> bool:
        """Whether heddle cancelled it; looks itself: a plain handler keeps the loop."""
        if self.plain and not self.cancels:
            self.server.look_for_cancels()
        return bool(self.cancels)

    async def wait(self) -> None:
        """Return once it is cancelled."""
        import asyncio

        if self.woken is None:
            self.woken = asyncio.Event()
        if not self.cancels:
            await self.woken.wait()

    async def ask(self, verb: str, params: dict[str, Any]) -> Any:
        """Make a reverse call and wait for its result."""
        import asyncio

        server = self.server
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        id = server.reverse(self, verb, params)  # noqa: A001  a frame's word
        server.replies[id] = answer
        try:
            return await answer
        finally:
            server.replies.pop(id, None)

    def tell(self, verb: str, params: dict[str, Any]) -> None:
        """Make a reverse call and go on."""
        self.server.reverse(self, verb, params)

    def partial(self, chunk: Any) -> None:
        """Report progress."""
        self.server.send(_encode({"id": self.id, "partial": chunk}), now=self.plain)


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
        self._dispatch = Dispatch(
            HandlerTable(handlers), tools=tools, list_tools=list_tools
        )
        self._plans = Plans(self._dispatch)
        self._shutdown = shutdown
        self._source = source
        self._inbox: deque[tuple[_Frame, bytes]] = deque()
        self._cut: list[bytes] = []
        self._outbox = Outbox(target)
        self._ended = False
        self._told_to_end = False
        self._calls: dict[Id, _Call] = {}
        self._starting: list[tuple[_Call, Coroutine[Any, Any, None]]] = []
        self._last_reverse = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._flushing = False
        self._closed: asyncio.Event | None = None
        self._turns: dict[tuple[str, str], asyncio.Lock] = {}
        self.replies: dict[int, asyncio.Future[Any]] = {}

    # --- the loop ----------------------------------------------------------------------

    def run(self) -> None:
        """Answer until heddle closes stdin."""
        while not self._ended and not self._starting:
            self._read()
            self._serve_inbox()
        if self._starting or self._shutdown is not None:
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
        if self._shutdown is not None:
            await self._say_goodbye(_Call(self, in_task=True))
        self._flush()

    async def _end_tasks(self) -> None:
        """Nobody asks any more: who is still at it may finish, unless told to end."""
        import asyncio

        for patience in (0.0 if self._told_to_end else _LAST_WORDS / 2, _LAST_WORDS / 2):
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
                self._inbox.append((_decode_frame(line), line))
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
            refusal = _Refusal(
                frame.get("id"), {"name": "ProtocolError", "message": message}
            )
            self.send(_encode(refusal))

    def _serve_inbox(self) -> None:
        inbox = self._inbox
        while inbox:
            frame, line = inbox.popleft()
            if not frame.method:
                self._settle(frame)
            elif frame.method == "cancel":
                self._cancel(frame)
            else:
                params = frame.params or _NO_PARAMS
                call = _Call(self, frame.id, frame.method, params, line)
                self._calls[frame.id] = call
                self._begin(call, self._answer(call))
        self._flush()

    def _begin(self, call: _Call, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a question to its end, or to where it has to wait."""
        try:
            coroutine.send(None)
        except StopIteration:
            return
        if self._loop is None:
            self._starting.append((call, coroutine))
        else:
            self._start_task(call, coroutine)

    def _start_task(self, call: _Call, coroutine: Coroutine[Any, Any, None]) -> None:
        assert self._loop is not None
        call.task = self._loop.create_task(coroutine)
        if call.cancels:
            call.task.cancel()

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

    def reverse(self, call: _Call, verb: str, params: dict[str, Any]) -> int:
        """Send a reverse call made inside ``call``; its id."""
        self._last_reverse = id = self._last_reverse + 1  # noqa: A001  a frame's word
        attributed = {"call": call.id, "componentType": call.component_type, **params}
        frame = _encode({"id": id, "method": verb, "params": attributed})
        self.send(frame, now=call.plain)
        return id

    # --- in ----------------------------------------------------------------------------

    def _settle(self, frame: _Frame) -> None:
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

    def _cancel(self, frame: _Frame) -> None:
        call = self._calls.get(frame.params.call) if frame.params is not None else None
        if call is None:
            self.send(_encode(_Answer(frame.id, {})))
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

    async def _answer(self, call: _Call) -> None:
        try:
            if call.verb == "consult":
                said = await self._consult(call)
                answer = b'{"id":%b,"result":{"verdicts":[%b]}}' % (_encode(call.id), said)
            else:
                answer = _encode(_Answer(call.id, await self._result(call)))
        except GeneratorExit:
            raise
        except BaseException as error:  # noqa: BLE001  whatever a handler raises is its answer
            label = call.label()
            if not call.cancels:
                report(error, label)
            answer = _encode(_Refusal(call.id, _described(error, label)))
        del self._calls[call.id]
        if call.cancels:
            stopped = {"at": call.component_type} if call.verb == "consult" else {}
            for cancel in call.cancels:
                self.send(_encode(_Answer(cancel, stopped)))
        else:
            self.send(answer)

    async def _result(self, call: _Call) -> Any:
        verb = call.verb
        if verb == "init":
            return self._greet(call.said())
        if verb == "shutdown":
            self._told_to_end = True
            await self._say_goodbye(call)
            return {}
        call.component_type = call.params.component_type
        found, args, read = self._dispatch.step(verb, call.params, call.said, call)
        if verb in _IN_TURN and (found.is_async or self._turns):
            return read(await self._handle_in_turn(call, found, args))
        return read(await self._handle(call, found, args))

    async def _handle_in_turn(
        self, call: _Call, found: Found, args: tuple[Any, ...]
    ) -> Any:
        """What an encoder returns. It is asked ahead, and sees one event at a time.

        Its turns are by run: one that waits holds up the later events of its own run.
        """
        params = call.params
        key = (params.component_type, params.run_id)
        turn = self._turns.get(key)
        if turn is None and not found.is_async:
            return self._handle_plain(call, found, args)
        import asyncio

        if turn is None:
            turn = self._turns[key] = asyncio.Lock()
        if not call.in_task:
            call.in_task = True
            await _enter_task()
        async with turn:
            try:
                return await self._handle(call, found, args)
            finally:
                if call.verb == "finishEncode":
                    self._turns.pop(key, None)

    async def _handle(self, call: _Call, found: Found, args: tuple[Any, ...]) -> Any:
        """What a handler returns, whichever way it was written."""
        if not found.is_async:
            return self._handle_plain(call, found, args)
        call.plain = False
        if not call.in_task:
            call.in_task = True
            await _enter_task()
        return await found.function(*args)

    def _handle_plain(self, call: _Call, found: Found, args: tuple[Any, ...]) -> Any:
        """What a plain handler returns."""
        call.plain = True
        if found.slow:
            self._flush()
        else:
            self._outbox.look_after()
        began = time.perf_counter()
        try:
            return found.function(*args)
        finally:
            found.slow = time.perf_counter() - began > _SLOW

    async def _consult(self, call: _Call) -> bytes:
        """Ask several in order, as heddle would one by one; the first that settles ends it.

        A modified input is encoded before the next is asked, so that what one handler does
        to its copy changes nobody else's. A verdict that does not count here ends it too:
        heddle refuses it, and nobody is asked after a fault. Each has the budget of silence
        that it would have alone: heddle is told where the walk is when that took a while.
        Where heddle checks a modified input, it asks those that are left by itself.
        """
        params = call.params
        half = params.half
        given = params.input
        plan = self._plans.find(params.seam, half, params.ask)
        consent = plan.consent
        verdicts: list[bytes] = []
        told = now = time.perf_counter()
        for step in plan.steps:
            call.component_type = step.name
            if now - told > _A_WHILE:
                told = now
                call.partial({"at": step.name})
            try:
                found = step.found or self._dispatch.half(step.name, params.seam, half)
                args = arguments(params, half, step.component, given, plan.admits, call)
                if found.is_async:
                    answer = await self._handle(call, found, args)
                    now = time.perf_counter()
                else:
                    # As `_handle_plain`, with one look at the clock between two of them
                    # and no coroutine, which together would be a fifth of the frame.
                    call.plain = True
                    if found.slow:
                        self._flush()
                    else:
                        self._outbox.look_after()
                    began = now
                    try:
                        answer = found.function(*args)
                    finally:
                        now = time.perf_counter()
                        found.slow = now - began > _SLOW
                if type(answer) is dict and answer == consent:
                    verdicts.append(step.consent)
                    if call.cancels:
                        break
                    continue
                verdict = found.read_verdict(answer)
                encoded = _encode(verdict)
            except GeneratorExit:
                raise
            except BaseException as error:  # whatever a handler raises is its answer
                if call.cancels:
                    raise
                report(error, call.label())
                described = _described(error, call.label())
                verdicts.append(_encode({"componentType": step.name, "error": described}))
                break
            verdicts.append(b"%b%b}" % (step.said, encoded))
            if call.cancels:
                break
            action = verdict.get("action")
            if action == consent["action"]:
                continue
            if action != "modify" or not plan.takes_modify or params.checked:
                break
            if not isinstance(verdict.get("input"), Mapping):
                break
            if params.seam != "modelCall":
                given = Raw(_encode(verdict["input"]))
            else:
                changed = edited(given, verdict["input"])
                if changed is None:
                    break
                given = changed
        return b",".join(verdicts)

    def _greet(self, said: dict[str, Any]) -> dict[str, Any]:
        admits: dict[tuple[str, str], tuple[str, ...]] = {}
        for seam, admitted in dict(said.get("seams") or {}).items():
            for half in ("before", "after"):
                admits[seam, half] = tuple(admitted)
        for seam, halves in dict(said.get("halves") or {}).items():
            for half in ("before", "after"):
                admits[seam, half] = tuple(halves.get(half, ()))
        self._dispatch.admits = admits
        return {"protocol": PROTOCOL, "features": FEATURES}

    async def _say_goodbye(self, call: _Call) -> None:
        shutdown, self._shutdown = self._shutdown, None
        if shutdown is None:
            return
        found = Found(shutdown, "shutdown")
        try:
            await self._handle(call, found, ())
        except Exception as error:  # noqa: BLE001  it ends either way
            report(error, "shutdown")


def _described(error: BaseException, label: str) -> dict[str, Any]:
    name, message = describe_error(error, label)
    # A message is anybody's text; half a surrogate pair in it must not lose the answer.
    told = {"name": name, "message": message.encode(errors="replace").decode()}
    return {**told, **about_error(error)}


def _error_text(error: Any) -> str:
    if isinstance(error, dict):
        return str(error.get("message", error))
    return str(error)


def complain(text: str) -> None:
    """Say something to whoever reads this process's stderr."""
    # Nobody may be reading, and answers matter more than complaints.
    with suppress(OSError, ValueError):
        sys.stderr.write(f"heddle.plugin: {text}\n")
        sys.stderr.flush()


def report(error: BaseException, label: str) -> None:
    """Write where a handler failed to stderr, for its author."""
    if isinstance(error, HandlerMissing | AnswerInvalid):
        complain(str(error))
        return
    import traceback

    # What the author can do something about begins below this file.
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    lines = traceback.format_exception(type(error), error, trace)
    complain(f"{label} failed\n{''.join(lines)}")


# The module that is being imported into heddle, where a call of ``serve`` would take
# heddle's own stdin and stdout.
_importing: list[str] = []


@contextmanager
def importing(source: str) -> Iterator[None]:
    """While a plugin is imported into heddle, ``serve`` refuses."""
    _importing.append(source)
    try:
        yield
    finally:
        _importing.pop()


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


def serve(
    handlers: Handlers,
    *,
    tools: Mapping[str, Callable[..., Any]] | None = None,
    list_tools: Callable[[], Any] | None = None,
    shutdown: Callable[[], Any] | None = None,
) -> None:
    """Answer heddle's questions with ``handlers`` until heddle ends this process.

    stdout belongs to the protocol, so what is printed goes to stderr from here on, in this
    process and in those that it starts; stdin is empty for everybody else.

    Args:
        handlers: By component type, then by seam and half, or by name for other kinds:
            ``{"RetryPolicy": {"nodeError": {"after": function}}}``. Functions are plain or
            async and take ``(event, ctx)``. A class with methods ``after_node_error`` does
            as well. Plain functions are called one after the other; while an async one
            waits, the next question is answered.
        tools: Functions ``(input, ctx) -> {"output": …}`` by the name of the tool.
        list_tools: Returns ``{"tools": […]}``, for a manifest that says discoverTools.
        shutdown: Called when heddle ends the plugin. It has a second.
    """
    if _importing:
        raise RuntimeError(
            "serve() was called while heddle imported the module; guard it with "
            "if __name__ == '__main__':"
        )
    if os.isatty(0):
        complain(
            "this is a heddle plugin, and waits for questions on stdin; run it with "
            "heddle run --plugin, or try it with heddle plugin check"
        )
    source, target = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    server = Server(
        handlers,
        tools=tools or {},
        list_tools=list_tools,
        shutdown=shutdown,
        source=source,
        target=target,
    )
    try:
        server.run()
    except KeyboardInterrupt:
        # Ctrl-C on a terminal reaches the whole group; heddle is ending this process too.
        sys.exit(130)
