"""What an HTTP answer becomes: the outputs that a document declares for it.

none declared    {"response": body}        JSON as what it is, anything else as text
one              the field of that name, or the whole body
several          the fields of those names; ``http_response`` is the body as text
"""

from typing import Any, Final

import msgspec

from heddle.engine.conventions import HTTP_RESPONSE, RESPONSE
from heddle.engine.faults import OutputMismatch
from heddle.engine.requests.request import HttpAnswer
from heddle.engine.signatures import Properties
from heddle.engine.state import State, declared_outputs, output_value

_NOTHING: Final = object()


def shape_answer(declared: Properties, answer: HttpAnswer, *, of: str) -> State:
    """The outputs in an answer.

    Raises:
        OutputMismatch: One is missing without a default, or is of another type.
    """
    text = answer.body.decode("utf-8", "replace")
    body = _read(answer.body, text)
    if not declared:
        return {RESPONSE: None if body is _NOTHING else body}
    found: dict[str, Any] = dict(body) if isinstance(body, dict) else {}
    if any(each.title == HTTP_RESPONSE for each in declared):
        found[HTTP_RESPONSE] = text
    if len(declared) == 1 and body is not _NOTHING:
        only = declared[0]
        whole = only.schema.get("type") in (None, "object") or not isinstance(body, dict)
        if only.title not in found and whole and not (only.has_default and body == {}):
            return {only.title: output_value(only, body, of=of)}
    if not isinstance(body, dict) and any(
        each.title not in found and not each.has_default for each in declared
    ):
        raise OutputMismatch(
            f"{of} was answered with {_kind(body)}, and its outputs are read from a JSON "
            "object",
            fix=f"Declare one output, or {HTTP_RESPONSE!r} for the answer as it is.",
        )
    return declared_outputs(declared, found, of=of)


def _read(body: bytes, text: str) -> Any:
    if not body.strip():
        return _NOTHING
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return text


def _kind(body: Any) -> str:
    if body is _NOTHING:
        return "nothing"
    return "text that is no JSON" if isinstance(body, str) else "another JSON value"
