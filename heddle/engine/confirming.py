"""Asking the person that a run talks to: one thing at a time, tools in call order.

What runs side by side may want to ask at once: tool calls of a round, flows of a parallel
node. Each waits for its turn; a call also until those before it in its round have been
decided about, so that a person is asked in the order in which the model wrote them.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from heddle.engine.faults import NodeFault
from heddle.engine.questions import Confirmation, Decision, Person
from heddle.engine.work import NodeContext
from heddle.events import ConfirmationAsked, ConfirmationGiven
from heddle.spec import Tool
from plugins_host import Fault

if TYPE_CHECKING:
    import trio

WITH_A_PERSON: Final = "Run it with `heddle run -i`, where you are asked."


class Unconfirmed(NodeFault):
    """A tool needs a person's confirmation, and there is nobody to ask."""


class RefusedByPerson(NodeFault):
    """The person does not want the tool to run; ``reason`` is theirs and may be empty."""

    def __init__(self, tool: str, reason: str) -> None:
        said = f": {reason}" if reason else ""
        super().__init__(f"the person who was asked refused to let tool {tool!r} run{said}")
        self.reason = reason


class Turn:
    """The place of a call among those of its round.

    Args:
        before: Set as the calls before it are decided about.
        own: Set when this one is.
    """

    __slots__ = ("_before", "_own")

    def __init__(self, before: "Sequence[trio.Event]", own: "trio.Event") -> None:
        self._before = before
        self._own = own

    async def comes(self) -> None:
        """Wait for it."""
        for event in self._before:
            await event.wait()

    def is_over(self) -> None:
        """Let those after it ask."""
        self._own.set()


def turns(count: int) -> list[Turn]:
    """Those of the calls of one round."""
    import trio

    events = [trio.Event() for _ in range(count)]
    return [Turn(events[:number], events[number]) for number in range(count)]


@asynccontextmanager
async def asking(context: NodeContext) -> AsyncIterator[None]:
    """Around a question: no other one of the run is asked meanwhile."""
    import trio

    run = context.run
    if run.asking is None:
        run.asking = trio.Lock()
    async with run.asking:
        yield


async def hindrance(
    context: NodeContext,
    tool: Tool,
    arguments: Mapping[str, Any],
    *,
    call: str | None = None,
    turn: Turn | None = None,
) -> Fault | None:
    """Why the tool must not run; None when it needs no confirmation, or has it.

    Args:
        context: For whom it would run.
        tool: As the document has it.
        arguments: What it would run with.
        call: The id of the model's call, when a model asks for it.
        turn: Its place among the calls of its round; it is over afterwards.
    """
    if not tool.requires_confirmation:
        return None
    person: Person | None = context.services.person
    if person is None:
        return Unconfirmed(
            f"tool {tool.name!r} needs a person's confirmation, and there is nobody to ask"
        )
    question = Confirmation(
        tool.name,
        dict(arguments),
        tool.description or "",
        context.name,
        context.path,
        call,
        context.speaker,
    )
    if turn is not None:
        await turn.comes()
    decided = await _decided(context, person, question)
    if decided.approved:
        return None
    return RefusedByPerson(tool.name, decided.reason)


async def _decided(
    context: NodeContext, person: Person, question: Confirmation
) -> Decision:
    """What the person says, told before and after."""
    tool, call = question.tool_name, question.tool_call_id
    place = context.path, context.speaker
    async with asking(context):
        context.report(
            ConfirmationAsked(context.name, tool, question.arguments, call, *place)
        )
        decided = await person.confirm(question)
        context.report(
            ConfirmationGiven(
                context.name, tool, decided.approved, decided.reason or None, call, *place
            )
        )
    return decided
