"""Run events as JSON, as all who follow a run are sent them.

Each event is encoded once. A large value that stands in several events (the state that
one node leaves is the state that the next one is given) is encoded once as well, for the
values of a state are never changed, only replaced.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from heddle.events import (
    ErrorInfo,
    Event,
    FlowCompleted,
    ModelAnswered,
    NodeCompleted,
    NodeFailed,
    NodeStarted,
    PluginEmitted,
    PluginLogged,
    ToolReturned,
    Warned,
)
from heddle.gentle_json import any_long, encode_gently, is_long
from heddle.server.endings import Conceal

LARGE: Final = 4096
"""Bytes of an event from which on looking for values that it has in common with the next
one costs less than encoding them again."""

LARGE_VALUE: Final = 512
"""Bytes of such a value."""

Known: TypeAlias = tuple[Mapping[str, Any], Raw]
"""A run's result, and the JSON that it has already been made into."""

_encode: Final[Callable[[Any], bytes]] = msgspec.json.Encoder().encode
_encode_lines: Final[Callable[[Any], bytes]] = msgspec.json.Encoder().encode_lines


class EventEncoder:
    """Encodes the events of one run, in their order.

    Args:
        conceal: Applied to the texts of errors and warnings.
    """

    __slots__ = ("_conceal", "_parts")

    def __init__(self, conceal: Conceal) -> None:
        self._conceal = conceal
        # The large values of the newest large state, by identity. The values themselves
        # are held as well, so that no other value can come to have their identity.
        self._parts: dict[int, tuple[object, Raw]] | None = None

    def encode(self, events: Sequence[Event], known: Known | None = None) -> list[bytes]:
        """One JSON object an event. Never raises: what has no JSON is told as a warning.

        Args:
            events: The next ones.
            known: What need not be encoded.
        """
        encoded: list[bytes] = []
        for event in events:
            kind = type(event)
            try:
                if kind in _STATES:
                    # Most have a short state, and nothing in common with others.
                    told: Any = event
                    if known is None and self._parts is None and not any_long(told.state):
                        data = _encode(event)
                        if len(data) > LARGE:
                            self._parts = {}
                    else:
                        data = self._with_state(told, known)
                elif kind in _CONCEALED:
                    data = _encode(_CONCEALED[kind](event, self._conceal))
                else:
                    data = _encode(event)
            except Exception as error:  # noqa: BLE001  a reader must not cost the run its life
                data = _encode(_no_json(event, error))
            encoded.append(data)
        return encoded

    def encode_together(self, events: Sequence[Event]) -> bytes | None:
        """The last events as lines, each with its end; None where they need a closer look.

        One piece costs less to make, keep and drop than one for each, and most runs are
        never looked at again.
        """
        if self._parts is not None or not _CONCEALED.keys().isdisjoint(map(type, events)):
            return None
        try:
            for event in reversed(events):
                # All that the run had to carry by then.
                if type(event) is NodeStarted:
                    if any_long(event.state) or len(_encode(event)) > LARGE:
                        return None
                    break
            return _encode_lines(events)
        except Exception:  # noqa: BLE001  which one it is is found out one by one
            return None

    async def learn(self, state: Mapping[str, Any]) -> None:
        """Encode what is long in a state that is to be told soon, so that nobody has to
        wait for it then."""
        learned: dict[int, tuple[object, Raw]] = {}
        for value in state.values():
            if is_long(value) and (self._parts is None or id(value) not in self._parts):
                try:
                    raw = Raw(await encode_gently(value))
                except Exception:  # noqa: BLE001  told when it is to be told
                    return
                learned[id(value)] = (value, raw)
        self._parts = {**(self._parts or {}), **learned}

    def encode_result(self, result: Mapping[str, Any]) -> Raw:
        """A run's result as JSON.

        Raises:
            Exception: It has none.
        """
        parts = self._parts
        if parts:
            known = {name: parts.get(id(value)) for name, value in result.items()}
            result = {
                name: value if (part := known[name]) is None else part[1]
                for name, value in result.items()
            }
        return Raw(_encode(result))

    def _with_state(self, event: Any, known: Known | None) -> bytes:
        if known is not None and event.state is known[0]:
            return _encode(replace(event, state=known[1]))
        parts = self._parts or {}
        state: dict[str, Any] = {}
        kept: dict[int, tuple[object, Raw]] = {}
        for name, value in event.state.items():
            part = parts.get(id(value))
            if part is None:
                state[name] = raw = Raw(_encode(value))
                if memoryview(raw).nbytes > LARGE_VALUE:
                    kept[id(value)] = (value, raw)
            else:
                state[name] = part[1]
                kept[id(value)] = part
        self._parts = kept or None
        return _encode(replace(event, state=state))


def _no_json(event: Event, error: Exception) -> Warned:
    name = event.type if isinstance(event, PluginEmitted) else type(event).__name__
    return Warned(f"event {name!a} has no JSON ({type(error).__name__})")


def _error(error: ErrorInfo, conceal: Conceal) -> ErrorInfo:
    return ErrorInfo(error.name, conceal(error.message))


def _answered(event: Any, conceal: Conceal) -> Any:
    if event.error is None:
        return event
    return replace(event, error=_error(event.error, conceal))


def _failed(event: Any, conceal: Conceal) -> Any:
    return replace(event, error=_error(event.error, conceal))


def _said(event: Any, conceal: Conceal) -> Any:
    return replace(event, message=conceal(event.message))


_STATES: Final = frozenset({NodeStarted, NodeCompleted, FlowCompleted})

_CONCEALED: Final[dict[type, Callable[[Any, Conceal], Any]]] = {
    NodeFailed: _failed,
    ToolReturned: _answered,
    ModelAnswered: _answered,
    Warned: _said,
    PluginLogged: _said,
}
