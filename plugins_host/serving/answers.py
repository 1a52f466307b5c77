"""From a question to the handlers that answer it, in a plugin's own process.

    init, shutdown     answered here
    consult            several middleware, asked in order until one settles it
    encode, finish…    one event of a run after the other
    all other verbs    one handler, found by `Dispatch`

Each question is a coroutine. It runs to its end at once, unless its handler is ``async``:
then it asks for a task before it waits.
"""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from plugins_host.authoring.dispatch import Dispatch, arguments
from plugins_host.authoring.handlers import Found, Handlers, HandlerTable
from plugins_host.serving.call import Call
from plugins_host.serving.complaints import described, report
from plugins_host.serving.consulting import Plans, input_of_next
from plugins_host.serving.outbox import Outbox
from plugins_host.serving.wire import Answer, Refusal, encode

if TYPE_CHECKING:
    import asyncio

PROTOCOL: Final = 1
FEATURES: Final = ("consult",)

# A plain handler that took longer than this holds up the answers made before it, so they
# are written before it is called the next time. Seconds.
_SLOW: Final = 0.000_5

# After this long in one frame for several, heddle is told that the next one is asked, so
# that its budget of silence begins anew. Seconds; small against any budget.
_A_WHILE: Final = 0.1

# What is asked before the question ahead of it is answered, and answered as if not.
_IN_TURN: Final = frozenset({"encode", "finishEncode"})


class Answers:
    """The handlers of one plugin process, and how they are asked.

    Args:
        handlers: By component type, as `HandlerTable` reads them.
        tools, list_tools, shutdown: The options of ``serve``.
        outbox: Where answers wait that were made before a handler is called.
        flush: Writes them.
        done: Takes the frame that ends a call.

    Attributes:
        told_to_end: heddle said ``shutdown``.
    """

    def __init__(
        self,
        handlers: Handlers,
        *,
        tools: Mapping[str, Callable[..., Any]],
        list_tools: Callable[[], Any] | None,
        shutdown: Callable[[], Any] | None,
        outbox: Outbox,
        flush: Callable[[], None],
        done: Callable[[Call, bytes], None],
    ) -> None:
        self.told_to_end = False
        self._dispatch = Dispatch(
            HandlerTable(handlers), tools=tools, list_tools=list_tools
        )
        self._plans = Plans(self._dispatch)
        self._shutdown = shutdown
        self._outbox = outbox
        self._flush = flush
        self._done = done
        self._turns: dict[tuple[str, str], asyncio.Lock] = {}

    @property
    def has_goodbye(self) -> bool:
        """Whether the author wrote a ``shutdown`` that was not called yet."""
        return self._shutdown is not None

    async def answer(self, call: Call) -> None:
        """Answer one question."""
        try:
            if call.verb == "consult":
                said = await self._consult(call)
                answer = b'{"id":%b,"result":{"verdicts":[%b]}}' % (encode(call.id), said)
            else:
                answer = encode(Answer(call.id, await self._result(call)))
        except GeneratorExit:
            raise
        except BaseException as error:  # noqa: BLE001  whatever a handler raises is its answer
            label = call.label()
            if not call.cancels:
                report(error, label)
            answer = encode(Refusal(call.id, described(error, label)))
        self._done(call, answer)

    async def say_goodbye(self, call: Call) -> None:
        """Call the author's ``shutdown``, once; ``call`` is what it is done in."""
        shutdown, self._shutdown = self._shutdown, None
        if shutdown is None:
            return
        found = Found(shutdown, "shutdown")
        try:
            await self._handle(call, found, ())
        except Exception as error:  # noqa: BLE001  it ends either way
            report(error, "shutdown")

    # --- one handler -------------------------------------------------------------------

    async def _result(self, call: Call) -> Any:
        verb = call.verb
        if verb == "init":
            return self._greet(call.said())
        if verb == "shutdown":
            self.told_to_end = True
            await self.say_goodbye(call)
            return {}
        call.component_type = call.params.component_type
        found, args, read = self._dispatch.step(verb, call.params, call.said, call)
        if verb in _IN_TURN and (found.is_async or self._turns):
            return read(await self._handle_in_turn(call, found, args))
        return read(await self._handle(call, found, args))

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

    async def _handle_in_turn(self, call: Call, found: Found, args: tuple[Any, ...]) -> Any:
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
        await call.needs_task()
        async with turn:
            try:
                return await self._handle(call, found, args)
            finally:
                if call.verb == "finishEncode":
                    self._turns.pop(key, None)

    async def _handle(self, call: Call, found: Found, args: tuple[Any, ...]) -> Any:
        """What a handler returns, whichever way it was written."""
        if not found.is_async:
            return self._handle_plain(call, found, args)
        call.plain = False
        await call.needs_task()
        return await found.function(*args)

    def _handle_plain(self, call: Call, found: Found, args: tuple[Any, ...]) -> Any:
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

    # --- several in one frame ----------------------------------------------------------

    async def _consult(self, call: Call) -> bytes:
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
        consent, outbox = plan.consent, self._outbox
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
                    # As `_handle_plain`, with one look at the clock between two of them,
                    # no coroutine, and no call where nothing waits that nobody looks after:
                    # together they would be a quarter of the frame.
                    call.plain = True
                    if found.slow:
                        self._flush()
                    elif outbox.waiting and not outbox.awake:
                        outbox.look_after()
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
                verdicts.append(b"%b%b}" % (step.said, encode(verdict)))
            except GeneratorExit:
                raise
            except BaseException as error:  # whatever a handler raises is its answer
                if call.cancels:
                    raise
                label = call.label()
                report(error, label)
                failed = {"componentType": step.name, "error": described(error, label)}
                verdicts.append(encode(failed))
                break
            left = None if call.cancels else input_of_next(plan, params, given, verdict)
            if left is None:
                break
            given = left
        return b",".join(verdicts)
