"""The verbs that put one component to work: what is asked, what may be answered.

    step = Served("Shout", "shouting", asker, patience=30)
    answer = await step.ask(EXECUTE, {"node": {…}, "input": {…}}, services=run)
    answer.output, answer.branch

Each verb is a row: its name, the shape of its answer, what to answer in words. What
comes back is read against the row, whether a process wrote it or a handler inside heddle
returned it, and what does not fit says which plugin, component, verb and place in the
answer, and what to write instead.
"""

import re
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from functools import cache
from typing import Any, Final, Generic, Literal, Protocol, TypeVar, cast

import msgspec
from msgspec import Raw, Struct

from plugins_host.conversation import Message
from plugins_host.faults import Fault
from plugins_host.model_edits import EditError, check_conversation
from plugins_host.plugin_faults import PluginFault
from plugins_host.program import PATIENCE
from plugins_host.reverse import CallServices

T = TypeVar("T")

_encode: Final = msgspec.json.Encoder().encode

# Where msgspec says that something is wrong.
_AT: Final = re.compile(r" - at `\$(.*)`$")


class AnswerRefused(PluginFault):
    """A plugin answered a verb with something else than the verb asks for.

    Attributes:
        component_type: Which component.
        verb: What it was asked.
        path: The place in the answer, from ``$``.
    """

    def __init__(
        self, served: "Served", verb: str, what: str, *, path: str = "$", fix: str = ""
    ) -> None:
        super().__init__(served.plugin, what, fix=fix)
        self.component_type = served.component_type
        self.verb = verb
        self.path = path
        self.where = f"plugin {served.plugin!r}, {served.component_type} {verb} {path}"


class AnswerShape(Fault):
    """Raised by the reader of a row: what is wrong with an answer, at ``path`` in it."""

    def __init__(self, what: str, *, path: str = "$", fix: str = "") -> None:
        super().__init__(what, where=path, fix=fix)
        self.path = path


class Answerer(Protocol):
    """Who answers for a plugin: a process of its own, or handlers in heddle's."""

    @property
    def name(self) -> str:
        """The plugin's name."""
        ...

    def request(
        self,
        verb: str,
        params: bytes,
        *,
        services: CallServices | None = None,
        components: Sequence[str] = (),
        patience: float = PATIENCE,
        on_partial: Callable[[Raw], None] | None = None,
    ) -> Awaitable[object]:
        """Ask; what comes back is a JSON text (`Raw`, bytes) or an object.

        Raises:
            Fault: There is no answer.
        """
        ...


class Verb(Struct, Generic[T], frozen=True):
    """One verb.

    Attributes:
        name: The word on the wire.
        shape: What its answer is read into.
        wanted: What to answer, as an author writes it.
        check: Raises `AnswerShape` for what the shape cannot say.
    """

    name: str
    shape: type[T]
    wanted: str
    check: Callable[[T], None] = lambda _: None

    def read(self, answer: object) -> T:
        """What was answered: JSON text, or the objects of a handler inside heddle.

        Raises:
            AnswerShape: It is not what the verb asks for.
        """
        fix = f"Answer {self.wanted}."
        try:
            text = answer if isinstance(answer, Raw | bytes) else _encode(answer)
        except (TypeError, ValueError, RecursionError) as error:
            raise AnswerShape(
                f"the answer holds what JSON cannot carry ({error})",
                fix="Use objects, arrays, texts, numbers, booleans and null.",
            ) from None
        try:
            read: T = _decoder(cast("Hashable", self.shape)).decode(text)
        except msgspec.ValidationError as error:
            what, path = place_of(error)
            raise AnswerShape(what, path=path, fix=fix) from None
        except RecursionError:
            raise AnswerShape("the answer is nested too deeply", fix=fix) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise AnswerShape(f"the answer cannot be read ({error})", fix=fix) from None
        self.check(read)
        return read


@cache
def _decoder(shape: Any) -> Any:
    return msgspec.json.Decoder(shape)


def place_of(error: msgspec.ValidationError) -> tuple[str, str]:
    """What msgspec found wrong, in words, and where in the JSON."""
    text = str(error)
    found = _AT.search(text)
    what = text[: found.start()] if found else text
    what = what.replace("Object missing required field", "there is no").replace("`", "'")
    return what[:1].lower() + what[1:], f"${found[1]}" if found else "$"


class Served(Struct, frozen=True):
    """One component of a plugin that can be asked.

    Attributes:
        component_type: What it is called.
        plugin: The plugin that it is a component of.
        asker: Who answers for it.
        patience: How long it may be silent. Seconds.
        confined: It runs where it sees no folder of heddle's.
    """

    component_type: str
    plugin: str
    asker: Answerer
    patience: float = PATIENCE
    confined: bool = False

    async def ask(
        self,
        verb: Verb[T],
        params: Mapping[str, Any],
        *,
        services: CallServices | None = None,
        on_partial: Callable[[Raw], None] | None = None,
    ) -> T:
        """Ask for one thing.

        Args:
            verb: What.
            params: Its params, without ``componentType``.
            services: What reverse calls made inside it may use; None refuses them.
            on_partial: Called with each piece of progress; what it raises ends the call.

        Raises:
            PluginFault: There is no answer, or none of the right form.
        """
        answer = await self.asker.request(
            verb.name,
            _encode({"componentType": self.component_type, **params}),
            services=services,
            components=(self.component_type,),
            patience=self.patience,
            on_partial=on_partial,
        )
        try:
            return verb.read(answer)
        except AnswerShape as wrong:
            raise self.refused(verb.name, wrong) from wrong

    def refused(self, verb: str, wrong: AnswerShape) -> AnswerRefused:
        """The fault of an answer that is none."""
        return AnswerRefused(self, verb, wrong.what, path=wrong.path, fix=wrong.fix)


# --- the rows ---------------------------------------------------------------------------


class Executed(Struct, frozen=True):
    """What a node put out, and the branch that it chose."""

    output: dict[str, Any]
    branch: str | None = None


class Applied(Struct, frozen=True):
    """What a transform decided about messages. ``reason`` says why it rejects."""

    action: Literal["pass", "modify", "reject"]
    messages: tuple[Message, ...] | None = None
    reason: str | None = None


class Called(Struct, frozen=True):
    """What a tool put out; ``stderr`` is for whoever looks for what went wrong."""

    output: dict[str, Any]
    stderr: str = ""


class ListedTool(Struct, frozen=True, rename="camel"):
    """A tool that a plugin found."""

    name: str
    description: str = ""
    component_type: str | None = None
    input_schema: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None


class Listed(Struct, frozen=True):
    """The tools that a plugin found."""

    tools: tuple[ListedTool, ...]


def _check_applied(answer: Applied) -> None:
    """What any decision about messages has to have."""
    if answer.action == "reject" and not (answer.reason or "").strip():
        raise AnswerShape(
            "'reject' has no 'reason'", path="$.reason", fix="Say why in a text."
        )
    if answer.action == "modify" and not answer.messages:
        raise AnswerShape(
            "'modify' leaves no messages",
            path="$.messages",
            fix="Answer {action: 'modify', messages: [{role, content}, …]}.",
        )


def _check_pre(answer: Applied) -> None:
    _check_applied(answer)
    if answer.action == "modify":
        try:
            check_conversation(answer.messages or ())
        except EditError as error:
            raise AnswerShape(error.what, path="$.messages", fix=error.fix) from None


def _check_post(answer: Applied) -> None:
    _check_applied(answer)
    if answer.action != "modify":
        return
    roles = [each.role for each in answer.messages or ()]
    if roles != ["assistant"]:
        raise AnswerShape(
            f"these messages are of: {', '.join(roles)}; after the model there is one, and "
            "it is the assistant's",
            path="$.messages",
            fix="Answer with the one message that you were given, changed.",
        )


EXECUTE: Final = Verb("execute", Executed, "{output: {…}, branch?: '…'}")
_APPLIED: Final = (
    "{action: 'pass'}, {action: 'modify', messages: […]} or {action: 'reject', reason: '…'}"
)
APPLY: Final = Verb("apply", Applied, _APPLIED, _check_pre)
APPLY_POST: Final = Verb("apply", Applied, _APPLIED, _check_post)
CALL_TOOL: Final = Verb("callTool", Called, "{output: {…}, stderr?: '…'}")
LIST_TOOLS: Final = Verb(
    "listTools",
    Listed,
    "{tools: [{name: '…', description?, componentType?, inputSchema?, outputSchema?}]}",
)
