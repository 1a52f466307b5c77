"""ManagerWorkers and Swarm: agents that reach each other by tools, inside one AgentNode.

    manager ──a tool for each worker: task──▶ worker ──report──▶ manager ──▶ output
    first ──send_message──▶ other ──answer──▶ first        (never, optional)
    first ──handoff_conversation──▶ other ──▶ output       (optional, always)

These tools are called like any, so policies are asked about the calls, and the model reads
why one failed. Who is asked begins a conversation of its own and shows the user nothing;
who is handed the conversation goes on with all of it under its own instructions.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from heddle.engine.agents import (
    HAND_OFF,
    SEND_MESSAGE,
    handing,
    members_of,
    plain_agent,
    tool_name,
)
from heddle.engine.conventions import AGENT_RESULT
from heddle.engine.earlier import earlier
from heddle.engine.nodes.agent_work import (
    AgentWork,
    Rounds,
    Talk,
    as_long_message,
    as_message,
    told,
)
from heddle.engine.signatures import Properties
from heddle.engine.state import State
from heddle.engine.tool_calls import AgentAsTool, ToolCallRefused, definition_of
from heddle.engine.work import NodeContext, Result, Waiting
from heddle.spec import Component, ManagerWorkers, Property, ServerTool, Swarm
from plugins_host import Message, ToolDefinition, one_of

TASK, MESSAGE, REPORT = "task", "message", "report"


class Links(NamedTuple):
    """Whom an agent reaches: by a tool for each, by message, by handing over."""

    workers: Mapping[str, str] = {}
    asks: tuple[str, ...] = ()
    hands: tuple[str, ...] = ()


class Member(NamedTuple):
    """An agent of a team: as who talks to the user, and as who is asked by another."""

    component: Component
    contact: AgentWork
    asked: AgentWork
    links: Links


def team(component: ManagerWorkers | Swarm, outputs: Properties) -> Waiting:
    """The first agent works, and those that it reaches; who answers the user ends it."""
    links = _of_manager(component) if isinstance(component, ManagerWorkers) else {}
    if isinstance(component, Swarm):
        links = _of_swarm(component)
    agents = [(each, plain_agent(each)) for each in members_of(component)]
    members = {
        agent.name: Member(
            each,
            AgentWork(agent, outputs),
            AgentWork(agent, agent.outputs or ()),
            links.get(agent.name, Links()),
        )
        for each, agent in agents
    }
    first = agents[0][1].name

    async def execute(given: State, context: NodeContext) -> Result:
        trace = context.run.trace
        async with context.services.tools.workspace() as workspace:
            execution = _Execution(members, given, context, workspace)
            if trace is None:
                return Result(await execution.run(first))
            with trace.working(context, component, told(given)) as traced:
                traced.output = await execution.run(first)
            return Result(traced.output)

    return Waiting(execute)


def _of_manager(component: ManagerWorkers) -> dict[str, Links]:
    workers = {tool_name(worker): worker.name for worker in component.workers}
    return {component.group_manager.name: Links(workers)}


def _of_swarm(component: Swarm) -> dict[str, Links]:
    reached: dict[str, dict[str, None]] = {}
    for caller, recipient in component.relationships:
        reached.setdefault(caller.name, {})[recipient.name] = None
    ways = handing(component)
    return {
        caller: Links(
            {},
            tuple(others) if SEND_MESSAGE in ways else (),
            tuple(others) if HAND_OFF in ways else (),
        )
        for caller, others in reached.items()
    }


class _Execution:
    """One execution of the node: its agents, and the rounds that they share."""

    def __init__(
        self,
        members: Mapping[str, Member],
        given: State,
        context: NodeContext,
        workspace: Any,
    ) -> None:
        self._members = members
        self._given = given
        self._context = context
        self._workspace = workspace
        self._rounds = Rounds()

    async def run(self, first: str) -> State:
        """What the one who is the user's contact at the end answers."""
        before = [*earlier(self._given), *self._context.conversation.messages]
        asked = as_message(self._given) or await as_long_message(self._given)
        talk = Talk([*before, asked])
        name = first
        while True:
            output = await self._work(name, talk, (name,), self._context, self._given)
            if output is not None:
                return output
            assert talk.heir is not None, "only who hands over has no output"
            name, talk.heir = talk.heir, None

    async def _work(
        self,
        name: str,
        talk: Talk,
        waiting: tuple[str, ...],
        asker: NodeContext,
        task: State,
    ) -> State | None:
        """One agent's work.

        Args:
            name: Whose.
            talk: The conversation.
            waiting: Those who wait for it, and itself.
            asker: For whom it works.
            task: What it is given.
        """
        context = self._context.speaking(name)
        trace = self._context.run.trace
        if trace is None:
            return await self._answer(name, talk, waiting, context)
        component = self._members[name].component
        with trace.working(context, component, told(task), asker.agent_id) as traced:
            traced.output = await self._answer(name, talk, waiting, context)
            traced.heir = talk.heir
        return traced.output

    async def _answer(
        self, name: str, talk: Talk, waiting: tuple[str, ...], context: NodeContext
    ) -> State | None:
        member = self._members[name]
        contact = len(waiting) == 1
        work = member.contact if contact else member.asked
        system = await work.system(self._given, context)
        tools = await work.tools(context)
        more = {
            each.tool.name: each for each in self._reaching(member.links, talk, waiting)
        }
        if more:
            tools = tools.beside(name, more)
        return await work.work(
            context,
            system,
            talk,
            tools,
            self._workspace,
            together=self._rounds,
            shown=contact,
        )

    def _reaching(
        self, links: Links, talk: Talk, waiting: tuple[str, ...]
    ) -> Iterator[AgentAsTool]:
        for tool, worker in links.workers.items():
            yield self._worker(tool, worker, waiting)
        if links.asks:
            yield self._send_message(links.asks, waiting)
        # Who is asked owes an answer, and can't hand over what is not its own.
        if links.hands and len(waiting) == 1:
            yield self._hand_off(links.hands, talk)

    def _worker(self, tool: str, worker: str, waiting: tuple[str, ...]) -> AgentAsTool:
        async def use(
            arguments: Mapping[str, Any], context: NodeContext, workspace: Any
        ) -> Mapping[str, Any]:
            return await self._report(worker, {TASK: arguments[TASK]}, waiting, context)

        about = self._members[worker].asked.agent.description or f"The agent {worker}."
        return _tool(
            tool,
            f"{about} Give it a task with all that it needs to know; it reports back.",
            {TASK: {"type": "string", "description": "What is to be done."}},
            use,
        )

    def _send_message(
        self, others: tuple[str, ...], waiting: tuple[str, ...]
    ) -> AgentAsTool:
        async def use(
            arguments: Mapping[str, Any], context: NodeContext, workspace: Any
        ) -> Mapping[str, Any]:
            other = _recipient(arguments, others)
            if other in waiting:
                raise ToolCallRefused(
                    f"{other!r} waits for an answer itself", fix="Answer it instead."
                )
            asked = {MESSAGE: arguments[MESSAGE]}
            return await self._report(other, asked, waiting, context)

        return _tool(
            SEND_MESSAGE,
            f"Asks another agent and waits for its answer.{self._listed(others)}",
            {
                "recipient": {"type": "string", "enum": list(others)},
                MESSAGE: {"type": "string", "description": "All it needs to know."},
            },
            use,
        )

    def _hand_off(self, others: tuple[str, ...], talk: Talk) -> AgentAsTool:
        async def use(
            arguments: Mapping[str, Any], context: NodeContext, workspace: Any
        ) -> Mapping[str, Any]:
            talk.heir = _recipient(arguments, others)
            return {"handed_over_to": talk.heir}

        return _tool(
            HAND_OFF,
            "Hands the whole conversation with the user over to another agent, which "
            f"answers from then on.{self._listed(others)}",
            {"recipient": {"type": "string", "enum": list(others)}},
            use,
        )

    async def _report(
        self, name: str, task: State, waiting: tuple[str, ...], asker: NodeContext
    ) -> Mapping[str, Any]:
        (said,) = task.values()
        talk = Talk([Message("user", said)])
        output = await self._work(name, talk, (*waiting, name), asker, task)
        assert output is not None, "who is asked can't hand over"
        if self._members[name].asked.answers.free and AGENT_RESULT in output:
            return {REPORT: output[AGENT_RESULT]}
        return output

    def _listed(self, others: tuple[str, ...]) -> str:
        lines = [
            f"\n{other}: {about}"
            for other in others
            if (about := self._members[other].asked.agent.description)
        ]
        return "".join(lines)


def _recipient(arguments: Mapping[str, Any], others: tuple[str, ...]) -> str:
    name: str = arguments["recipient"]
    if name not in others:
        raise ToolCallRefused(
            f"there is no agent {name!r} that you reach", fix=one_of(name, others)
        )
    return name


def _tool(
    name: str, description: str, inputs: Mapping[str, dict[str, Any]], use: Any
) -> AgentAsTool:
    properties = tuple(
        Property(title, {**schema, "title": title}) for title, schema in inputs.items()
    )
    tool = ServerTool(id=name, name=name, description=description, inputs=properties)
    definition: ToolDefinition = definition_of(tool)
    return AgentAsTool(tool, definition, use)
