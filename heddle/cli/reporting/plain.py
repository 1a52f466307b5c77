"""A run's events as plain lines, for a log or a pipe.

    > ask (AgentNode)
      ask: search
      ask: search failed: tool 'search': exited with status 1 (0.2 s)
    ! node 'ask': placeholder {{name}} has no value in the state and was left as it is
    x ask: the model answered with status 500
    < ask (3.1 s)

With ``--verbose`` also what goes in and comes out, and what plugins have to say.
"""

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, assert_never

from heddle.cli.reporting.traced import traced
from heddle.cli.text.wording import fit, json_line, line, place, seconds
from heddle.events import (
    AgentCompleted,
    AgentStarted,
    ConfirmationAsked,
    ConfirmationGiven,
    Event,
    FlowCompleted,
    FlowStarted,
    InputAsked,
    InputGiven,
    MessageSaid,
    ModelAnswered,
    ModelAsked,
    NodeCompleted,
    NodeFailed,
    NodeStarted,
    PluginEmitted,
    PluginLogged,
    StateShown,
    SubflowCompleted,
    SubflowStarted,
    TokenDelta,
    TokensDiscarded,
    ToolCalled,
    ToolReturned,
    Warned,
)

if TYPE_CHECKING:
    from plugins_host import PluginLine

# Of a value on a line with --verbose. A whole document would bury the line after it.
VALUE_SHOWN: Final = 2000
# Nodes that only transform the state take no time worth a line.
INSTANT: Final = 0.05


class PlainLines:
    """Turns events into lines.

    Args:
        verbose: Whether to show what goes in and comes out.
        shown: Warnings that were printed already.
        clock: Seconds, for durations.
    """

    def __init__(
        self,
        *,
        verbose: bool = False,
        shown: frozenset[str] = frozenset(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._verbose = verbose
        self._shown = shown
        self._clock = clock
        self._began: dict[str, float] = {}
        # A failure that ends the run is told by the error that ends the program, so it
        # is shown here only once something follows it that is shown as well.
        self._failure: list[str] = []

    def lines(self, event: Event) -> Iterator[str]:
        """The lines for an event, fit for a terminal; often none."""
        said = list(self._said(event))
        if isinstance(event, FlowStarted):  # of a chat: the run before has been told
            self._failure = []
        elif isinstance(event, NodeFailed):
            said, self._failure = self._failure, said
        elif said:
            said, self._failure = self._failure + said, []
        yield from said

    def _said(self, event: Event) -> Iterator[str]:
        match event:
            case NodeStarted(node_type=kind, attempt=attempt):
                node = place(event.node_name, event.node_path)
                self._began[node] = self._clock()
                again = f", attempt {attempt}" if attempt > 1 else ""
                yield f"> {node} ({line(kind)}{again}){self._value(event.state)}"
            case NodeCompleted():
                node = place(event.node_name, event.node_path)
                took = self._took(node)
                if self._verbose or took >= INSTANT:
                    yield f"< {node} ({seconds(took)}){self._value(event.state)}"
            case NodeFailed(error=error):
                node = place(event.node_name, event.node_path)
                yield f"x {node}: {indented(error.message)}"
            case ToolCalled(tool_name=tool):
                yield f"  {caller(event)}: {line(tool)}{self._value(event.tool_args)}"
            case ToolReturned():
                yield from self._returned(event)
            case Warned(message=message):
                if message not in self._shown:
                    yield warning(message)
            case MessageSaid(sender=sender, message=message):
                mark = ">>" if sender == "agent" else "<<"
                node = place(event.node_name, event.node_path)
                yield f"  {node} {mark} {indented(message)}"
            case PluginLogged(level=level, message=message):
                if self._verbose:
                    yield f"  [{line(level)}] {indented(message)}"
            case PluginEmitted():
                if self._verbose:
                    yield f"  [{line(event.type)}]{self._value(event.data)}"
            case TokenDelta() | TokensDiscarded() | FlowStarted() | FlowCompleted():
                return
            case ConfirmationAsked() | ConfirmationGiven():
                return  # who is asked is shown the question, and knows the answer
            case (
                SubflowStarted()
                | SubflowCompleted()
                | AgentStarted()
                | AgentCompleted()
                | ModelAsked()
                | ModelAnswered()
                | InputAsked()
                | InputGiven()
                | StateShown()
            ):
                yield from traced(event, self._value)
            case _:
                assert_never(event)

    def _returned(self, event: ToolReturned) -> Iterator[str]:
        took = seconds(event.duration / 1000)
        head = f"  {caller(event)}: {line(event.tool_name)}"
        if event.error is not None:
            yield f"{head} failed: {indented(event.error.message)} ({took})"
        elif self._verbose:
            yield f"{head} answered ({took}){self._value(event.tool_result)}"

    def _value(self, value: object) -> str:
        return f" {json_line(value, most=VALUE_SHOWN)}" if self._verbose else ""

    def _took(self, node: str) -> float:
        now = self._clock()
        return now - self._began.pop(node, now)


def caller(event: ToolCalled | ToolReturned) -> str:
    """Who uses a tool: the node, and which of its agents where it has several."""
    node = place(event.node_name, event.node_path)
    return node if event.agent is None else f"{node} ({line(event.agent)})"


def overheard(said: "PluginLine") -> str:
    """What a plugin printed, or what was done to it, as a line."""
    return f"  [{line(said.plugin)}] {indented(said.text)}"


def warning(message: str) -> str:
    """A warning as a line."""
    return f"! {indented(message)}"


def indented(text: str) -> str:
    """Text of several lines, those after the first set off from the line marks."""
    return fit(text).replace("\n", "\n    ")
