"""What the agents of a document come to: plain Agents, and who works with whom.

SpecializedAgent   its base, with instructions and tools appended
ManagerWorkers     the manager, and the workers that it gives tasks to
Swarm              the first agent, and all that a chain of relationships names
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from heddle.engine.signatures import agent_inputs, agent_outputs
from heddle.spec import (
    Agent,
    AgentSpecializationParameters,
    Component,
    ManagerWorkers,
    SpecializedAgent,
    Swarm,
)


def members_of(agent: Component) -> tuple[Component, ...]:
    """Who works when this agent does, first who talks to the user; itself for one alone."""
    match agent:
        case ManagerWorkers(group_manager=manager, workers=workers):
            return (manager, *workers)
        case Swarm(first_agent=first, relationships=pairs):
            everyone = (first, *(each for pair in pairs for each in pair))
            return tuple(dict.fromkeys(everyone))
        case _:
            return (agent,)


SEND_MESSAGE: Final = "send_message"
HAND_OFF: Final = "handoff_conversation"
"""The tools by which agents of a Swarm reach each other."""

_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_-]")


def tool_name(worker: Component) -> str:
    """What the tool of a worker is called: its name, as providers take names of tools."""
    return _NOT_IN_NAMES.sub("_", worker.name)[:64]


def handing(swarm: Swarm) -> frozenset[str]:
    """By which tools agents of the swarm reach each other."""
    both = frozenset((SEND_MESSAGE, HAND_OFF))
    ways = {
        "never": both - {HAND_OFF},
        False: both - {HAND_OFF},
        "optional": both,
        "always": both - {SEND_MESSAGE},
        True: both,
    }
    return ways[swarm.handoff]


def team_tool_names(
    team: ManagerWorkers | Swarm,
) -> Iterator[tuple[Component, Mapping[str, int]]]:
    """The tools that reach other agents, by whose they are; how many have each name."""
    match team:
        case ManagerWorkers(group_manager=manager, workers=workers):
            yield manager, Counter(map(tool_name, workers))
        case Swarm(relationships=pairs):
            for caller in dict.fromkeys(caller for caller, _ in pairs):
                yield caller, Counter(handing(team))


def plain_agent(agent: Component) -> Agent:
    """The agent itself, or what a specialized one comes to."""
    if isinstance(agent, Agent):
        return agent
    assert isinstance(agent, SpecializedAgent), "everything else was refused"
    base, more = agent.agent, agent.agent_specialization_parameters
    assert isinstance(base, Agent), "everything else was refused"
    assert isinstance(more, AgentSpecializationParameters), "everything else was refused"
    prompts = (base.system_prompt, more.additional_instructions)
    human = more.human_in_the_loop
    return msgspec.structs.replace(
        base,
        id=agent.id,
        name=agent.name,
        description=agent.description or base.description,
        inputs=agent_inputs(agent),
        outputs=agent_outputs(agent),
        system_prompt="\n\n".join(each for each in prompts if each),
        tools=(*base.tools, *(more.additional_tools or ())),
        human_in_the_loop=base.human_in_the_loop if human is None else human,
    )


def tools_of(agent: Component) -> tuple[Component, ...]:
    """The tools that an agent has of its own, whatever else is wrong with it."""
    match agent:
        case Agent(tools=tools):
            return tools
        case SpecializedAgent(agent=base, agent_specialization_parameters=more):
            return (*tools_of(base), *(getattr(more, "additional_tools", None) or ()))
        case _:
            return ()


def prompts_of(agent: Component) -> Iterator[str]:
    """The texts with placeholders that an agent's instructions are made of."""
    match agent:
        case Agent(system_prompt=prompt):
            yield prompt
        case SpecializedAgent(agent=base, agent_specialization_parameters=more):
            yield from prompts_of(base)
            yield getattr(more, "additional_instructions", None) or ""
