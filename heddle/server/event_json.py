"""Run events as JSON, as all who follow a run are sent them.

Each event is encoded once. Values that stand in several events of one turn (the state
that one node leaves is the state that the next one is given) are encoded once as well.
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
    NodeFailed,
    PluginEmitted,
    PluginLogged,
    ToolReturned,
    Warned,
)
from heddle.server.endings import Conceal

_encode: Final[Callable[[Any], bytes]] = msgspec.json.Encoder().encode


Known: TypeAlias = tuple[Mapping[str, Any], Raw]
"""A run's result, and the JSON that it has already been made into."""


def encode_events(
    events: Sequence[Event], conceal: Conceal, known: Known | None = None
) -> list[bytes]:
    """One JSON object an event. Never raises: what has no JSON is told as a warning.

    Args:
        events: In the order of the run.
        conceal: Applied to the texts of errors and warnings.
        known: What need not be encoded again.
    """
    return [_encode_one(event, conceal, known) for event in events]


def _encode_one(event: Event, conceal: Conceal, known: Known | None) -> bytes:
    kind = type(event)
    try:
        if kind in _CONCEALED:
            return _encode(_CONCEALED[kind](event, conceal))
        if known and isinstance(event, FlowCompleted) and event.state is known[0]:
            return _encode(replace(event, state=known[1]))
        return _encode(event)
    except Exception as error:  # noqa: BLE001  a reader must not cost the run its life
        name = event.type if isinstance(event, PluginEmitted) else kind.__name__
        return _encode(Warned(f"event {name!a} has no JSON ({type(error).__name__})"))


def encode_result(result: Mapping[str, Any]) -> Raw:
    """A run's result as JSON.

    Raises:
        Exception: It has none.
    """
    return Raw(_encode(result))


def _error(error: ErrorInfo, conceal: Conceal) -> ErrorInfo:
    return ErrorInfo(error.name, conceal(error.message))


def _tool_returned(event: Any, conceal: Conceal) -> Any:
    if event.error is None:
        return event
    return replace(event, error=_error(event.error, conceal))


def _failed(event: Any, conceal: Conceal) -> Any:
    return replace(event, error=_error(event.error, conceal))


def _said(event: Any, conceal: Conceal) -> Any:
    return replace(event, message=conceal(event.message))


_CONCEALED: Final[dict[type, Callable[[Any, Conceal], Any]]] = {
    NodeFailed: _failed,
    ToolReturned: _tool_returned,
    Warned: _said,
    PluginLogged: _said,
}
