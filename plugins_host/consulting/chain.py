"""The chain: every middleware that declared a half of a seam is asked, in order.

    chain = Chain(links)                                   in the order of the flags
    if chain.asks(Seam.TOOL_CALL, Half.BEFORE):            a look-up; nothing else is paid
        outcome = await chain.before(Seam.TOOL_CALL, subject, Payload.of(args), asking)

    before    Proceeded (with the input as modified) · Replaced · Rejected
    after     Passed · Replaced · RetryGranted · Failed

What ends a walk is what the engine acts on; what a policy did that is never silent is told
to ``asking.warn``. A policy that fails, in whatever way, is a `MiddlewareFailure`: it ends
the run. Links next to each other in one process whose runtime can do it are asked in one
frame (`consult`), with the same outcome as one by one.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from time import perf_counter
from typing import Any, Final, TypeVar

from msgspec import Raw

from plugins_host.consulting.links import Asking, Link, Watch
from plugins_host.consulting.outcomes import AfterOutcome, BeforeOutcome, Outcome
from plugins_host.consulting.places import CONSULT, NOWHERE, Place, places
from plugins_host.consulting.rows import NOT_ASKED, Open, Questions, Row
from plugins_host.consulting.walk import Walk, passed, proceeded, weigh_after, weigh_before
from plugins_host.faults import Fault
from plugins_host.payload import EMPTY, Payload
from plugins_host.seams import Half, Seam, Subject
from plugins_host.verdicts import Verdict

_WALKED_ON: Final = Fault("its plugin asked others after it had settled the matter")
_LEFT_OUT: Final = Fault(
    "its plugin did not ask it, although nobody had settled the matter"
)

_T = TypeVar("_T")


class Chain:
    """The middleware of a run, compiled: who is asked at which half.

    It keeps nothing of a run, which all comes with `Asking`: runs may share it. ``watch``
    is told of every answer, also of those of runs that it knows nothing about.
    """

    def __init__(self, links: Sequence[Link], *, watch: Watch | None = None) -> None:
        self._watch = watch
        self._places: Final[Mapping[Half, Mapping[Seam, Place]]] = {
            half: dict(places(links, half)) for half in Half
        }
        self._before: Final = self._places[Half.BEFORE]
        self._after: Final = self._places[Half.AFTER]

    def asks(self, seam: Seam, half: Half) -> bool:
        """Whether anybody declared this half. If not, do no work for it."""
        return seam in self._places[half]

    def before(
        self, seam: Seam, subject: Subject, given: Payload, asking: Asking
    ) -> Coroutine[Any, Any, BeforeOutcome]:
        """Ask what may happen.

        Args:
            seam: Where.
            subject: About what; of the type that the seam's row names.
            given: The input. At `modelCall` its value is a `ModelRequest`, and so is that
                of the outcome.
            asking: The rest; see `Asking`.

        Raises:
            MiddlewareFailure: A policy failed.
        """
        walk = self.about_before(seam, subject, given, asking)
        return _ask_all(walk, weigh_before, proceeded)

    def about_before(
        self, seam: Seam, subject: Subject, given: Payload, asking: Asking
    ) -> Walk:
        """The consultation of `before`, for a row; `settle_before` goes on with it."""
        place = self._before.get(seam, NOWHERE)
        return Walk(
            seam, Half.BEFORE, subject, asking, place, given, None, watch=self._watch
        )

    def settle_before(self, opened: Open) -> Coroutine[Any, Any, BeforeOutcome]:
        """What comes of a consultation that a row left open; as of `before`."""
        return _ask_all(opened.walk, weigh_before, proceeded, opened.answer, opened.began)

    def after(
        self,
        seam: Seam,
        subject: Subject,
        outcome: Outcome,
        asking: Asking,
        *,
        given: Payload = EMPTY,
    ) -> Coroutine[Any, Any, AfterOutcome]:
        """Ask what becomes of what happened.

        Args:
            seam: Where.
            subject: About what; of the type that the seam's row names.
            outcome: How it went. At `modelCall` a value is the response as on the wire.
            asking: The rest; see `Asking`.
            given: At `toolCall`: the arguments that the call ran with.

        Raises:
            MiddlewareFailure: A policy failed.
        """
        walk = self.about_after(seam, subject, outcome, asking, given)
        return _ask_all(walk, weigh_after, passed)

    def about_after(
        self,
        seam: Seam,
        subject: Subject,
        outcome: Outcome,
        asking: Asking,
        given: Payload = EMPTY,
    ) -> Walk:
        """The consultation of `after`, for a row; `settle_after` goes on with it."""
        place = self._after.get(seam, NOWHERE)
        return Walk(
            seam, Half.AFTER, subject, asking, place, given, outcome, watch=self._watch
        )

    def settle_after(self, opened: Open) -> Coroutine[Any, Any, AfterOutcome]:
        """What comes of a consultation that a row left open; as of `after`."""
        return _ask_all(opened.walk, weigh_after, passed, opened.answer, opened.began)

    def in_a_row(self, questions: Questions) -> Coroutine[Any, Any, Open | None]:
        """Ask one after the other while all let be what they are about; see `rows`.

        Returns:
            The first that was not let be; None when there are no more questions.

        Raises:
            Exception: What ``questions`` raised.
        """
        return Row(questions, self._watch).ask()


async def _ask_all(
    walk: "Walk",
    weigh: Callable[["Walk", Link, Verdict], _T | None],
    unsettled: Callable[["Walk"], _T],
    first: object = NOT_ASKED,
    began: float = 0.0,
) -> _T:
    """Walk the chain until something settles it; ``first`` is an answer that is there, to
    what was asked when it ``began``."""
    asking = walk.asking
    watch = walk.watch
    for stretch in walk.place.stretches:
        links = stretch.links
        together = False
        if len(links) > 1:
            features = stretch.asker.features
            # A row asks several in one frame, or nobody.
            together = first is not NOT_ASKED or CONSULT in (
                await walk.started(stretch) if features is None else features
            )
        done = 0
        while done < len(links):
            question = (stretch.together if together else stretch.alone)[done]
            asked = question.components
            if watch is not None and first is NOT_ASKED:
                began = perf_counter()
            try:
                if first is NOT_ASKED:
                    answer = await stretch.asker.request(
                        question.verb,
                        walk.ask(question.head),
                        services=asking.services,
                        components=asked,
                        patience=asking.patience,
                    )
                elif isinstance(first, Exception):
                    try:
                        raise first
                    finally:
                        # Its own traceback must not lead back to it.
                        first = NOT_ASKED
                else:
                    answer, first = first, NOT_ASKED
            except Exception as error:
                raise walk.unanswered(links[done], asked, error) from error
            if type(answer) is Raw and answer in question.consents:
                done += len(asked)
                if watch is not None:
                    seconds = perf_counter() - began
                    watch.answered(walk.seam, walk.half, asked, question.consent, seconds)
                continue
            answers = [answer]
            if len(asked) > 1:
                answers = walk.read_consulted(answer, links[done:])
            verdict: Verdict | None = None
            for said in answers:
                link = links[done]
                done += 1
                verdict = walk.read(link, said)
                if watch is not None:
                    tag = str(verdict.__struct_config__.tag)
                    who = (link.component_type,)
                    seconds = perf_counter() - began
                    watch.answered(walk.seam, walk.half, who, tag, seconds)
                settled = weigh(walk, link, verdict)
                if settled is not None:
                    if said is not answers[-1]:
                        raise walk.failure(link, _WALKED_ON)
                    return settled
            if len(answers) < len(asked) and not walk.goes_on_after(verdict):
                raise walk.failure(links[done], _LEFT_OUT)
    return unsettled(walk)
