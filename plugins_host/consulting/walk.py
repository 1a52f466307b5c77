"""One consultation on its way along the chain: the question as it stands, answers weighed.

`Walk` puts each question together, reads what comes back, and turns a verdict into what
the walk goes on with or ends in; `chain` moves it from link to link. What a policy did and
that is never silent is told to ``asking.warn``.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, assert_never

import msgspec
from msgspec import Struct

from plugins_host.consulting.consulted import ConsultedError, decode_consulted
from plugins_host.consulting.links import Asking, Link, Watch
from plugins_host.consulting.outcomes import (
    PASSED,
    AfterOutcome,
    BeforeOutcome,
    Erred,
    Failed,
    MiddlewareFailure,
    Outcome,
    PolicyWarning,
    Proceeded,
    Rejected,
    Replaced,
    RetryGranted,
    Succeeded,
)
from plugins_host.consulting.places import CHECKED, Place, Stretch
from plugins_host.conversation import ModelRequest
from plugins_host.faults import Fault
from plugins_host.model_edits import EditError, edited, read_response
from plugins_host.payload import Payload
from plugins_host.plugin_faults import PluginOverdue
from plugins_host.seams import Half, Seam, Shown, Subject, ToolSubject
from plugins_host.verdicts import (
    Fail,
    Modify,
    Pass,
    Proceed,
    Reject,
    Replace,
    Retry,
    Verdict,
    VerdictError,
    read_verdict,
)

_ENCODE: Final = msgspec.json.Encoder().encode

_INPUT_ALONE: Final = (Shown.INPUT,)
_OUTCOME_ALONE: Final = (Shown.OUTCOME,)
_SUBJECT: Final = b',"subject":'
_SUCCEEDED: Final = b',"outcome":{"ok":true,"value":'


class Walk(Struct, eq=False):
    """One consultation on its way along the chain: the question as it stands."""

    seam: Seam
    half: Half
    subject: Subject
    asking: Asking
    place: Place
    given: Payload
    outcome: Outcome | None
    text: bytes = b""
    watch: Watch | None = None

    # --- asking -------------------------------------------------------------------------

    def ask(self, head: bytes) -> bytes:
        """The question that begins with ``head``.

        What all are asked alike is put together once, and again after a modify; if only
        one is asked, it is put where it belongs at once, as a state may be large.
        """
        if self.text:
            return head + self.text
        asking, place, outcome = self.asking, self.place, self.outcome
        begin = head if place.sole else b""
        subject = _ENCODE(self.subject)
        tail = _attempts(asking.attempt, asking.max_attempts)
        # Most questions are of two forms, and put together at once: the loop over what is
        # shown would be a twentieth of asking.
        if place.shows == _INPUT_ALONE:
            parts = [begin, _SUBJECT, subject, b',"input":', self.given.raw, tail]
        elif place.shows == _OUTCOME_ALONE and type(outcome) is Succeeded:
            parts = [begin, _SUBJECT, subject, _SUCCEEDED, outcome.value.raw, b"}", tail]
        else:
            parts = [begin, _SUBJECT, subject]
            for what in place.shows:
                if what is Shown.INPUT:
                    parts += (b',"input":', self.given.raw)
                else:
                    parts += (b',"outcome":', *_encode_outcome(outcome))
            parts.append(tail)
        text = b"".join(parts)
        if self.place.sole:
            return text
        self.text = text
        return head + text

    async def started(self, stretch: Stretch) -> frozenset[str]:
        """Start who answers for a stretch, to learn its features."""
        try:
            return await stretch.asker.start()
        except Exception as error:
            raise self.unanswered(stretch.links[0], (), error) from error

    def unanswered(
        self, link: Link, asked: Sequence[str], error: Exception
    ) -> MiddlewareFailure:
        """There is no answer from ``link``, or from the several that were asked at once."""
        # Where it stood is what the plugin says, which need not be true.
        at = error.at if isinstance(error, PluginOverdue) else None
        suspects = asked if at is None or at not in asked else (at,)
        return self.failure(link, _as_fault(error), suspects)

    def read_consulted(self, raw: object, links: Sequence[Link]) -> list[object]:
        """The answers in a `consult`'s answer: for the links asked, in their order."""
        try:
            said = decode_consulted(raw)
        except (msgspec.DecodeError, RecursionError) as error:
            raise self.failure(
                links[0], Fault(f"its answer to 'consult' is none: {error}")
            ) from None
        if not said.verdicts or len(said.verdicts) > len(links):
            fault = Fault(f"it answered 'consult' with {len(said.verdicts)} verdicts")
            raise self.failure(links[0], fault)
        answers: list[object] = []
        for entry, link in zip(said.verdicts, links, strict=False):
            if entry.component_type != link.component_type:
                fault = Fault(f"it answered for {entry.component_type!r} in its place")
                raise self.failure(link, fault)
            answers.append(entry.verdict if entry.error is None else entry.error)
        return answers

    # --- weighing -----------------------------------------------------------------------

    def read(self, link: Link, answer: object) -> Verdict:
        """The verdict in an answer."""
        if isinstance(answer, ConsultedError):
            raise self.failure(
                link, Fault(f"it failed with {answer.name}: {answer.message}")
            )
        try:
            return read_verdict(answer, self.seam, self.half, where="")
        except VerdictError as error:
            raise self.failure(link, error) from error

    def goes_on_after(self, verdict: Verdict | None) -> bool:
        """Whether a frame for several may stop here, and the rest be asked in another.

        At a retry that is refused, which ended the walk over there; and behind a modify
        that is checked before anybody else sees it. Nothing else ends a walk early.
        """
        if isinstance(verdict, Modify):
            return (self.seam, self.half) in CHECKED
        return isinstance(verdict, Retry)

    def modify(self, link: Link, change: Payload) -> None:
        """Go on with what the link made of the input."""
        if self.seam is Seam.MODEL_CALL:
            request: ModelRequest = self.given.value
            try:
                change = Payload.of(edited(request, change.value))
            except EditError as error:
                raise self.failure(link, error) from error
        elif self.asking.check_input is not None:
            wrong = self.asking.check_input(change.value)
            if wrong is not None:
                fault = Fault(
                    f"it modified the arguments to what the tool does not take: {wrong}",
                    fix="Keep to the tool's declared inputs.",
                )
                raise self.failure(link, fault)
        self.given = change
        self.text = b""

    def replacement(self, link: Link, value: Payload) -> Payload:
        """The result that a link supplies, in the form that the engine works with."""
        if self.seam is not Seam.MODEL_CALL:
            return value
        try:
            return Payload.of(read_response(value.value))
        except EditError as error:
            raise self.failure(link, error) from error

    def retry(self, link: Link, verdict: Retry) -> RetryGranted | None:
        """Grant a retry, unless a ceiling stands against it."""
        asking = self.asking
        refused = asking.retry_refused
        if asking.attempt >= asking.max_attempts:
            refused = f"this was attempt {asking.attempt} of {asking.max_attempts}"
        if refused is not None:
            self.warn(link, f"asked to retry {self._thing()}, which is refused: {refused}")
            return None
        if verdict.clamped_from is not None:
            self.warn(
                link,
                f"asked for a delay of {verdict.clamped_from:g} ms, which is clamped to "
                f"{verdict.delay * 1000:g} ms",
            )
        following = f"attempt {asking.attempt + 1} of {asking.max_attempts}"
        wait = f" after {verdict.delay:g} s" if verdict.delay else ""
        self.warn(link, f"retries {self._thing()}: {following}{wait}")
        return RetryGranted(verdict.delay, link.named)

    def warn_replaced(self, link: Link) -> None:
        """A substituted result is never silent."""
        if self.half is Half.BEFORE:
            what = f"replaces {self._thing()} with a result of its own"
        elif isinstance(self.outcome, Erred):
            what = f"replaces the error of {self._thing()} with a result of its own"
        else:
            what = f"replaces the result of {self._thing()}"
        self.warn(link, what)

    def warn_refused(self, link: Link, reason: str) -> None:
        """A refused tool call is never silent. Other refusals end something audible."""
        if self.seam is Seam.TOOL_CALL:
            self.warn(link, f"refuses {self._thing()}: {reason}")

    def warn(self, link: Link, text: str) -> None:
        """Tell the run what a policy did."""
        self.asking.warn(
            PolicyWarning(link.component_type, link.plugin, self.seam, self.half, text)
        )

    def _thing(self) -> str:
        """What the seam is around, by name."""
        subject = self.subject
        node = f"node {subject.node_name!r}"
        agent = getattr(subject, "agent_name", None)
        if agent is not None:
            node = f"agent {agent!r} in {node}"
        if isinstance(subject, ToolSubject):
            return f"the call of tool {subject.tool_name!r} in {node}"
        if self.seam is Seam.MODEL_CALL:
            return f"the model call of {node}"
        return node

    def failure(
        self, link: Link, cause: Fault, suspects: Sequence[str] = ()
    ) -> MiddlewareFailure:
        """A link did not do its part, or one of several; the first of them is counted."""
        outcome = self.outcome
        names = suspects or (link.component_type,)
        if self.watch is not None:
            self.watch.failed(self.seam, self.half, names[0])
        return MiddlewareFailure(
            ", ".join(names),
            link.plugin,
            self.seam,
            self.half,
            cause,
            outcome.error if isinstance(outcome, Erred) else None,
        )


def proceeded(walk: Walk) -> BeforeOutcome:
    return Proceeded(walk.given)


def passed(_: Walk) -> AfterOutcome:
    return PASSED


def weigh_before(walk: Walk, link: Link, verdict: Verdict) -> BeforeOutcome | None:
    match verdict:
        case Proceed():
            return None
        case Modify(input=change):
            walk.modify(link, change)
            return None
        case Replace(value=value):
            value = walk.replacement(link, value)
            walk.warn_replaced(link)
            return Replaced(value, link.named, walk.given)
        case Reject(reason=reason):
            walk.warn_refused(link, reason)
            return Rejected(reason, link.named, walk.given)
        case Pass() | Retry() | Fail():  # pragma: no cover  none is admitted here
            raise AssertionError(verdict)
        case _:
            assert_never(verdict)


def weigh_after(walk: Walk, link: Link, verdict: Verdict) -> AfterOutcome | None:
    match verdict:
        case Pass():
            return None
        case Replace(value=value):
            value = walk.replacement(link, value)
            walk.warn_replaced(link)
            return Replaced(value, link.named)
        case Retry():
            return walk.retry(link, verdict)
        case Fail(reason=reason):
            return Failed(reason, link.named)
        case (
            Proceed() | Modify() | Reject()
        ):  # pragma: no cover  the reader admits none here
            raise AssertionError(verdict)
        case _:
            assert_never(verdict)


@lru_cache(maxsize=64)
def _attempts(attempt: int, most: int) -> bytes:
    """How a question ends."""
    return b',"attempt":%d,"maxAttempts":%d}' % (attempt, most)


def _encode_outcome(outcome: Outcome | None) -> tuple[bytes, bytes, bytes]:
    match outcome:
        case Succeeded(value=value):
            return b'{"ok":true,"value":', value.raw, b"}"
        case Erred(error=error):
            return b'{"ok":false,"error":', _ENCODE(error), b"}"
        case None:  # pragma: no cover  halves that show an outcome are asked with one
            return b"", b"null", b""
        case _:
            assert_never(outcome)


def _as_fault(error: Exception) -> Fault:
    """An error of whoever answers, as the cause of a failure."""
    if isinstance(error, Fault):
        return error
    return Fault(f"it failed with {type(error).__name__}: {error}")
