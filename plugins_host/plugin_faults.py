"""What goes wrong with a plugin process. The class says what, the fields say the rest.

    PluginFault
    ├─ PluginGone             the process ended: exited, was killed, or heddle is stopping
    │  └─ PluginNotStarted    it never got as far as answering `init`
    ├─ PluginOverdue          it did not answer in time
    ├─ PluginFailed          it answered with an error: a handler threw
    └─ ProtocolBroken         what it wrote is not the protocol

Each call is failed with an exception of its own, as raising one changes its traceback.
"""

import math
import signal
from typing import Final, Self

from plugins_host.faults import Fault
from plugins_host.frames import Refusal
from plugins_host.plugin_log import MAX_LOG_LINE, shortened

_STATUSES: Final = range(100, 600)


class PluginFault(Fault):
    """Base of every fault of a plugin process.

    Attributes:
        plugin: The plugin's name.
    """

    def __init__(self, plugin: str, what: str, *, fix: str = "") -> None:
        super().__init__(what, where=f"plugin {plugin!r}", fix=fix)
        self.plugin = plugin

    def again(self) -> Self:
        """The same fault for another call."""
        twin = type(self).__new__(type(self))
        twin.args = self.args
        twin.__dict__.update(self.__dict__)
        return twin


class PluginGone(PluginFault):
    """The process ended before it answered.

    Attributes:
        status: How it ended, as `subprocess` counts: below 0 it is a signal; None when
            that is not known.
        unread: Whether it ended before it had read the question: to ask another process
            repeats nothing.
    """

    unread = False

    def __init__(
        self, plugin: str, what: str, *, fix: str = "", status: int | None = None
    ) -> None:
        super().__init__(plugin, what, fix=fix)
        self.status = status


class PluginNotStarted(PluginGone):
    """It could not be started, or ended or fell silent before it answered `init`."""


class PluginOverdue(PluginFault):
    """No answer came in time.

    Attributes:
        patience: The seconds of silence that were allowed.
        at: The component that it was at, when several were asked in one frame and the
            plugin said so; else None.
    """

    def __init__(
        self,
        plugin: str,
        patience: float,
        *,
        verb: str,
        alive: bool = False,
        at: str | None = None,
    ) -> None:
        what = f"it did not answer {verb!r} within {patience:g} s"
        super().__init__(
            plugin,
            f"it reported progress, but {what}" if alive else what,
            fix="Make it answer sooner, or allow it more with --plugin-timeout.",
        )
        self.patience = patience
        self.at = at


class PluginFailed(PluginFault):
    """It answered with an error.

    Attributes:
        name: The class of the error, in the plugin's own language.
        message: What it said.
        status: The HTTP status of what it asked in turn, when it told one.
        retry_after_ms: How long it says to wait before the same is asked again.
        retryable: Whether it says that asking again may help.
    """

    def __init__(
        self,
        plugin: str,
        name: str,
        message: str,
        *,
        status: object = None,
        retry_after_ms: object = None,
        retryable: object = None,
    ) -> None:
        super().__init__(plugin, f"it failed with {name}: {message}")
        self.name = name
        self.message = message
        self.status: int | None = None
        self.retry_after_ms: float | None = None
        self.retryable: bool | None = None
        # What it says of itself is its own word, and taken as far as it makes sense.
        if type(status) is int and status in _STATUSES:
            self.status = status
        if type(retry_after_ms) in (int, float) and 0 <= retry_after_ms < math.inf:  # type: ignore[operator]
            self.retry_after_ms = retry_after_ms  # type: ignore[assignment]
        if type(retryable) is bool:
            self.retryable = retryable


class ProtocolBroken(PluginFault):
    """What it wrote cannot be used.

    Attributes:
        quote: The beginning of what it wrote; empty when that says nothing.
    """

    def __init__(self, plugin: str, what: str, *, fix: str = "", quote: str = "") -> None:
        super().__init__(plugin, what, fix=fix)
        self.quote = quote


def ending(status: int | None) -> str:
    """How a process ended, in words."""
    if status is None:
        return "its process ended"
    if status >= 0:
        return f"its process exited with status {status}"
    try:
        name = f" ({signal.Signals(-status).name})"
    except ValueError:
        name = ""
    return f"its process was killed by signal {-status}{name}"


def failed(plugin: str, refusal: Refusal) -> PluginFailed:
    """What a plugin refused, as the error of its call."""
    return PluginFailed(
        plugin,
        refusal.name,
        shortened(refusal.message, MAX_LOG_LINE),
        status=refusal.status,
        retry_after_ms=refusal.retry_after_ms,
        retryable=refusal.retryable,
    )
