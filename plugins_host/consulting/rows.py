"""Consultations in a row: the next one is asked as soon as all let be what the one before
was about.

    questions ──▶ Walk ─▶ asked ─▶ consent ──▶ the next Walk ─▶ asked ─▶ …
                                 └▶ anything else is for the task that waits

Most policies let most things be, and what a run does behind that may take no more than a
few microseconds: less than it takes to wake its task and have it wait again. So the one
who makes the questions is a generator, which is carried on by whoever reads the answers.
It can't wait, being no coroutine. What it is not resumed behind, is weighed as always.
"""

from collections.abc import Iterator
from time import perf_counter
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Raw, Struct

from plugins_host.consulting.links import Watch
from plugins_host.consulting.places import CONSULT, Question
from plugins_host.consulting.walk import Walk

if TYPE_CHECKING:
    from plugins_host.processes.calls import Following

Questions: TypeAlias = Iterator[Walk]
"""Consultations of which nobody has been asked yet. Who makes them is resumed when all that
are asked let be what the last one is about."""

NOT_ASKED: Final = object()
"""In place of an answer."""


class Open(Struct, frozen=True, eq=False):
    """A consultation that was not settled by consent.

    ``answer`` is what came of its first question: an answer, an error that was raised in
    place of one, or `NOT_ASKED`. ``began`` is when that was asked, by `perf_counter`.
    """

    walk: Walk
    answer: object = NOT_ASKED
    began: float = 0.0


class Row:
    """One row of questions, asked by one task. `ask` may be called once."""

    __slots__ = ("_began", "_error", "_question", "_questions", "_taken", "_walk", "_watch")

    def __init__(self, questions: Questions, watch: Watch | None) -> None:
        self._questions = questions
        self._watch = watch
        self._walk: Walk | None = None
        self._question: Question | None = None
        self._began = 0.0
        # Whether the answer that is returned was seen to, and what that raised.
        self._taken = False
        self._error: Exception | None = None

    async def ask(self) -> Open | None:
        """Ask one after the other; the first that is not let be, None when none is left.

        Raises:
            Exception: What the generator raised.
        """
        self._next()
        while self._walk is not None:
            walk, question = self._walk, self._question
            if question is None:
                return Open(walk)
            asking = walk.asking
            self._taken = False
            self._began = perf_counter()
            try:
                answer = await walk.place.stretches[0].asker.request(
                    question.verb,
                    walk.ask(question.head),
                    services=asking.services,
                    components=question.components,
                    patience=asking.patience,
                    onward=self._onward,
                )
            except Exception as error:  # noqa: BLE001  told as always, by who weighs answers
                assert self._walk is not None
                return Open(self._walk, error, self._began)
            if not self._taken and not self._take(answer):
                assert self._walk is not None
                return Open(self._walk, answer, self._began)
            if self._error is not None:
                break
        if self._error is not None:
            try:
                raise self._error
            finally:
                # An error that its own traceback leads back to would be kept.
                self._error = None
        return None

    def _onward(self, answer: Raw) -> "Following | None":
        """What is asked behind an answer. In the task that reads it."""
        before = self._walk
        assert before is not None
        if not self._take(answer):
            return None
        walk, question = self._walk, self._question
        if (
            walk is None
            or question is None
            or walk.place.stretches[0].asker is not before.place.stretches[0].asker
        ):
            self._taken = True
            return None
        try:
            text = walk.ask(question.head)
        except Exception:  # noqa: BLE001  the task meets the same, and tells of it
            self._taken = True
            return None
        asking = walk.asking
        self._began = perf_counter()
        return (
            question.verb,
            text,
            asking.services,
            question.components,
            asking.patience,
        )

    def _take(self, answer: object) -> bool:
        """Go on to the next question, if this answer is consent; whether it is."""
        walk, question = self._walk, self._question
        assert walk is not None
        assert question is not None
        if type(answer) is not Raw or answer not in question.consents:
            return False
        if self._watch is not None:
            self._watch.answered(
                walk.seam,
                walk.half,
                question.components,
                question.consent,
                perf_counter() - self._began,
            )
        try:
            self._next()
        except Exception as error:  # noqa: BLE001  raised in the task that it belongs to
            self._walk = None
            self._error = error
        return True

    def _next(self) -> None:
        walk = self._walk = next(self._questions, None)
        self._question = None if walk is None else _to_all(walk)


def _to_all(walk: Walk) -> Question | None:
    """The question to all who are asked, where one is enough."""
    stretches = walk.place.stretches
    if len(stretches) != 1:
        return None
    stretch = stretches[0]
    if len(stretch.links) == 1:
        return stretch.alone[0]
    features = stretch.asker.features
    return stretch.together[0] if features is not None and CONSULT in features else None
