"""The tool calls of one agent round: read, run side by side, answered in call order.

Whatever happens to a call, the model gets exactly one tool message under its id, for a
provider refuses a conversation in which a call goes unanswered; and readers of the run
get one `tool_result` for each `tool_call`.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct

from heddle.engine.confirming import Turn, hindrance, turns
from heddle.engine.decisions import Refusal, Substitute
from heddle.engine.faults import (
    EngineFault,
    NodeFault,
    RunFailed,
    StoppedByPolicy,
    TeamStopped,
    describe,
)
from heddle.engine.signatures import Properties
from heddle.engine.state import inside
from heddle.engine.tool_servers import (
    BoxedTool,
    Offered,
    refuse_collisions,
    tools_of_box,
)
from heddle.engine.tool_use import UseTool, servers, tool_user, tried_again
from heddle.engine.work import NodeContext
from heddle.events import ToolCalled, ToolReturned
from heddle.spec import Agent, Effort, EffortExceeded, MCPToolBox, Tool, check, spending
from plugins_host import Fault, Message, ToolCall, ToolDefinition, one_of


class ToolCallRefused(NodeFault):
    """The model's call can't be carried out as it stands; the model is told why."""


class CallRefusedByPolicy(NodeFault):
    """A policy forbids the call; the model is told the reason."""


class CallCancelled(NodeFault):
    """The run was stopped while the call was going on."""


class PlannedCall(Struct, frozen=True):
    """A call under an id that nothing else in the conversation has.

    ``arguments`` have the tool's defaults filled in. ``fault`` is why the call can't be
    carried out; it is then answered with that. ``readable`` is whether the model wrote
    arguments that policies can be shown.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    fault: Fault | None = None
    readable: bool = True


class Answered(NamedTuple):
    """The tool message that answers a call.

    ``modified`` are the arguments that policies put in place of the model's; nobody is
    shown the model's own from then on, so they belong into the conversation too.
    """

    message: Message
    modified: dict[str, Any] | None


class AgentAsTool(NamedTuple):
    """How a model reaches another agent: as a tool, which is told of and used like one."""

    tool: Tool
    definition: ToolDefinition
    use: UseTool


class AgentTools:
    """The tools that an agent's model is offered, by name.

    ``agents`` are the names of those behind which other agents work: what a policy decides
    about these ends the node and not only the call.
    """

    def __init__(self, tools: Sequence[Tool]) -> None:
        self.by_name = {tool.name: tool for tool in tools}
        self.uses = {tool.name: tool_user(tool) for tool in tools}
        self.definitions = tuple(definition_of(tool) for tool in tools)
        self.agents: frozenset[str] = frozenset()

    def beside(self, agent: str, more: "Mapping[str, AgentAsTool]") -> "AgentTools":
        """These, and tools behind which other agents are.

        Raises:
            Fault: A toolbox brought a tool of such a name.
        """
        refuse_collisions(agent, (*self.by_name, *more))
        both = AgentTools(())
        both.by_name = self.by_name | {name: each.tool for name, each in more.items()}
        both.uses = self.uses | {name: each.use for name, each in more.items()}
        told = (each.definition for each in more.values())
        both.definitions = (*self.definitions, *told)
        both.agents = frozenset(more)
        return both

    async def unpacked(self, agent: Agent, context: NodeContext) -> "AgentTools":
        """These, and what the toolboxes of the agent bring at this moment.

        Raises:
            Fault: A server can't be asked, or has not what is wanted of it.
        """
        boxes = [each for each in agent.toolboxes if isinstance(each, MCPToolBox)]
        if not boxes:
            return self
        boxed: list[BoxedTool] = []
        for box in boxes:
            where = f"MCPToolBox {box.name!r}"

            async def ask(box: MCPToolBox = box, where: str = where) -> Sequence[Offered]:
                return await servers(context).offered(box.client_transport, where=where)

            offered = await tried_again(ask, box.retry_policy, context)
            boxed += tools_of_box(box, offered)
        names = [*self.by_name, *(each.tool.name for each in boxed)]
        refuse_collisions(agent.name, names)
        both = AgentTools([*self.by_name.values(), *(each.tool for each in boxed)])
        both.definitions = (*self.definitions, *(each.definition for each in boxed))
        return both

    def plan(
        self,
        calls: Sequence[ToolCall],
        seen: set[str],
        prefix: str,
        elsewhere: set[str] | None = None,
    ) -> list[PlannedCall]:
        """Read the calls of one answer, in order.

        Args:
            calls: As the model wrote them.
            seen: Ids that the conversation already has; the new ones are added.
            prefix: What the ids that heddle gives begin with.
            elsewhere: Ids that other agents of the node have used; the new ones are added.
                A model can't know them, so it is not blamed for using one again.
        """
        others = set[str]() if elsewhere is None else elsewhere
        return [
            self._plan(call, seen, others, f"{prefix}_{n}")
            for n, call in enumerate(calls, 1)
        ]

    def _plan(
        self, call: ToolCall, seen: set[str], elsewhere: set[str], spare: str
    ) -> PlannedCall:
        fault: Fault | None = None
        identity = call.id
        if not identity or identity in seen:
            fault = ToolCallRefused(
                f"the call came under the id {identity!r} of another call"
                if identity
                else "the call came without an id",
                fix="Call again under an id of its own.",
            )
        if fault is not None or identity in elsewhere:
            identity = spare
            while identity in seen or identity in elsewhere:
                identity += "_"
        seen.add(identity)
        elsewhere.add(identity)
        arguments, bad = _arguments(call.arguments)
        fault = bad or fault
        tool = self.by_name.get(call.name)
        if tool is None:
            fault = fault or ToolCallRefused(
                f"there is no tool {call.name!r}", fix=one_of(call.name, self.by_name)
            )
        elif bad is None:
            for each in tool.inputs or ():
                if each.has_default:
                    arguments.setdefault(each.title, each.default)
        return PlannedCall(identity, call.name, arguments, fault, bad is None)


def definition_of(tool: Tool) -> ToolDefinition:
    inputs: Properties = tool.inputs or ()
    return ToolDefinition(
        tool.name,
        tool.description or "",
        {
            "type": "object",
            "properties": {
                each.title: {k: v for k, v in each.schema.items() if k != "title"}
                for each in inputs
            },
            "required": [each.title for each in inputs if not each.has_default],
        },
    )


def _arguments(text: str) -> tuple[dict[str, Any], Fault | None]:
    if not text.strip():
        return {}, None  # how several models write a call without arguments
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        fault = ToolCallRefused(
            f"the arguments are not JSON: {error}", fix="Write one JSON object."
        )
        return {}, fault
    if not isinstance(value, dict):
        return {}, ToolCallRefused(
            f"the arguments are {shown(value)}, which is no JSON object",
            fix="Write one JSON object.",
        )
    return value, None


def shown(value: object) -> str:
    """A value as an error shows it: JSON, cut where it stops helping."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 80 else f"{text[:79]}…"


def argument_faults(tool: Tool, arguments: Mapping[str, Any]) -> list[str]:
    """What is wrong with the arguments by the tool's declared inputs."""
    faults = []
    for each in tool.inputs or ():
        if each.title in arguments:
            found = check(arguments[each.title], each.schema)
            faults += [f"{inside(each.title, path)}: {text}" for path, text in found]
        elif not each.has_default:
            faults.append(f"{each.title!r} is missing")
    return faults


async def answer_calls(
    context: NodeContext,
    tools: AgentTools,
    calls: Sequence[PlannedCall],
    workspace: Any,
    number: int,
) -> "list[Answered]":
    """Carry the calls out side by side; their answers in the order of the calls.

    ``number`` is that of the round.

    Raises:
        Fault: What must end the node; the first in call order when there are several.
    """
    if len(calls) == 1:
        return [await _answer(context, tools, calls[0], workspace, number, None)]
    # Here, so that a document can be checked without loading trio.
    import trio

    answers: dict[int, Answered] = {}
    faults: dict[int, Exception] = {}
    places = turns(len(calls)) if _asks(context, tools, calls) else None

    async def one(index: int, call: PlannedCall) -> None:
        turn = None if places is None else places[index]
        try:
            answers[index] = await _answer(context, tools, call, workspace, number, turn)
        except Exception as error:  # noqa: BLE001  raised below, for the node to fail with
            faults[index] = error
            nursery.cancel_scope.cancel()
        finally:
            if turn is not None:
                turn.is_over()

    async with trio.open_nursery() as nursery:
        for index, call in enumerate(calls):
            nursery.start_soon(one, index, call, name=f"tool {call.name} {call.id}")
    if faults:
        raise faults[min(faults)]
    return [answers[index] for index in range(len(calls))]


def _asks(context: NodeContext, tools: AgentTools, calls: Sequence[PlannedCall]) -> bool:
    """Whether a person is asked about one of these calls."""
    if context.services.person is None:
        return False
    named = (tools.by_name.get(call.name) for call in calls)
    return any(tool is not None and tool.requires_confirmation for tool in named)


async def _answer(
    context: NodeContext,
    tools: AgentTools,
    call: PlannedCall,
    workspace: Any,
    number: int,
    turn: Turn | None,
) -> Answered:
    """One call, from its policies to the tool message that answers it."""
    decided = await _before(context, tools, call)
    arguments = (decided if isinstance(decided, dict) else decided.given) or {}
    began = time.monotonic()
    context.report(
        ToolCalled(
            context.name,
            call.name,
            arguments,
            call.id,
            time.time(),
            context.path,
            context.speaker,
            number,
        )
    )
    outcome: Mapping[str, Any] | Fault = CallCancelled(
        "the run was stopped while the tool was running"
    )
    try:
        if isinstance(decided, dict):
            found = await _hindrance(context, tools, call, arguments, turn)
            if turn is not None:
                turn.is_over()
            if found is None:
                began = time.monotonic()  # a person's time to think is not the tool's
                found = await _use(context, tools, call, arguments, workspace)
            outcome = await _after(context, call, arguments, found)
            if isinstance(outcome, Fault) and outcome.of_the_machine:
                # A model that is told can do nothing about it, and would answer without.
                raise outcome
        elif isinstance(decided, Substitute):
            outcome = decided.value
        else:
            outcome = CallRefusedByPolicy(f"this call was refused: {decided.reason}")
    except Fault as end:
        outcome = end
        raise
    finally:
        context.report(_returned(context, call, outcome, (time.monotonic() - began) * 1000))
    content: object = {"error": str(outcome)} if isinstance(outcome, Fault) else outcome
    message = Message("tool", msgspec.json.encode(content).decode(), tool_call_id=call.id)
    return Answered(message, None if arguments is call.arguments else arguments)


def _returned(
    context: NodeContext,
    call: PlannedCall,
    outcome: Mapping[str, Any] | Fault,
    duration: float,
) -> ToolReturned:
    """The event that ends a call; ``duration`` is in milliseconds."""
    failed = isinstance(outcome, Fault)
    return ToolReturned(
        context.name,
        call.name,
        call.id,
        duration,
        None if failed else outcome,
        describe(outcome) if isinstance(outcome, Fault) else None,
        context.path,
        context.speaker,
    )


OF_A_POLICY: Final = 100_000
"""Steps that checking the arguments of a policy may cost: there is no waiting for it."""


async def _before(
    context: NodeContext, tools: AgentTools, call: PlannedCall
) -> dict[str, Any] | Substitute | Refusal:
    """The arguments to run with, or what policies decided instead."""
    gate = context.run.gate
    if gate is None or not gate.asked.tool_before or not call.readable:
        return call.arguments
    tool = tools.by_name.get(call.name)

    def wrong(arguments: dict[str, Any]) -> str | None:
        if tool is None:
            return None
        try:
            with spending(Effort(OF_A_POLICY)):
                return "; ".join(argument_faults(tool, arguments)) or None
        except EffortExceeded as error:
            return error.what

    return await gate.tool_before(context, (call.name, call.id), call.arguments, wrong)


async def _after(
    context: NodeContext,
    call: PlannedCall,
    arguments: dict[str, Any],
    found: Mapping[str, Any] | Fault,
) -> Mapping[str, Any] | Fault:
    """What the call comes to once policies have seen how it went."""
    gate = context.run.gate
    if gate is None or not gate.asked.tool_after:
        return found
    decided = await gate.tool_after(context, (call.name, call.id), arguments, found)
    if decided is None:
        return found
    value: Mapping[str, Any] = decided.value
    return value


async def _hindrance(
    context: NodeContext,
    tools: AgentTools,
    call: PlannedCall,
    arguments: dict[str, Any],
    turn: Turn | None,
) -> Mapping[str, Any] | Fault | None:
    """Why the tool is not run: the call is unfit, or a person does not agree.

    Raises:
        Fault: The person can't be asked any more.
    """
    from heddle.long_work import bounded

    if call.fault is not None:
        return call.fault
    tool = tools.by_name[call.name]
    try:
        fault = await bounded(lambda: _unfit(tool, arguments))
    except EffortExceeded as too_long:
        return too_long
    if fault is None and tool.requires_confirmation:
        fault = await hindrance(context, tool, arguments, call=call.id, turn=turn)
    return fault


async def _use(
    context: NodeContext,
    tools: AgentTools,
    call: PlannedCall,
    arguments: dict[str, Any],
    workspace: Any,
) -> Mapping[str, Any] | Fault:
    """Run the tool; what it returned, or how it failed."""
    try:
        return await tools.uses[call.name](arguments, context, workspace)
    except (RunFailed, StoppedByPolicy, TeamStopped) as end:
        if call.name in tools.agents:
            raise
        return end
    except Fault as failed:
        return failed
    except Exception as bug:  # noqa: BLE001  a bug of ours must not end other calls
        return EngineFault.of(bug)


def _unfit(tool: Tool, arguments: Mapping[str, Any]) -> Fault | None:
    """Why a call of this tool can't be carried out with these arguments."""
    faults = argument_faults(tool, arguments)
    if faults:
        return ToolCallRefused(
            f"the arguments do not fit tool {tool.name!r}: {'; '.join(faults)}",
            fix="Call again with arguments of the declared types.",
        )
    return None
