"""What bounds a run, as far as a flow and its policies meet it, in the engine's numbers.

A limit of a flag is what the operator made of it; one without a flag is moved by nobody.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Final

from msgspec import Struct

from heddle.engine.model_calls import MAX_ATTEMPTS
from heddle.engine.nodes.agent_work import MAX_ROUNDS, TEAM_ROUNDS
from heddle.engine.walk import Limits
from heddle.preview.policies import Policy
from heddle.preview.seams import Place
from plugins_host import CEILING, MAX_DELAY_MS, SEAMS, START_TIMEOUT, Seam


class Limit(Struct, frozen=True):
    """One of them.

    Attributes:
        name: For programs.
        what: For people.
        value: How many, or how many seconds.
        seconds: Whether it is a time.
        flag: What moves it; "" for nothing.
    """

    name: str
    what: str
    value: float
    seconds: bool = False
    flag: str = ""


class Bounds(Struct, frozen=True):
    """What the operator's flags say. Times are in seconds."""

    limits: Limits
    tool_timeout: float
    plugin_timeout: float


class Met(Struct, frozen=True):
    """What limits depend on: which seams a flow meets, and who is asked there."""

    seams: frozenset[Seam]
    together: bool
    tools: bool
    policies: bool
    processes: bool
    retries: bool


_Row = tuple[str, str, Callable[[Bounds], float], bool, str, Callable[[Met], bool]]

_TABLE: Final[tuple[_Row, ...]] = (
    (
        "nodeAttempts",
        "attempts at each arrival at a node",
        lambda given: given.limits.max_node_attempts,
        False,
        "--max-node-attempts",
        lambda met: Seam.NODE_ERROR in met.seams,
    ),
    (
        "nodeExecutions",
        "executions of nodes in a run, each attempt one",
        lambda given: given.limits.max_iterations,
        False,
        "--max-iterations",
        lambda met: Seam.NODE in met.seams,
    ),
    (
        "modelAttempts",
        "requests for one model call",
        lambda _: MAX_ATTEMPTS,
        False,
        "",
        lambda met: Seam.MODEL_CALL in met.seams,
    ),
    (
        "rounds",
        "rounds of an agent at one piece of work",
        lambda _: MAX_ROUNDS,
        False,
        "",
        lambda met: Seam.AGENT_ROUND in met.seams,
    ),
    (
        "roundsTogether",
        "rounds of all agents of a node together",
        lambda _: TEAM_ROUNDS,
        False,
        "",
        lambda met: met.together,
    ),
    (
        "retryDelay",
        "wait before a retry, whatever a policy asks for",
        lambda _: MAX_DELAY_MS / 1000,
        True,
        "",
        lambda met: met.retries,
    ),
    (
        "silence",
        "silence of a policy that was asked",
        lambda given: given.plugin_timeout,
        True,
        "--plugin-timeout",
        lambda met: met.policies,
    ),
    (
        "consultation",
        f"one consultation with signs of life, {CEILING:.0f} times that",
        lambda given: given.plugin_timeout * CEILING,
        True,
        "--plugin-timeout",
        lambda met: met.policies,
    ),
    (
        "pluginStart",
        "start of a policy's process",
        lambda _: START_TIMEOUT,
        True,
        "",
        lambda met: met.processes,
    ),
    (
        "toolExecution",
        "one execution of a tool",
        lambda given: given.tool_timeout,
        True,
        "--tool-timeout",
        lambda met: met.tools,
    ),
    (
        "run",
        "the whole run, all waits within it",
        lambda given: given.limits.timeout,
        True,
        "--timeout",
        lambda _: True,
    ),
)
"""name, what, value, whether that is seconds, flag, when it applies; narrow ones first."""


def limits(
    bounds: Bounds, met: Collection[Place], policies: Collection[Policy], *, tools: bool
) -> Iterator[Limit]:
    """The limits that apply.

    Args:
        bounds: What the operator's flags say.
        met: Where the flow meets seams.
        policies: Who is installed.
        tools: Whether a node of the flow runs a tool without a model's asking.
    """
    asked = [
        (place, policy)
        for place in {(each.seam, each.half) for each in met}
        for policy in policies
        if policy.is_asked(*place)
    ]
    here = Met(
        frozenset(place.seam for place in met),
        any(place.agent is not None for place in met),
        tools or any(place.seam is Seam.TOOL_CALL for place in met),
        bool(asked),
        any(not policy.in_process for _, policy in asked),
        any("retry" in SEAMS[seam].halves[half].admits for (seam, half), _ in asked),
    )
    for name, what, value, is_time, flag, applies in _TABLE:
        if applies(here):
            yield Limit(name, what, value(bounds), is_time, flag)
