"""A flow of ten nodes that meets every half of every seam, and how often it meets each.

run = TenNodes(policies)
await run.execute()
assert len(run.events) > 0
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

from heddle.engine.gate import Policies
from heddle.engine.plan import make_plan
from heddle.engine.run import Run
from heddle.engine.testing import FakeModels, FakeTools
from heddle.engine.walk import Limits
from heddle.engine.work import Services
from heddle.events import Event
from heddle.spec import read_document
from plugins_host import Fault
from plugins_host.conversation import ModelRequest, ModelResponse, ToolCall
from tests.support.flows import (
    agent,
    branching,
    document,
    edge,
    end,
    flow,
    llm,
    model,
    ref,
    server_tool,
    start,
    tool,
)

# The first execution of the first tool fails, and is tried again: 11 executions. The two
# agents have two rounds each, of which the first runs a tool: with those of the LlmNodes,
# six model calls.
MET: Final[Mapping[str, int]] = {
    "node.before": 11,
    "nodeError.after": 1,
    "node.after": 10,
    "modelCall.before": 6,
    "modelCall.after": 6,
    "agentRound.before": 4,
    "toolCall.before": 2,
    "toolCall.after": 2,
    "agentRound.after": 2,
}
EVERYWHERE: Final = frozenset(MET)


def ten_nodes() -> bytes:
    """Three tools, two models, two agents that call a tool, a branch, start and end."""
    look = server_tool("look")
    nodes = [
        start(),
        tool("tool1"),
        llm("ask1", "hi"),
        agent("agent1", tools=[ref(look["id"])]),
        tool("tool2"),
        branching("pick", {"yes": "on"}),
        llm("ask2", "hi"),
        agent("agent2", tools=[ref(look["id"])]),
        tool("tool3"),
        end(),
    ]
    assert len(nodes) == 10
    chain = ["start", "tool1", "ask1", "agent1", "tool2", "pick"]
    edges = [edge("pick", "ask2", branch) for branch in ("on", "default")]
    edges += [edge(a, b) for a, b in pairwise(["ask2", "agent2", "tool3", "end"])]
    return document(flow(nodes, chain, edges, shared=[model(), look]))


PLAN: Final = make_plan(read_document(ten_nodes()))


class TenNodes:
    """One run of it, with a model and tools that answer at once.

    ``fails``: the first execution of the first tool does, so that somebody has to retry it.
    """

    def __init__(self, policies: Policies | None, *, fails: bool = True) -> None:
        self.events: list[Event] = []
        failures = iter([Fault("not yet")] if fails else [])

        def tool1(**_: Any) -> dict[str, Any]:
            for failure in failures:
                raise failure
            return {}

        def nothing(**_: Any) -> dict[str, Any]:
            return {}

        tools = {"tool1": tool1, "tool2": nothing, "tool3": nothing, "look": nothing}
        self._services = Services(
            FakeModels(_answer),
            FakeTools(tools),
            self.events.append,
            policies=policies,
        )

    async def execute(self) -> None:
        """Run it once."""
        run = Run(PLAN, self._services, Limits())
        await run.execute({"branching_mapping_key": "yes"})


def _answer(request: ModelRequest) -> ModelResponse | str:
    if request.tools and request.messages[-1].role != "tool":
        return ModelResponse("", "tool_calls", (ToolCall("c1", "look", "{}"),))
    return "done"
