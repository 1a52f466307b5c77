"""What a whole run did, counted: time of nodes, model calls and tokens, tools, policies.

Nodes of the items of a map are one: ``each[2] / ask`` counts for ``each / ask``.
"""

from typing import Final, TypeAlias

from heddle.engine.faults import NodeStopped
from heddle.events import NodeCompleted, NodeFailed, ToolCalled, ToolReturned, Warned
from plugins_host import NodePath, Usage

Name: TypeAlias = tuple[str, ...]
"""The nodes on the way to one, without the items."""

# Names that are counted on their own; a flow that a program wrote may have any number.
MOST: Final = 1000
OTHERS: Final = "(others)"
STOPPED: Final = NodeStopped.__name__


class NodeTotal:
    """What all executions of a node did.

    Attributes:
        executions: Attempts that ended.
        failures: Those that failed and that nothing stood in for.
        stopped: Attempts that had to end because what they were part of did.
        seconds: How long they took together; those side by side count each.
        model_calls: Requests to models.
        usage: Their tokens; None when nobody counted any.
        tool_calls: What it had tools do.
    """

    __slots__ = (
        "_counted",
        "_input",
        "_output",
        "executions",
        "failures",
        "model_calls",
        "seconds",
        "stopped",
        "tool_calls",
    )

    def __init__(self) -> None:
        self.executions = 0
        self.failures = 0
        self.stopped = 0
        self.seconds = 0.0
        self.model_calls = 0
        self.tool_calls = 0
        self._counted = False
        self._input = 0
        self._output = 0

    @property
    def usage(self) -> Usage | None:
        """The tokens of its model calls."""
        return Usage(self._input, self._output) if self._counted else None

    def ended(self, event: NodeCompleted | NodeFailed, seconds: float) -> None:
        """An execution ended, however."""
        self.seconds += seconds
        if type(event) is NodeFailed and event.error.name == STOPPED:
            self.stopped += 1
        else:
            self.executions += 1
            if type(event) is NodeFailed:
                self.failures += 1
        self.spent(event.model_calls, event.usage)

    def spent(self, model_calls: int, usage: Usage | None) -> None:
        """What its models were asked."""
        self.model_calls += model_calls
        if usage is not None:
            self._counted = True
            self._input += usage.input_tokens
            self._output += usage.output_tokens


class ToolTotal:
    """What all calls of a tool came to; ``seconds`` is all of them together."""

    __slots__ = ("calls", "failures", "seconds")

    def __init__(self) -> None:
        self.calls = 0
        self.failures = 0
        self.seconds = 0.0


class Totals:
    """The counts.

    Attributes:
        nodes: By name, in the order in which they first ended.
        tools: By name, in the order in which they were first called.
        warnings: Of policies, by component type and seam.
    """

    def __init__(self) -> None:
        self.nodes: dict[Name, NodeTotal] = {}
        self.tools: dict[str, ToolTotal] = {}
        self.warnings: dict[tuple[str, str], int] = {}

    def node_replaced(self, key: NodePath) -> None:
        """A policy put a result in the place of the failure that was counted last."""
        total = self.node(key)
        total.failures = max(total.failures - 1, 0)

    def node_stopped(self, key: NodePath, seconds: float) -> None:
        """The run ended while it was at work."""
        total = self.node(key)
        total.stopped += 1
        total.seconds += seconds

    def tool_called(self, event: ToolCalled) -> None:
        """A call begins."""
        self.node(event.node_path or (event.node_name,)).tool_calls += 1
        self._tool(event.tool_name).calls += 1

    def tool_returned(self, event: ToolReturned) -> None:
        """It ended."""
        total = self._tool(event.tool_name)
        total.seconds += event.duration / 1000
        if event.error is not None:
            total.failures += 1

    def policy_warned(self, event: Warned) -> None:
        """A policy did what is never silent."""
        if event.policy is not None and len(self.warnings) < MOST:
            what = event.policy, event.seam or ""
            self.warnings[what] = self.warnings.get(what, 0) + 1

    @property
    def model_calls(self) -> int:
        """Requests to models, of all nodes."""
        return sum(each.model_calls for each in self.nodes.values())

    @property
    def tool_calls(self) -> int:
        """Calls of all tools."""
        return sum(each.calls for each in self.tools.values())

    @property
    def usage(self) -> Usage | None:
        """Tokens of all nodes; None when nobody counted any."""
        counted = [each.usage for each in self.nodes.values() if each.usage is not None]
        return sum(counted[1:], counted[0]) if counted else None

    def node(self, key: NodePath) -> NodeTotal:
        """Those of the nodes at this place; there from now on."""
        name: Name = key if len(key) == 1 else tuple([s for s in key if type(s) is str])  # type: ignore[assignment]
        found = self.nodes.get(name)
        if found is None:
            if len(self.nodes) >= MOST:
                name = (OTHERS,)
            found = self.nodes.setdefault(name, NodeTotal())
        return found

    def _tool(self, name: str) -> ToolTotal:
        if name not in self.tools and len(self.tools) >= MOST:
            name = OTHERS
        return self.tools.setdefault(name, ToolTotal())
