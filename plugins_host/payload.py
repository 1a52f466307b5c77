"""A JSON value that is text, objects, or both: each made at most once, when first asked.

What several plugins are shown is encoded once and spliced into each question; what a
plugin answered is decoded once, when the engine wants to use it. `Payload` carries the
value through a chain so that neither is done twice.
"""

from typing import Any, Final, cast

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder()
_ABSENT: Final = object()


class Payload(Struct, frozen=True, eq=False):
    """One JSON value. Treat what `value` returns as read-only: it may be shared.

    Made by `of` or `encoded`; its two fields are the two forms, one of which may be
    missing.
    """

    _raw: bytes | None
    _value: Any

    @staticmethod
    def of(value: object) -> "Payload":
        """A value at hand: JSON's own types, or a msgspec Struct that stands for them."""
        return Payload(None, value)

    @staticmethod
    def encoded(raw: bytes | msgspec.Raw) -> "Payload":
        """A JSON text that is known to be valid."""
        return Payload(bytes(raw), _ABSENT)

    @property
    def raw(self) -> bytes:
        """The value as JSON text without line breaks."""
        if self._raw is None:
            raw = _ENCODER.encode(self._value)
            force_setattr(self, "_raw", raw)
            return raw
        return self._raw

    @property
    def value(self) -> Any:
        """The value as objects; a Struct stays the Struct that was put in."""
        if self._value is _ABSENT:
            force_setattr(self, "_value", _DECODER.decode(cast("bytes", self._raw)))
        return self._value

    def fresh(self) -> Any:
        """A copy in JSON's own types that the caller may change."""
        return _DECODER.decode(self.raw)

    def __repr__(self) -> str:
        """Size only: payloads hold users' data, and reprs end in logs."""
        return f"<Payload of {len(self.raw)} bytes>"


EMPTY: Final = Payload(b"{}", {})
