"""What the routes and sockets of a server have in common: runs, flows, settings."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
import trio

from heddle.events import Event
from heddle.installation import Installed
from heddle.launch import Engine, Prepared
from heddle.policy_counts import PolicyCounts
from heddle.server.endings import Conceal
from heddle.server.flows_root import FlowsRoot
from heddle.server.runs import RunHandle, Runs, Work
from heddle.server.settings import Settings
from heddle.server.sse import Pulse
from heddle.server.submissions import Submission, SubmissionReader, Submitted

PROTOCOLS: Final = ("heddle",)
"""How events can be rendered."""


class Engines:
    """Makes runs: those of submitted flows reach less than those of the operator's."""

    def __init__(
        self, own: Engine, submitted: Engine, check: Callable[[Submitted], None]
    ) -> None:
        self._own = own
        self._submitted = submitted
        self._check = check

    def new_run(
        self, prepared: Prepared, report: Callable[[Event], None], /, *, stream: bool
    ) -> Work:
        """One that has not begun.

        Raises:
            Fault: The flow can't be run here.
        """
        if isinstance(prepared, Submitted):
            self._check(prepared)
            return self._submitted.new_run(prepared, report, stream=stream)
        return self._own.new_run(prepared, report, stream=stream)

    def check(self, prepared: Prepared) -> None:
        """What `new_run` refuses is refused; nothing is made.

        Raises:
            Fault: The flow can't be run here.
        """
        if isinstance(prepared, Submitted):
            self._check(prepared)
        self._own.check(prepared)


class Service:
    """Everything a handler needs.

    Attributes:
        draining: Set when the server begins to stop.
        sockets: How many WebSockets are open.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        installed: Installed,
        engines: Engines,
        runs: Runs,
        conceal: Conceal,
        pulse: Pulse,
        counts: PolicyCounts,
        facts: Mapping[str, Any],
    ) -> None:
        self.settings = settings
        self.installed = installed
        self.engines = engines
        self.runs = runs
        self.conceal = conceal
        self.pulse = pulse
        self.counts = counts
        self.facts = facts
        self.draining = trio.Event()
        self.sockets = 0
        root = settings.flows_root
        self._reader = SubmissionReader(
            installed,
            None if root is None else FlowsRoot(root),
            allow_code=settings.allow_request_code,
        )

    def read(self, body: bytes) -> Submission:
        """Read what a request asks for; raises as `SubmissionReader.read`."""
        return self._reader.read(body)

    def read_fields(self, fields: Mapping[str, msgspec.Raw]) -> Submission:
        """The same of an object whose fields are known."""
        return self._reader.read_fields(fields)

    def start(self, asked: Submission, *, stream: bool, detached: bool) -> RunHandle:
        """Begin a run; raises as `Runs.start`."""
        prepared = asked.prepared
        return self.runs.start(
            prepared,
            asked.inputs,
            stream=stream,
            detached=detached,
            flow=prepared.plan.graph.name,
        )
