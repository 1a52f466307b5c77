"""The one JSON object that a run carries, and what of it a node is given.

A node's input is the carried state with the node's declared inputs laid over it: from
the source of a data edge that was executed last, else from the state by name; converted
to the declared type; a default where there is nothing. Pure functions over data.
"""

from collections.abc import Iterable, Mapping
from itertools import repeat
from typing import Any, Final

from msgspec import UNSET

from heddle.engine.conventions import REJECTED
from heddle.engine.faults import InputMismatch, InputMissing, InputsRefused, OutputMismatch
from heddle.engine.graph import CHAT_HISTORY, RESERVED, Feed, Graph, GraphNode
from heddle.engine.signatures import Properties
from heddle.spec import Property, TypeConversionError, check, convert

State = dict[str, Any]

_NOTHING: Any = object()


class Ran:
    """What each node put out when it was last executed, and in which order."""

    __slots__ = ("_clock", "_last")

    def __init__(self) -> None:
        self._clock = 0
        self._last: dict[int, tuple[int, Mapping[str, Any]]] = {}

    def record(self, node: int, output: Mapping[str, Any]) -> None:
        """Node number ``node`` has settled with ``output``."""
        self._clock += 1
        self._last[node] = (self._clock, output)

    def latest(self, sources: tuple[tuple[int, str], ...]) -> Any:
        """The value of the source executed last, or a marker when none has one."""
        newest, value = 0, _NOTHING
        for node, name in sources:
            at, output = self._last.get(node, (0, _EMPTY))
            if at > newest:
                newest, value = at, output.get(name, _NOTHING)
        return value

    def rejected(self, nodes: Iterable[int]) -> str | None:
        """How a transform ended the work of one of these nodes' agents, if one did."""
        outputs = (self._last.get(node, (0, _EMPTY))[1] for node in nodes)
        return next(filter(None, map(rejection, outputs)), None)


_EMPTY: Mapping[str, Any] = {}
_REJECTED_FIX: Final = (
    "Give the output a default, or have the flow go another way by 'transform_status'."
)


def rejection(output: Mapping[str, Any]) -> str | None:
    """How a transform ended the work of an agent, if that is among what it put out."""
    if output.get(REJECTED[0]) != REJECTED[1]:
        return None
    said = ("name", "phase", "reason")
    name, phase, reason = (output.get(f"transform_{each}") for each in said)
    return f"transform {name!r} rejected ({phase}) and ended its agent: {reason}"


def node_input(node: GraphNode, carried: State, ran: Ran) -> State:
    """A new object: the carried state under the node's own inputs.

    Raises:
        InputMissing: A connected input has neither a value nor a default.
        InputMismatch: A value cannot become the declared type.
    """
    given = dict(carried)
    for feed in node.feeds:
        if feed.sources:
            value = ran.latest(feed.sources)
        else:
            value = carried.get(feed.name, _NOTHING)
        if value is _NOTHING:
            value = _default(feed, ran)
            if value is _NOTHING:
                given.pop(feed.name, None)
                continue
        elif feed.schema is not None and type(value) is not feed.plain:
            value = _converted(feed, value)
        given[feed.name] = value
    return given


def _default(feed: Feed, ran: Ran) -> Any:
    if feed.default is not UNSET:
        return feed.default
    if feed.required:
        if (why := ran.rejected(node for node, _ in feed.sources)) is not None:
            raise InputMissing(
                f"input {feed.name!r} has no value: {why}", fix=_REJECTED_FIX
            )
        raise InputMissing(
            f"input {feed.name!r} has no value: the node that it is connected to did not "
            "run or put nothing out under that name, and it has no default",
            fix="Give the input a default, or connect it to a node that always runs.",
        )
    return _NOTHING


def _converted(feed: Feed, value: Any) -> Any:
    assert feed.schema is not None
    try:
        return convert(value, feed.schema)
    except TypeConversionError as error:
        raise InputMismatch(
            f"input {inside(feed.name, error.path)}: {error.what}",
            fix="Connect it to a value of that type.",
        ) from error


def start_state(
    graph: Graph, inputs: Mapping[str, Any], history: list[dict[str, Any]] | None = None
) -> State:
    """The state that a run begins with: its inputs, checked later by the StartNode.

    Args:
        graph: The flow.
        inputs: What it is given.
        history: The turns before it; None for a run that is no turn of a conversation. A
            flow that declares them as an input is then given none.

    Raises:
        InputsRefused: A key is one of those that heddle keeps for itself.
    """
    # The loop is in C: a million inputs are a fifth of a second otherwise.
    if any(map(str.startswith, inputs, repeat(RESERVED))):
        taken = next(key for key in inputs if key.startswith(RESERVED))
        raise InputsRefused(
            f"input {taken!r}: names that begin with {RESERVED!r} are reserved",
            where=f"flow {graph.name!r}",
            fix="Choose another name.",
        )
    state = dict(inputs)
    if history is not None:
        state[CHAT_HISTORY] = history
        return state
    for each in graph.inputs:
        if each.title == CHAT_HISTORY:
            state[CHAT_HISTORY] = []
    return state


def check_inputs(declared: Properties, given: State) -> State:
    """The given state with defaults filled in, or every problem with it.

    Raises:
        InputMissing: An input without a default is missing.
        InputMismatch: An input has the wrong type.
    """
    filled = dict(given)
    missing: list[str] = []
    wrong: list[str] = []
    for each in declared:
        if each.title in filled:
            if is_plainly(filled[each.title], each.schema):
                continue
            faults = check(filled[each.title], each.schema)
            wrong += (f"{inside(each.title, path)}: {text}" for path, text in faults)
        elif each.has_default:
            filled[each.title] = each.default
        else:
            missing.append(each.title)
    if missing:
        listed = ", ".join(repr(name) for name in missing)
        also = f"; and {'; '.join(wrong)}" if wrong else ""
        if len(missing) > 1:
            raise InputMissing(
                f"the flow needs inputs {listed}, which were not given{also}",
                fix="Pass them as inputs (--input on the command line), or give them "
                "defaults in the flow.",
            )
        raise InputMissing(
            f"the flow needs input {listed}, which was not given{also}",
            fix="Pass it as an input (--input on the command line), or give it a default "
            "in the flow.",
        )
    if wrong:
        raise InputMismatch(
            f"wrong type of input {'; '.join(wrong)}",
            fix="Pass a value of the declared type.",
        )
    return filled


def declared_outputs(declared: Properties, found: Mapping[str, Any], *, of: str) -> State:
    """The declared outputs out of what was found: converted, defaults filled in.

    Args:
        declared: At least one output.
        found: Values by name; names that are not declared are left out.
        of: Who produced it, for the error: "tool 'x'", "the model".

    Raises:
        OutputMismatch: One is missing without a default, or is of another type.
    """
    result: State = {}
    for each in declared:
        if each.title not in found:
            if not each.has_default:
                if (why := rejection(found)) is not None:
                    raise OutputMismatch(
                        f"{of} gave no {each.title!r}; {why}", fix=_REJECTED_FIX
                    )
                raise OutputMismatch(
                    f"{of} gave no {each.title!r}, which the outputs declare",
                    fix=f"It gave: {', '.join(map(repr, found)) or 'nothing'}.",
                )
            result[each.title] = each.default
            continue
        result[each.title] = output_value(each, found[each.title], of=of)
    return result


def output_value(declared: Property, value: Any, *, of: str) -> Any:
    """One output as its declared type.

    Raises:
        OutputMismatch: The value cannot become that type.
    """
    if is_plainly(value, declared.schema):
        return value
    try:
        value = convert(value, declared.schema)
    except TypeConversionError as error:
        raise OutputMismatch(
            f"{of} gave {inside(declared.title, error.path)} as something else than "
            f"declared: {error.what}",
            fix=RIGHT_TYPE,
        ) from error
    faults = check(value, declared.schema)
    if faults:
        path, text = faults[0]
        raise OutputMismatch(
            f"{of} gave a wrong {inside(declared.title, path)}: {text}", fix=RIGHT_TYPE
        )
    return value


_PLAIN_TYPES: Final[Mapping[Any, type]] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
}
_NOTES: Final = frozenset(("type", "title", "description", "default"))


def is_plainly(value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether a value is of a type that asks for nothing else, seen at a glance."""
    kind = schema.get("type")
    if type(kind) is not str or type(value) is not _PLAIN_TYPES.get(kind):
        return False
    return _NOTES.issuperset(schema)


def all_plain(values: Iterable[Any], schema: Mapping[str, Any]) -> bool:
    """Whether all are of a type that asks for nothing else."""
    if not is_plain_type(schema):
        return False
    # Looked through in C: a million items are a tenth of a second otherwise.
    return {*map(type, values)} <= {_PLAIN_TYPES[schema["type"]]}


def is_plain_type(schema: Mapping[str, Any]) -> bool:
    """Whether holding a value against a type takes no time to speak of."""
    return plain_type(schema) is not None


def plain_type(schema: Mapping[str, Any]) -> type | None:
    """Python's type of the values of such a type; None for any other."""
    kind = schema.get("type")
    if type(kind) is not str or not _NOTES.issuperset(schema):
        return None
    return _PLAIN_TYPES.get(kind)


Glance = tuple[tuple[str, type], ...]
"""Names, and Python's types of values that are seen at a glance to be as declared."""


def glance_at(declared: Properties) -> Glance | None:
    """What to look for; None when one of the types takes a closer look."""
    if not all(is_plain_type(each.schema) for each in declared):
        return None
    return tuple((each.title, _PLAIN_TYPES[each.schema["type"]]) for each in declared)


def seen(glance: Glance, values: Mapping[str, Any]) -> bool:
    """Whether all are there and plainly right; if not, whoever looks closer says why."""
    for name, kind in glance:  # noqa: SIM110  a generator would be half of its time
        if type(values.get(name)) is not kind:
            return False
    return True


def may_start(glance: Glance, inputs: Mapping[str, Any]) -> bool:
    """Whether a run could start from its inputs, seen at a glance."""
    return seen(glance, inputs) and not any(map(str.startswith, inputs, repeat(RESERVED)))


RIGHT_TYPE: Final = "Correct what it gives, or the type that the output declares."


def inside(name: str, path: str) -> str:
    """A place in a value, as a person reads it: ``'hits'``, ``'hits'[2].url``."""
    return f"{name!r}{path.removeprefix('$')}"
