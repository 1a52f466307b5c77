"""Where a run goes next, as a function of data: no tasks, no clock, no I/O.

arrival ──> execution ──settled──> next_step ──> another arrival, or the end
                │
              failed ──retry?──> again ──> the same node, attempt + 1
"""

from msgspec import Struct

from heddle.engine.faults import LimitReached, NoWayOn
from heddle.engine.graph import GraphNode


class Limits(Struct, frozen=True):
    """What bounds a run. ``timeout`` is in seconds."""

    max_iterations: int = 50
    max_node_attempts: int = 3
    timeout: float = 300.0


class Visit(Struct, frozen=True):
    """Execute this node: its number and, from 1, which attempt of this arrival it is."""

    node: int
    attempt: int = 1


class Finish(Struct, frozen=True):
    """The run has reached this EndNode."""

    node: int


class RetryRefused(Struct, frozen=True):
    """A ceiling stands against another attempt; ``reason`` says which."""

    reason: str


def next_step(
    node: GraphNode, branch: str | None, replaced_by: str | None
) -> Visit | Finish:
    """Decide what follows a settled execution.

    Args:
        node: The node that settled.
        branch: The label that it chose; None for the unbranched edge.
        replaced_by: The policy that supplied the result, if one did: a supplied
            result is a result and never a route, so it takes the unbranched edge.

    Raises:
        NoWayOn: No edge carries the choice.
    """
    if not node.branches and node.onward is None:
        return Finish(node.index)
    where = f"node {node.name!r} ({node.type})"
    if replaced_by is not None:
        if node.onward is None:
            raise NoWayOn(
                f"{replaced_by} supplied this node's result, and a replacement is a result "
                "and never a route: every edge that leaves the node is labelled "
                f"({', '.join(sorted(node.branches))})",
                where=where,
                fix="Let the policy pass here, or give the node an unbranched edge.",
                by=replaced_by,
            )
        return Visit(node.onward)
    if branch is None:
        if node.onward is None:
            raise NoWayOn(
                "the node chose no branch and every edge that leaves it is labelled",
                where=where,
                fix="Give the node an unbranched edge.",
            )
        return Visit(node.onward)
    target = node.branches.get(branch)
    if target is None:
        raise NoWayOn(
            f"the node chose branch {branch!r}, which no edge carries",
            where=where,
            fix=f'Add a ControlFlowEdge with "from_branch": "{branch}".',
        )
    return Visit(target)


def spend_execution(spent: int, node: GraphNode, limits: Limits) -> int:
    """Count one more execution, or refuse it.

    Raises:
        LimitReached: The run has had all of its executions.
    """
    if spent >= limits.max_iterations:
        raise LimitReached(
            f"the run has executed {spent} nodes, which is its limit",
            where=f"before node {node.name!r} ({node.type})",
            flag="--max-iterations",
        )
    return spent + 1


def retry(visit: Visit, spent: int, limits: Limits) -> Visit | RetryRefused:
    """Another attempt at the same arrival, or why there is none."""
    if visit.attempt >= limits.max_node_attempts:
        return RetryRefused(
            f"this arrival at the node has had its {visit.attempt} attempts "
            "(--max-node-attempts)"
        )
    if spent >= limits.max_iterations:
        return RetryRefused(f"the run has had its {spent} executions (--max-iterations)")
    return Visit(visit.node, visit.attempt + 1)
