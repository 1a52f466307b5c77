"""Retry policies of a document that ask for more than is done, where the author finds it.

Whoever runs a flow pays for its requests, and answers for them: how often one is sent again
is bounded, and a policy beyond the bound is followed that far.
"""

from collections.abc import Iterator

from heddle.engine.agents import members_of, tools_of
from heddle.engine.model_calls import MAX_ATTEMPTS
from heddle.engine.retries import MOST_AGAIN
from heddle.spec import (
    Agent,
    AgentNode,
    ApiNode,
    Component,
    Document,
    LlmNode,
    Problem,
    RetryPolicy,
    SpecializedAgent,
    ToolNode,
)


def retry_warnings(node: Component, document: Document) -> Iterator[Problem]:
    """What the node uses that is to be tried again more often than it is."""
    for component in _used(node):
        is_model = hasattr(component, "default_generation_parameters")
        most = MAX_ATTEMPTS - 1 if is_model else MOST_AGAIN
        policy = getattr(component, "retry_policy", None)
        if isinstance(policy, RetryPolicy) and policy.max_attempts > most:
            place = f"{document.path_of(component)}.retry_policy.max_attempts"
            what = f"it is tried again {most} times at most, and not {policy.max_attempts}"
            yield Problem(place, what, f"Write {most} or less.")


def _used(node: Component) -> Iterator[Component]:
    """Whatever of a node may have a retry policy."""
    match node:
        case ApiNode():
            yield node
        case LlmNode(llm_config=llm):
            yield llm
        case ToolNode(tool=tool):
            yield from _with_transport(tool)
        case AgentNode(agent=agent):
            for member in members_of(agent):
                yield from _of_agent(member)
        case _:
            return


def _of_agent(agent: Component) -> Iterator[Component]:
    for tool in tools_of(agent):
        yield from _with_transport(tool)
    base = agent.agent if isinstance(agent, SpecializedAgent) else agent
    if isinstance(base, Agent):
        yield base.llm_config
        for box in base.toolboxes:
            yield from _with_transport(box)
        for transform in base.transforms:
            yield from filter(None, (getattr(transform, "llm", None),))


def _with_transport(tool: Component) -> Iterator[Component]:
    yield tool
    transport = getattr(tool, "client_transport", None)
    if isinstance(transport, Component):
        yield transport
