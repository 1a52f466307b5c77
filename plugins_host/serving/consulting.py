"""What a plugin process knows of a `consult` before it asks anybody: whom, and their words.

heddle asks the same middleware at the same half again and again, with the same settings.
So what does not change from one frame to the next is made once, and found by the bytes:

    {"seam": …, "half": …, "ask": [{"componentType", "component"}, …], …}
      └──────────────┴────────┴──▶ Plan ─▶ a Step for each that is asked

It calls no handler; the walk along the steps is in `answers`.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from plugins_host.authoring.dispatch import Dispatch
from plugins_host.authoring.handlers import Found, HandlerMissing
from plugins_host.authoring.surface import HostError
from plugins_host.serving.wire import Params, encode

# Plans that are kept. A process has one for each half that it serves and each place in the
# chain that a walk went on from; settings never change while it lives.
_MOST: Final = 256


class Asked(Struct, frozen=True, rename="camel"):
    """One entry of ``ask``."""

    component_type: str = ""
    component: Raw = Raw()


class Step(Struct, frozen=True, eq=False):
    """One middleware of the frame.

    Attributes:
        name: Its component type.
        component: Its settings.
        found: Its handler; None when there is none.
        said: How its entry in the answer begins; a verdict and ``}`` are to follow.
        consent: The whole entry, when it lets things be.
    """

    name: str
    component: Raw
    found: Found | None
    said: bytes
    consent: bytes


class Plan(Struct, frozen=True, eq=False):
    """All that are asked in one frame.

    Attributes:
        steps: In the order in which they are asked.
        consent: The verdict with which this half lets things be.
        admits: The verdicts of this half, as ctx tells them.
        takes_modify: Whether a modify goes on to the next. A heddle that did not say what a
            half admits is taken to admit it.
    """

    steps: tuple[Step, ...]
    consent: Mapping[str, str]
    admits: tuple[str, ...]
    takes_modify: bool


class Plans:
    """The plans of one plugin process."""

    def __init__(self, dispatch: Dispatch) -> None:
        self._dispatch = dispatch
        self._kept: dict[tuple[str, str, bytes], Plan] = {}

    def find(self, seam: str, half: str, ask: Raw) -> Plan:
        """The plan for whom heddle asks.

        Raises:
            HostError: ``ask`` is no list of them.
        """
        key = (seam, half, bytes(ask))
        plan = self._kept.get(key)
        if plan is None:
            if len(self._kept) >= _MOST:
                self._kept.clear()
            plan = self._kept[key] = self._make(*key)
        return plan

    def _make(self, seam: str, half: str, ask: bytes) -> Plan:
        word = "proceed" if half == "before" else "pass"
        admits = self._dispatch.admitted(seam, half)
        try:
            asked = _decode_ask(ask) if ask else ()
        except msgspec.DecodeError as error:
            why = f"this frame cannot be read: {error}"
            raise HostError("ProtocolError", why) from None
        steps = tuple(self._step(each, seam, half, word) for each in asked)
        return Plan(steps, {"action": word}, admits, "modify" in (admits or ("modify",)))

    def _step(self, asked: Asked, seam: str, half: str, word: str) -> Step:
        name = asked.component_type
        said = b'{"componentType":%b,"verdict":' % encode(name)
        consent = b'%b{"action":"%b"}}' % (said, word.encode())
        try:
            found = self._dispatch.half(name, seam, half)
        except HandlerMissing:
            found = None
        return Step(name, asked.component, found, said, consent)


_decode_ask: Final = msgspec.json.Decoder(tuple[Asked, ...]).decode


def input_of_next(
    plan: Plan, params: Params, given: Raw, verdict: Mapping[str, Any]
) -> Raw | None:
    """What the next one is asked about, after ``verdict``; None when it settled things."""
    action = verdict.get("action")
    if action == plan.consent["action"]:
        return given
    if action != "modify" or not plan.takes_modify or params.checked:
        return None
    change = verdict.get("input")
    if not isinstance(change, Mapping):
        return None
    if params.seam != "modelCall":
        return Raw(encode(change))
    return _edited(given, change)


def _edited(request: Raw, change: Mapping[str, Any]) -> Raw | None:
    """The model request that heddle makes of an edit; None if it takes none of it."""
    # Few policies edit requests, and most of those one after another in one process.
    from plugins_host.conversation import ModelRequest
    from plugins_host.model_edits import EditError
    from plugins_host.model_edits import edited as edit

    try:
        asked = msgspec.json.decode(request, type=ModelRequest)
        # As heddle reads it: in the types of JSON, whatever the handler made it of.
        return Raw(encode(edit(asked, msgspec.json.decode(encode(change)))))
    except (EditError, msgspec.DecodeError):
        return None
