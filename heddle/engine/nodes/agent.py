"""AgentNode: a model that may call tools, in rounds, until it answers."""

from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from heddle.engine.decisions import Rejected
from heddle.engine.faults import AgentStopped, OutputMismatch
from heddle.engine.graph import RESERVED, Graph, GraphNode
from heddle.engine.model_calls import call_model
from heddle.engine.nodes.llm import fill
from heddle.engine.shapes import AGENT_RESULT, Properties
from heddle.engine.state import State
from heddle.engine.structured import (
    json_object,
    output_schema,
    read_structured,
    single_text,
)
from heddle.engine.tool_calls import AgentTools, Answered, PlannedCall, answer_calls
from heddle.engine.work import NodeContext, Result, Waiting
from heddle.spec import Agent, AgentNode, Tool
from plugins_host import Message, ModelResponse, ToolCall

if TYPE_CHECKING:
    from heddle.engine.transforms import Transforms

MAX_ROUNDS: Final = 10
"""Model calls of one agent execution; no setting moves it."""


def agent(node: GraphNode, graph: Graph) -> Waiting:
    """Ask, run the tools asked for, ask again; the first answer without calls is it."""
    component = cast("Agent", cast("AgentNode", node.component).agent)
    own = AgentTools([tool for tool in component.tools if isinstance(tool, Tool)])
    answers = _Answers(node.shape.outputs)
    transforms = _transforms(component)

    async def ask(
        context: NodeContext, messages: tuple[Message, ...], tools: AgentTools
    ) -> ModelResponse:
        if transforms is not None:
            messages = await transforms.before(context, messages)
        response = await call_model(
            context,
            component.llm_config,
            messages,
            tools=tools.definitions,
            schema=answers.schema,
            shown=transforms is None or not transforms.holds_back,
        )
        return response if transforms is None else await transforms.after(context, response)

    async def execute(given: State, context: NodeContext) -> Result:
        shown = {key: value for key, value in given.items() if not key.startswith(RESERVED)}
        messages = [
            *context.conversation.messages,
            Message("user", msgspec.json.encode(shown).decode()),
        ]
        if component.system_prompt:
            system = await fill(component.system_prompt, given, context)
            messages.insert(0, Message("system", system))
        if transforms is not None:
            transforms.tell(context)
        tools = await own.unpacked(component, context)
        ids: set[str] = set()
        gate = context.run.gate
        repaired = False
        async with context.services.tools.workspace() as workspace:
            for number in range(1, MAX_ROUNDS + 1):
                if gate is not None and gate.asked.round_before:
                    await gate.round_before(context, number, MAX_ROUNDS)
                try:
                    response = await ask(context, tuple(messages), tools)
                except Rejected as rejected:
                    return Result(await answers.rejected(rejected))
                if response.tool_calls:
                    calls = tools.plan(response.tool_calls, ids, f"call_{number}")
                    answered = await answer_calls(context, tools, calls, workspace)
                    messages.append(_asking(response, calls, answered))
                    messages += (each.message for each in answered)
                    if gate is not None and gate.asked.round_after:
                        names = [call.name for call in calls]
                        await gate.round_after(context, number, names)
                    continue
                try:
                    return Result(await answers.read(response.content))
                except OutputMismatch as error:
                    if repaired or number == MAX_ROUNDS:
                        raise
                    repaired = True
                    messages.append(Message("assistant", response.content))
                    messages.append(Message("user", _repair(error)))
        raise AgentStopped(
            f"the agent {component.name!r} used its {MAX_ROUNDS} rounds and was still "
            "calling tools",
            fix="Tell it in its system prompt when to stop, or split its task.",
        )

    return Waiting(execute)


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

    async def read(self, text: str) -> State:
        """Raises `OutputMismatch` for an answer that is not of the schema."""
        if not self._text:
            from heddle.long_work import bounded

            return await bounded(lambda: read_structured(self._outputs, text))
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
