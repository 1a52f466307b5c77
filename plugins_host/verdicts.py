"""Verdicts: what a middleware may decide, and the one reader that admits them.

    {"action": "modify", "input": {...}}     Modify(Payload)
    {"action": "retry", "delayMs": 500}      Retry(delay=0.5)

`read_verdict` takes what a plugin answered, as JSON text or as objects, and returns a
frozen struct or raises a `VerdictError` whose sentence tells the author what to change.
Unknown fields are ignored; nothing that is not a verdict is taken for consent. Pure.
"""

import math
from collections.abc import Mapping
from typing import Any, Final, TypeAlias, cast

import msgspec
from msgspec import UNSET, Raw, Struct

from plugins_host.faults import Fault, nearest
from plugins_host.payload import Payload
from plugins_host.seams import ACTIONS, MAX_DELAY_MS, SEAMS, Action, Half, Seam, admitted


class VerdictError(Fault):
    """A plugin answered a question of the chain with something that is no verdict."""


class Proceed(Struct, frozen=True, tag_field="action", tag="proceed"):
    """Go on as things are."""


class Modify(Struct, frozen=True, tag_field="action", tag="modify"):
    """Go on with this input instead. ``input`` holds an object."""

    input: Payload


class Replace(Struct, frozen=True, tag_field="action", tag="replace"):
    """Do not do it, or forget what came of it: this is the result. An object."""

    value: Payload


class Reject(Struct, frozen=True, tag_field="action", tag="reject"):
    """The work must not happen. ``reason`` reaches whoever asked for it."""

    reason: str


class Pass(Struct, frozen=True, tag_field="action", tag="pass"):
    """The outcome stands."""


class Retry(Struct, frozen=True, tag_field="action", tag="retry"):
    """Do it once more. ``delay`` is in seconds and within bounds.

    ``clamped_from`` is the delay in milliseconds that was asked for, when it was not
    within 0..`MAX_DELAY_MS`.
    """

    delay: float = 0.0
    clamped_from: float | None = None


class Fail(Struct, frozen=True, tag_field="action", tag="fail"):
    """End it here. ``reason`` reaches whoever started the run."""

    reason: str


Verdict: TypeAlias = Proceed | Modify | Replace | Reject | Pass | Retry | Fail

Keys: TypeAlias = bytes | tuple[str, ...]
"""The fields that an answer has: its JSON text, or the names in an object."""

PROCEED: Final = Proceed()
PASS: Final = Pass()


class _Said(Struct, frozen=True, gc=False):
    """A verdict as it is on the wire, checked for nothing but being an object."""

    action: Any = UNSET
    input: Raw = Raw()
    value: Raw = Raw()
    reason: Any = UNSET
    delayMs: Raw = Raw()  # noqa: N815  the word on the wire


_SAID: Final = msgspec.json.Decoder(_Said)
_ANY: Final = msgspec.json.Decoder()
_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
_ENCODER: Final = msgspec.json.Encoder()
# What most policies say most of the time, as most runtimes write it. Every seam admits it,
# so that who meets one of these texts need not read it.
CONSENTS: Final[Mapping[Half, tuple[bytes, ...]]] = {
    Half.BEFORE: (b'{"action":"proceed"}', b'{"action": "proceed"}'),
    Half.AFTER: (b'{"action":"pass"}', b'{"action": "pass"}'),
}
_ADMITTED: Final[Mapping[tuple[Seam, Half], Mapping[str, Action]]] = {
    (seam, half): {action.value: action for action in half_row.admits}
    for seam, row in SEAMS.items()
    for half, half_row in row.halves.items()
}
_BROKEN: Final = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)


def read_verdict(raw: object, seam: Seam, half: Half, *, where: str) -> Verdict:
    """Read what a middleware answered against what this half of the seam admits.

    Args:
        raw: The answer: JSON text (bytes or `msgspec.Raw`), or the object that a handler
            in this process returned.
        seam: Where it was asked.
        half: On which side.
        where: Middleware, plugin, seam and half, for errors.

    Raises:
        VerdictError: It is no verdict, or none that this half admits.
    """
    kind = type(raw)
    keys: Keys
    if kind is Raw or kind is bytes:
        keys = text = bytes(cast("bytes | Raw", raw))
        try:
            said = _SAID.decode(text)
        except _BROKEN:
            raise _not_an_object(_decoded(text, where), seam, half, where) from None
    elif isinstance(raw, Mapping):
        said, keys = _said_in_process(raw, where), tuple(map(str, raw))
    else:
        raise _not_an_object(raw, seam, half, where)
    word = said.action
    action = _ADMITTED[seam, half].get(word) if type(word) is str else None
    if action is None:
        raise _no_action(word, keys, seam, half, where)
    match action:
        case Action.PROCEED:
            return PROCEED
        case Action.PASS:
            return PASS
        case Action.MODIFY:
            return Modify(_read_object(said.input, "input", action, keys, where))
        case Action.REPLACE:
            return Replace(_read_object(said.value, "value", action, keys, where))
        case Action.REJECT:
            return Reject(_read_reason(said.reason, action, keys, where))
        case Action.FAIL:
            return Fail(_read_reason(said.reason, action, keys, where))
        case Action.RETRY:
            return _read_retry(said.delayMs, where)


def _said_in_process(raw: Mapping[Any, Any], where: str) -> _Said:
    """The same view of a verdict that a handler in this process returned.

    The values are encoded, so that what goes on is a copy: the handler may keep what it
    returned and change it later.
    """

    def encoded(name: str) -> Raw:
        if name not in raw:
            return Raw()
        value = raw[name]
        if isinstance(value, float) and not math.isfinite(value):
            return Raw(b"null")
        try:
            return Raw(_ENCODER.encode(value))
        except (TypeError, ValueError, RecursionError) as error:
            raise VerdictError(
                f"{name!r} holds what JSON cannot carry ({error})",
                where=where,
                fix="Use objects, arrays, texts, numbers, booleans and null.",
            ) from error

    return _Said(
        raw.get("action", UNSET),
        encoded("input"),
        encoded("value"),
        raw.get("reason", UNSET),
        encoded("delayMs"),
    )


def _no_action(action: Any, keys: Keys, seam: Seam, half: Half, where: str) -> VerdictError:
    admits = admitted(seam, half)
    choices = f"Answer with an action from: {', '.join(sorted(admits))}."
    if action is UNSET:
        typo = _misspelt("action", keys, where)
        hint = f", and has {typo!r}" if typo else ""
        fix = "Did you mean 'action'?" if typo else choices
        return VerdictError(f"the verdict has no 'action'{hint}", where=where, fix=fix)
    if not isinstance(action, str):
        return VerdictError(f"'action' is {_kind(action)}", where=where, fix=choices)
    if action in ACTIONS:
        return VerdictError(
            f"action {action!r} is not admitted here", where=where, fix=choices
        )
    guess = nearest(action, admits)
    fix = choices if guess is None else f"Did you mean {guess!r}? {choices}"
    return VerdictError(f"{_quoted(action)} is not a verdict", where=where, fix=fix)


def _read_object(raw: Raw, name: str, action: Action, keys: Keys, where: str) -> Payload:
    text = bytes(raw)
    if not text:
        raise _lacks(name, action, keys, where)
    value = _decoded(raw, where)
    if not isinstance(value, dict):
        raise VerdictError(
            f"{name!r} of action '{action}' is {_kind(value)}",
            where=where,
            fix=f"Make {name!r} an object.",
        )
    return Payload(text, value)


def _read_reason(reason: Any, action: Action, keys: Keys, where: str) -> str:
    if reason is UNSET:
        raise _lacks("reason", action, keys, where)
    if not isinstance(reason, str):
        raise VerdictError(
            f"'reason' of action '{action}' is {_kind(reason)}",
            where=where,
            fix="Say why in a text.",
        )
    if not reason.strip():
        raise VerdictError(
            f"'reason' of action '{action}' is empty", where=where, fix="Say why."
        )
    # Half a surrogate pair, as in the name of a file, must not lose the verdict.
    return reason if reason.isascii() else reason.encode(errors="replace").decode()


def _read_retry(raw: Raw, where: str) -> Retry:
    if not bytes(raw):
        return Retry()
    try:
        milliseconds = _ANY.decode(raw)
    except _BROKEN:
        milliseconds = math.nan  # a number beyond what a float holds
    if (
        isinstance(milliseconds, bool)
        or not isinstance(milliseconds, int | float)
        or (isinstance(milliseconds, float) and not math.isfinite(milliseconds))
    ):
        raise VerdictError(
            f"'delayMs' of action 'retry' is {_kind(milliseconds)}",
            where=where,
            fix="Make it a finite number of milliseconds; NaN and Infinity travel as null.",
        )
    within = min(max(milliseconds, 0), MAX_DELAY_MS)
    return Retry(within / 1000, None if within == milliseconds else milliseconds)


def _lacks(name: str, action: Action, keys: Keys, where: str) -> VerdictError:
    typo = _misspelt(name, keys, where)
    if typo is not None:
        return VerdictError(
            f"action '{action}' has no {name!r}, and has {typo!r}",
            where=where,
            fix=f"Did you mean {name!r}?",
        )
    kind = "a text" if name == "reason" else "an object"
    return VerdictError(
        f"action '{action}' has no {name!r}", where=where, fix=f"Add {name!r}, {kind}."
    )


def _misspelt(name: str, keys: Keys, where: str) -> str | None:
    """A field of the verdict that was probably meant to be ``name``."""
    try:
        names = keys if isinstance(keys, tuple) else _FIELDS.decode(keys)
    except _BROKEN as error:
        # The names of fields that nothing reads have not been looked at before.
        raise _not_json(error, where) from None
    return next((key for key in names if nearest(key, [name]) is not None), None)


def _not_an_object(raw: object, seam: Seam, half: Half, where: str) -> VerdictError:
    admits = sorted(admitted(seam, half))
    fix = f"Answer with an action from: {', '.join(admits)}."
    if isinstance(raw, str) and raw in admits:
        fix = f'Answer {{"action": "{raw}"}}.'
    return VerdictError(
        f"the answer is {_kind(raw)}, which is no verdict", where=where, fix=fix
    )


def _decoded(raw: bytes | Raw, where: str) -> object:
    try:
        return _ANY.decode(raw)
    except RecursionError:
        raise VerdictError(
            "the answer is nested too deeply", where=where, fix="Send flatter data."
        ) from None
    except _BROKEN as error:
        raise _not_json(error, where) from None


def _not_json(error: Exception, where: str) -> VerdictError:
    return VerdictError(
        f"the answer is not valid JSON ({error})",
        where=where,
        fix="Write UTF-8 and numbers that a double can hold.",
    )


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:59]}…")


def _kind(value: object) -> str:
    """What a value is, for an error: its kind, and itself where that is short and safe."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"the text {_quoted(value)}"
    if isinstance(value, float) and not math.isfinite(value):
        return "a number that is not finite"
    if isinstance(value, int | float):
        return f"the number {_quoted(str(value))[1:-1]}"
    if isinstance(value, list | tuple):
        return "an array"
    if isinstance(value, dict):
        return "an object"
    if type(value).__name__ == "coroutine":
        return "a coroutine that nobody awaited"
    return f"a Python {type(value).__name__}"
