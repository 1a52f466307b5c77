"""What the routes and sockets of a server have in common: runs, flows, settings."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec
import trio

from heddle.events import Event
from heddle.installation import Installed
from heddle.launch import Engine
from heddle.long_work import bounded, briefly, reading
from heddle.policy_counts import PolicyCounts
from heddle.preparing import Prepared
from heddle.server.endings import Conceal
from heddle.server.following.sse import Pulse
from heddle.server.http.refusals import Refusal
from heddle.server.own_scope import OwnScope
from heddle.server.runs.folders import RunFolders
from heddle.server.runs.handle import RunHandle, Work
from heddle.server.runs.registry import Runs
from heddle.server.settings import Settings
from heddle.server.status.board import Board
from heddle.server.submitted.code.running import Brought, CodeRun
from heddle.server.submitted.egress import Checker
from heddle.server.submitted.flows_root import FlowsRoot
from heddle.server.submitted.submission import Submission, SubmissionReader, Submitted
from heddle.spec import NOTHING_SUPPLIED, Supplied

if TYPE_CHECKING:
    from heddle.server.workers import Peers
    from plugins_host import Encoder

BRIEF_BODY: Final = 64 * 1024
"""Bytes that are read where they arrive, in up to some 20 ms; more of them in a thread.
Plugins always: the schemas in a manifest take longer than their length tells."""


class Engines:
    """Makes runs: those of submitted flows reach less than those of the operator's."""

    def __init__(
        self,
        own: Engine,
        submitted: Engine,
        checker: Checker,
        *,
        patience: float,
    ) -> None:
        self._own = own
        self._submitted = submitted
        self._checker = checker
        self._patience = patience

    def encoder(self, protocol: str) -> "Encoder | None":
        """What renders events in a protocol that is installed; None for heddle's own."""
        return self._own.encoder(protocol)

    async def look_for_tools(self, prepared: Prepared) -> None:
        """Ask plugins that find tools again, where that may bring some the flow uses."""
        await self._own.look_for_tools(prepared)

    @property
    def taken_tools(self) -> Collection[str]:
        """Names that no tool of a request may have, as they come and go."""
        return self._own.taken_tools

    def tool_names(self) -> list[str]:
        """The tools that any flow may use, sorted."""
        return self._own.tool_names()

    def new_run(
        self,
        prepared: Prepared,
        report: Callable[[Event], None],
        /,
        *,
        stream: bool,
        trace: bool = False,
    ) -> Work:
        """One that has not begun.

        Raises:
            Fault: The flow can't be run here.
        """
        return self.engine(prepared).new_run(prepared, report, stream=stream, trace=trace)

    def bringing(self, brought: Brought) -> "CodeMaker":
        """Makes the run that brings this."""
        return CodeMaker(self.engine, brought, self._patience)

    def check(self, asked: Submission) -> None:
        """What would refuse the run is raised; nothing is made.

        Raises:
            Fault: The flow can't be run here.
        """
        engine, brought = self.engine(asked.prepared), asked.brought
        if brought is not None:
            brought.check(engine, asked.prepared)
        else:
            engine.check(asked.prepared)

    def check_flow(self, prepared: Prepared) -> None:
        """See that a flow asks for nothing that is not its author's to ask for.

        Raises:
            SubmissionRefused: It does.
        """
        if isinstance(prepared, Submitted):
            self._checker.check(prepared)

    def has_passed(self, prepared: Prepared) -> bool:
        """Whether `check_flow` is known to find nothing in it."""
        return not isinstance(prepared, Submitted) or self._checker.has_passed(prepared)

    def check_inputs(self, asked: Submission) -> None:
        """See that a run could start from its inputs.

        Raises:
            InputsRefused: It could not.
        """
        self._own.check_inputs(asked.prepared, asked.inputs)

    def engine(self, prepared: Prepared) -> Engine:
        """The one whose run it is.

        Raises:
            SubmissionRefused: It may not be run.
        """
        if isinstance(prepared, Submitted):
            self._checker.check(prepared)
            return self._submitted
        return self._own


class CodeMaker:
    """Makes the one run of a request that brings code.

    Args:
        engine: Whose run it is; raises when it may not be.
        brought: What it brings.
        patience: The budget of silence of a question to a plugin, in seconds.
    """

    def __init__(
        self, engine: Callable[[Prepared], Engine], brought: Brought, patience: float
    ) -> None:
        self._engine = engine
        self._brought = brought
        self._patience = patience

    def new_run(
        self,
        prepared: Prepared,
        report: Callable[[Event], None],
        /,
        *,
        stream: bool,
        trace: bool = False,
    ) -> Work:
        """As `Engines.new_run`."""
        return CodeRun(
            self._engine(prepared),
            self._brought,
            prepared,
            report,
            stream=stream,
            trace=trace,
            patience=self._patience,
        )


class Service:
    """Everything a handler needs.

    Attributes:
        draining: Set when the server begins to stop, and refuses runs.
        leaving: Set when this process begins to end, also because others take over.
        peers: The other workers; None in a server of one process.
        sockets: How many WebSockets are open.
        board: Tells who watches how all is.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        installed: Installed,
        supplied: Supplied = NOTHING_SUPPLIED,
        engines: Engines,
        runs: Runs,
        conceal: Conceal,
        pulse: Pulse,
        counts: PolicyCounts,
        facts: Mapping[str, Any],
        folders: RunFolders | None = None,
        peers: "Peers | None" = None,
    ) -> None:
        self.settings = settings
        self.installed = installed
        self.engines = engines
        self.runs = runs
        self.conceal = conceal
        self.pulse = pulse
        self.counts = counts
        self.facts = facts
        self.peers = peers
        self.draining = trio.Event()
        self.leaving = trio.Event()
        self.sockets = 0
        self.board = Board(self)
        root = settings.flows_root
        self._reader = SubmissionReader(
            installed,
            None if root is None else FlowsRoot(root),
            supplied=supplied,
            folders=folders,
            tools=engines.taken_tools,
        )

    @property
    def active(self) -> int:
        """How many runs are going on, in all workers."""
        return self.runs.active if self.peers is None else self.peers.room.taken()

    def read_familiar(self, body: bytes) -> Submission | None:
        """The same as `read` of a flow that came before and has nothing to wait for; None
        of any other.

        Raises:
            Refusal: The body is malformed.
        """
        if len(body) > BRIEF_BODY:
            return None
        asked = self._reader.read_familiar(body)
        if asked is None or asked.prepared.plan.tools:
            return None
        return asked if self.engines.has_passed(asked.prepared) else None

    async def read(self, body: bytes) -> Submission:
        """Read what a request asks for; a long one holds nobody up.

        Raises:
            EffortExceeded: Its types are too much to look through.
            Fault: As `SubmissionReader.read` and `Engines.check_flow`.
        """
        asked = None
        if len(body) <= BRIEF_BODY and b'"plugins"' not in body:
            # Nearly all are, and need not be waited for.
            asked = briefly(lambda: self._admitted(self._reader.read(body)))
        if asked is None:
            asked = await reading(lambda: self._admitted(self._reader.read(body)))
        if asked.prepared.plan.tools:
            await self.engines.look_for_tools(asked.prepared)
        return asked

    async def read_fields(self, fields: Mapping[str, msgspec.Raw]) -> Submission:
        """The same of an object whose fields are known."""
        size = sum(len(bytes(each)) for each in fields.values())
        asked = None
        if size <= BRIEF_BODY and "plugins" not in fields:
            asked = briefly(lambda: self._admitted(self._reader.read_fields(fields)))
        if asked is None:
            asked = await reading(lambda: self._admitted(self._reader.read_fields(fields)))
        await self.engines.look_for_tools(asked.prepared)
        return asked

    def _admitted(self, asked: Submission) -> Submission:
        """What was read, once it is known to ask for nothing but its caller's own."""
        self.engines.check_flow(asked.prepared)
        return asked

    def check_trace(self) -> None:
        """See that callers may ask for traced runs.

        Raises:
            Refusal: They may not (403).
        """
        if not self.settings.allow_trace:
            raise Refusal(
                403,
                "runs are not traced here",
                fix="Whoever runs the server can allow it with --allow-trace.",
            )

    async def start(
        self,
        asked: Submission,
        *,
        stream: bool,
        detached: bool,
        request: str = "",
        trace: bool = False,
    ) -> RunHandle:
        """Begin a run; ``request`` is the id of what asked for it.

        Raises:
            InputsRefused: The flow does not take these.
            Fault: As `Runs.start`.
        """
        if asked.prepared.plan.glance is not None:
            self.engines.check_inputs(asked)
        else:
            await bounded(lambda: self.engines.check_inputs(asked))
        prepared, brought = asked.prepared, asked.brought
        return self.runs.start(
            prepared,
            asked.inputs,
            stream=stream,
            detached=detached,
            trace=trace,
            flow=prepared.plan.graph.name,
            maker=None if brought is None else self.engines.bringing(brought),
            request=request,
        )

    def carry_out(
        self,
        asked: Submission,
        *,
        request: str = "",
        trace: bool = False,
        scope: OwnScope | None = None,
    ) -> Awaitable[RunHandle]:
        """A whole run, for who waits for its end and is cancelled with it.

        ``scope`` is as of `Runs.carry_out`.

        Raises:
            InputsRefused: The flow does not take these.
            Fault: As `Runs.start`.
        """
        prepared, brought = asked.prepared, asked.brought

        def checked() -> Awaitable[RunHandle]:
            return self.runs.carry_out(
                prepared,
                asked.inputs,
                flow=prepared.plan.graph.name,
                request=request,
                trace=trace,
                maker=None if brought is None else self.engines.bringing(brought),
                scope=scope,
            )

        async def check() -> RunHandle:
            await bounded(lambda: self.engines.check_inputs(asked))
            return await checked()

        if prepared.plan.glance is None:
            return check()
        self.engines.check_inputs(asked)
        return checked()
