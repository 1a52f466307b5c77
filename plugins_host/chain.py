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

from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from itertools import groupby
from time import perf_counter
from typing import Any, Final, Protocol, TypeAlias, TypeVar, assert_never

import msgspec
from msgspec import Raw, Struct

from plugins_host.conversation import ModelRequest
from plugins_host.faults import Fault
from plugins_host.model_edits import EditError, edited, read_response
from plugins_host.payload import EMPTY, Payload
from plugins_host.plugin_faults import PluginOverdue
from plugins_host.program import PATIENCE
from plugins_host.reverse import CallServices
from plugins_host.seams import (
    SEAMS,
    Half,
    Seam,
    Shown,
    Subject,
    Subscription,
    ToolSubject,
)
from plugins_host.verdicts import (
    CONSENTS,
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

CONSULT: Final = "consult"

CONSENT: Final[Mapping[Half, str]] = {Half.BEFORE: "proceed", Half.AFTER: "pass"}
"""The word with which a half lets things be."""


CHECKED: Final = frozenset({(Seam.TOOL_CALL, Half.BEFORE)})
"""Where heddle checks what a policy made of the input before the next one sees it.

A frame for several says so, and its runtime stops behind a modify: heddle asks the rest in
another frame. What is checked against is heddle's to know: the inputs that a tool declares.
"""


class Asker(Protocol):
    """Who answers for a plugin: a process of its own, or handlers in heddle's."""

    @property
    def name(self) -> str:
        """The plugin's name."""
        ...

    @property
    def features(self) -> frozenset[str] | None:
        """What both sides know beyond the protocol; None while it is not running."""
        ...

    async def start(self) -> frozenset[str]:
        """Make sure that it is running; its features."""
        ...

    def request(
        self,
        verb: str,
        params: bytes,
        *,
        services: CallServices | None = None,
        components: Sequence[str] = (),
        patience: float = PATIENCE,
    ) -> Awaitable[object]:
        """Ask; what comes back is a JSON text (`Raw`, bytes) or an object.

        Raises:
            Fault: There is no answer.
        """
        ...


class Watch(Protocol):
    """Whoever counts what policies say. Called in passing: must neither wait nor raise."""

    def answered(
        self, seam: Seam, half: Half, components: Sequence[str], action: str, seconds: float
    ) -> None:
        """These said ``action``; the frame in which they did took so long."""
        ...

    def failed(self, seam: Seam, half: Half, component: str) -> None:
        """This one did not do its part."""
        ...


class Link(Struct, frozen=True):
    """One middleware as it is installed.

    Attributes:
        component_type: Its name, unique among all that are installed.
        plugin: The plugin that it is a component of.
        settings: What the operator configured, as JSON text; ``{}`` for nothing.
        seams: The halves that it declared.
        asker: Who answers for it.
    """

    component_type: str
    plugin: str
    settings: bytes
    seams: Subscription
    asker: Asker


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
        who = _named(self.component_type, self.plugin)
        return f"{who}, {self.seam}.{self.half}: {self.did}"


class Asking(Struct, frozen=True):
    """What belongs to one consultation beside its question.

    Attributes:
        services: What reverse calls made inside it may use.
        warn: Told of everything that a policy did and that is never silent, in order.
        attempt: Which attempt this is, from 1.
        max_attempts: How many there may be.
        patience: The budget of silence of each question. Seconds.
        retry_refused: Why there can be no further attempt although ``attempt`` is below
            ``max_attempts``; None when there can.
        check_input: For a tool call: what is wrong with these arguments by the tool's
            declared inputs; None when nothing is.
    """

    services: CallServices | None
    warn: Callable[[PolicyWarning], None]
    attempt: int = 1
    max_attempts: int = 1
    patience: float = PATIENCE
    retry_refused: str | None = None
    check_input: Callable[[dict[str, Any]], str | None] | None = None


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

_ENCODE: Final = msgspec.json.Encoder().encode
_T = TypeVar("_T")


class _Question(Struct, frozen=True):
    """What is the same each time that somebody is asked.

    Attributes:
        verb: How.
        components: Whom.
        head: How the text begins.
        consents: Texts of answers that let everything be, which need not be read.
    """

    verb: str
    components: tuple[str, ...]
    head: bytes
    consents: frozenset[bytes]


class _Stretch(Struct, frozen=True):
    """Links next to each other that one asker answers for, at one half.

    By index of the link to begin with: the question to it ``alone``, and to it and all
    that follow ``together``.
    """

    asker: Asker
    links: tuple[Link, ...]
    alone: tuple[_Question, ...]
    together: tuple[_Question, ...]


class _Place(Struct, frozen=True):
    """One half that somebody declared: what it shows, and who is asked."""

    shows: tuple[Shown, ...]
    stretches: tuple[_Stretch, ...]
    sole: bool


_NOWHERE: Final = _Place((), (), True)


class Chain:
    """The middleware of a run, compiled: who is asked at which half.

    It keeps nothing of a run, which all comes with `Asking`: runs may share it. ``watch``
    is told of every answer, also of those of runs that it knows nothing about.
    """

    def __init__(self, links: Sequence[Link], *, watch: Watch | None = None) -> None:
        self._watch = watch
        self._places: Final[Mapping[Half, Mapping[Seam, _Place]]] = {
            half: dict(_places(links, half)) for half in Half
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
        place = self._before.get(seam, _NOWHERE)
        walk = _Walk(
            seam, Half.BEFORE, subject, asking, place, given, None, watch=self._watch
        )
        return _ask_all(walk, _weigh_before, _proceeded)

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
        place = self._after.get(seam, _NOWHERE)
        walk = _Walk(
            seam, Half.AFTER, subject, asking, place, given, outcome, watch=self._watch
        )
        return _ask_all(walk, _weigh_after, _passed)


async def _ask_all(
    walk: "_Walk",
    weigh: Callable[["_Walk", Link, Verdict], _T | None],
    unsettled: Callable[["_Walk"], _T],
) -> _T:
    """Walk the chain until something settles it."""
    asking = walk.asking
    watch = walk.watch
    began = 0.0
    for stretch in walk.place.stretches:
        links = stretch.links
        together = False
        if len(links) > 1:
            features = stretch.asker.features
            together = CONSULT in (
                await walk.started(stretch) if features is None else features
            )
        done = 0
        while done < len(links):
            question = (stretch.together if together else stretch.alone)[done]
            asked = question.components
            if watch is not None:
                began = perf_counter()
            try:
                answer = await stretch.asker.request(
                    question.verb,
                    walk.ask(question.head),
                    services=asking.services,
                    components=asked,
                    patience=asking.patience,
                )
            except Exception as error:
                raise walk.unanswered(links[done], asked, error) from error
            if type(answer) is Raw and bytes(answer) in question.consents:
                done += len(asked)
                if watch is not None:
                    walk.tell(watch, asked, CONSENT[walk.half], began)
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
                    walk.tell(watch, (link.component_type,), tag, began)
                settled = weigh(walk, link, verdict)
                if settled is not None:
                    if said is not answers[-1]:
                        raise walk.failure(link, _WALKED_ON)
                    return settled
            if len(answers) < len(asked) and not walk.goes_on_after(verdict):
                raise walk.failure(links[done], _LEFT_OUT)
    return unsettled(walk)


def _places(links: Sequence[Link], half: Half) -> Iterator[tuple[Seam, _Place]]:
    for seam, row in SEAMS.items():
        asked = [link for link in links if half in link.seams.get(seam, ())]
        if asked:
            groups = groupby(asked, key=lambda link: id(link.asker))
            stretches = tuple(_stretch(tuple(group), seam, half) for _, group in groups)
            yield seam, _Place(row.halves[half].shows, stretches, len(asked) == 1)


def _stretch(links: tuple[Link, ...], seam: Seam, half: Half) -> _Stretch:
    ask = b'{"componentType":%b,"component":%b}'
    asks = [ask % (_ENCODE(link.component_type), link.settings) for link in links]
    names = tuple(link.component_type for link in links)
    place = seam.encode(), half.encode()
    alone = tuple(
        _Question(
            half.value,
            (name,),
            b'{"seam":"%b",%b' % (place[0], each[1:-1]),
            CONSENTS[half],
        )
        for name, each in zip(names, asks, strict=True)
    )
    head = b'{"seam":"%b","half":"%b",' % place
    if (seam, half) in CHECKED:
        head += b'"checked":true,'
    together = tuple(
        _Question(
            CONSULT,
            names[index:],
            b'%b"ask":[%b]' % (head, b",".join(asks[index:])),
            frozenset(_consented(names[index:], text) for text in CONSENTS[half]),
        )
        for index in range(len(links) - 1)
    )
    return _Stretch(links[0].asker, links, alone, (*together, alone[-1]))


def _consented(names: Sequence[str], text: bytes) -> bytes:
    """The answer to a `consult` in which all say ``text``, as our runtimes write it."""
    said = b'{"componentType":%b,"verdict":%b}'
    return b'{"verdicts":[%b]}' % b",".join(said % (_ENCODE(name), text) for name in names)


class _Walk(Struct, eq=False):
    """One consultation on its way along the chain: the question as it stands."""

    seam: Seam
    half: Half
    subject: Subject
    asking: Asking
    place: _Place
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
        parts = [head if self.place.sole else b"", b',"subject":', _ENCODE(self.subject)]
        for what in self.place.shows:
            if what is Shown.INPUT:
                parts += (b',"input":', self.given.raw)
            else:
                parts += (b',"outcome":', *_encode_outcome(self.outcome))
        asking = self.asking
        numbers = (asking.attempt, asking.max_attempts)
        parts.append(b',"attempt":%d,"maxAttempts":%d}' % numbers)
        text = b"".join(parts)
        if self.place.sole:
            return text
        self.text = text
        return head + text

    async def started(self, stretch: _Stretch) -> frozenset[str]:
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
            said = _decode_consulted(raw)
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
        if isinstance(answer, _ConsultedError):
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
        return RetryGranted(verdict.delay, named(link))

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

    def tell(
        self, watch: Watch, components: Sequence[str], action: str, began: float
    ) -> None:
        """Tell whoever counts what was said."""
        seconds = perf_counter() - began
        watch.answered(self.seam, self.half, components, action, seconds)

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


def _proceeded(walk: _Walk) -> BeforeOutcome:
    return Proceeded(walk.given)


def _passed(_: _Walk) -> AfterOutcome:
    return PASSED


def _weigh_before(walk: _Walk, link: Link, verdict: Verdict) -> BeforeOutcome | None:
    match verdict:
        case Proceed():
            return None
        case Modify(input=change):
            walk.modify(link, change)
            return None
        case Replace(value=value):
            value = walk.replacement(link, value)
            walk.warn_replaced(link)
            return Replaced(value, named(link), walk.given)
        case Reject(reason=reason):
            walk.warn_refused(link, reason)
            return Rejected(reason, named(link), walk.given)
        case Pass() | Retry() | Fail():  # pragma: no cover  none is admitted here
            raise AssertionError(verdict)
        case _:
            assert_never(verdict)


def _weigh_after(walk: _Walk, link: Link, verdict: Verdict) -> AfterOutcome | None:
    match verdict:
        case Pass():
            return None
        case Replace(value=value):
            value = walk.replacement(link, value)
            walk.warn_replaced(link)
            return Replaced(value, named(link))
        case Retry():
            return walk.retry(link, verdict)
        case Fail(reason=reason):
            return Failed(reason, named(link))
        case (
            Proceed() | Modify() | Reject()
        ):  # pragma: no cover  the reader admits none here
            raise AssertionError(verdict)
        case _:
            assert_never(verdict)


def named(link: Link) -> str:
    """A middleware and its plugin, as errors and warnings call it."""
    return _named(link.component_type, link.plugin)


def _named(component_type: str, plugin: str) -> str:
    return f"middleware {component_type!r} of plugin {plugin!r}"


class _ConsultedError(Struct, frozen=True):
    name: str = "Error"
    message: str = ""


class _Consulted(Struct, frozen=True, rename="camel"):
    """What one of several said."""

    component_type: str
    verdict: Raw = Raw(b"null")
    error: _ConsultedError | None = None


class _ConsultedAll(Struct, frozen=True):
    verdicts: list[_Consulted]


_CONSULTED: Final = msgspec.json.Decoder(_ConsultedAll)

_WALKED_ON: Final = Fault("its plugin asked others after it had settled the matter")
_LEFT_OUT: Final = Fault(
    "its plugin did not ask it, although nobody had settled the matter"
)


def _decode_consulted(raw: object) -> _ConsultedAll:
    return _CONSULTED.decode(raw if isinstance(raw, bytes | Raw) else _ENCODE(raw))


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
