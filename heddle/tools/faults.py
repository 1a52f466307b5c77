"""What can go wrong with a tool, by whose fault it is.

    ToolFolderInvalid   the operator's: the folder of tools cannot be used as it is
    UnknownTool         the flow's: it names a tool that nobody provides
    ToolUnusable        the operator's: the file is there and cannot be started
    ToolFailed          the tool's: it ended with another status than 0, or by a signal
    ToolTimedOut        the tool's: it ran longer than it may
    ToolAnswerInvalid   the tool's: what it printed is no answer
    WorkspaceFailed     the machine's: no folder could be made for the tool to work in

All but the first and the last are a `ToolFault` and carry the tool's name.
"""

import signal

from plugins_host import Fault


class ToolFolderInvalid(Fault):
    """The folder of tools is missing, unreadable or ambiguous."""


class WorkspaceFailed(Fault):
    """A workspace could not be made: a full or read-only disk, no temporary folder."""

    of_the_machine = True


class ToolFault(Fault):
    """Base of every error about one tool."""

    def __init__(self, tool: str, what: str, *, fix: str = "") -> None:
        super().__init__(what, where=f"tool {tool!r}", fix=fix)
        self.tool = tool


class UnknownTool(ToolFault):
    """There is no tool of this name."""


class ToolUnusable(ToolFault):
    """The program cannot be started: not executable, no interpreter, no resources."""


class ToolFailed(ToolFault):
    """The program ended with a status other than 0.

    ``status`` is the exit status, or None when signal ``signal`` ended it. ``stderr``
    is the end of what it wrote there.
    """

    def __init__(self, tool: str, returncode: int, stderr: str) -> None:
        self.status = None if returncode < 0 else returncode
        self.signal = signal_name(-returncode) if returncode < 0 else None
        self.stderr = stderr
        ended = (
            f"was ended by {self.signal}"
            if self.signal
            else f"exited with status {self.status}"
        )
        super().__init__(tool, f"{ended}: {stderr}" if stderr else ended)


class ToolTimedOut(ToolFault):
    """The program ran longer than ``seconds`` and was ended."""

    def __init__(self, tool: str, seconds: float, stderr: str) -> None:
        self.seconds = seconds
        self.stderr = stderr
        timed_out = f"timed out after {seconds:g} s"
        super().__init__(
            tool,
            f"{timed_out}: {stderr}" if stderr else timed_out,
            fix="Make it faster, or raise --tool-timeout.",
        )


class ToolAnswerInvalid(ToolFault):
    """The program exited with status 0 and printed something else than a JSON object."""


def signal_name(number: int) -> str:
    """``SIGSEGV`` for 11; ``signal 35`` for one without a name of its own."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
