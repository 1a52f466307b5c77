"""Answers as data: the JSON Schema that asks for them, and reading what came back."""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from heddle.engine.faults import OutputMismatch
from heddle.engine.signatures import Properties
from heddle.engine.state import State, declared_outputs

_FENCED: Final = re.compile(r"\A\s*```(?:json)?\s*\n(.*?)\n?\s*```\s*\Z", re.DOTALL)
_QUOTED: Final = 200
"""Characters of a model's answer that an error quotes."""


def single_text(outputs: Properties) -> str:
    """The name of the one output when it is a string, else the empty string."""
    if len(outputs) == 1 and outputs[0].schema.get("type") == "string":
        return outputs[0].title
    return ""


def output_schema(outputs: Properties) -> dict[str, Any]:
    """The JSON Schema of an object that holds all the outputs."""
    return {
        "type": "object",
        "properties": {
            each.title: {key: value for key, value in each.schema.items() if key != "title"}
            for each in outputs
        },
        "required": [each.title for each in outputs if not each.has_default],
    }


def json_object(text: str) -> Mapping[str, Any] | None:
    """The JSON object that the text is, bare or in a code fence; None for anything else."""
    fenced = _FENCED.match(text)
    try:
        value = msgspec.json.decode(fenced[1] if fenced else text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def read_structured(outputs: Properties, text: str) -> State:
    """The declared outputs out of a model's answer.

    Raises:
        OutputMismatch: The answer is no JSON object, or not one with these outputs.
    """
    found = json_object(text)
    if found is None:
        wanted = ", ".join(each.title for each in outputs)
        quoted = text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…"
        raise OutputMismatch(
            f"the model was asked for a JSON object with {wanted} and answered {quoted!r}",
            fix="Use a model that follows response formats, or declare one string output.",
        )
    return declared_outputs(outputs, found, of="the model")
