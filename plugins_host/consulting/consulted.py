"""What a plugin answers to a frame for several: `consult`, as it is on the wire.

{"verdicts": [{"componentType", "verdict"} or {"componentType", "error"}, …]}
"""

from typing import Final

import msgspec
from msgspec import Raw, Struct


class ConsultedError(Struct, frozen=True):
    """How one of several failed."""

    name: str = "Error"
    message: str = ""


class Consulted(Struct, frozen=True, rename="camel"):
    """What one of several said."""

    component_type: str
    verdict: Raw = Raw(b"null")
    error: ConsultedError | None = None


class ConsultedAll(Struct, frozen=True):
    """What those said that were asked, in their order."""

    verdicts: list[Consulted]


_DECODE: Final = msgspec.json.Decoder(ConsultedAll).decode
_ENCODE: Final = msgspec.json.Encoder().encode


def decode_consulted(raw: object) -> ConsultedAll:
    """Read the answer: a JSON text, or an object.

    Raises:
        msgspec.DecodeError: It is none.
        RecursionError: It is nested without end.
    """
    return _DECODE(raw if isinstance(raw, bytes | Raw) else _ENCODE(raw))
