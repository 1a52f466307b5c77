"""What a plugin asks of heddle, served: in the run whose call it was made inside.

    {"id", "method": "runTool", "params": {"call": 7, …}}  ─▶ the task that waits for call 7

What takes time runs in the task that asked the plugin, so that it belongs to that run and
ends with it; an event or a line for the log is told at once.
"""

from collections.abc import Callable, Collection

import trio
from msgspec import Raw

from plugins_host import frames
from plugins_host.authoring.handlers import about_error
from plugins_host.faults import Fault
from plugins_host.frames import Id
from plugins_host.processes.calls import MAX_REVERSE, Call
from plugins_host.processes.open_calls import OpenCalls
from plugins_host.program import CAPABILITIES
from plugins_host.reverse import (
    CallModel,
    ReverseRefused,
    RunTool,
    Waited,
    read_asked,
    read_attribution,
    serve,
    tell,
)


class ReverseServing:
    """Serves one process.

    Args:
        calls: What the process has open.
        capabilities: What it may ask for.
        reply: Has an answer written.
        tell: Told of what heddle itself did wrong.
    """

    def __init__(
        self,
        calls: OpenCalls,
        capabilities: Collection[str],
        *,
        reply: Callable[[bytes], None],
        tell: Callable[[str], None],
    ) -> None:
        self._calls = calls
        self._capabilities = capabilities
        self._reply = reply
        self._tell = tell
        self._now = trio.lowlevel.current_clock().current_time

    def requested(self, id_: Id, verb: str, params: Raw) -> None:
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
            self._tell(f"its {verb} could not be served: {error!r}")
            self._reply(frames.refusal(id_, type(error).__name__, str(error)))

    def _attribute(self, verb: str, params: Raw) -> tuple[Call, str]:
        """The open call that a reverse call was made inside, and for which component."""
        if verb in CAPABILITIES and verb not in self._capabilities:
            raise ReverseRefused(
                f"{verb} is not granted to this plugin",
                fix=f"Name {verb!r} in the manifest's 'capabilities'.",
            )
        named = read_attribution(params)
        if named.call is None:
            raise ReverseRefused(
                f"{verb} names no call", fix="Send the id of the request in 'call'."
            )
        call = self._calls.open.get(named.call)
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

    def refuse_asked(self, call: Call) -> None:
        """What was asked for and not begun when the call ended."""
        asked, call.asked = call.asked, ()
        for id_, _, _ in asked:
            self._reply(_too_late(id_))

    async def serve_until_settled(self, call: Call) -> None:
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
        if call.due < self._calls.watched:
            self._calls.watch_from(call.due)
        self._reply(line)


def _too_late(id_: Id) -> bytes:
    return frames.refusal(id_, "Cancelled", "the call that it was made inside has ended")
