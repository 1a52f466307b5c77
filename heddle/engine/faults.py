"""What can end a run, each with the fields that a program would ask for."""

from typing import Final, Protocol

from heddle.events import ErrorInfo
from plugins_host import Fault, shortage


class RunFailed(Fault):
    """Base of all that ends a run before its EndNode."""


class InputsRefused(RunFailed):
    """The run's starting state is not what the flow declares."""


class NodeFailed(RunFailed):
    """A node failed and no policy stood in for it. The cause is chained."""

    def __init__(self, cause: Exception, *, node_name: str, node_type: str) -> None:
        self.cause = cause
        self.error = describe(cause)
        self.node_name = node_name
        self.node_type = node_type
        super().__init__(
            self.error.message, where=f"node {node_name!r} ({node_type})", fix=""
        )


class StartRefused(NodeFailed, InputsRefused):
    """The StartNode found that the run's inputs are not what the flow declares."""


class LimitReached(RunFailed):
    """The run used up one of its limits; ``flag`` is the option that moves it."""

    def __init__(self, what: str, *, where: str, flag: str) -> None:
        super().__init__(
            what, where=where, fix=f"Raise {flag}, or look for a loop that never ends."
        )
        self.flag = flag


class RunTimedOut(RunFailed):
    """The run's time is up. ``seconds`` is what it had."""

    def __init__(self, seconds: float, *, where: str) -> None:
        super().__init__(
            f"the run took longer than {seconds:g} s and was stopped",
            where=where,
            fix="Raise --timeout, or find what is slow with --verbose.",
        )
        self.seconds = seconds


class AtNode(Protocol):
    """Where a run is."""

    @property
    def name(self) -> str:
        """The node's name."""
        ...

    @property
    def type(self) -> str:
        """The node's component type."""
        ...


def timed_out(seconds: float, at: AtNode | None, flow: str) -> RunTimedOut:
    """The end of a run whose time is up, ``at`` this node of the flow."""
    where = f"node {at.name!r} ({at.type})" if at else f"flow {flow!r}"
    return RunTimedOut(seconds, where=where)


class NoWayOn(RunFailed):
    """A settled node has no edge to leave by.

    ``by`` is the policy that supplied its result, if one did.
    """

    def __init__(self, what: str, *, where: str, fix: str, by: str | None = None) -> None:
        super().__init__(what, where=where, fix=fix)
        self.by = by


NOT_THE_FLOW: Final = "The flow is not at fault: this policy is installed beside it."


class RefusedByPolicy(RunFailed):
    """A policy ended the run, with ``reason``; ``by`` names it and its plugin."""

    def __init__(self, *, by: str, did: str, reason: str, where: str) -> None:
        super().__init__(f"{by} {did}: {reason}", where=where, fix=NOT_THE_FLOW)
        self.by = by
        self.reason = reason


class PolicyFailed(RunFailed):
    """A policy did not do its part, which ends the run. The failure is chained."""


class NodeFault(Fault):
    """A node could not do its work; the walk adds which node it was."""


class InputMissing(NodeFault):
    """An input that the node needs has no value and no default."""


class InputMismatch(NodeFault):
    """An input has a value that cannot become the declared type."""


class OutputMismatch(NodeFault):
    """What a node produced is not what its outputs declare."""


class SubflowFailed(NodeFault):
    """A flow inside the node failed; the failure of its own is chained.

    ``of`` says which of several walks it was, as people call it. What a provider said
    about trying again stands here as well, so that policies find it wherever they are
    asked.
    """

    def __init__(self, inside: "NodeFailed | NoWayOn", of: str = "") -> None:
        super().__init__(f"{of}: {inside}" if of else str(inside))
        self.inside = inside
        cause = inside.cause if isinstance(inside, NodeFailed) else None
        for field in ("status", "retry_after_ms", "retryable"):
            said = getattr(cause, field, None)
            if said is not None:
                setattr(self, field, said)

    @property
    def innermost(self) -> "NodeFailed | NoWayOn":
        """The failure that began it."""
        inside = self.inside
        while isinstance(inside, NodeFailed) and isinstance(inside.cause, SubflowFailed):
            inside = inside.cause.inside
        return inside


class NodeStopped(NodeFault):
    """The node was stopped while it worked: what it was part of ended, or the run did."""


class NobodyToAsk(NodeFault):
    """A node asks a person, and nobody answers in this run."""


class StoppedByPolicy(NodeFault):
    """A policy does not let a model call or a round of an agent go on: the node fails."""

    def __init__(self, *, by: str, did: str, reason: str) -> None:
        super().__init__(f"{by} {did}: {reason}", fix=NOT_THE_FLOW)
        self.by = by
        self.reason = reason


class AgentStopped(NodeFault):
    """An agent used up its rounds without an answer."""


class TeamStopped(AgentStopped):
    """The agents of one node used up the rounds that they have together."""


class OutOfResources(NodeFault):
    """The machine, or a limit of heddle's process, has no more of what the node needed."""

    of_the_machine = True


class EngineFault(NodeFault):
    """Something in heddle broke: a bug of ours, told as one."""

    @classmethod
    def of(cls, cause: Exception) -> "EngineFault | OutOfResources":
        """The fault with its cause chained, where it is returned and not raised."""
        short = shortage(cause)
        told = OutOfResources(short.what, fix=short.fix) if short else cls(cause)
        told.__cause__ = cause
        return told

    def __init__(self, cause: Exception) -> None:
        super().__init__(
            f"heddle itself failed here: {type(cause).__name__}: {cause}",
            fix="This is a bug in heddle; run with --debug and report the traceback.",
        )


def describe(error: BaseException) -> ErrorInfo:
    """An error as events and policies show it: its class and its whole sentence."""
    return ErrorInfo(type(error).__name__, str(error))
