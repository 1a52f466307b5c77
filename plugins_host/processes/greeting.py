"""The handshake: what heddle says of itself, and what a plugin answers to it.

    init ─▶ {"protocol": 1, "features": ["consult"]}

A plugin that does not know `init`, or answers without a protocol, speaks version 1.
"""

from contextlib import suppress
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from plugins_host.plugin_faults import ProtocolBroken
from plugins_host.program import PluginProgram
from plugins_host.seams import HANDSHAKE_HALVES, HANDSHAKE_SEAMS

PROTOCOL: Final = 1
EVENT_CONTRACT: Final = 1
FEATURES: Final = ("consult",)


class _Greeting(Struct, frozen=True):
    """What a plugin answers to `init`."""

    protocol: Any = None
    features: list[Any] = []


_DECODE: Final = msgspec.json.Decoder(_Greeting).decode


def init_params(program: PluginProgram) -> bytes:
    """What is asked first of every plugin, as JSON text."""
    return msgspec.json.encode(
        {
            "protocol": PROTOCOL,
            "events": EVENT_CONTRACT,
            "capabilities": sorted(program.capabilities),
            "seams": HANDSHAKE_SEAMS,
            "halves": HANDSHAKE_HALVES,
            "features": FEATURES,
        }
    )


def agreed(plugin: str, answer: Raw | None) -> frozenset[str]:
    """The features that both sides know; ``answer`` is None when there was an error.

    Raises:
        ProtocolBroken: It speaks another version.
    """
    greeting = _Greeting()
    if answer is not None:
        with suppress(msgspec.DecodeError, RecursionError):
            greeting = _DECODE(answer)
    if greeting.protocol is not None and greeting.protocol != PROTOCOL:
        raise ProtocolBroken(
            plugin,
            f"it speaks version {greeting.protocol!r} of the protocol, and heddle "
            f"speaks {PROTOCOL}",
            fix="Install a version of the plugin that speaks the same.",
        )
    known = frozenset(name for name in greeting.features if isinstance(name, str))
    return known.intersection(FEATURES)
