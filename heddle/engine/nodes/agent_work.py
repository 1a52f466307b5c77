"""The work of one agent: it is asked, tools run, it is asked again, until it answers.

`AgentWork` is compiled with its document and shared by concurrent runs. What one piece of
work keeps is its `Talk`: the messages so far, and the ids that their calls have.
"""

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from heddle.engine.agents import HAND_OFF
from heddle.engine.conventions import AGENT_RESULT
from heddle.engine.decisions import Rejected
from heddle.engine.faults import AgentStopped, OutputMismatch, TeamStopped
from heddle.engine.graph import RESERVED
from heddle.engine.model_calls import call_model
from heddle.engine.nodes.llm import fill, fill_briefly
from heddle.engine.signatures import Properties
from heddle.engine.state import State
from heddle.engine.structured import (
    json_object,
    output_schema,
    read_structured,
    single_text,
)
from heddle.engine.tool_calls import (
    AgentTools,
    Answered,
    PlannedCall,
    ToolCallRefused,
    answer_calls,
)
from heddle.engine.work import NodeContext
from heddle.gentle_json import any_long, encode_gently
from heddle.spec import Agent, Tool
from plugins_host import Message, ModelResponse, ToolCall

if TYPE_CHECKING:
    from heddle.engine.transforms import Transforms

MAX_ROUNDS: Final = 10
"""Model calls of one agent at one piece of work; no setting moves it."""
TEAM_ROUNDS: Final = 100
"""Model calls of all agents of one node together, so that they can't keep each other busy
without end."""


class Rounds:
    """What the agents of one execution have used up together."""

    __slots__ = ("ids", "left")

    def __init__(self) -> None:
        self.left = TEAM_ROUNDS
        self.ids: set[str] = set()

    def use(self, team: str) -> None:
        """Count one.

        Raises:
            TeamStopped: There is none left.
        """
        if not self.left:
            raise TeamStopped(
                f"the agents of {team!r} used the {TEAM_ROUNDS} rounds that they have "
                "together and had no answer",
                fix="Tell them in their system prompts when to stop asking each other.",
            )
        self.left -= 1


class Talk:
    """One conversation with a model. ``heir`` is who goes on with it, once handed over."""

    __slots__ = ("heir", "ids", "messages")

    def __init__(self, messages: list[Message]) -> None:
        self.messages = messages
        self.ids: set[str] = set()
        self.heir: str | None = None


def told(given: State) -> State:
    """What an agent is told of a node's input."""
    return {key: value for key, value in given.items() if not key.startswith(RESERVED)}


def as_message(given: State) -> Message | None:
    """A node's input as an agent is told it; None when it is long."""
    if any_long(given):
        return None
    return Message("user", msgspec.json.encode(told(given)).decode())


async def as_long_message(given: State) -> Message:
    """The same, however long it is."""
    return Message("user", (await encode_gently(told(given))).decode())


class AgentWork:
    """One agent, compiled; ``outputs`` are what its answers are read as."""

    def __init__(self, agent: Agent, outputs: Properties) -> None:
        self.agent = agent
        self.answers = _Answers(outputs)
        own = [tool for tool in agent.tools if isinstance(tool, Tool)]
        self.own_tools = AgentTools(own)
        self._transforms = _transforms(agent)
        self.only_talks = not (agent.tools or agent.toolboxes)
        """Whether it can do nothing but answer."""

    async def tools(self, context: NodeContext) -> AgentTools:
        """What it may use now, with what its toolboxes bring."""
        if self.only_talks:
            return self.own_tools
        return await self.own_tools.unpacked(self.agent, context)

    async def system(self, given: State, context: NodeContext) -> list[Message]:
        """Its instructions, as the first message; none when it has none."""
        if self._transforms is not None:
            self._transforms.tell(context)
        prompt = self.agent.system_prompt
        if not prompt:
            return []
        text = fill_briefly(prompt, given, context)
        if text is None:
            text = await fill(prompt, given, context)
        return [Message("system", text)]

    def _ask(
        self,
        context: NodeContext,
        messages: list[Message],
        tools: AgentTools,
        *,
        shown: bool,
    ) -> Awaitable[ModelResponse]:
        sent = tuple(messages)
        if self._transforms is not None:
            return self._transformed(self._transforms, context, sent, tools, shown=shown)
        return call_model(
            context,
            self.agent.llm_config,
            sent,
            tools=tools.definitions,
            schema=self.answers.schema,
            shown=shown,
        )

    async def _transformed(
        self,
        transforms: "Transforms",
        context: NodeContext,
        messages: tuple[Message, ...],
        tools: AgentTools,
        *,
        shown: bool,
    ) -> ModelResponse:
        response = await call_model(
            context,
            self.agent.llm_config,
            await transforms.before(context, messages),
            tools=tools.definitions,
            schema=self.answers.schema,
            shown=shown and not transforms.holds_back,
        )
        return await transforms.after(context, response)

    async def work(
        self,
        context: NodeContext,
        system: list[Message],
        talk: Talk,
        tools: AgentTools,
        workspace: Any,
        *,
        together: Rounds | None = None,
        shown: bool = True,
    ) -> State | None:
        """Go on with the conversation until there is an answer.

        Args:
            context: The execution that it works in.
            system: What goes before the conversation, and stays with this agent.
            talk: The conversation; what is said is added to it.
            tools: What it may use.
            workspace: Where its tools run.
            together: The rounds that it shares with other agents.
            shown: Whether readers may see its text as it comes.

        Returns:
            Its output, or None when it has handed the conversation over.

        Raises:
            Fault: There is no answer.
        """
        gate = context.run.gate
        repaired = False
        for number in range(1, MAX_ROUNDS + 1):
            if together is not None:
                together.use(context.name)
            if gate is not None and gate.asked.round_before:
                await gate.round_before(context, number, MAX_ROUNDS)
            try:
                messages = [*system, *talk.messages]
                response = await self._ask(context, messages, tools, shown=shown)
            except Rejected as rejected:
                return await self.answers.rejected(rejected)
            if response.tool_calls:
                used = None if together is None else together.ids
                calls = tools.plan(response.tool_calls, talk.ids, f"call_{number}", used)
                if tools.agents:
                    calls = _one_heir(calls)
                answered = await answer_calls(context, tools, calls, workspace, number)
                talk.messages.append(_asking(response, calls, answered))
                talk.messages += (each.message for each in answered)
                if gate is not None and gate.asked.round_after:
                    names = [call.name for call in calls]
                    await gate.round_after(context, number, names)
                if talk.heir is not None:
                    return None
                continue
            try:
                output = self.answers.read_text(response.content)
                if output is None:
                    output = await self.answers.read(response.content)
                return output
            except OutputMismatch as error:
                if repaired or number == MAX_ROUNDS:
                    raise
                repaired = True
                talk.messages.append(Message("assistant", response.content))
                talk.messages.append(Message("user", _repair(error)))
        raise AgentStopped(
            f"the agent {self.agent.name!r} used its {MAX_ROUNDS} rounds and was still "
            "calling tools",
            fix="Tell it in its system prompt when to stop, or split its task.",
        )


def _one_heir(calls: list[PlannedCall]) -> list[PlannedCall]:
    """The calls, of which only the first may hand the conversation over."""
    first = next((call for call in calls if call.name == HAND_OFF and not call.fault), None)
    return [
        msgspec.structs.replace(
            call,
            fault=ToolCallRefused(
                "the conversation is handed over by another call already"
            ),
        )
        if call.name == HAND_OFF and call is not first and not call.fault
        else call
        for call in calls
    ]


def _transforms(agent: Agent) -> "Transforms | None":
    if not agent.transforms:
        return None
    # Most agents have none, and need not load what applies them.
    from heddle.engine.transforms import Transforms

    return Transforms(agent)


class _Answers:
    """What an agent's final text becomes, by the outputs that are declared.

    None: ``result``, and the keys of the answer when it is a JSON object. One string:
    the text under its name. Anything else: a JSON object of that schema.
    """

    def __init__(self, outputs: Properties) -> None:
        self._outputs = outputs
        self._text = single_text(outputs) if outputs else AGENT_RESULT
        self.schema: dict[str, Any] | None = None if self._text else output_schema(outputs)
        self.free = not outputs

    async def read(self, text: str) -> State:
        """Raises `OutputMismatch` for an answer that is not of the schema."""
        output = self.read_text(text)
        if output is not None:
            return output
        from heddle.long_work import bounded

        return await bounded(lambda: read_structured(self._outputs, text))

    def read_text(self, text: str) -> State | None:
        """The same of an answer that is not held against a schema; None of any other."""
        if not self._text:
            return None
        output: State = {self._text: text}
        if self._text == AGENT_RESULT:
            output.update(
                (key, value)
                for key, value in (json_object(text) or {}).items()
                if not key.startswith(RESERVED)
            )
        return output

    async def rejected(self, by: Rejected) -> State:
        """The output of an agent that a transform ends: why, and what has a value."""
        output: State = {
            each.title: each.default for each in self._outputs if each.has_default
        }
        if by.text is not None and self._text:
            output.update(await self.read(by.text))
        return {**output, **by.output}


def _asking(
    response: ModelResponse, calls: list[PlannedCall], answered: list[Answered]
) -> Message:
    """The assistant's message: its calls with the ids and arguments that were used."""
    return Message(
        "assistant",
        response.content,
        tuple(
            ToolCall(
                planned.id,
                planned.name,
                asked.arguments
                if answer.modified is None
                else msgspec.json.encode(answer.modified).decode(),
                asked.provider_data,
            )
            for planned, asked, answer in zip(
                calls, response.tool_calls, answered, strict=True
            )
        ),
    )


def _repair(error: OutputMismatch) -> str:
    return (
        f"That answer does not fit: {error.what}. "
        "Answer again with nothing but one JSON object of the requested schema."
    )
