"""The frames between heddle and a plugin, as the plugin's side reads and writes them.

    {"id", "method", "params"}    a question from heddle
    {"id", "result" | "error"}    heddle's answer to a reverse call; ours to a question

What is large in a question stays bytes until a handler looks at it. `plugins_host.frames`
is heddle's side of the same; a plugin needs far less of it, and starts faster without.
"""

from typing import Any, Final, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct

from plugins_host.authoring.dispatch import Question

Id: TypeAlias = int | float | str | None


class Params(Question, frozen=True, rename="camel"):
    """What any question may carry beside a consultation's own."""

    half: str = ""
    ask: Raw = Raw()
    checked: bool = False
    call: Id = None


class Frame(Struct, frozen=True):
    """Any frame that heddle sends: a question, or what became of a reverse call."""

    id: Id = None
    method: str = ""
    params: Params | None = None
    result: Any = UNSET
    error: Any = UNSET


class Answer(Struct, frozen=True):
    """What a question is answered with."""

    id: Id
    result: Any


class Refusal(Struct, frozen=True):
    """What is said to a question that has no answer: ``name``, ``message`` and more."""

    id: Id
    error: dict[str, Any]


NO_PARAMS: Final = Params()

decode: Final = msgspec.json.Decoder().decode
decode_frame: Final = msgspec.json.Decoder(Frame).decode
encode: Final = msgspec.json.Encoder().encode
