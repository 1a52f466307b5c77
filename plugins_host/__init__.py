"""Plugin processes: manifest, protocol, seams, chain and fleet. Knows actors.

Names are loaded when they are first used: a command that reads a manifest does not pay for
processes, and a plugin's own process pays for neither.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from plugins_host.faults import Fault, nearest, one_of, sentence

if TYPE_CHECKING:
    from plugins_host.chain import (
        AfterOutcome,
        Asker,
        Asking,
        BeforeOutcome,
        Chain,
        Erred,
        Failed,
        Link,
        MiddlewareFailure,
        Outcome,
        Passed,
        Proceeded,
        Rejected,
        Replaced,
        RetryGranted,
        ShownError,
        Succeeded,
    )
    from plugins_host.channel import PluginLine, PluginLog
    from plugins_host.fleet import Fleet
    from plugins_host.model_edits import response_fields
    from plugins_host.payload import Payload
    from plugins_host.plugin_faults import (
        PluginFailed,
        PluginFault,
        PluginGone,
        PluginNotStarted,
        PluginOverdue,
        ProtocolBroken,
    )
    from plugins_host.process import PluginProcess
    from plugins_host.program import PluginProgram, chosen_environment
    from plugins_host.reverse import CallServices, ReverseRefused
    from plugins_host.seams import Half, NodeSubject, Seam, Subject, ToolSubject

_HOMES: Final = {
    "chain": (
        "AfterOutcome",
        "Asker",
        "Asking",
        "BeforeOutcome",
        "Chain",
        "Erred",
        "Failed",
        "Link",
        "MiddlewareFailure",
        "Outcome",
        "Passed",
        "Proceeded",
        "Rejected",
        "Replaced",
        "RetryGranted",
        "ShownError",
        "Succeeded",
    ),
    "channel": ("PluginLine", "PluginLog"),
    "fleet": ("Fleet",),
    "model_edits": ("response_fields",),
    "payload": ("Payload",),
    "plugin_faults": (
        "PluginFailed",
        "PluginFault",
        "PluginGone",
        "PluginNotStarted",
        "PluginOverdue",
        "ProtocolBroken",
    ),
    "process": ("PluginProcess",),
    "program": ("PluginProgram", "chosen_environment"),
    "reverse": ("CallServices", "ReverseRefused"),
    "seams": ("Half", "NodeSubject", "Seam", "Subject", "ToolSubject"),
}
_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AfterOutcome",
    "Asker",
    "Asking",
    "BeforeOutcome",
    "CallServices",
    "Chain",
    "Erred",
    "Failed",
    "Fault",
    "Fleet",
    "Half",
    "Link",
    "MiddlewareFailure",
    "NodeSubject",
    "Outcome",
    "Passed",
    "Payload",
    "PluginFailed",
    "PluginFault",
    "PluginGone",
    "PluginLine",
    "PluginLog",
    "PluginNotStarted",
    "PluginOverdue",
    "PluginProcess",
    "PluginProgram",
    "Proceeded",
    "ProtocolBroken",
    "Rejected",
    "Replaced",
    "RetryGranted",
    "ReverseRefused",
    "Seam",
    "ShownError",
    "Subject",
    "Succeeded",
    "ToolSubject",
    "chosen_environment",
    "nearest",
    "one_of",
    "response_fields",
    "sentence",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
