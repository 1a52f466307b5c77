"""What one client asks for on its socket, and what is done about it.

    run                     a run begun, and followed from its first event
    subscribe, unsubscribe  one that is there followed, here or on another worker
    cancel                  one ended
    watch, unwatch          the status of the server
    auth, ping

Each message is a row of a table. What is wrong with one is told, and the socket stays open;
answers and events go out by way of `Outgoing`.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import trio
from msgspec import Raw
from trio_websocket import WebSocketConnection

from heddle.server.endings import ShownError, Stop, forget_frames
from heddle.server.failures import status_of, told, unknown_run
from heddle.server.http import Refusal
from heddle.server.runs.handle import CancelOutcome, RunHandle
from heddle.server.service import Service
from heddle.server.sockets import frames
from heddle.server.sockets.outgoing import Outgoing
from heddle.server.sockets.stream import HANDSHAKE, POLICY_VIOLATION, SharedStream
from heddle.server.status.watch import StatusWatch
from heddle.server.submitted.submission import (
    Boolean,
    Number,
    Text,
    read_field,
    read_object,
)
from heddle.server.tokens import is_token, unauthorised
from plugins_host import Fault, one_of

if TYPE_CHECKING:
    from heddle.server.workers import Remote

MAX_FOLLOWED: Final = 1024
"""Runs that one socket follows at a time: many more than a page shows."""

LONGEST_REF: Final = 256
"""Characters of what a client calls a run that it asks for."""


class Session:
    """What one client has asked for.

    Args:
        known: Whether it need not say who it is.
        request: The id of the request for this socket, in the log of its runs.

    Attributes:
        outgoing: What the client is owed; its `write` is a task beside `read`.
    """

    def __init__(
        self,
        service: Service,
        socket: WebSocketConnection,
        stream: SharedStream,
        nursery: trio.Nursery,
        *,
        known: bool,
        request: str = "",
    ) -> None:
        self.outgoing = Outgoing(socket, stream, self._owes_more)
        self._service = service
        self._socket = socket
        self._stream = stream
        self._nursery = nursery
        self._known = known
        self._request = request
        # Those that end with the socket.
        self._own: dict[str, RunHandle] = {}

    async def read(self) -> None:
        """Do what the client asks for, until the socket is closed."""
        if not self._known and not await self._introduced():
            return
        while True:
            await self._take(await self._socket.get_message())
            await self.outgoing.wait_room()

    async def _introduced(self) -> bool:
        """Whether the first message says who it is."""
        with trio.move_on_after(HANDSHAKE):
            try:
                fields = self._fields(await self._socket.get_message())
                if read_field(fields, "type", Text) == "auth":
                    self._authorise(fields)
            except Fault:
                self._known = False
        if self._known:
            return True
        refusal = told(unauthorised(), self._service.conceal)
        with trio.move_on_after(HANDSHAKE):
            await self._stream.send_all(frames.frame(frames.error(refusal)))
            await self._socket.aclose(POLICY_VIOLATION, "unauthorized")
        return False

    async def _take(self, message: str | bytes) -> None:
        """Do one thing. What is wrong with it is told, and the socket stays open."""
        about: dict[str, Any] = {}
        fields: dict[str, Raw] = {}
        kind = ""
        try:
            fields = self._fields(message)
            kind = read_field(fields, "type", Text)
            act = _ACTS.get(kind)
            if act is None:
                raise Refusal(
                    400, f"there is no message {kind[:80]!r}", fix=one_of(kind, _ACTS)
                )
            about["about"] = kind
            doing = act(self, fields)
            if doing is not None:
                await doing
        except Fault as error:
            if fields and kind in _ABOUT_RUNS:
                with suppress(Fault):
                    about["run"] = read_field(fields, "run", Text)[:LONGEST_REF]
            about["status"] = status_of(error)
            self.outgoing.say(frames.error(self._shown(error), **about))

    def _fields(self, message: str | bytes) -> dict[str, Raw]:
        if isinstance(message, bytes):
            raise Refusal(400, "a binary message means nothing here", fix="Send text.")
        return read_object(message.encode(), "the message")

    def _shown(self, error: Fault) -> ShownError:
        return told(error, self._service.conceal)

    def _authorise(self, fields: Mapping[str, Raw]) -> None:
        token = self._service.settings.auth_token
        if token is not None and not is_token(token, read_field(fields, "token", Text)):
            raise unauthorised()
        self._known = True

    async def _run(self, fields: dict[str, Raw]) -> None:
        ref: str | None = None
        try:
            ref = read_field(fields, "ref", Text)
            if len(ref) > LONGEST_REF:
                ref = None
                raise Refusal(400, f"'ref' is longer than {LONGEST_REF} characters")
            if len(self.outgoing.followed) >= MAX_FOLLOWED:
                raise _too_many()
            detached = "detach" in fields and read_field(fields, "detach", Boolean)
            trace = "trace" in fields and read_field(fields, "trace", Boolean)
            if trace:
                self._service.check_trace()
            for name in ("type", "ref", "detach", "trace"):
                fields.pop(name, None)
            asked = await self._service.read_fields(fields)
            run = await self._service.start(
                asked, stream=True, detached=detached, request=self._request, trace=trace
            )
        except Fault as error:
            status = status_of(error)
            self.outgoing.say(frames.refused(ref, status, self._shown(error)))
            return
        except RecursionError as error:
            forget_frames(error)
            seen = ShownError("bad_request", "the request is nested too deep")
            self.outgoing.say(frames.refused(ref, 400, seen))
            return
        self.outgoing.say(frames.plain(type="accepted", ref=ref, run=run.id))
        if not detached:
            self._own[run.id] = run
            run.when_ended(lambda: self._ended(run.id))
        self.outgoing.follow(run, 1)

    def _ended(self, run: str) -> None:
        self._own.pop(run, None)
        self.outgoing.look()

    def _subscribe(self, fields: Mapping[str, Raw]) -> None:
        name = read_field(fields, "run", Text)
        row = self._elsewhere(name)
        run = self._found(fields) if row is None else None
        start = read_field(fields, "from", Number) if "from" in fields else 1
        if start < 1:
            raise Refusal(400, f"'from' is {start}, and events are counted from 1")
        if (
            name not in self.outgoing.followed
            and len(self.outgoing.followed) >= MAX_FOLLOWED
        ):
            raise _too_many()
        self.outgoing.unfollow(name)
        if run is not None:
            self.outgoing.follow(run, start)
        elif row is not None:
            self._follow_elsewhere(row, name, start)

    def _unsubscribe(self, fields: Mapping[str, Raw]) -> None:
        self.outgoing.unfollow(read_field(fields, "run", Text))

    async def _cancel(self, fields: Mapping[str, Raw]) -> None:
        name = read_field(fields, "run", Text)
        row = self._elsewhere(name)
        if row is not None:
            await self._cancel_elsewhere(row, name)
            return
        run = self._found(fields)
        if run.cancel() is CancelOutcome.FINISHED:
            raise Refusal(409, "this run has ended already")

    def _ping(self, fields: Mapping[str, Raw]) -> None:
        n = read_field(fields, "n", Number) if "n" in fields else 0
        self.outgoing.say(frames.plain(type="pong", n=n))

    def _watched(self, _: Mapping[str, Raw]) -> None:
        if self.outgoing.watch is not None:
            self.outgoing.watch.end()
        self.outgoing.watch = StatusWatch(self._service.board, self.outgoing.look)
        self._nursery.start_soon(self.outgoing.watch.run)

    def _unwatched(self, _: Mapping[str, Raw]) -> None:
        if self.outgoing.watch is not None:
            self.outgoing.watch.end()
            self.outgoing.watch = None
            self.outgoing.look()

    def _found(self, fields: Mapping[str, Raw]) -> RunHandle:
        run = self._service.runs.get(read_field(fields, "run", Text))
        if run is None:
            raise unknown_run()
        return run

    def _elsewhere(self, run: str) -> int | None:
        """Which other worker has this run; None when it is this one's, or nobody's."""
        peers = self._service.peers
        return None if peers is None else peers.elsewhere(run)

    async def _cancel_elsewhere(self, row: int, run: str) -> None:
        assert self._service.peers is not None
        answer = await self._service.peers.ask(row, "DELETE", f"/v1/runs/{run}")
        if answer.status == 409:
            raise Refusal(409, "this run has ended already")
        if answer.status != 202:
            raise unknown_run()

    def _follow_elsewhere(self, row: int, run: str, start: int) -> None:
        from heddle.server.workers import Remote

        reader = Remote(run, start, lambda: self.outgoing.is_ready(reader))
        self.outgoing.followed[run] = reader
        self._nursery.start_soon(self._read_elsewhere, reader, row)

    async def _read_elsewhere(self, reader: "Remote", row: int) -> None:
        peers, run = self._service.peers, reader.run
        assert peers is not None
        try:
            await reader.follow(peers, row)
        except Refusal as refusal:
            if self.outgoing.followed.get(run) is reader:
                self.outgoing.unfollow(run)
            told_of = {"about": "subscribe", "run": run, "status": refusal.status}
            self.outgoing.say(frames.error(self._shown(refusal), **told_of))

    def _owes_more(self) -> bool:
        watches = self.outgoing.watch is not None and self._service.runs.active > 0
        return bool(self._own) or watches

    async def watch_drain(self) -> None:
        """Tell that the server stops, and close once there is nothing left to tell."""
        await self._service.leaving.wait()
        self.outgoing.leave()
        self.outgoing.say(frames.plain(type="draining"))
        # Who watches sees the last run end.
        await self._service.runs.wait_empty()
        self.outgoing.look()

    def end(self) -> None:
        """The socket is closed: its runs end, and nobody reads the others here."""
        for run in tuple(self._own.values()):
            run.cancel(Stop.CALLER_LEFT)
        self.outgoing.end()


_ABOUT_RUNS: Final = frozenset({"subscribe", "unsubscribe", "cancel"})


def _too_many() -> Refusal:
    return Refusal(
        429,
        f"this socket follows {MAX_FOLLOWED} runs, which is the most",
        fix="Unsubscribe from some.",
    )


_ACTS: Final[Mapping[str, Callable[[Session, dict[str, Raw]], Awaitable[None] | None]]] = {
    "auth": Session._authorise,  # noqa: SLF001  the table is this class's
    "run": Session._run,  # noqa: SLF001
    "subscribe": Session._subscribe,  # noqa: SLF001
    "unsubscribe": Session._unsubscribe,  # noqa: SLF001
    "cancel": Session._cancel,  # noqa: SLF001
    "ping": Session._ping,  # noqa: SLF001
    "watch": Session._watched,  # noqa: SLF001
    "unwatch": Session._unwatched,  # noqa: SLF001
}
