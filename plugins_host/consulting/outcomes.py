"""How things went, and what policies made of it: data alone.

what a policy is shown of it    Succeeded · Erred
what a before half comes to     Proceeded (with the input) · Replaced · Rejected
what an after half comes to     Passed · Replaced · RetryGranted · Failed
what is told meanwhile          PolicyWarning
what ends the run               MiddlewareFailure
"""

from collections.abc import Mapping
from typing import Final, TypeAlias

from msgspec import Struct

from plugins_host.faults import Fault
from plugins_host.payload import EMPTY, Payload
from plugins_host.seams import Half, Seam


class ShownError(Struct, frozen=True, rename="camel", omit_defaults=True):
    """An error as policies are shown it."""

    name: str
    message: str
    status: int | None = None
    retry_after_ms: float | None = None
    retryable: bool | None = None


class Succeeded(Struct, frozen=True):
    """It went well, and this is what came of it."""

    value: Payload


class Erred(Struct, frozen=True):
    """It failed."""

    error: ShownError


Outcome: TypeAlias = Succeeded | Erred


class PolicyWarning(Struct, frozen=True):
    """What a policy did and that is never silent; ``str()`` is the whole sentence."""

    component_type: str
    plugin: str
    seam: Seam
    half: Half
    did: str

    def __str__(self) -> str:
        """Who, where and what."""
        who = named(self.component_type, self.plugin)
        return f"{who}, {self.seam}.{self.half}: {self.did}"


class Proceeded(Struct, frozen=True):
    """Go on, with this input; the very same object when nobody modified it."""

    input: Payload


class Replaced(Struct, frozen=True):
    """``by`` supplied the result. At `modelCall` the value is a `ModelResponse`.

    ``input`` is what it decided about, as modified by those asked before it; of a before
    half only.
    """

    value: Payload
    by: str
    input: Payload = EMPTY


class Rejected(Struct, frozen=True):
    """``by`` forbids it. ``input`` is what it decided about, as modified before it."""

    reason: str
    by: str
    input: Payload = EMPTY


class Passed(Struct, frozen=True):
    """The outcome stands."""


class RetryGranted(Struct, frozen=True):
    """``by`` has it done once more, ``delay`` seconds from now."""

    delay: float
    by: str


class Failed(Struct, frozen=True):
    """``by`` ends it here."""

    reason: str
    by: str


BeforeOutcome: TypeAlias = Proceeded | Replaced | Rejected
AfterOutcome: TypeAlias = Passed | Replaced | RetryGranted | Failed
PASSED: Final = Passed()


class MiddlewareFailure(Fault):
    """A policy did not do its part. It ends the run; the flow is not at fault.

    Attributes:
        middleware: The component type; several, when the plugin did not say which.
        plugin: Its plugin.
        seam: Where it was asked.
        half: On which side.
        cause: What it did: the fault without its place.
        outcome_error: What had failed before it was asked, if anything had.
    """

    def __init__(
        self,
        middleware: str,
        plugin: str,
        seam: Seam,
        half: Half,
        cause: Fault,
        outcome_error: ShownError | None = None,
    ) -> None:
        what = cause.what
        if outcome_error is not None:
            before = f"{outcome_error.name}: {outcome_error.message}"
            what = f"{what} (before that, {_FAILED[seam]} had failed with {before})"
        super().__init__(
            what,
            where=f"middleware {middleware!r} of plugin {plugin!r}, {seam}.{half}",
            fix=cause.fix,
        )
        self.middleware = middleware
        self.plugin = plugin
        self.seam = seam
        self.half = half
        self.cause = cause
        self.outcome_error = outcome_error


# What a seam is around, for the errors of its after half.
_FAILED: Final[Mapping[Seam, str]] = {
    Seam.NODE_ERROR: "the node itself",
    Seam.NODE: "the node itself",
    Seam.TOOL_CALL: "the tool call itself",
    Seam.MODEL_CALL: "the model call itself",
    Seam.AGENT_ROUND: "the round itself",
}


def named(component_type: str, plugin: str) -> str:
    """A middleware and its plugin, as errors and warnings call it."""
    return f"middleware {component_type!r} of plugin {plugin!r}"
