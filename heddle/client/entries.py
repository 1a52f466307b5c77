"""What a client is told, as types: entries of a run's stream, results, lists of runs.

    Entry(run, seq, event, data)     event is one of `heddle.events`,
                                     or Missed(first, last): these are gone,
                                     or UnknownEvent(type, fields): newer than this client

``data`` is the event as it came. Fields that this client does not know are in there, and
in ``Entry.fields``: nothing that a newer server says is lost or an error.
"""

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Any, Final, TypeAlias, get_args

import msgspec
from msgspec import Struct

from heddle.client.faults import ErrorBody, ProtocolBroken
from heddle.events import Event, PluginEmitted

_PLUGIN: Final = "plugin:"
_SHOWN: Final = 80


class UnknownEvent(Struct, frozen=True):
    """An event of a type that this client has no class for."""

    type: str
    fields: dict[str, Any]


class Missed(Struct, frozen=True):
    """Events ``first`` to ``last`` can't be had any more: the server has let go of them."""

    first: int
    last: int


AnyEvent: TypeAlias = Event | UnknownEvent | Missed


class Entry(Struct, frozen=True):
    """One entry of a run's stream. ``seq`` counts from 1 without holes.

    Pass ``seq`` as ``after`` to go on behind this entry later, elsewhere.
    """

    run: str
    seq: int
    event: AnyEvent
    data: bytes

    @property
    def fields(self) -> dict[str, Any]:
        """The event as plain data, with fields that no class here knows."""
        found: dict[str, Any] = msgspec.json.decode(self.data)
        return found


class RunResult(Struct, frozen=True):
    """A run that reached its end."""

    run: str
    flow: str
    state: dict[str, Any]


class RunInfo(Struct, frozen=True, rename="camel"):
    """How a run stands. ``state`` or ``error`` is there once it has ended, and was asked
    for by its id."""

    run: str
    flow: str
    status: str
    started_at: float
    seconds: float
    nodes: int
    events: int
    detached: bool = False
    readers: int = 0
    node: str | None = None
    node_type: str | None = None
    state: dict[str, Any] | None = None
    error: ErrorBody | None = None

    @property
    def running(self) -> bool:
        """Whether it goes on."""
        return self.status == "running"


class Problem(Struct, frozen=True):
    """One thing that is wrong with a flow, or odd: where in it, what, and what to do.

    ``file`` is the operator's file of components that ``path`` leads through, when it is
    not the flow.
    """

    path: str
    what: str
    fix: str = ""
    file: str = ""


class Validation(Struct, frozen=True):
    """What the server says of a flow that it did not run."""

    valid: bool
    flow: str = ""
    error: ErrorBody | None = None
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


class ServedFlow(Struct, frozen=True):
    """A flow of the server's own, by its path under ``--flows-root``."""

    path: str


Flow: TypeAlias = Mapping[str, Any] | str | ServedFlow
"""A document as data, as JSON or YAML text, or one that the server has."""


_TAGGED: Final = tuple(each for each in get_args(Event) if each is not PluginEmitted)
_known: Final = msgspec.json.Decoder(reduce(or_, _TAGGED)).decode
_emitted: Final = msgspec.json.Decoder(PluginEmitted).decode
_object: Final = msgspec.json.Decoder(dict[str, Any]).decode

TYPES: Final = frozenset(str(each.__struct_config__.tag) for each in _TAGGED)
"""The types that have a class, but for those of plugins."""


def read_event(data: bytes, *, where: str) -> Event | UnknownEvent:
    """An event from its JSON.

    Raises:
        ProtocolBroken: It is none, or one of a known type that lacks what that has.
    """
    try:
        event: Event = _known(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return _other(data, error, where)
    return event


def _other(data: bytes, error: Exception, where: str) -> PluginEmitted | UnknownEvent:
    try:
        fields = _object(data)
        kind = fields.get("type")
        if isinstance(kind, str) and kind not in TYPES:
            if kind.startswith(_PLUGIN):
                return _emitted(data)
            return UnknownEvent(kind, fields)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as worse:
        error = worse
    raise ProtocolBroken(
        f"an event can't be read ({error}): {data[:_SHOWN]!r}",
        where=where,
        fix="Check that the address is that of a heddle-server.",
    ) from error


def hole(expected: int, found: int, *, where: str) -> ProtocolBroken:
    """Events that were neither sent nor told to be missing."""
    return ProtocolBroken(
        f"event {found} came where {expected} was due",
        where=where,
        fix="This is a bug in the server, or something between cut the stream.",
    )


def request_body(
    flow: Flow,
    inputs: Mapping[str, Any] | None,
    tools: tuple[Mapping[str, Any], ...],
    plugins: tuple[Mapping[str, Any], ...],
) -> dict[str, Any]:
    """What asks for a run, over HTTP and on a socket."""
    body: dict[str, Any] = {"inputs": inputs or {}}
    if isinstance(flow, ServedFlow):
        body["flowPath"] = flow.path
    else:
        body["flow"] = flow
    if tools:
        body["tools"] = tools
    if plugins:
        body["plugins"] = plugins
    return body
